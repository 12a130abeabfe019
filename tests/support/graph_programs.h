// Programs with control flow, gradient rules and recomputed parts, for the tests that write graphs and read them back.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "rill/rill.h"

namespace graph_programs {

using List = std::vector<rill::Tensor>;
using Body = std::function<List(const List&)>;

struct Program {
  std::string name;
  Body body;
  List inputs;
};

inline rill::Tensor data(const rill::Shape& shape, uint64_t seed = 1) {
  return rill::random::normal(shape, {.key = rill::random::Key(seed)});
}

inline std::vector<Program> control_flow() {
  using namespace rill;
  const Tensor x = data({3, 4}), w = data({4, 4}, 2);
  // The states and outputs of a small recurrent network; with one branch in it if `branches`.
  const auto recurrent = [](const List& in, bool branches) {
    return scan(
        [&, branches](const Tensor& h, const Tensor& row) {
          const Tensor next = tanh(matmul(h, in[1]) + row);
          const Tensor y = branches ? cond(sum(next) > 0, [&] { return next; }, [&] { return next * 2; }) : next * 2;
          return std::pair(next, y);
        },
        zeros({4}), in[0]);
  };
  // Nodes of a gradient inside the function hold graphs with stored values.
  const auto gradient = [recurrent](const List& in, bool branches) -> List {
    GradientTape tape;
    tape.watch(in[1]);
    const auto [h, ys] = recurrent(in, branches);
    return {tape.gradient(sum(ys * ys), in[1])};
  };
  return {{"cond",
           [](const List& in) -> List {
             return {cond(in[0], [&] { return tanh(matmul(in[1], in[2])); }, [&] { return in[1] * 2; })};
           },
           {tensor(true), x, w}},
          {"switch_case",
           [](const List& in) -> List {
             return {switch_case(
                 in[0], {[&] { return in[1] * 2; }, [&] { return exp(in[1]); }, [&] { return in[1] - in[2]; }})};
           },
           {tensor(int64_t(1)), x, data({3, 4}, 5)}},
          {"while_loop",
           [](const List& in) -> List {
             return {while_loop([](const Tensor& v) { return sum(v * v) < 1000.f; },
                                [&](const Tensor& v) { return matmul(v, in[1]) + v; }, in[0], {.max_steps = 20})};
           },
           {x, w}},
          {"scan",
           [recurrent](const List& in) -> List {
             const auto [h, ys] = recurrent(in, false);
             return {sum(h * h) + sum(ys), ys};
           },
           {x, w}},
          {"gradient of a scan", [gradient](const List& in) { return gradient(in, false); }, {x, w}},
          {"gradient of a scan with branches", [gradient](const List& in) { return gradient(in, true); }, {x, w}}};
}

inline std::vector<Program> gradient_rules() {
  using namespace rill;
  return {{"custom_gradient",
           [](const List& in) -> List {
             return {custom_gradient([&](const Tensor& v) {
               const Tensor y = exp(v);
               return std::pair(y, [y, k = in[1]](const Tensor& g) { return g * y * 10 * k; });
             })(in[0])};
           },
           {data({5}), data({5}, 3)}},
          {"recompute",
           [](const List& in) -> List {
             return {recompute([&](const Tensor& v) { return tanh(matmul(tanh(v), in[1])); },
                               {.policy = save_products})(in[0])};
           },
           {data({3, 3}), data({3, 3}, 4)}},
          {"the gradient of both",
           [](const List& in) -> List {
             GradientTape tape;
             tape.watch(in[0]);
             const Tensor y = custom_gradient(
                 [](const Tensor& v) { return std::pair(exp(v), [v](const Tensor& g) { return g * v * 10; }); })(in[0]);
             const Tensor z =
                 recompute([&](const Tensor& v) { return tanh(matmul(tanh(v), in[1])); }, {.policy = save_products})(y);
             return {z, tape.gradient(sum(z), in[0])};
           },
           {data({3, 4}), data({4, 4}, 2)}}};
}

}  // namespace graph_programs
