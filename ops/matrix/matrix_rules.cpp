#include "rill/ops/matrix/matrix_rules.h"

#include <fmt/format.h>

#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/option_checks.h"

namespace rill::matrix_rules {

void check_matrix(const InferArgs& args, int i, bool square) {
  const Shape& s = args[i].shape;
  if (s.ndim() < 2)
    args.reject(fmt::format("a matrix has at least two axes, and the {} has {}",
                            args.count() == 1 ? "operand"
                            : i == 0          ? "left operand"
                                              : "right operand",
                            s.ndim()));
  if (square && rows_of(args[i]) != columns_of(args[i]))
    args.reject(
        fmt::format("the matrix must be square, and has {} rows and {} columns. linalg::lstsq, pinv, qr and svd "
                    "take others",
                    rows_of(args[i]), columns_of(args[i])));
}

Spec with_axes(const Spec& s, std::initializer_list<Dim> last, DType dtype) {
  Spec out{s.shape, dtype, false, s.device};
  out.shape.pop_back();
  out.shape.pop_back();
  for (Dim d : last) out.shape.push_back(d);
  return out;
}
Spec with_axes(const Spec& s, std::initializer_list<Dim> last) { return with_axes(s, last, s.dtype); }

OutSpecs infer_square(const InferArgs& args) {
  check_matrix(args, 0, true);
  return {with_axes(args[0], {rows_of(args[0]), columns_of(args[0])})};
}

Tensor adjoint(const Tensor& x) { return conj(matrix_transpose(x)); }
Tensor hermitian(const Tensor& x) { return (x + adjoint(x)) * 0.5; }
Tensor halved_diagonal(const Tensor& x) { return x * (1 - 0.5 * identity_like(x)); }

Tensor identity_like(const Tensor& x) {
  const Dim n = x.shape().back();
  return eye(n, n, 0, {x.dtype(), x.device()});
}

Tensor as_diagonal(const Tensor& x) {
  const Dim n = x.shape().back();
  const TensorOptions places{DType::i64, x.device()};
  const Tensor on = equal(iota({n, n}, 0, places), iota({n, n}, 1, places));
  return where(on, expand_dims(x, -1), zeros({}, {x.dtype(), x.device()}));
}

Tensor over_gaps(const Tensor& x, const Tensor& y, const Tensor& arrived) {
  const Tensor none = logical_and(logical_not(arrived), y == 0);
  return where(none, 0, x / where(none, 1, y));
}
Tensor over_gaps(const Tensor& x, const Tensor& y) { return over_gaps(x, y, x != 0); }
Tensor operand(std::string_view op, const Tensor& x, const Where& where) {
  require_operand(op, x, where);
  return elementwise::as_floating(x, where);
}

Pair paired(std::string_view op, const Tensor& a, const Tensor& b, const Where& where) {
  Tensor x = operand(op, a, where), y = operand(op, b, where);
  const DType d = promote(x.dtype(), x.spec().weak, y.dtype(), y.spec().weak);
  x = astype(x, d), y = astype(y, d);
  if (x.ndim() < 2 || y.ndim() < 2) return {x, y};  // infer will reject them
  Shape batch_x = x.shape(), batch_y = y.shape(), batch;
  for (Shape* s : {&batch_x, &batch_y}) s->pop_back(), s->pop_back();
  batch = batch_x;
  if (!broadcast_into(batch, batch_y))
    fail(op,
         fmt::format("the leading axes do not broadcast. operands: {}, {}", to_string(a.spec()), to_string(b.spec())),
         where);
  const auto spread = [&](const Tensor& t, const Shape& own) {
    if (own == batch) return t;
    Shape s = batch;
    s.push_back(t.shape()[size_t(t.ndim()) - 2]);
    s.push_back(t.shape().back());
    return broadcast_to(t, s);
  };
  return {spread(x, batch_x), spread(y, batch_y)};
}

Tensor spread(const Shape& shape, double first, double step, uint64_t seed) {
  const Tensor noise = samples::uniform(shape, -0.5, 0.5, seed);
  std::vector<double> v = noise.to_vector<double>();
  const int64_t rows = shape[shape.size() - 2], columns = shape.back();
  for (size_t i = 0; i < v.size(); ++i) {
    const int64_t row = int64_t(i) / columns % rows, column = int64_t(i) % columns;
    if (row == column) v[i] += first + step * double(row);
  }
  return samples::values(std::move(v), shape);
}

}  // namespace rill::matrix_rules
