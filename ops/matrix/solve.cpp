// Systems of equations and what follows from a factorisation of their matrix: the records of solve, triangular_solve,
// det and slogdet; inv is solve() of the identity.
#include <fmt/format.h>

#include <limits>

#include "rill/devices/params/read_attrs.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/matrix/matrix_rules.h"

namespace rill {
namespace {

using namespace matrix_rules;

const ReadableAttrs readable_triangular{std::type_identity<TriangularParams>()};

// A square matrix and a right side with as many rows and the same leading axes; the result is like that.
OutSpecs infer_solve(const InferArgs& args) {
  check_matrix(args, 0, true);
  check_matrix(args, 1, false);
  if (args[0].dtype != args[1].dtype) args.reject("both operands must have one dtype. convert one with astype");
  if (rows_of(args[0]) != rows_of(args[1]))
    args.reject(fmt::format("the matrix has {} rows, and the right side {}", rows_of(args[0]), rows_of(args[1])));
  if (args[0].shape.size() != args[1].shape.size()) args.reject("the operands differ in their leading axes");
  for (size_t i = 0; i + 2 < args[0].shape.size(); ++i)
    if (args[0].shape[i] != args[1].shape[i]) args.reject("the operands differ in their leading axes");
  return {with_axes(args[1], {rows_of(args[1]), columns_of(args[1])})};
}

extern const Op solve_op, triangular_op;

Tensor run_solve(const Tensor& a, const Tensor& b, const Where& where = Where::current()) {
  return apply1(solve_op, {&a, &b}, {}, where);
}
Tensor run_triangular(const Tensor& a, const Tensor& b, const TriangularParams& p,
                      const Where& where = Where::current()) {
  return apply1(triangular_op, {&a, &b}, p, where);
}

Tensors solve_vjp(const VjpArgs& args) {
  const Tensor g = run_solve(adjoint(args.in[0]), args.cotangent[0]);
  return {args.needs(0) ? -matmul(g, adjoint(args.out[0])) : Tensor(), g};
}
Tensors solve_jvp(const JvpArgs& args) {
  Tensor change = args.tangent[1];
  if (args.tangent[0].defined()) {
    const Tensor by_matrix = matmul(args.tangent[0], args.out[0]);
    change = change.defined() ? change - by_matrix : -by_matrix;
  }
  return {run_solve(args.in[0], change)};
}

const Op solve_op({
    .name = "solve",
    .doc = "x, the solution of a x = b, by LU factorisation with partial pivoting",
    .dtypes = matrix_rules::dtypes,
    .inputs = 2,
    .infer = infer_solve,
    .vjp = solve_vjp,
    .saves_in = save(0),
    .saves_out = save(0),
    .jvp = solve_jvp,
    .batch = batch_rows,
    .cpu = cpu::solve,
    .ref = ref::solve,
    .wants_contiguous = true,
    .samples = []() -> std::vector<Sample> {
      using samples::uniform;
      return {{{spread({3, 3}), uniform({3, 2})}, {}},  {{spread({2, 2, 4, 4}), uniform({2, 2, 4, 1})}, {}},
              {{spread({1, 1}), uniform({1, 3})}, {}},  {{spread({6, 6}), uniform({6, 2})}, {}},
              {{uniform({0, 0}), uniform({0, 2})}, {}}, {{spread({3, 3}), uniform({3, 0})}, {}}};
    },
    .norm_tolerance = 100,
});

// The triangle that the op reads.
Tensor own_triangle(const Tensor& x, const TriangularParams& p) {
  const int64_t off = p.unit ? 1 : 0;
  return p.lower ? tril(x, -off) : triu(x, off);
}
Tensors triangular_vjp(const VjpArgs& args) {
  TriangularParams p = args.attrs.as<TriangularParams>(), turned = p;
  turned.adjoint = !p.adjoint;
  const Tensor g = run_triangular(args.in[0], args.cotangent[0], turned);
  if (!args.needs(0)) return {Tensor(), g};
  const Tensor& x = args.out[0];
  return {-own_triangle(p.adjoint ? matmul(x, adjoint(g)) : matmul(g, adjoint(x)), p), g};
}
Tensors triangular_jvp(const JvpArgs& args) {
  const auto& p = args.attrs.as<TriangularParams>();
  Tensor change = args.tangent[1];
  if (args.tangent[0].defined()) {
    const Tensor triangle = own_triangle(args.tangent[0], p);
    const Tensor by_matrix = matmul(p.adjoint ? adjoint(triangle) : triangle, args.out[0]);
    change = change.defined() ? change - by_matrix : -by_matrix;
  }
  return {run_triangular(args.in[0], change, p)};
}

const Op triangular_op({
    .name = "triangular_solve",
    .doc = "x, the solution of a x = b, or H(a) x = b, where a is triangular",
    .dtypes = matrix_rules::dtypes,
    .inputs = 2,
    .infer = infer_solve,
    .vjp = triangular_vjp,
    .saves_in = save(0),
    .saves_out = save(0),
    .jvp = triangular_jvp,
    .batch = batch_rows,
    .cpu = cpu::triangular_solve,
    .ref = ref::triangular_solve,
    .wants_contiguous = true,
    .may_throw = [](AttrsView) { return false; },
    .samples = []() -> std::vector<Sample> {
      using samples::uniform;
      return {{{spread({3, 3}), uniform({3, 2})}, TriangularParams{true, false, false}},
              {{spread({2, 4, 4}), uniform({2, 4, 3})}, TriangularParams{false, true, false}},
              {{spread({4, 4}), uniform({4, 1})}, TriangularParams{true, true, true}},
              {{spread({4, 4}), uniform({4, 2})}, TriangularParams{false, false, true}},
              {{uniform({0, 0}), uniform({0, 2})}, TriangularParams{}}};
    },
    .norm_tolerance = 100,
});

// --- Determinants ----------------------------------------------------------------------------------------------------

OutSpecs infer_det(const InferArgs& args) {
  check_matrix(args, 0, true);
  return {with_axes(args[0], {})};
}
OutSpecs infer_slogdet(const InferArgs& args) {
  check_matrix(args, 0, true);
  return {with_axes(args[0], {}), with_axes(args[0], {}, real_of(args[0].dtype))};
}

Tensor each(const Tensor& number) { return expand_dims(number, {-1, -2}); }  // of a matrix

// [..., i, j]: the product of all of s but s_i and s_j, and 0 for i = j.
Tensor products_without_two(const Tensor& s) {
  const Tensor i = expand_dims(arange(s.shape().back(), {.device = s.device()}), 1), j = matrix_transpose(i);
  const Tensor between = cumprod(where(j > i, expand_dims(s, -2), 1), {.axis = -1, .exclusive = true});
  const Tensor above = where(j > i,
                             expand_dims(cumprod(s, {.axis = -1, .exclusive = true}), -1) * between *
                                 expand_dims(cumprod(s, {.axis = -1, .exclusive = true, .reverse = true}), -2),
                             0);
  return above + matrix_transpose(above);
}

// H of the adjugate, the matrix of cofactors, which a singular matrix has as well: with x = u diag(s) vh it is
// u diag(the products of all other s) vh times conj(det u det vh).
//
// Its derivative is not that of the factors, which have none where two singular values are 0. It is that of
// u cofactors(diag(s) + f) vh, where f = H(u) dx H(vh) and u, s and vh stay: of det(diag(s) + f), the terms with two
// elements of f are (f_ii f_jj - f_ij f_ji) times all s but two. So second derivatives of det are right for every matrix;
// third ones, which would need all s but three, are 0 here.
Tensor cofactors(const Tensor& x) {
  const Tensor fixed = stop_gradient(x), change = x - fixed;
  const linalg::Svd f = linalg::svd(fixed);
  const Tensor without_one =
      cumprod(f.s, {.axis = -1, .exclusive = true}) * cumprod(f.s, {.axis = -1, .exclusive = true, .reverse = true});
  const Tensor without_two = astype(products_without_two(f.s), x.dtype());
  const Tensor moved = matmul(matmul(f.vh, adjoint(change)), f.u);  // H of that f, whose value is 0
  const Tensor on_diagonal = sum(multiply_no_nan(without_two, expand_dims(linalg::diagonal(moved), -2)), -1);
  const Tensor y = matmul(f.u * expand_dims(without_one + on_diagonal, -2), f.vh) -
                   matmul(matmul(f.u, multiply_no_nan(without_two, moved)), f.vh);
  return each(conj(linalg::det(f.u) * linalg::det(f.vh))) * y;
}

// regular(x) where x has an inverse, and of_singular(x) where not: one that is known to be regular is not decomposed.
template <class F, class G>
Tensor by_singular(const Tensor& x, const Tensor& singular, F&& regular, G&& of_singular) {
  if (EnclosingTrace::may_read(singular) && !any(singular).item<bool>()) return regular(x);
  return where(each(singular), of_singular(x), regular(where(each(singular), identity_like(x), x)));
}

// [...] times the inverse's H of each of [..., n, n]. By the factors of x, as det's: those of H(x) round otherwise, which
// the determinant of a matrix that is nearly singular would not cancel.
Tensor times_inverse_adjoint(const Tensor& factor, const Tensor& x) {
  return adjoint(run_solve(x, each(conj(factor)) * identity_like(x)));
}

Tensor length(const Tensor& x) { return norm(stop_gradient(x), {.axis = {-2, -1}}); }  // of all elements as a vector

// d det = tr(adjugate dx), which is det tr(x^-1 dx) where there is an inverse. Of a matrix so close to a singular one
// that rounding decides which it is, that inverse has no right digits, and second derivatives would have none; nor does
// it come into them, for the factors of H(x) may have a pivot of 0 where those of x have none.
Tensors det_vjp(const VjpArgs& args) {
  const Tensor &x = args.in[0], &y = args.out[0], &g = args.cotangent[0];
  const auto by_inverse = [&](const Tensor& but) {
    const bool none = EnclosingTrace::may_read(but) && !any(but).item<bool>();
    return times_inverse_adjoint(conj(y), none ? x : where(each(but), identity_like(x), x));
  };
  const Tensor singular = y == 0, first = by_inverse(singular);
  const double certain = real_of(x.dtype()) == DType::f32 ? 0x1p-20 : 0x1p-49;  // eight units: 1 / the condition
  const Tensor unsure = logical_or(singular, abs(stop_gradient(y)) < length(x) * length(first) * certain);
  if (EnclosingTrace::may_read(unsure) && !any(unsure).item<bool>()) return {multiply_no_nan(first, each(g))};
  return {multiply_no_nan(where(each(unsure), cofactors(x), by_inverse(unsure)), each(g))};
}
// With t = tr(x^-1 dx): d log|det| = Re t, d sign = i sign Im t. Where det is 0 the logarithm's is infinite, but 0 along
// what leaves det as it is.
Tensors slogdet_vjp(const VjpArgs& args) {
  const Tensor &x = args.in[0], &by_logarithm = args.cotangent[1];
  const Tensor factor =
      !is_complex(x.dtype()) ? by_logarithm : complex(by_logarithm, imag(conj(args.out[0]) * args.cotangent[0]));
  return {by_singular(
      x, args.out[0] == 0, [&](const Tensor& a) { return times_inverse_adjoint(factor, a); },
      [&](const Tensor& a) {
        const Tensor c = cofactors(a);
        return multiply_no_nan(where(c == 0, 0, c * std::numeric_limits<double>::infinity()), each(factor));
      })};
}

std::vector<Sample> determinant_samples() {
  return {{{spread({3, 3})}, {}},
          {{spread({2, 4, 4}, -2)}, {}},
          {{spread({1, 1})}, {}},
          {{spread({6, 6})}, {}},
          {{samples::uniform({0, 0})}, {}}};
}

const Op det_op({
    .name = "det",
    .doc = "the determinant, the product of U's diagonal in a pivoted LU factorisation",
    .dtypes = matrix_rules::dtypes,
    .infer = infer_det,
    .vjp = det_vjp,
    .saves_in = save(0),
    .saves_out = save(0),
    .batch = batch_rows,
    .cpu = cpu::det,
    .ref = ref::det,
    .wants_contiguous = true,
    .may_throw = [](AttrsView) { return false; },
    .samples = determinant_samples,
    .norm_tolerance = 100,
});

const Op slogdet_op({
    .name = "slogdet",
    .doc = "sign, log|det|: the determinant is sign exp(log|det|)",
    .dtypes = matrix_rules::dtypes,
    .outputs = 2,
    .infer = infer_slogdet,
    .vjp = slogdet_vjp,
    .saves_in = save(0),
    .saves_out = save(0),
    .batch = batch_rows,
    .cpu = cpu::slogdet,
    .ref = ref::slogdet,
    .wants_contiguous = true,
    .may_throw = [](AttrsView) { return false; },
    .samples = determinant_samples,
    .norm_tolerance = 100,
});

}  // namespace

namespace linalg {

Tensor solve(const Tensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  if (!b.defined() || b.ndim() != 1) {
    const Pair p = paired("solve", a, b, where);
    return run_solve(p.a, p.b, where);
  }
  const Pair p = paired("solve", a, expand_dims(b, -1), where);
  return squeeze(run_solve(p.a, p.b, where), -1);
}

Tensor triangular_solve(const Tensor& a, const Tensor& b, const TriangularOptions& o, Where where) {
  CallerScope caller(where);
  if (b.defined() && b.ndim() == 1)
    return squeeze(triangular_solve(a, expand_dims(b, o.left ? -1 : 0), o, where), o.left ? -1 : -2);
  if (!o.left) {  // x a = b, transposed: T(a) T(x) = T(b)
    TriangularOptions turned = o;
    turned.left = true;
    turned.transpose = !o.transpose;
    return matrix_transpose(triangular_solve(a, matrix_transpose(b), turned, where));
  }
  const Pair p = paired("triangular_solve", a, b, where);
  // The op knows a and H(a): the other two are these of the conjugate.
  const Tensor matrix = o.conjugate != o.transpose && is_complex(p.a.dtype()) ? conj(p.a) : p.a;
  return run_triangular(matrix, p.b, {o.lower, o.transpose, o.unit}, where);
}

Tensor inv(const Tensor& x, Where where) {
  CallerScope caller(where);
  const Tensor a = operand("inv", x, where);
  if (a.ndim() < 2 || rows_of(a.spec()) != columns_of(a.spec())) return run_solve(a, a, where);  // rejected
  return run_solve(a, broadcast_to(identity_like(a), a.shape()), where);
}

Tensor det(const Tensor& x, Where where) {
  CallerScope caller(where);
  const Tensor a = operand("det", x, where);
  return apply1(det_op, {&a}, {}, where);
}

Slogdet slogdet(const Tensor& x, Where where) {
  CallerScope caller(where);
  const Tensor a = operand("slogdet", x, where);
  Tensors y = apply(slogdet_op, {&a}, {}, where);
  return {std::move(y[0]), std::move(y[1])};
}

}  // namespace linalg
}  // namespace rill
