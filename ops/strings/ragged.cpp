// Rows of different lengths; see ragged.h. Each value has an index at each level.
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "rill/ops/apply.h"
#include "rill/ops/creation.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/indexing.h"
#include "rill/ops/ragged.h"
#include "rill/ops/shaping.h"
#include "rill/tensor/limits.h"

namespace rill {
namespace {

struct RowIndices {
  std::vector<int64_t> sizes;                  // the number of rows, and the longest row of each level
  std::vector<std::vector<int64_t>> of_value;  // the indices of each value by level, the innermost last
};

void refuse_traced(const Ragged& r, std::string_view op, const Where& where) {
  const auto is_traced = [](const Tensor& t) { return t.defined() && t.is_symbolic(); };
  if (EnclosingTrace::now() && std::ranges::any_of(r.row_splits, is_traced))
    fail(op,
         fmt::format("the size of the result depends on the row splits, which {}. call it outside",
                     EnclosingTrace::why_unknown()),
         where);
}

// Checks the row splits, for a Ragged's fields are public.
RowIndices row_indices_of(const Ragged& r, std::string_view op, const Where& where) {
  refuse_traced(r, op, where);
  const EagerScope eager;
  if (r.row_splits.empty() || !r.values.defined() || r.values.ndim() != 1)
    fail(op, "a Ragged has values of one dimension and at least one level of row splits", where);
  RowIndices out;
  // For each item at this level, its index at the levels above. The items of the outermost are the rows.
  std::vector<std::vector<int64_t>> above;
  for (size_t level = 0; level < r.row_splits.size(); ++level) {
    const std::vector<int64_t> splits = r.row_splits[level].to_vector<int64_t>(where);
    const int64_t below = level + 1 < r.row_splits.size() ? r.row_splits[level + 1].size() - 1 : r.values.size();
    if (splits.empty() || splits.front() != 0 || splits.back() != below ||
        !std::is_sorted(splits.begin(), splits.end()))
      fail(op, fmt::format("the row splits of level {} do not ascend from 0 to {}", level, below), where);
    const size_t rows = splits.size() - 1;
    if (level == 0) {
      above.emplace_back();
      for (size_t i = 0; i < rows; ++i) above[0].push_back(int64_t(i));
      out.sizes.push_back(int64_t(rows));
    }
    std::vector<std::vector<int64_t>> next(level + 2);
    int64_t longest = 0;
    for (size_t i = 0; i < rows; ++i) {
      const int64_t n = splits[i + 1] - splits[i];
      longest = std::max(longest, n);
      for (int64_t k = 0; k < n; ++k) {
        for (size_t l = 0; l <= level; ++l) next[l].push_back(above[l][i]);
        next[level + 1].push_back(k);
      }
    }
    out.sizes.push_back(longest);
    above = std::move(next);
  }
  out.of_value = std::move(above);
  return out;
}

}  // namespace

Tensor Ragged::padded(const Tensor& given, Where where) const {
  CallerScope caller(where);
  constexpr std::string_view op = "Ragged::padded";
  // A C++ number is cast to the values' dtype, except a fraction to integers.
  const bool is_number = given.defined() && given.spec().weak && values.dtype() != DType::string &&
                         (is_floating(values.dtype()) || is_integer(given.dtype()));
  const Tensor padding = is_number ? given.astype(values.dtype()) : given;
  const RowIndices indices = row_indices_of(*this, op, where);
  Shape shape;
  for (int64_t size : indices.sizes) shape.push_back(size);
  Spec spec = values.spec();
  spec.shape = shape;
  const auto too_large = [&] {
    fail(op, "filled up to the longest rows it would be " + to_string(spec) + ", more than memory holds", where);
  };
  if (!has_sound_size(spec)) too_large();
  if (padding.defined() && (padding.size() != 1 || padding.dtype() != values.dtype()))
    fail(op, "the padding is one " + std::string(name(values.dtype())) + ", not " + to_string(padding.spec()), where);
  const int64_t n = values.size();
  std::vector<int64_t> element;  // the value of each element; n: the padding
  try {
    element.assign(size_t(int64_t(shape.numel())), n);
  } catch (const std::bad_alloc&) {
    too_large();
  } catch (const std::length_error&) {
    too_large();
  }
  for (size_t i = 0; i < size_t(n); ++i) {
    int64_t at = 0;
    for (size_t l = 0; l < indices.sizes.size(); ++l) at = at * indices.sizes[l] + indices.of_value[l][i];
    element[size_t(at)] = int64_t(i);
  }
  const Tensor filler = padding.defined() ? reshape(padding, {1}) : zeros({1}, {values.dtype(), values.device()});
  return reshape(take(concat({values, filler}), tensor(element, {.device = values.device()})), shape);
}

Tensor Ragged::operator()(int64_t i, Where where) const {
  const CallerScope caller(where);
  constexpr std::string_view op = "Ragged";
  refuse_traced(*this, op, where);
  if (row_splits.size() != 1 || !values.defined())
    fail(op, fmt::format("one row of {} levels is no tensor. take row splits and values apart", row_splits.size()),
         where);
  const EagerScope eager;
  const std::vector<int64_t> splits = row_splits[0].to_vector<int64_t>(where);
  const int64_t n = is_of_scalar ? int64_t(values.size()) : int64_t(splits.size()) - 1;
  const int64_t at = i < 0 ? i + n : i;
  if (at < 0 || at >= n)
    fail(op, fmt::format("index {} is outside of {} {}{}", i, n, is_of_scalar ? "value" : "row", n == 1 ? "" : "s"),
         where);
  if (is_of_scalar) return values(at);
  return slice_axis(values, 0, splits[size_t(at)], splits[size_t(at) + 1]);
}

Tensor Ragged::indices(Where where) const {
  CallerScope caller(where);
  const RowIndices indices = row_indices_of(*this, "Ragged::indices", where);
  const int64_t n = values.size(), levels = int64_t(indices.of_value.size());
  std::vector<int64_t> out;
  out.reserve(size_t(n * levels));
  for (size_t i = 0; i < size_t(n); ++i)
    for (const auto& level : indices.of_value) out.push_back(level[i]);
  return tensor(out, Shape{n, levels}, TensorOptions{}, where);
}

}  // namespace rill
