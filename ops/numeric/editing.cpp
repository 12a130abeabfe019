// Joining, cutting, masks and indices, composed of public functions; see editing.h.
#include "rill/ops/editing.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/ops/enclosing_trace.h"
#include "rill/ops/index/from_front.h"
#include "rill/ops/index/index_checks.h"
#include "rill/ops/index/scatter_records.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/reduce/identity.h"
#include "rill/ops/standard.h"
#include "rill/tensor/limits.h"

namespace rill {
namespace {

// `x` and an axis of it: without one, the flattened operand and its only axis.
struct Along {
  Tensor x;
  int64_t axis;
};
Along along(const Tensor& x, std::optional<Axis> axis, std::string_view op, const Where& where) {
  require_operand(op, x, where);
  if (!axis) return {ravel(x), 0};
  return {x, normal_axis(*axis, x, op, where)};
}

// `index` of `size` elements, from the front. `end`: whether `size` itself is valid.
int64_t normal_index(int64_t index, int64_t size, bool end, std::string_view op, const Where& where) {
  const int64_t at = index < 0 ? index + size : index;
  if (at < 0 || at >= size + int64_t(end))
    fail(op, fmt::format("index {} is out of bounds for an axis of size {}", index, size), where);
  return at;
}

Tensor vector_of(const std::vector<int64_t>& v, Device device) { return tensor(v, {.device = device}); }

// `value` cast to x's dtype: a C++ integer that does not fit it throws.
Tensor as_element(const Tensor& value, const Tensor& x) {
  return value.spec().weak ? full({}, value, {x.dtype(), x.device()}) : number_beside(astype(value, x.dtype()), x);
}

}  // namespace

// --- Joining and cutting ---------------------------------------------------------------------------------------------

Tensor append(const Tensor& x, const Tensor& values, std::optional<Axis> axis, Where where) {
  CallerScope caller(where);
  const auto [a, at] = along(x, axis, "append", where);
  const Tensor v = number_beside(values, x);
  return concat({a, axis ? v : ravel(v)}, at, where);
}

Tensor insert(const Tensor& x, const std::vector<int64_t>& indices, const Tensor& values, std::optional<Axis> axis,
              Where where) {
  CallerScope caller(where);
  const auto [a, at] = along(x, axis, "insert", where);
  const int64_t n = a.shape()[size_t(at)];
  require_operand("insert", values, where);
  // A single index inserts all of `values` along the axis.
  int64_t count = int64_t(indices.size());
  const Tensor v = axis ? values : ravel(values);
  if (count == 1 && v.ndim() == a.ndim()) count = v.shape()[size_t(at)];
  require_few_numbers("insert", multiply_sizes(add_sizes(n, count), 4), where);
  std::vector<int64_t> order(size_t(n + count));
  {
    std::vector<std::pair<int64_t, int64_t>> all;  // index in x to insert before, and index in the concatenation
    for (int64_t i = 0; i < count; ++i)
      all.emplace_back(normal_index(indices[indices.size() == 1 ? 0 : size_t(i)], n, true, "insert", where), n + i);
    for (int64_t i = 0; i < n; ++i) all.emplace_back(i, n + count);
    // Stable: values inserted at one index keep their order, and come before the element there.
    std::stable_sort(all.begin(), all.end(), [](const auto& l, const auto& r) { return l.first < r.first; });
    for (size_t i = 0; i < all.size(); ++i) order[i] = all[i].second == n + count ? all[i].first : all[i].second;
  }
  Shape shape(a.shape());
  shape[size_t(at)] = count;
  const Tensor inserted = broadcast_to(as_element(values.spec().weak ? values : v, a), shape, where);
  return take(concat({a, inserted}, at), vector_of(order, a.device()), at);
}

Tensor erase(const Tensor& x, const std::vector<int64_t>& indices, std::optional<Axis> axis, Where where) {
  CallerScope caller(where);
  const auto [a, at] = along(x, axis, "erase", where);
  const int64_t n = a.shape()[size_t(at)];
  require_few_numbers("erase", multiply_sizes(n, 3), where);
  std::vector<bool> erased(size_t(n), false);
  for (int64_t p : indices) erased[size_t(normal_index(p, n, false, "erase", where))] = true;
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < n; ++i)
    if (!erased[size_t(i)]) kept.push_back(i);
  return take(a, vector_of(kept, a.device()), at);
}

Tensor trim_zeros(const Tensor& x, const TrimZerosOptions& o, Where where) {
  CallerScope caller(where);
  require_operand("trim_zeros", x, where);
  if (x.ndim() != 1) fail("trim_zeros", fmt::format("takes a vector. got {}", to_string(x.spec())), where);
  const std::vector<bool> kept = (x != 0).to_vector<bool>(where);
  size_t first = 0, end = kept.size();
  while (o.front && first < end && !kept[first]) ++first;
  while (o.back && end > first && !kept[end - 1]) --end;
  return slice_axis(x, 0, int64_t(first), int64_t(end));
}

Tensor column_stack(const std::vector<Tensor>& x, Where where) {
  CallerScope caller(where);
  std::vector<Tensor> columns;
  for (const Tensor& t : x) {
    require_operand("column_stack", t, where);
    columns.push_back(t.ndim() < 2 ? reshape(t, {t.size(), 1}) : t);
  }
  return concat(columns, 1, where);
}

Tensor block(const std::vector<std::vector<Tensor>>& rows, Where where) {
  CallerScope caller(where);
  std::vector<Tensor> joined;
  for (const std::vector<Tensor>& row : rows) {
    std::vector<Tensor> blocks;
    for (const Tensor& t : row) {
      require_operand("block", t, where);
      blocks.push_back(atleast_2d(t));
    }
    joined.push_back(concat(blocks, -1, where));
  }
  return concat(joined, -2, where);
}

Tensor block_diag(const std::vector<Tensor>& x, Where where) {
  CallerScope caller(where);
  if (x.empty()) return zeros({0, 0});
  Dim columns = 0, before = 0;
  std::vector<Tensor> blocks, joined;
  for (const Tensor& t : x) {
    require_operand("block_diag", t, where);
    if (t.ndim() > 2)
      fail("block_diag", fmt::format("takes matrices, vectors and numbers. got {}", to_string(t.spec())), where);
    blocks.push_back(atleast_2d(t));
    columns += blocks.back().shape()[1];
  }
  for (const Tensor& b : blocks) {
    const Dim end = before + b.shape()[1];
    joined.push_back(pad(b, {{0, 0}, {before, columns - end}}));
    before = end;
  }
  return concat(joined, 0, where);
}

Tensor cartesian_prod(const std::vector<Tensor>& x, Where where) {
  CallerScope caller(where);
  if (x.empty()) fail("cartesian_prod", "takes one vector at least", where);
  for (const Tensor& t : x) {
    require_operand("cartesian_prod", t, where);
    if (t.ndim() != 1) fail("cartesian_prod", fmt::format("takes vectors. got {}", to_string(t.spec())), where);
  }
  if (x.size() == 1) return x[0];
  std::vector<Tensor> columns = meshgrid(x, "ij");
  for (Tensor& t : columns) t = ravel(t);
  return stack(columns, 1, where);
}

namespace {
// n over r; INT64_MAX if that is too large.
int64_t choices_of(int64_t n, int64_t r) {
  if (r > n) return r == 0 ? 1 : 0;
  int64_t count = 1;
  for (int64_t i = 1; i <= std::min(r, n - r); ++i) {
    const int64_t next = multiply_sizes(count, n - i + 1);
    if (next == INT64_MAX) return next;
    count = next / i;
  }
  return count;
}
}  // namespace

Tensor combinations(const Tensor& x, const CombinationsOptions& o, Where where) {
  CallerScope caller(where);
  require_operand("combinations", x, where);
  if (x.ndim() != 1) fail("combinations", fmt::format("takes a vector. got {}", to_string(x.spec())), where);
  if (o.r < 0) fail("combinations", fmt::format("r is {}. it must not be negative", o.r), where);
  const int64_t n = x.shape()[0], step = o.with_replacement ? 0 : 1;
  const int64_t choices = choices_of(o.with_replacement ? add_sizes(n, o.r) - 1 : n, o.r);
  require_few_numbers("combinations", multiply_sizes(choices, o.r), where);
  if (choices == 0) return zeros({0, o.r}, {x.dtype(), x.device()});
  std::vector<int64_t> indices, now(size_t(o.r), 0);
  for (int64_t i = 0; i < o.r; ++i) now[size_t(i)] = i * step;
  const auto last_of = [&](int64_t i) {
    return n - 1 - step * (o.r - 1 - i);
  };  // the last element that position i may have
  for (bool more = true; more;) {
    indices.insert(indices.end(), now.begin(), now.end());
    int64_t i = o.r - 1;
    while (i >= 0 && now[size_t(i)] == last_of(i)) --i;
    more = i >= 0;
    if (more) ++now[size_t(i)];
    for (int64_t j = i + 1; more && j < o.r; ++j) now[size_t(j)] = now[size_t(j) - 1] + step;
  }
  return take(x, reshape(vector_of(indices, x.device()), {choices, o.r}), 0, where);
}

// --- By masks --------------------------------------------------------------------------------------------------------

Tensor select(const std::vector<Tensor>& conditions, const std::vector<Tensor>& choices, const Tensor& otherwise,
              Where where) {
  CallerScope caller(where);
  if (conditions.size() != choices.size() || conditions.empty())
    fail("select",
         fmt::format("takes a choice for each condition, and one at least. got {} conditions and {} choices",
                     conditions.size(), choices.size()),
         where);
  Tensor y = otherwise;
  for (size_t i = conditions.size(); i-- > 0;) y = rill::where(conditions[i], choices[i], y, where);
  return y;
}

namespace {
void require_mask(std::string_view op, const Tensor& mask, const Where& where) {
  require_operand(op, mask, where);
  if (!is_bool(mask.dtype()))
    fail(op, fmt::format("the mask must be of bools, as x > 0 gives them. got {}", to_string(mask.spec())), where);
}
}  // namespace

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value, Where where) {
  CallerScope caller(where);
  require_mask("masked_fill", mask, where);
  require_operand("masked_fill", x, where);
  require_operand("masked_fill", value, where);
  return rill::where(mask, as_element(value, x), x, where);
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source, Where where) {
  CallerScope caller(where);
  require_mask("masked_scatter", mask, where);
  const Tensor m = ravel(broadcast_to(mask, x.shape(), where)), from = astype(ravel(source), x.dtype());
  const Tensor count = sum(m);
  require_elements([&](const Tensor& n) { return n <= from.shape()[0]; }, "masked_scatter",
                   "the mask is true in more places than the source has elements", count, where);
  if (from.shape()[0] == 0) return x;
  const Tensor at = clip(cumsum(m) - 1, 0, from.shape()[0] - 1);
  return reshape(rill::where(m, take(from, at, 0), ravel(x)), x.shape());
}

Tensor band_part(const Tensor& x, int64_t lower, int64_t upper, Where where) {
  CallerScope caller(where);
  require_operand("band_part", x, where);
  if (x.ndim() < 2) fail("band_part", fmt::format("takes matrices. got {}", to_string(x.spec())), where);
  Tensor y = x;
  if (upper >= 0) y = tril(y, upper, where);
  if (lower >= 0) y = triu(y, -lower, where);
  return y;
}

// --- Along an axis ---------------------------------------------------------------------------------------------------

namespace {

// x's slices `ids` along `axis` changed by `mode`.
Tensor at_slices(std::string_view op, const Tensor& x, Axis axis, const Tensor& ids, const Tensor& updates,
                 ScatterMode mode, const Where& where) {
  require_operand(op, x, where);
  require_operand(op, ids, where);
  if (ids.ndim() != 1 || !is_integer(ids.dtype()))
    fail(op, fmt::format("the ids must be a vector of integers. got {}", to_string(ids.spec())), where);
  const int64_t at = normal_axis(axis, x, op, where);
  return scatter(x, {ids}, updates, GatherAttrs{{at}, {}, {}, at}, mode, where);
}

}  // namespace

Tensor index_add(const Tensor& x, Axis axis, const Tensor& ids, const Tensor& updates, Where where) {
  CallerScope caller(where);
  return at_slices("index_add", x, axis, ids, updates, ScatterMode::add, where);
}
Tensor index_copy(const Tensor& x, Axis axis, const Tensor& ids, const Tensor& updates, Where where) {
  CallerScope caller(where);
  return at_slices("index_copy", x, axis, ids, updates, ScatterMode::set, where);
}
Tensor index_fill(const Tensor& x, Axis axis, const Tensor& ids, const Tensor& value, Where where) {
  CallerScope caller(where);
  if (value.ndim() != 0) fail("index_fill", fmt::format("takes one value. got {}", to_string(value.spec())), where);
  require_operand("index_fill", x, where);
  return at_slices("index_fill", x, axis, ids, as_element(value, x), ScatterMode::set, where);
}

namespace {
Tensor segment_fold(std::string_view op, const Tensor& updates, const Tensor& ids, Dim segments, const Tensor& first,
                    ScatterMode mode, const Where& where) {
  const Shape shape = detail::segments_shape(op, updates, ids, segments, where);
  return detail::scatter_into(full(shape, first, {updates.dtype(), updates.device()}), {from_front(ids)}, updates,
                              GatherAttrs{{0}, {}, {}, 0}, mode, where);
}
}  // namespace

Tensor segment_prod(const Tensor& updates, const Tensor& ids, Dim segments, Where where) {
  CallerScope caller(where);
  return segment_fold("segment_prod", updates, ids, segments, 1, ScatterMode::multiply, where);
}
Tensor segment_max(const Tensor& updates, const Tensor& ids, Dim segments, Where where) {
  CallerScope caller(where);
  return segment_fold("segment_max", updates, ids, segments, detail::identity_of_extreme(updates.dtype(), true),
                      ScatterMode::max, where);
}
Tensor segment_min(const Tensor& updates, const Tensor& ids, Dim segments, Where where) {
  CallerScope caller(where);
  return segment_fold("segment_min", updates, ids, segments, detail::identity_of_extreme(updates.dtype(), false),
                      ScatterMode::min, where);
}
Tensor segment_mean(const Tensor& updates, const Tensor& ids, Dim segments, Where where) {
  CallerScope caller(where);
  require_operand("segment_mean", updates, where);
  const bool halves = is_half(updates.dtype());  // a sum of which may leave their range
  const Tensor total = segment_sum(halves ? astype(updates, DType::f32) : updates, ids, segments, where);
  Tensor count = segment_sum(ones(ids.shape(), {DType::i64, ids.device()}), ids, segments, where);
  for (int i = 1; i < updates.ndim(); ++i) count = expand_dims(count, -1);
  const Tensor y = total / maximum(count, 1);
  return is_differentiable(updates.dtype()) ? astype(y, updates.dtype()) : y;
}

// --- Indices ---------------------------------------------------------------------------------------------------------

namespace {
// The rows and columns, in row-major order, of the elements for which column - row is between two bounds.
std::vector<Tensor> between(std::string_view op, int64_t rows, int64_t columns, bool lower, int64_t k,
                            const Where& where) {
  if (columns == 0) columns = rows;
  if (rows < 0 || columns < 0)
    fail(op, fmt::format("a matrix cannot have {} rows and {} columns", rows, columns), where);
  require_sound_size(op, Spec{{rows, columns}, DType::i64, false, {}}, where);
  const auto range = [&](int64_t row) {
    const int64_t edge = add_sizes(row, k);
    return lower ? std::pair<int64_t, int64_t>(0, std::clamp<int64_t>(add_sizes(edge, 1), 0, columns))
                 : std::pair<int64_t, int64_t>(std::clamp<int64_t>(edge, 0, columns), columns);
  };
  int64_t count = 0;
  for (int64_t i = 0; i < rows; ++i) count += range(i).second - range(i).first;
  require_few_numbers(op, multiply_sizes(count, 4), where);
  std::vector<int64_t> r, c;
  r.reserve(size_t(count)), c.reserve(size_t(count));
  for (int64_t i = 0; i < rows; ++i)
    for (auto [j, end] = range(i); j < end; ++j) r.push_back(i), c.push_back(j);
  return {tensor(r), tensor(c)};
}
}  // namespace

std::vector<Tensor> tril_indices(int64_t rows, int64_t k, int64_t columns, Where where) {
  CallerScope caller(where);
  return between("tril_indices", rows, columns, true, k, where);
}
std::vector<Tensor> triu_indices(int64_t rows, int64_t k, int64_t columns, Where where) {
  CallerScope caller(where);
  return between("triu_indices", rows, columns, false, k, where);
}

std::vector<Tensor> diag_indices(Dim n, int64_t ndim, Where where) {
  CallerScope caller(where);
  require_option(n >= 0, "diag_indices", "n", n, "0 or more", where);
  require_option(ndim >= 1 && ndim <= 64, "diag_indices", "ndim", ndim, "from 1 to 64", where);
  return std::vector<Tensor>(size_t(ndim), arange(n));
}

std::vector<Tensor> ix_(const std::vector<Tensor>& indices, Where where) {
  CallerScope caller(where);
  std::vector<Tensor> out;
  for (size_t i = 0; i < indices.size(); ++i) {
    require_operand("ix_", indices[i], where);
    if (indices[i].ndim() != 1 || !(is_integer(indices[i].dtype()) || is_bool(indices[i].dtype())))
      fail("ix_", fmt::format("takes vectors of integers or bools. got {}", to_string(indices[i].spec())), where);
    Shape along(indices.size(), 1);
    along[i] = -1;
    out.push_back(reshape(is_bool(indices[i].dtype()) ? flatnonzero(indices[i], where) : indices[i], along));
  }
  return out;
}

Tensor choose(const Tensor& indices, const std::vector<Tensor>& choices, Where where) {
  CallerScope caller(where);
  require_integers("choose", indices, where);
  if (choices.empty()) fail("choose", "there is nothing to choose from", where);
  std::vector<Tensor> all{indices};
  for (const Tensor& c : choices) {
    require_operand("choose", c, where);
    all.push_back(c);
  }
  all = broadcast_arrays(all, where);
  require_bounds("choose", indices, int64_t(choices.size()), where);
  return squeeze(take_along_axis(stack({all.begin() + 1, all.end()}), expand_dims(all[0], 0), 0), 0);
}

// --- Bits ------------------------------------------------------------------------------------------------------------

Tensor packbits(const Tensor& x, std::optional<Axis> axis, Where where) {
  CallerScope caller(where);
  const auto [a, at] = along(x, axis, "packbits", where);
  if (!is_bool(a.dtype()) && !is_integer(a.dtype()))
    fail("packbits", fmt::format("takes bools or integers. got {}", to_string(x.spec())), where);
  const Tensor last = astype(moveaxis(a != 0, at, -1), DType::u8);
  const Dim n = last.shape()[size_t(last.ndim() - 1)], bytes = (n + 7) / 8;
  std::vector<Padding> widths(size_t(last.ndim()));
  widths.back().hi = bytes * 8 - n;
  Shape shape(last.shape());
  shape[shape.size() - 1] = bytes;
  shape.push_back(8);
  const Tensor weights = tensor({128, 64, 32, 16, 8, 4, 2, 1}, {DType::u8, a.device()});
  const Tensor y = astype(sum(reshape(pad(last, widths), shape) * weights, -1), DType::u8);
  return moveaxis(y, -1, at);
}

Tensor unpackbits(const Tensor& x, std::optional<Axis> axis, Where where) {
  CallerScope caller(where);
  const auto [a, at] = along(x, axis, "unpackbits", where);
  if (a.dtype() != DType::u8) fail("unpackbits", fmt::format("takes u8. got {}", to_string(x.spec())), where);
  std::vector<uint8_t> bits;  // of each byte, as a row
  for (int byte = 0; byte < 256; ++byte)
    for (int bit = 7; bit >= 0; --bit) bits.push_back(uint8_t(byte >> bit & 1));
  const Tensor last = moveaxis(a, at, -1), rows = reshape(tensor(bits, {.device = a.device()}), {256, 8});
  Shape shape(last.shape());
  shape[shape.size() - 1] = shape[shape.size() - 1] * 8;
  return moveaxis(reshape(take(rows, last, 0), shape), -1, at);
}

}  // namespace rill
