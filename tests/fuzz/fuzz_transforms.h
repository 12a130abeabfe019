// The functions of derivatives, traces and control flow for fuzz_api.cpp: functions that take functions.
#pragma once
#include "fuzz_calls.h"

namespace fuzz {

const Function transforms[] = {
    {"jacrev",
     [](Arguments& a) {
       return call<Tensor>(a, [](const Tensor& t) { return jacrev([](const Tensor& x) { return sin(x); })(t); });
     }},
    {"jacfwd",
     [](Arguments& a) {
       return call<Tensor>(a, [](const Tensor& t) { return jacfwd([](const Tensor& x) { return x * x; })(t); });
     }},
    {"hessian",
     [](Arguments& a) {
       return call<Tensor>(a, [](const Tensor& t) { return hessian([](const Tensor& x) { return sum(x * x); })(t); });
     }},
    {"jvp",
     [](Arguments& a) {
       return call<Tensor, Tensor>(
           a, [](const Tensor& t, const Tensor& d) { return jvp([](const Tensor& x) { return tanh(x); }, t, d); });
     }},
    {"linearize",
     [](Arguments& a) {
       return call<Tensor, Tensor>(a, [](const Tensor& t, const Tensor& d) {
         return linearize([](const Tensor& x) { return x * tanh(x); }, t).second(d);
       });
     }},
    {"hvp",
     [](Arguments& a) {
       return call<Tensor, Tensor>(a, [](const Tensor& t, const Tensor& d) {
         return hvp([](const Tensor& x) { return sum(x * x * x); }, t, d);
       });
     }},
    {"vhp",
     [](Arguments& a) {
       return call<Tensor, Tensor>(a, [](const Tensor& t, const Tensor& d) {
         return vhp([](const Tensor& x) { return sum(x * x * x); }, t, d);
       });
     }},
    {"custom_jvp",
     [](Arguments& a) {
       return call<Tensor, Tensor>(a, [](const Tensor& t, const Tensor& d) {
         auto twice = custom_jvp(
             [](const Tensor& x) { return std::pair(x * 2, [](const Tensor& tangent) { return tangent * 2; }); });
         return jvp(twice, t, d);
       });
     }},
    {"gradcheck",
     [](Arguments& a) {
       return call<Tensor>(
           a, [](const Tensor& t) { return Tensor(gradcheck([](const Tensor& x) { return x * x; }, t).compared > 0); });
     }},
    {"ForwardAccumulator",
     [](Arguments& a) {
       return call<Tensor, Tensor>(a, [](const Tensor& t, const Tensor& d) {
         ForwardAccumulator along(t, d);
         return along.jvp(sin(t) * t);
       });
     }},
    {"vjp",
     [](Arguments& a) {
       return call<Tensor, Tensor>(a, [](const Tensor& t, const Tensor& d) {
         return vjp([](const Tensor& x) { return tanh(x); }, t).second(d);
       });
     }},
    {"vmap",
     [](Arguments& a) {
       return call<Tensor, Tensor>(a, [](const Tensor& t, const Tensor& d) {
         return vmap([](const Tensor& x, const Tensor& y) { return x + sum(y); })(t, d);
       });
     }},
    {"recompute",
     [](Arguments& a) {
       return call<Tensor, Tensor>(a, [](const Tensor& t, const Tensor& d) {
         return recompute([](const Tensor& x, const Tensor& y) { return x * y; })(t, d);
       });
     }},
    {"recompute, products",
     [](Arguments& a) {
       return call<Tensor, Tensor>(a, [](const Tensor& t, const Tensor& d) {
         return recompute([](const Tensor& x, const Tensor& y) { return named(matmul(x, y), "p") * x; },
                          {.policy = save_products})(t, d);
       });
     }},
    {"recompute_chain",
     [](Arguments& a) {
       return call<Tensor>(a, [](const Tensor& t) {
         const auto f = [](const Tensor& x) { return tanh(x); };
         return recompute_chain(std::array{f, f, f, f}, t);
       });
     }},
    {"cond",
     [](Arguments& a) {
       return call<Tensor, Tensor>(
           a, [](const Tensor& p, const Tensor& t) { return cond(p, [&] { return t * 2; }, [&] { return t - 1; }); });
     }},
    {"switch_case",
     [](Arguments& a) {
       return call<Tensor, Tensor>(
           a, [](const Tensor& i, const Tensor& t) { return switch_case(i, {[&] { return t; }, [&] { return -t; }}); });
     }},
    {"while_loop",
     [](Arguments& a) {
       return call<Tensor, int64_t>(a, [](const Tensor& t, int64_t n) {
         return while_loop([](const Tensor& x) { return sum(x) < 100; }, [](const Tensor& x) { return x * 2; }, t,
                           {.max_steps = std::min<int64_t>(n, 20)});
       });
     }},
    {"scan",
     [](Arguments& a) {
       return call<Tensor, Tensor, bool>(a, [](const Tensor& c, const Tensor& xs, bool reverse) {
         return scan([](const Tensor& s, const Tensor& x) { return std::pair(s + x, s * x); }, c, xs,
                     {.reverse = reverse});
       });
     }},
};

}  // namespace fuzz
