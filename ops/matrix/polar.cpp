// The polar decomposition x = u p: computed from singular vectors, with derivatives that do not go through these. Singular
// vectors of equal values are not unique and have no derivative; u and p have one there, as at an orthogonal x.
#include <fmt/format.h>

#include "rill/devices/registry.h"
#include "rill/ops/matrix/matrix_rules.h"

namespace rill {
namespace {

using namespace matrix_rules;

// What both gradients are made of: the factors of x, and s[i] + s[j] at [i, j].
struct Factors {
  linalg::Svd f;
  Tensor u_h, v, sums;
  explicit Factors(const Tensor& x)
      : f(linalg::svd(x, {.full_matrices = false})),
        u_h(adjoint(f.u)),
        v(adjoint(f.vh)),
        sums(expand_dims(f.s, -1) + expand_dims(f.s, -2)) {}
};

// With d = H(u) dx v in the bases of singular vectors, du is (d - H(d)) / sums there; what dx has outside of the range of
// u, or of v, is divided by s alone.
Tensors unitary_vjp(const VjpArgs& args) {
  const Factors x(args.in[1]);
  const Tensor &g = args.cotangent[0], gv = matmul(g, x.v), gu = matmul(x.u_h, g), inner = matmul(gu, x.v);
  const Tensor turned = over_gaps(inner - adjoint(inner), x.sums);
  const Tensor below = over_gaps(gv - matmul(x.f.u, inner), expand_dims(x.f.s, -2));
  const Tensor beside = over_gaps(gu - matmul(inner, x.f.vh), expand_dims(x.f.s, -1));
  return {Tensor(), matmul(matmul(x.f.u, turned) + below, x.f.vh) + matmul(x.f.u, beside)};
}
// From p p = H(x) x: sums * dp = s d + H(s d) there, and H(u) dx where dx leaves the range of v.
Tensors positive_vjp(const VjpArgs& args) {
  const Factors x(args.in[1]);
  const Tensor &g = args.cotangent[0], both = g + adjoint(g), in_v = matmul(x.f.vh, both), inner = matmul(in_v, x.v);
  const Tensor scaled = over_gaps(expand_dims(x.f.s, -1) * inner, x.sums);
  return {Tensor(), matmul(x.f.u, matmul(scaled, x.f.vh) + in_v - matmul(inner, x.f.vh))};
}

void give_first(const KernelArgs& args) { copy_elements(args.input(0), args.output()); }

// Its result is its first operand, a factor of the second as singular vectors gave it.
OpSpec factor_record(std::string_view name, std::string_view doc, Tensors (*vjp)(const VjpArgs&)) {
  return {.name = name,
          .doc = doc,
          .dtypes = matrix_rules::dtypes,
          .infer = [](const InferArgs& args) { return OutSpecs{args[0]}; },
          .vjp = vjp,
          .saves_in = save(1),
          .batch = batch_rows,
          .cpu = give_first,
          .ref = give_first,
          .samples = []() -> std::vector<Sample> { return {{{spread({3, 3}), spread({3, 3})}, {}}}; },
          .no_finite_difference =
              "the first operand stands for what is computed of the second; "
              "tests/matrices/test_matrix_limits.cpp has a test",
          .listed = false};
}

const Op unitary_op(factor_record("polar_unitary", "the unitary polar factor of operand 1, which operand 0 is",
                                  unitary_vjp));
const Op positive_op(factor_record("polar_positive", "sqrt(H(y) y) of operand 1, y, which operand 0 is", positive_vjp));

}  // namespace

namespace linalg {

Polar polar(const Tensor& x, bool left, Where where) {
  CallerScope caller(where);
  const Tensor a = operand("polar", x, where);
  if (a.ndim() < 2) fail("polar", fmt::format("takes matrices. got {}", to_string(x.spec())), where);
  if (left) {  // x = p u is H(x) = H(u) p
    const Polar of_adjoint = polar(adjoint(a), false, where);
    return {adjoint(of_adjoint.u), of_adjoint.p};
  }
  const Svd f = svd(stop_gradient(a), {.full_matrices = false}, where);
  const Tensor u = matmul(f.u, f.vh), p = matmul(adjoint(f.vh) * expand_dims(f.s, -2), f.vh);
  return {apply1(unitary_op, {&u, &a}, {}, where), apply1(positive_op, {&p, &a}, {}, where)};
}

}  // namespace linalg
}  // namespace rill
