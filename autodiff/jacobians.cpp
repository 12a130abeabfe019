#include "rill/autodiff/jacobians.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "rill/autodiff/vmap.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/tensor/dim_table.h"
#include "rill/tensor/user_scope.h"

namespace rill::detail {

void require_jacobian(std::string_view op, const Tensor& t, std::string_view what, const Where& where) {
  require_defined(op, t, what, where);
  if (!is_differentiable(t.dtype()))
    fail(op,
         fmt::format("{} is {}, which has no derivative: give a floating or complex tensor", what, to_string(t.spec())),
         where);
}

void require_jacobian_of(std::string_view op, std::span<Tensor* const> results, const Where& where) {
  for (size_t k = 0; k < results.size(); ++k)
    require_jacobian(op, *results[k], results.size() == 1 ? "what the function gives" : fmt::format("result {}", k),
                     where);
}

bool goes_forward(std::span<Tensor* const> results, std::span<Tensor* const> arguments) {
  Dim rows = 0, columns = 0;
  std::optional<DType> dtype;
  bool one_real_dtype = true;
  const auto count = [&](const Tensor& t, Dim& numbers) {
    numbers = numbers + t.size();
    one_real_dtype &= !is_complex(t.dtype()) && dtype.value_or(t.dtype()) == t.dtype();
    dtype = t.dtype();
  };
  for (const Tensor* t : results) count(*t, rows);
  for (const Tensor* t : arguments)
    if (is_source(*t)) count(*t, columns);
  const CostDims either_is_right;
  return one_real_dtype && columns > 0 && columns < rows;
}

static bool fits_at_once(Dim bytes, int64_t most) {
  const CostDims either_is_right;
  return bytes <= most;
}

std::vector<std::vector<Tensor>> forward_jacobians(const Callback<std::vector<Tensor>(const std::vector<Tensor>&)>& f,
                                                   const std::vector<Tensor>& x, int64_t chunk_bytes,
                                                   const Where& where) {
  const CallerScope caller(where, "jacfwd");
  if (chunk_bytes < 1) fail("jacfwd", fmt::format("chunk_bytes is {} and must be 1 or more", chunk_bytes), where);
  const auto joined = [&](const Shape& of_result, const Tensor& by) {
    Shape shape = of_result;
    for (const Dim d : by.shape()) shape.push_back(d);
    return shape;
  };
  const auto of_user = [&](const std::vector<Tensor>& v) {
    const UserScope user;
    return f(v);
  };
  Dim n = 0, widest = 1;  // columns, and the bytes of one
  for (const Tensor& t : x) n = n + t.size(), widest = larger(widest, t.size() * int64_t(size_of(t.dtype())));
  std::vector<std::vector<Tensor>> all;
  // The unit columns of x[k] come after those of the tensors before it.
  std::vector<Tensor> units;
  Dim start = 0;
  for (const Tensor& t : x) {
    Shape rows = t.shape();
    rows.insert(0, n);
    const TensorOptions o{i64, t.device()};
    const Tensor is_own = iota({n, 1}, 0, o) == iota({1, t.size()}, 1, o) + start;
    units.push_back(astype(is_own, t.dtype()).reshape(rows));
    start = start + t.size();
  }
  const auto column = [&](const std::vector<Tensor>& tangents) {
    auto [y, dy] = jvp(of_user, x, tangents, where);
    for (size_t k = 0; k < y.size(); ++k)
      if (!dy[k].defined()) dy[k] = zeros_like(y[k]);
    return dy;
  };
  VmapOptions options{.out_axes = -1, .randomness = Randomness::same};
  if (!fits_at_once(n * widest, chunk_bytes)) options.chunk = std::max<int64_t>(1, chunk_bytes / widest);
  for (const Tensor& columns : vmap(column, options, where)(units)) {
    all.emplace_back();
    const Shape of_result(columns.shape().begin(), columns.shape().end() - 1);
    Dim first = 0;
    for (const Tensor& t : x) {
      const Tensor own = x.size() == 1 ? columns : columns(ellipsis, slice(first, first + t.size()));
      all.back().push_back(own.reshape(joined(of_result, t)));
      first = first + t.size();
    }
  }
  return all;
}

}  // namespace rill::detail
