// Ops from outside the library: what docs/extending.md says of their records, beyond the program that it shows.
#include <rill/ops/apply.h>
#include <rill/rill.h>

#include <stdexcept>

#include "expect.h"
using namespace rill;

namespace {

OutSpecs same(const InferArgs& args) { return {Spec{args[0].shape, args[0].dtype, false, args[0].device}}; }
OutSpecs twice_same(const InferArgs& args) { return {same(args)[0], same(args)[0]}; }

void square_kernel(const KernelArgs& args) {
  for (int64_t i = 0; i < args.input(0).size(); ++i)
    args.out_data<float>()[i] = args.in_data<float>(0)[i] * args.in_data<float>(0)[i];
}
void square_and_copy_kernel(const KernelArgs& args) {
  square_kernel(args);
  for (int64_t i = 0; i < args.input(0).size(); ++i) args.out_data<float>(1)[i] = args.in_data<float>(0)[i];
}
void broken_kernel(const KernelArgs&) { throw std::runtime_error("no luck"); }
Tensors vjp_square(const VjpArgs& args) { return {2 * args.in[0] * args.cotangent[0]}; }

const Op own_square({.name = "own_square",
                     .doc = "x^2",
                     .dtypes = one_of({f32}),
                     .infer = same,
                     .vjp = vjp_square,
                     .saves_in = save(0),
                     .ref = square_kernel,
                     .wants_contiguous = true});
const Op own_pair({.name = "own_pair",
                   .doc = "x^2, x",
                   .dtypes = one_of({f32}),
                   .outputs = 2,
                   .infer = twice_same,
                   .no_gradient = "not needed here",
                   .ref = square_and_copy_kernel,
                   .wants_contiguous = true});
const Op own_broken({.name = "own_broken",
                     .doc = "throws",
                     .dtypes = one_of({f32}),
                     .infer = same,
                     .no_gradient = "it has no value",
                     .ref = broken_kernel});
const Op cpu_only({.name = "cpu_only",
                   .doc = "x^2, on cpu:0 and of f32",
                   .dtypes = one_of({f32, f64}),
                   .infer = same,
                   .no_gradient = "not needed here",
                   .cpu = square_kernel,
                   .cpu_dtypes = one_of({f32}),
                   .wants_contiguous = true});

Tensor call(const Op& op, const Tensor& x, Where where = Where::current()) { return apply1(op, {&x}, {}, where); }
Tensor sum_of_squares(const Tensor& x) { return sum(call(own_square, x)); }

}  // namespace

int main() {
  const Tensor x = tensor({1.f, 2.f, 3.f});
  // A reference kernel alone serves both devices; strided operands arrive dense.
  EXPECT(array_equal(call(own_square, x), x * x));
  EXPECT(array_equal(call(own_square, x.to("ref:0")).to("cpu:0"), x * x));
  const Tensor m = tensor({{1.f, 2.f, 3.f}, {4.f, 5.f, 6.f}});
  EXPECT(array_equal(call(own_square, m.T()), (m * m).T()));
  // Gradients of any order, from what the record saves.
  EXPECT(array_equal(grad(sum_of_squares)(x), 2 * x));
  EXPECT(array_equal(hessian(sum_of_squares)(x), 2 * eye(3)));
  // Inside control flow, traced, with a tape around.
  auto branch = function("branch", [](const Tensor& v) {
    return cond(sum(v) > 0, [&] { return call(own_square, v); }, [&] { return v; });
  });
  EXPECT(bool(branch.verify(x)));
  EXPECT(array_equal(grad([&](const Tensor& v) { return sum(branch(v)); })(x), 2 * x));
  // Several results; no gradient flows through an op without a vjp.
  const Tensors both = apply(own_pair, {&x}, {}, Where::current());
  EXPECT(array_equal(both[0], x * x) && array_equal(both[1], x));
  EXPECT(array_equal(grad([](const Tensor& v) { return sum(v + apply(own_pair, {&v}, {}, Where::current())[0]); })(x),
                     ones({3})));
  // The registry knows it; errors name it and the line of the call.
  EXPECT(find_op("own_square") == &own_square);
  const std::string dtype = message_of([&] { call(own_square, x.astype(f64)); });
  EXPECT(has(dtype, "extending.cpp:") && has(dtype, "[own_square] f64 is not taken"));
  const std::string broken = message_of([&] { call(own_broken, x); });
  EXPECT(has(broken, "extending.cpp:") && has(broken, "own_broken") && has(broken, "no luck"));
  // A record without the kernel that a call needs says so.
  EXPECT(array_equal(call(cpu_only, x), x * x));
  for (const Tensor& other : {x.to("ref:0"), x.astype(f64)}) {
    const std::string missing = message_of([&] { call(cpu_only, other); });
    EXPECT(has(missing, "[cpu_only] the record has no kernel for") && has(missing, "ref"));
  }
}
