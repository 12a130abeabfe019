// What singular values are for: the records of pinv and lstsq, and matrix_rank, which is composed.
//
// lstsq is no product by pinv, which would multiply its error by the condition number a second time: U's columns are
// applied to the right side first. The derivatives of both are that of Golub and Pereyra (1973, "The differentiation of
// pseudo-inverses and nonlinear least squares problems whose variables separate"), which, unlike one through singular
// vectors, does not mind equal singular values.
#include <fmt/format.h>

#include "rill/devices/params/read_attrs.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/matrix/matrix_rules.h"
#include "rill/ops/option_checks.h"
#include "rill/tensor/dim_table.h"

namespace rill {
namespace {

using namespace matrix_rules;

extern const Op lstsq_op;

const ReadableAttrs readable_pinv{std::type_identity<PinvParams>()};

OutSpecs infer_pinv(const InferArgs& args) {
  check_matrix(args, 0, false);
  return {with_axes(args[0], {columns_of(args[0]), rows_of(args[0])})};
}

// H(g) of dp = -p da p + p H(p) H(da) (1 - a p) + (1 - p a) H(da) H(p) p.
Tensors pinv_vjp(const VjpArgs& args) {
  const Tensor &a = args.in[0], &p = args.out[0], ph = adjoint(p), gh = adjoint(args.cotangent[0]);
  const Tensor around = matmul(ph, matmul(args.cotangent[0], ph));
  const Tensor left = gh - matmul(matmul(a, p), gh);   // (1 - a p) H(g), as a p is Hermitian
  const Tensor right = gh - matmul(gh, matmul(p, a));  // H(g) (1 - p a)
  return {matmul(left, matmul(p, ph)) + matmul(matmul(ph, p), right) - around};
}
Tensors pinv_jvp(const JvpArgs& args) {
  const Tensor &a = args.in[0], &p = args.out[0], &da = args.tangent[0], ph = adjoint(p), dah = adjoint(da);
  const Tensor first = matmul(matmul(p, ph), dah), second = matmul(dah, matmul(ph, p));
  return {first - matmul(matmul(first, a), p) + second - matmul(p, matmul(a, second)) - matmul(p, matmul(da, p))};
}

const Op pinv_op({
    .name = "pinv",
    .doc = "V diag(1 / s) H(U), the Moore-Penrose pseudo-inverse, of the singular values above rtol * the largest",
    .dtypes = matrix_rules::dtypes,
    .infer = infer_pinv,
    .vjp = pinv_vjp,
    .saves_in = save(0),
    .saves_out = save(0),
    .jvp = pinv_jvp,
    .batch = batch_rows,
    .cpu = cpu::pinv,
    .ref = ref::pinv,
    .wants_contiguous = true,
    .samples = []() -> std::vector<Sample> {
      return {{{spread({3, 3})}, PinvParams()},
              {{spread({4, 2})}, PinvParams()},
              {{spread({2, 3, 4})}, PinvParams{1e-3}},
              {{samples::uniform({0, 2})}, PinvParams()}};
    },
    .norm_tolerance = 200,
});

// --- lstsq -----------------------------------------------------------------------------------------------------------

// A matrix [..., m, n] and right sides [..., m, k]; the solution [..., n, k], and the singular values.
OutSpecs infer_lstsq(const InferArgs& args) {
  check_matrix(args, 0, false);
  check_matrix(args, 1, false);
  if (args[0].dtype != args[1].dtype) args.reject("both operands must have one dtype. convert one with astype");
  if (rows_of(args[0]) != rows_of(args[1]))
    args.reject(fmt::format("the matrix has {} rows, and the right side {}", rows_of(args[0]), rows_of(args[1])));
  if (Shape a = args[0].shape, b = args[1].shape; true) {
    for (Shape* s : {&a, &b}) s->pop_back(), s->pop_back();
    if (a != b) args.reject("the operands differ in their leading axes");
  }
  const ExactDims exact;
  return {with_axes(args[1], {columns_of(args[0]), columns_of(args[1])}),
          with_axes(args[0], {smaller(rows_of(args[0]), columns_of(args[0]))}, real_of(args[0].dtype))};
}

Tensor solution_of(const Tensor& a, const Tensor& b, AttrsView attrs) {
  return apply(lstsq_op, {&a, &b}, attrs, Where::current())[0];
}
// H(p) x and H(p) y, for the pseudo-inverse p of a.
std::pair<Tensor, Tensor> by_adjoint(const Tensor& a, const Tensor& x, const Tensor& y, AttrsView attrs) {
  const Dim k = columns_of(x.spec());
  const Tensor both = solution_of(adjoint(a), concat({x, y}, -1), attrs);
  return {slice_axis(both, -1, 0, k), slice_axis(both, -1, k, k + columns_of(y.spec()))};
}
// Of the singular values alone.
Tensor values_gradient(const Tensor& a, const Tensor& by_s) {
  const linalg::Svd f = linalg::svd(a, {.full_matrices = false});
  return matmul(f.u * expand_dims(by_s, -2), f.vh);
}

// With r = b - a x: dx = p (db - da x) + p H(p) H(da) r + (1 - p a) H(da) H(p) x.
Tensors lstsq_vjp(const VjpArgs& args) {
  const Tensor &a = args.in[0], &x = args.out[0], &g = args.cotangent[0];
  const auto [by_b, w] = by_adjoint(a, g, x, args.attrs);
  if (!args.needs(0)) return {Tensor(), by_b};
  const Tensor z = solution_of(a, by_b, args.attrs), rest = g - matmul(adjoint(a), by_b);
  const Tensor by_a =
      matmul(args.in[1] - matmul(a, x), adjoint(z)) + matmul(w, adjoint(rest)) - matmul(by_b, adjoint(x));
  return {by_a + values_gradient(a, args.cotangent[1]), by_b};
}
Tensors lstsq_jvp(const JvpArgs& args) {
  const Tensor &a = args.in[0], &x = args.out[0], &da = args.tangent[0], &db = args.tangent[1];
  if (!da.defined()) return {solution_of(a, db, args.attrs), Tensor()};
  const Tensor r = args.in[1] - matmul(a, x);
  const auto [w, v] = by_adjoint(a, x, matmul(adjoint(da), r), args.attrs);
  const Tensor turn = matmul(adjoint(da), w), moved = v - matmul(da, x) - matmul(a, turn);
  const linalg::Svd f = linalg::svd(a, {.full_matrices = false});
  const Tensor ds = real(diagonal(matmul(matmul(adjoint(f.u), da), adjoint(f.vh)), 0, -2, -1));
  return {solution_of(a, db.defined() ? moved + db : moved, args.attrs) + turn, ds};
}

const Op lstsq_op({
    .name = "lstsq",
    .doc = "the shortest x that minimises |a x - b|, V diag(1 / s) H(U) b of the singular values above rtol * the "
           "largest, and the singular values s of a",
    .dtypes = matrix_rules::dtypes,
    .inputs = 2,
    .outputs = 2,
    .infer = infer_lstsq,
    .vjp = lstsq_vjp,
    .saves_in = save_all,
    .saves_out = save(0),
    .jvp = lstsq_jvp,
    .batch = batch_rows,
    .cpu = cpu::lstsq,
    .ref = ref::lstsq,
    .wants_contiguous = true,
    .samples = []() -> std::vector<Sample> {
      using samples::uniform;
      return {{{spread({3, 3}), uniform({3, 2})}, PinvParams()},
              {{spread({5, 2}), uniform({5, 1})}, PinvParams()},
              {{spread({2, 3, 4}), uniform({2, 3, 3})}, PinvParams{1e-3}},
              {{uniform({0, 2}), uniform({0, 3})}, PinvParams()},
              {{spread({3, 2}), uniform({3, 0})}, PinvParams()}};
    },
    .norm_tolerance = 400,
});

double epsilon_of(DType d) {
  return real_of(d) == DType::f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

// How many of the singular values of x, the largest first, are not 0.
Tensor count_nonzero_values(const Tensor& x, const Tensor& s, const linalg::RankOptions& o) {
  if (s.shape().back() == 0) return sum(astype(s, DType::i64), -1);
  const Tensor largest = slice_axis(s, -1, 0, 1);
  const Tensor ulp = largest * epsilon_of(x.dtype());  // first, for n times a huge value is infinite
  const Tensor least = o.rtol ? largest * *o.rtol : ulp * larger(rows_of(x.spec()), columns_of(x.spec()));
  return sum(astype(s > least, DType::i64), -1);
}

void check_options(std::string_view op, const linalg::RankOptions& o, const Where& where) {
  if (o.rtol) require_not_negative(op, "rtol", *o.rtol, where);
}

}  // namespace

namespace linalg {

Tensor pinv(const Tensor& x, const RankOptions& o, Where where) {
  CallerScope caller(where);
  check_options("pinv", o, where);
  const Tensor a = operand("pinv", x, where);
  return apply1(pinv_op, {&a}, PinvParams{o.rtol.value_or(-1)}, where);
}

Tensor matrix_rank(const Tensor& x, const RankOptions& o, Where where) {
  CallerScope caller(where);
  check_options("matrix_rank", o, where);
  const Tensor a = operand("matrix_rank", x, where);
  return count_nonzero_values(a, svdvals(stop_gradient(a), where), o);
}

namespace {
// The decomposition of one matrix, and how many of its singular values are not 0.
struct Ranked {
  Svd svd;
  int64_t rank;
};
Ranked ranked(std::string_view op, const Tensor& x, bool whole, const RankOptions& o, const Where& where) {
  check_options(op, o, where);
  const Tensor a = operand(op, x, where);
  if (a.ndim() != 2) fail(op, fmt::format("takes one matrix. got {}", to_string(x.spec())), where);
  if (!EnclosingTrace::may_read(a))
    fail(op, fmt::format("the result's size depends on values, which {}", EnclosingTrace::why_unknown()), where);
  Svd f = svd(a, {.full_matrices = whole}, where);
  if (!all(isfinite(f.s)).item<bool>()) fail(op, "the matrix holds an infinity or a NaN", where);
  const int64_t rank = count_nonzero_values(a, f.s, o).item<int64_t>();
  return {std::move(f), rank};
}
}  // namespace

Tensor null_space(const Tensor& x, const RankOptions& o, Where where) {
  CallerScope caller(where);
  const auto [f, rank] = ranked("null_space", x, true, o, where);
  return adjoint(slice_axis(f.vh, 0, rank, f.vh.shape()[0]));
}

Tensor orth(const Tensor& x, const RankOptions& o, Where where) {
  CallerScope caller(where);
  const auto [f, rank] = ranked("orth", x, false, o, where);
  return slice_axis(f.u, 1, 0, rank);
}

Lstsq lstsq(const Tensor& a, const Tensor& b, const RankOptions& o, Where where) {
  CallerScope caller(where);
  check_options("lstsq", o, where);
  require_operand("lstsq", b, where);
  const bool vector = b.ndim() == 1;
  const Pair p = paired("lstsq", a, vector ? expand_dims(b, -1) : b, where);
  if (p.a.ndim() < 2 || p.b.ndim() < 2 || rows_of(p.a.spec()) != rows_of(p.b.spec()))
    fail("lstsq",
         fmt::format("the matrix and the right side must have equally many rows. operands: {}, {}", to_string(a.spec()),
                     to_string(b.spec())),
         where);
  const Tensors y = apply(lstsq_op, {&p.a, &p.b}, PinvParams{o.rtol.value_or(-1)}, where);
  const Tensor &x = y[0], &s = y[1], left = abs(p.b - matmul(p.a, x)), residuals = sum(left * left, -2);
  return {vector ? squeeze(x, -1) : x, vector ? squeeze(residuals, -1) : residuals, count_nonzero_values(p.a, s, o), s};
}

}  // namespace linalg
}  // namespace rill
