// Composites over the views: axes added, removed and moved, order reversed, elements repeated.
#include "rill/ops/shaping.h"
#include "rill/ops/option_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/devices/driver.h"
#include "rill/devices/params/shape_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/ops.h"
#include "rill/tensor/cost_dims.h"
#include "rill/tensor/limits.h"

namespace rill {

// --- Axes ------------------------------------------------------------------------------------------------------------

Tensor squeeze(const Tensor& x, const Axes& axes, Where where) {
  require_operand("squeeze", x, where);
  Dims drop = normal_axes(axes, x, "squeeze", where);
  Shape shape;
  for (int i = 0; i < x.ndim(); ++i) {
    Dim n = x.shape()[size_t(i)];
    bool named = std::find(drop.begin(), drop.end(), i) != drop.end();
    if (named && n.hint() != 1)  // for other sizes, reshape throws
      fail("squeeze", fmt::format("cannot squeeze axis {} of {}: its size is not 1", i, to_string(x.spec())), where);
    if (!named && (!axes.empty() || n != 1)) shape.push_back(n);  // tested only if needed: n may be open
  }
  return reshape(x, shape, where);
}

Tensor expand_dims(const Tensor& x, const Axes& axes, Where where) {
  require_operand("expand_dims", x, where);
  int64_t ndim = x.ndim() + int64_t(axes.size());
  Dims added = normal_axes(axes, ndim, "expand_dims", where);
  Shape shape;
  size_t from = 0;
  for (int64_t i = 0; i < ndim; ++i)
    shape.push_back(std::find(added.begin(), added.end(), i) != added.end() ? Dim(1) : x.shape()[from++]);
  return reshape(x, shape, where);
}

Tensor swapaxes(const Tensor& x, Axis a, Axis b, Where where) {
  require_operand("swapaxes", x, where);
  Axes order;
  for (int i = 0; i < x.ndim(); ++i) order.push_back(i);
  std::swap(order[size_t(normal_axis(a, x, "swapaxes", where))], order[size_t(normal_axis(b, x, "swapaxes", where))]);
  return transpose(x, order, where);
}

Tensor moveaxis(const Tensor& x, const Axes& from, const Axes& to, Where where) {
  require_operand("moveaxis", x, where);
  if (from.size() != to.size())
    fail("moveaxis", fmt::format("{} axes cannot move to {} places", from.size(), to.size()), where);
  Dims source = normal_axes(from, x, "moveaxis", where), target = normal_axes(to, x, "moveaxis", where);
  Axes order = Axes::repeat(-1, size_t(x.ndim()));
  for (size_t i = 0; i < source.size(); ++i) order[size_t(target[i])] = source[i];
  int64_t next = 0;
  for (Dim& axis : order) {
    if (axis >= 0) continue;
    while (std::find(source.begin(), source.end(), next) != source.end()) ++next;
    axis = next++;
  }
  return transpose(x, order, where);
}

Tensor unflatten(const Tensor& x, Axis axis, const Shape& sizes, Where where) {
  CallerScope caller(where);
  require_operand("unflatten", x, where);
  const int64_t at = normal_axis(axis, x, "unflatten", where);
  const Dim n = x.shape()[size_t(at)];
  Dim known = 1;
  for (const Dim& d : sizes)
    if (d != -1) known *= d;
  Shape shape(x.shape().begin(), x.shape().begin() + at);
  int unknown = 0;
  for (const Dim& d : sizes) {
    const bool left = d == -1;
    unknown += left;
    if (unknown > 1 || (left && (known <= 0 || n % known != 0)) || (!left && d < 0))
      fail("unflatten",
           fmt::format("axis {} of {} cannot be cut into {}. one size at most may be -1, beside none of 0, and the "
                       "product of all is {}",
                       at, to_string(x.spec()), to_string(sizes), to_string(n)),
           where);
    shape.push_back(left ? n / known : d);
  }
  if (!unknown && known != n)
    fail("unflatten",
         fmt::format("axis {} of {} cannot be cut into {}, whose product is not {}", at, to_string(x.spec()),
                     to_string(sizes), to_string(n)),
         where);
  for (int64_t i = at + 1; i < x.ndim(); ++i) shape.push_back(x.shape()[size_t(i)]);
  return reshape(x, shape, where);
}

Tensor flatten(const Tensor& x, Axis first, Axis last, Where where) {
  require_operand("flatten", x, where);
  if (x.ndim() == 0) return reshape(x, {1}, where);
  const int64_t start = normal_axis(first, x, "flatten", where), end = normal_axis(last, x, "flatten", where);
  if (start > end) fail("flatten", fmt::format("axis {} comes after axis {}", start, end), where);
  Shape shape;
  for (int64_t i = 0; i < x.ndim(); ++i) {
    const Dim n = x.shape()[size_t(i)];
    if (i > start && i <= end) shape.back() *= n;
    else shape.push_back(n);
  }
  return reshape(x, shape, where);
}

Tensor ravel(const Tensor& x, Where where) { return reshape(x, {x.size()}, where); }

Tensor atleast_1d(const Tensor& x, Where where) { return x.ndim() == 0 ? reshape(x, {1}, where) : x; }

Tensor atleast_2d(const Tensor& x, Where where) {
  if (x.ndim() >= 2) return x;
  return reshape(x, {1, x.size()}, where);
}

Tensor atleast_3d(const Tensor& x, Where where) {
  if (x.ndim() >= 3) return x;
  if (x.ndim() == 2) return reshape(x, {x.shape()[0], x.shape()[1], 1}, where);
  return reshape(x, {1, x.size(), 1}, where);
}

// --- Order -----------------------------------------------------------------------------------------------------------

Tensor reverse(const Tensor& x, const Axes& axes, Where where) {
  size_t n = size_t(x.ndim());
  SliceAttrs s{Dims(n, 0), Dims(n, slice_max), Dims(n, 1), {}};
  Dims all_axes;
  for (size_t i = 0; i < n; ++i) all_axes.push_back(int64_t(i));
  for (int64_t a : axes.empty() ? all_axes : normal_axes(axes, x, "reverse", where)) {
    s.starts[size_t(a)] = slice_max;
    s.stops[size_t(a)] = slice_min;
    s.steps[size_t(a)] = -1;
  }
  return detail::take_window(x, s, where);
}

Tensor flip(const Tensor& x, const Axes& axes, Where where) {
  CallerScope caller(where);
  require_operand("flip", x, where);
  return reverse(x, axes, where);
}

Tensor fliplr(const Tensor& x, Where where) {
  if (x.ndim() < 2) fail("fliplr", fmt::format("{} has no second axis", to_string(x.spec())), where);
  return reverse(x, 1, where);
}

Tensor flipud(const Tensor& x, Where where) {
  if (x.ndim() < 1) fail("flipud", fmt::format("{} has no axis", to_string(x.spec())), where);
  return reverse(x, 0, where);
}

Tensor rot90(const Tensor& x, int64_t k, const Axes& axes, Where where) {
  CallerScope caller(where);
  Dims a = normal_axes(axes, x, "rot90", where);
  if (a.size() != 2) fail("rot90", fmt::format("{} axes are given. a turn needs two", a.size()), where);
  switch ((k % 4 + 4) % 4) {
    case 1: return swapaxes(reverse(x, a[1]), a[0], a[1]);
    case 2: return reverse(x, a);
    case 3: return reverse(swapaxes(x, a[0], a[1]), a[1]);
  }
  return x;
}

Tensor roll(const Tensor& x, const Axes& shift, const Axes& axes, Where where) {
  CallerScope caller(where);
  if (axes.empty()) {
    if (shift.size() != 1) fail("roll", "several shifts need an axis each", where);
    return reshape(roll(ravel(x), shift, 0), x.shape());
  }
  if (shift.size() != axes.size() && shift.size() != 1)
    fail("roll",
         fmt::format("{} shifts are given for {} axes. give one, or one for each axis", shift.size(), axes.size()),
         where);
  Tensor out = x;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = normal_axis(axes[i], x, "roll", where);
    const Dim n = x.shape()[size_t(axis)];
    if (saves_if_equal(n, 0)) continue;
    const Dim some = larger(n, 1), by = (shift[shift.size() == 1 ? 0 : i] % some + some) % some;
    if (!saves_if_equal(by, 0))
      out = concat({slice_axis(out, axis, n - by, n), slice_axis(out, axis, 0, n - by)}, axis);
  }
  return out;
}

// --- Repetition ------------------------------------------------------------------------------------------------------

Tensor tile(const Tensor& x, const Axes& reps, Where where) {
  CallerScope caller(where);
  size_t n = std::max(size_t(x.ndim()), reps.size());
  Shape split, wide, joined;  // [1, n0, 1, n1, ..], [r0, n0, r1, n1, ..], [r0 * n0, r1 * n1, ..]
  for (size_t i = 0; i < n; ++i) {
    Dim size = i + size_t(x.ndim()) >= n ? x.shape()[i + size_t(x.ndim()) - n] : Dim(1);
    Dim times = i + reps.size() >= n ? reps[i + reps.size() - n] : Dim(1);
    if (times < 0) fail("tile", fmt::format("a number of repetitions is {}. it must not be negative", times), where);
    for (Dim s : {Dim(1), size}) split.push_back(s);
    for (Dim s : {times, size}) wide.push_back(s);
  }
  Tensor repeated = broadcast_to(reshape(x, split), wide);  // throws if the result is too large
  for (size_t i = 0; i < n; ++i) joined.push_back(wide[2 * i] * wide[2 * i + 1]);
  return reshape(repeated, joined);
}

Tensor repeat(const Tensor& x, Dim times, std::optional<Axis> axis, Where where) {
  CallerScope caller(where);
  if (times < 0) fail("repeat", fmt::format("the number of repetitions is {}. it must not be negative", times), where);
  if (!axis) return repeat(ravel(x), times, 0);
  int64_t a = normal_axis(*axis, x, "repeat", where);
  Shape wide(x.shape()), joined(x.shape());
  wide.insert(size_t(a) + 1, times);
  Tensor repeated = broadcast_to(expand_dims(x, a + 1), wide);  // throws if the result is too large
  joined[size_t(a)] *= times;
  return reshape(repeated, joined);
}

Tensor repeat(const Tensor& x, const std::vector<int64_t>& times, std::optional<Axis> axis, Where where) {
  CallerScope caller(where);
  if (!axis) return repeat(ravel(x), times, 0);
  int64_t a = normal_axis(*axis, x, "repeat", where), n = x.shape()[size_t(a)];
  if (int64_t(times.size()) != n)
    fail("repeat", fmt::format("{} numbers of repetitions are given for axis {} of size {}", times.size(), a, n),
         where);
  int64_t count = 0;
  for (int64_t t : times) {
    if (t < 0) fail("repeat", fmt::format("a number of repetitions is {}. it must not be negative", t), where);
    count = add_sizes(count, t);
  }
  require_few_numbers("repeat", count, where);
  Tensor from;
  {
    EagerScope eager;
    from = empty({count}, {i64, host_for(x.device())});
    auto* at = reinterpret_cast<int64_t*>(from.mutable_rep()->data);
    for (int64_t i = 0; i < n; ++i) at = std::fill_n(at, times[size_t(i)], i);
    from = from.to(x.device());
  }
  return take(x, from, a);
}

namespace detail {
Tensor repeat_by(const Tensor& x, const Tensor& times, std::optional<Axis> axis, Where where) {
  CallerScope caller(where);
  require_operand("repeat", x, where);
  require_operand("repeat", times, where);
  if (!is_integer(times.dtype()) || times.ndim() > 1)
    fail("repeat",
         fmt::format("the repetitions must be an integer or a vector of integers. got {}", to_string(times.spec())),
         where);
  if (!EnclosingTrace::may_read(times))
    fail("repeat",
         fmt::format("the result's size depends on the repetitions, which {}. take their numbers outside",
                     EnclosingTrace::why_unknown()),
         where);
  if (times.dtype() == DType::u64 && times.size() > 0 && max(times).item<uint64_t>() > uint64_t(INT64_MAX))
    fail("repeat", fmt::format("{} are too many repetitions", max(times).item<uint64_t>()), where);
  const std::vector<int64_t> counts = times.to_vector<int64_t>();
  return counts.size() == 1 ? repeat(x, Dim(counts[0]), axis, where) : repeat(x, counts, axis, where);
}
}  // namespace detail

// --- Windows ---------------------------------------------------------------------------------------------------------

Tensor sliding_window_view(const Tensor& x, const Axes& window, const Axes& axes, Where where) {
  CallerScope caller(where);
  require_operand("sliding_window_view", x, where);
  Dims at = normal_axes(axes, x, "sliding_window_view", where);
  for (int64_t i = 0; axes.empty() && i < x.ndim(); ++i) at.push_back(i);
  if (window.size() != at.size())
    fail(
        "sliding_window_view",
        fmt::format("{} windows for {} axes of {}. each axis takes one", window.size(), at.size(), to_string(x.spec())),
        where);
  Tensor y = x;
  for (size_t i = 0; i < at.size(); ++i) {
    const int64_t axis = at[i];
    const Dim w = window[i];
    const Dim n = y.shape()[size_t(axis)];
    if (w < 1 || n < w)
      fail("sliding_window_view",
           fmt::format("a window of {} for axis {} of {}. it must be from 1 to the axis's size", w, axis,
                       to_string(x.spec())),
           where);
    const TensorOptions ids{DType::i64, x.device()};
    y = moveaxis(take(y, iota({n - w + 1, 1}, 0, ids) + iota({1, w}, 1, ids), axis), axis + 1, -1);
  }
  return y;
}

// --- Blocks of images ------------------------------------------------------------------------------------------------

namespace {
void require_image(const Tensor& x, int64_t block, std::string_view op, const Where& where) {
  if (x.ndim() != 4) fail(op, fmt::format("{} is not [n, h, w, c]", to_string(x.spec())), where);
  if (block < 1) fail(op, fmt::format("the block size is {}. it must be 1 or more", block), where);
  if (block > 1 << 15) fail(op, fmt::format("the block size {} is too large", block), where);
}
}  // namespace

Tensor space_to_depth(const Tensor& x, int64_t block, Where where) {
  CallerScope caller(where);
  require_image(x, block, "space_to_depth", where);
  const Shape& s = x.shape();
  if (s[1] % block != 0 || s[2] % block != 0)
    fail("space_to_depth", fmt::format("height and width of {} are not multiples of {}", to_string(x.spec()), block),
         where);
  const Dim h = s[1] / block, w = s[2] / block;
  Tensor blocks = transpose(reshape(x, {s[0], h, block, w, block, s[3]}), {0, 1, 3, 2, 4, 5});
  return reshape(blocks, {s[0], h, w, block * block * s[3]});
}

Tensor depth_to_space(const Tensor& x, int64_t block, Where where) {
  CallerScope caller(where);
  require_image(x, block, "depth_to_space", where);
  const Shape& s = x.shape();
  if (s[3] % (block * block) != 0)
    fail("depth_to_space",
         fmt::format("the channels of {} are not a multiple of {}", to_string(x.spec()), block * block), where);
  const Dim c = s[3] / (block * block);
  Tensor pixels = transpose(reshape(x, {s[0], s[1], s[2], block, block, c}), {0, 1, 3, 2, 4, 5});
  return reshape(pixels, {s[0], s[1] * block, s[2] * block, c});
}

}  // namespace rill
