// Products other than dot_general and matmul (contraction.cpp) and einsum (einsum.cpp), all composites; and diagonal, a
// view with its own record.
#include "rill/ops/linalg.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/devices/params/read_attrs.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/join_numbers.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/samples.h"
#include "rill/tensor/dim_table.h"

namespace rill {
namespace {

// --- diagonal --------------------------------------------------------------------------------------------------------

struct DiagonalAttrs {
  int64_t offset = 0, axis1 = 0, axis2 = 1;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("offset", s.offset);
    v("axis1", s.axis1);
    v("axis2", s.axis2);
  }
};

const ReadableAttrs readable_diagonal{std::type_identity<DiagonalAttrs>()};

Dim diagonal_length(Dim rows, Dim columns, int64_t offset) {
  const ExactDims exact;
  return larger(offset >= 0 ? smaller(rows, columns - offset) : smaller(rows + offset, columns), 0);
}

OutSpecs infer_diagonal(const InferArgs& args) {
  const auto& d = args.attrs.as<DiagonalAttrs>();
  const Shape& x = args[0].shape;
  for (int64_t a : {d.axis1, d.axis2}) args.check_axis(a);
  if (d.axis1 == d.axis2) args.reject("axis1 and axis2 must be two axes");
  Shape out;
  for (int64_t a = 0; a < x.ndim(); ++a)
    if (a != d.axis1 && a != d.axis2) out.push_back(x[size_t(a)]);
  out.push_back(diagonal_length(x[size_t(d.axis1)], x[size_t(d.axis2)], d.offset));
  return {Spec{out, args[0].dtype, false, args[0].device}};
}

Tensor view_diagonal(const Tensor& x, AttrsView attrs, const Spec& out) {
  const auto& d = attrs.as<DiagonalAttrs>();
  const Strides& s = x.strides();
  Strides strides;
  for (int64_t a = 0; a < x.ndim(); ++a)
    if (a != d.axis1 && a != d.axis2) strides.push_back(s[size_t(a)]);
  const int64_t down = s[size_t(d.axis1)], right = s[size_t(d.axis2)];
  strides.push_back(down + right);
  const int64_t start = out.shape.numel() == 0 ? 0 : d.offset >= 0 ? d.offset * right : -d.offset * down;
  return make_view(x, out.shape, strides, start);
}

// Zeros [..., rows, columns] with [..., n] on diagonal `k`.
Tensor embed_diagonal(const Tensor& x, Dim rows, Dim columns, int64_t k) {
  const Dim n = x.shape().back(), length = k >= 0 ? rows : columns;
  std::vector<Padding> widths(size_t(x.ndim()), Padding{});
  widths.back().hi = length - n;
  const bool fits = !n.is_open() && !length.is_open() && n == length;  // without testing open sizes
  const Tensor line = expand_dims(fits ? x : pad(x, widths), k >= 0 ? -1 : -2);
  const TensorOptions places{DType::i64, x.device()};
  const Tensor on = equal(iota({rows, columns}, 0, places) + k, iota({rows, columns}, 1, places));
  return where(on, line, zeros({}, {line.dtype(), line.device()}));  // not a C++ 0: with a bool that would give i64
}

Tensors vjp_diagonal(const VjpArgs& args) {
  const auto& d = args.attrs.as<DiagonalAttrs>();
  const Shape& x = args.in[0].shape();
  const Tensor g = embed_diagonal(args.cotangent[0], x[size_t(d.axis1)], x[size_t(d.axis2)], d.offset);
  return {moveaxis(g, {-2, -1}, {d.axis1, d.axis2})};
}

const Op diagonal_op({
    .name = "diagonal",
    .doc = "out[..., i] = x[i, i + offset] along axis1 and axis2 (from row -offset where that is negative)",
    .kind = OpKind::view,
    .dtypes = every_set,
    .infer = infer_diagonal,
    .vjp = vjp_diagonal,
    .linear_in = save(0),
    .batch = batch_axes<&DiagonalAttrs::axis1, &DiagonalAttrs::axis2>,
    .view = view_diagonal,
    .samples = []() -> std::vector<Sample> {
      using samples::uniform;
      return {{{uniform({3, 4})}, DiagonalAttrs{0, 0, 1}},    {{uniform({4, 3})}, DiagonalAttrs{1, 0, 1}},
              {{uniform({3, 4})}, DiagonalAttrs{-2, 0, 1}},   {{uniform({2, 3, 4})}, DiagonalAttrs{1, 2, 0}},
              {{uniform({3, 3, 2})}, DiagonalAttrs{0, 1, 0}}, {{uniform({3, 3})}, DiagonalAttrs{5, 0, 1}}};
    },
    .exported = {.tensorflow = "MatrixDiagPartV3"},
});

[[noreturn]] void reject(std::string_view op, const std::string& message, const Tensor& a, const Tensor& b,
                         const Where& where) {
  fail(op, message + ". operands: " + to_string(a.spec()) + ", " + to_string(b.spec()), where);
}

// The contraction of one axis of each; errors are reported for `op`.
Tensor contract(std::string_view op, const Tensor& a, const Tensor& b, int64_t a_axis, int64_t b_axis,
                const Where& where) {
  const Dim n = a.shape()[size_t(a_axis)], m = b.shape()[size_t(b_axis)];
  if (n != m)
    reject(op,
           fmt::format("axis {} of the left operand and axis {} of the right differ in size: {} != {}", a_axis, b_axis,
                       n, m),
           a, b, where);
  return dot_general(a, b, {{a_axis}, {b_axis}, {}, {}}, where);
}

}  // namespace

Tensor diagonal(const Tensor& x, int offset, Axis axis1, Axis axis2, Where where) {
  if (x.ndim() < 2)
    fail("diagonal", fmt::format("an operand of at least two axes is needed. operands: {}", to_string(x.spec())),
         where);
  const int64_t a = normal_axis(axis1, x, "diagonal", where), b = normal_axis(axis2, x, "diagonal", where);
  return apply1(diagonal_op, {&x}, DiagonalAttrs{offset, a, b}, where);
}

Tensor diag(const Tensor& x, int offset, Where where) {
  CallerScope caller(where);
  if (x.ndim() == 2) return diagonal(x, offset, 0, 1, where);
  if (x.ndim() != 1)
    fail("diag",
         fmt::format("the operand must have one axis or two, not {}. operands: {}", x.ndim(), to_string(x.spec())),
         where);
  const Dim n = x.shape()[0] + std::abs(int64_t(offset));
  return embed_diagonal(x, n, n, offset);
}

Tensor diagflat(const Tensor& x, int offset, Where where) {
  CallerScope caller(where);
  return diag(ravel(x), offset, where);
}

Tensor diag_embed(const Tensor& x, int offset, Axis axis1, Axis axis2, Where where) {
  CallerScope caller(where);
  require_operand("diag_embed", x, where);
  if (x.ndim() == 0) fail("diag_embed", "takes one axis at least. got a scalar", where);
  const int64_t ndim = x.ndim() + 1, shift = std::abs(int64_t(offset));
  const Dims at = normal_axes(Dims{Dim(int64_t(axis1)), Dim(int64_t(axis2))}, ndim, "diag_embed", where);
  const Dim n = x.shape().back() + shift;
  Shape square(x.shape());
  square.back() = n;
  square.push_back(n);
  require_sound_size("diag_embed", {square, x.dtype(), false, x.device()}, where);
  std::vector<Padding> widths(size_t(x.ndim()));
  (offset < 0 ? widths.back().hi : widths.back().lo) = shift;  // so that element i is in column i
  const TensorOptions ids{DType::i64, x.device()};
  const Tensor is_on = iota({n, 1}, 0, ids) + offset == iota({1, n}, 1, ids);
  const Tensor y = rill::where(is_on, expand_dims(pad(x, widths), -2), zeros({}, {x.dtype(), x.device()}));
  return moveaxis(y, {-2, -1}, at, where);
}

Tensor trace(const Tensor& x, int offset, Axis axis1, Axis axis2, Where where) {
  CallerScope caller(where);
  return sum(diagonal(x, offset, axis1, axis2, where), -1);
}

Tensor matrix_transpose(const Tensor& x, Where where) {
  if (x.ndim() < 2)
    fail("matrix_transpose",
         fmt::format("an operand of at least two axes is needed. operands: {}", to_string(x.spec())), where);
  CallerScope caller(where);
  return swapaxes(x, -1, -2, where);
}

Tensor tensordot(const Tensor& a, const Tensor& b, int axes, Where where) {
  require_operand("tensordot", a, where);
  require_operand("tensordot", b, where);
  if (axes < 0 || axes > a.ndim() || axes > b.ndim())
    reject("tensordot", fmt::format("{} axes cannot be contracted", axes), a, b, where);
  Axes left, right;
  for (int i = 0; i < axes; ++i) {
    left.push_back(a.ndim() - axes + i);
    right.push_back(i);
  }
  return tensordot(a, b, left, right, where);
}

Tensor tensordot(const Tensor& a, const Tensor& b, const Axes& a_axes, const Axes& b_axes, Where where) {
  require_operand("tensordot", a, where);
  require_operand("tensordot", b, where);
  CallerScope caller(where);
  const Dims left = normal_axes(a_axes, a, "tensordot", where);
  const Dims right = normal_axes(b_axes, b, "tensordot", where);
  if (left.size() != right.size())
    reject("tensordot", fmt::format("{} axes on the left and {} on the right", left.size(), right.size()), a, b, where);
  for (size_t i = 0; i < left.size(); ++i) {
    const Dim n = a.shape()[size_t(left[i])], m = b.shape()[size_t(right[i])];
    if (n != m)
      reject("tensordot",
             fmt::format("axis {} of the left operand and axis {} of the right differ in size: {} != {}", left[i],
                         right[i], n, m),
             a, b, where);
  }
  return dot_general(a, b, {left, right, {}, {}}, where);
}

Tensor dot(const Tensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  if (a.ndim() == 0 || b.ndim() == 0) return multiply(a, b, where);
  return contract("dot", a, b, a.ndim() - 1, b.ndim() == 1 ? 0 : b.ndim() - 2, where);
}

Tensor vdot(const Tensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  if (a.size() != b.size())
    reject("vdot", fmt::format("the operands differ in size: {} != {}", a.size(), b.size()), a, b, where);
  const auto [x, y] = join_numbers(a, b);
  return dot_general(conj(ravel(x)), ravel(y), {{0}, {0}, {}, {}}, where);
}

Tensor inner(const Tensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  if (a.ndim() == 0 || b.ndim() == 0) return multiply(a, b, where);
  return contract("inner", a, b, a.ndim() - 1, b.ndim() - 1, where);
}

Tensor outer(const Tensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  const auto [x, y] = join_numbers(a, b);
  return multiply(reshape(x, {x.size(), 1}), reshape(y, {1, y.size()}), where);
}

Tensor kron(const Tensor& a, const Tensor& b, Where where) {
  CallerScope caller(where);
  const size_t n = size_t(std::max(a.ndim(), b.ndim()));
  Shape left, right, out;
  for (size_t i = 0; i < n; ++i) {
    const size_t before_a = n - size_t(a.ndim()), before_b = n - size_t(b.ndim());
    const Dim p = i < before_a ? Dim(1) : a.shape()[i - before_a], q = i < before_b ? Dim(1) : b.shape()[i - before_b];
    left.push_back(p);
    left.push_back(1);
    right.push_back(1);
    right.push_back(q);
    out.push_back(p * q);
  }
  const auto [x, y] = join_numbers(a, b);
  return reshape(multiply(reshape(x, left), reshape(y, right), where), out);
}

Tensor cross(const Tensor& a, const Tensor& b, Axis axis, Where where) {
  CallerScope caller(where);
  auto parts = [&](const Tensor& x) {
    const int64_t at = normal_axis(axis, x, "cross", where);
    const Dim n = x.shape()[size_t(at)];
    if (n != 2 && n != 3)
      reject("cross", fmt::format("vectors must have 2 or 3 elements along axis {}, not {}", axis, n), a, b, where);
    return unstack(x, at);
  };
  const std::vector<Tensor> u = parts(a), v = parts(b);
  if (const DType d = promote(a.dtype(), b.dtype()); is_half(d))  // which is rounded once
    return astype(cross(astype(a, DType::f32), astype(b, DType::f32), axis), d);
  Tensor z = u[0] * v[1] - u[1] * v[0];
  if (u.size() == 2 && v.size() == 2) return z;
  // A missing third element is 0.
  Tensor x, y;
  if (u.size() == 3 && v.size() == 3) {
    x = u[1] * v[2] - u[2] * v[1];
    y = u[2] * v[0] - u[0] * v[2];
  } else if (u.size() == 3) {
    x = -(u[2] * v[1]);
    y = u[2] * v[0];
  } else {
    x = u[1] * v[2];
    y = -(u[0] * v[2]);
  }
  return stack({x, y, z}, axis < 0 ? int64_t(axis) : normal_axis(axis, z.ndim() + 1, "cross", where));
}

namespace {
void require_vector_and_matrix(std::string_view op, const Tensor& x, const Tensor& a, const Where& where) {
  if (x.defined() && a.defined() && x.ndim() >= 1 && a.ndim() >= 2) return;
  if (!x.defined() || !a.defined()) fail(op, "an operand is undefined", where);
  reject(op, "the vector needs an axis, and the matrix two", x, a, where);
}
}  // namespace

Tensor matvec(const Tensor& a, const Tensor& x, Where where) {
  CallerScope caller(where);
  require_vector_and_matrix("matvec", x, a, where);
  return squeeze(matmul(a, expand_dims(x, -1), where), -1);
}

Tensor vecmat(const Tensor& x, const Tensor& a, Where where) {
  CallerScope caller(where);
  require_vector_and_matrix("vecmat", x, a, where);
  return squeeze(matmul(expand_dims(is_complex(x.dtype()) ? conj(x) : x, -2), a, where), -2);
}

}  // namespace rill
