#include "rill/autodiff/jacobians.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/autodiff/vmap.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"

namespace rill::detail {

void require_jacobian_by(const Tensor& argument, const Where& where) {
  require_defined("jacfwd", argument, "the argument", where);
  if (!is_differentiable(argument.dtype()))
    fail("jacfwd",
         fmt::format("the argument is {}, by which there is no derivative: give a floating or complex tensor",
                     to_string(argument.spec())),
         where);
}

void require_jacobian_of(std::string_view op, std::span<Tensor* const> results, const Where& where) {
  for (size_t k = 0; k < results.size(); ++k) {
    const std::string what = results.size() == 1 ? "what the function gives" : fmt::format("result {}", k);
    require_defined(op, *results[k], what, where);
    if (!is_differentiable(results[k]->dtype()))
      fail(op,
           fmt::format("{} is {}, which has no derivative: give a floating or complex tensor", what,
                       to_string(results[k]->spec())),
           where);
  }
}

bool has_fewer_columns(std::span<Tensor* const> results, std::span<Tensor* const> arguments) {
  Dim rows = 0, columns = 0;
  for (const Tensor* t : results) rows = rows + t->size();
  for (const Tensor* t : arguments)
    if (t->defined() && is_differentiable(t->dtype())) columns = columns + t->size();
  return columns < rows;
}

std::vector<Tensor> forward_jacobians(const Callback<std::vector<Tensor>(const Tensor&)>& f, const Tensor& x,
                                      int64_t chunk_bytes, const Where& where) {
  const CallerScope caller(where, "jacfwd");
  if (chunk_bytes < 1) fail("jacfwd", fmt::format("chunk_bytes is {} and must be 1 or more", chunk_bytes), where);
  const auto joined = [&](const Shape& of_result) {
    Shape shape = of_result;
    for (const Dim d : x.shape()) shape.push_back(d);
    return shape;
  };
  const Dim n = x.size();
  if (n == 0) {
    std::vector<Tensor> all = f(x);
    for (Tensor& y : all) y = zeros(joined(y.shape()), {.dtype = y.dtype(), .device = y.device()});
    return all;
  }
  // All columns in one run of f, as many as fit the limit for their tangents.
  const int64_t bytes = int64_t(n) * int64_t(size_of(x.dtype()));
  Shape rows = x.shape();
  rows.insert(0, n);
  const Tensor units = eye(n, n, 0, {.dtype = x.dtype(), .device = x.device()}).reshape(rows);
  const auto column = [&](const Tensor& t) {
    auto [y, dy] = jvp(f, x, t, where);
    for (size_t k = 0; k < y.size(); ++k)
      if (!dy[k].defined()) dy[k] = zeros_like(y[k]);
    return dy;
  };
  const VmapOptions options{
      .out_axes = -1, .randomness = Randomness::same, .chunk = std::max<int64_t>(1, chunk_bytes / bytes)};
  std::vector<Tensor> all = vmap(column, options, where)(units);
  for (Tensor& columns : all)
    columns = columns.reshape(joined(Shape(columns.shape().begin(), columns.shape().end() - 1)));
  return all;
}

}  // namespace rill::detail
