// grid_sample() and affine_grid(): images at any points. A sample is a sum of corners, each a gather of all channels of
// a pixel times the product of its weights along the axes.
#include <cmath>

#include "rill/ops/apply.h"
#include "rill/ops/image/space.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/tensor/limits.h"

namespace rill {

namespace {

using image::channels_last;
using image::in_layout;
using image::space_axes;

// From [-1, 1] to pixels: 0 is the middle of the first one.
Tensor to_pixels(const Tensor& at, int64_t size, bool align_corners) {
  return align_corners ? (at + 1) * (double(size - 1) / 2) : ((at + 1) * double(size) - 1) * 0.5;
}

// Reflected at both edges until it is between them: the middles, or the outer edges, of the first and last pixels.
Tensor reflected(const Tensor& at, int64_t size, bool align_corners) {
  const double low = align_corners ? 0 : -0.5, span = align_corners ? double(size - 1) : double(size);
  if (span == 0) return zeros_like(at);
  const Tensor from = abs(at - low), periods = stop_gradient(floor(from / span)), rest = from - periods * span;
  return where(periods - 2 * floor(periods / 2) == 0, rest + low, span - rest + low);
}

// Moves a coordinate inside, by the padding rule; `zeros` leaves it where it is.
Tensor moved_inside(const Tensor& at, int64_t size, const GridSampleOptions& o) {
  if (o.padding == SamplePadding::zeros) return at;
  const Tensor t = o.padding == SamplePadding::reflection ? reflected(at, size, o.align_corners) : at;
  return clip(t, 0, size - 1);
}

// The pixels (integers in a floating dtype) that a sample is a sum of along one axis, and their weights, which are
// undefined if there is only one.
struct Corner {
  Tensor pixel, weight;
};

// Keys (1981), a = -3/4, for a distance from 0 to 1 and one from 1 to 2.
Tensor cubic_near(const Tensor& d) { return (1.25 * d - 2.25) * d * d + 1; }
Tensor cubic_far(const Tensor& d) { return ((-0.75 * d + 3.75) * d - 6) * d + 3; }

std::vector<Corner> corners(const Tensor& grid, int64_t size, const GridSampleOptions& o) {
  const Tensor position = to_pixels(grid, size, o.align_corners);
  if (o.mode == SampleMode::nearest) return {{stop_gradient(round(moved_inside(position, size, o))), Tensor()}};
  if (o.mode == SampleMode::linear) {
    const Tensor at = moved_inside(position, size, o), first = stop_gradient(floor(at)), fraction = at - first;
    return {{first, 1 - fraction}, {first + 1, fraction}};
  }
  const Tensor first = stop_gradient(floor(position)), fraction = position - first;
  const auto pixel = [&](int step) { return stop_gradient(moved_inside(first + step, size, o)); };
  return {{pixel(-1), cubic_far(fraction + 1)},
          {pixel(0), cubic_near(fraction)},
          {pixel(1), cubic_near(1 - fraction)},
          {pixel(2), cubic_far(2 - fraction)}};
}

// Rows of x [batch, pixels, channels] at `index` [batch, points]: [batch, points, channels].
Tensor pixels_of(const Tensor& x, const Tensor& index) {
  const Tensor batch = reshape(arange(x.shape()[0], {DType::i64, x.device()}), {-1, 1});
  return x(batch, index);
}

// The sum over all combinations of one corner for each axis.
struct Sampler {
  const Tensor& flat;                              // [batch, pixels, channels]
  const Dims& sizes;                               // of space
  const std::vector<std::vector<Corner>>& corner;  // of each axis of space, [batch, points]

  // With a corner chosen for each axis before `axis`: its index among the pixels, whether it is inside, its weight.
  Tensor add_up(size_t axis, const Tensor& index, const Tensor& inside, const Tensor& weight) const {
    if (axis == sizes.size()) {
      const Tensor rows = pixels_of(flat, astype(index, DType::i64));
      const Tensor found = where(expand_dims(inside, -1), rows, 0);
      return weight.defined() ? found * expand_dims(weight, -1) : found;
    }
    Tensor sum;
    for (const Corner& c : corner[axis]) {
      const double last = double(int64_t(sizes[axis]) - 1);
      const Tensor is_inside = (c.pixel >= 0) & (c.pixel <= last);
      const Tensor here = astype(rill::where(is_inside, c.pixel, 0), DType::i64);
      const Tensor at = index.defined() ? index * int64_t(sizes[axis]) + here : here;
      const Tensor w = !c.weight.defined() ? weight : weight.defined() ? weight * c.weight : c.weight;
      const Tensor term = add_up(axis + 1, at, inside.defined() ? inside & is_inside : is_inside, w);
      sum = sum.defined() ? sum + term : term;
    }
    return sum;
  }
};

void check_grid(const Tensor& x, const Tensor& grid, const GridSampleOptions& o, const Where& where) {
  const size_t n = space_axes("grid_sample", x, 2, 3, where);
  require_operand("grid_sample", grid, where);
  const auto operands = [&] { return fmt::format(". operands: {}, {}", to_string(x.spec()), to_string(grid.spec())); };
  if (grid.ndim() != x.ndim() || grid.shape()[0] != x.shape()[0] || grid.shape().back() != int64_t(n) ||
      !is_floating(grid.dtype()))
    fail("grid_sample",
         fmt::format("the grid must be of floating numbers, [{}, sizes of {} axes of space, {}]{}", x.shape()[0], n, n,
                     operands()),
         where);
  if (o.mode == SampleMode::cubic && n != 2) fail("grid_sample", "cubic takes two axes of space" + operands(), where);
  for (Dim size : image::space_of(x, o.layout))
    if (size.hint() < 1) fail("grid_sample", "an axis of space is empty" + operands(), where);
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& o, Where where) {
  CallerScope caller(where);
  check_grid(x, grid, o, where);
  const Tensor last = channels_last(x, o.layout);
  const Dims sizes = image::space_of(last, Layout::nhwc);
  const size_t n = sizes.size();
  const DType dtype = work_dtype(promote(to_floating(x.dtype()), grid.dtype()));
  const Dim batch = x.shape()[0], channels = last.shape().back();
  const Tensor flat = reshape(astype(last, dtype), {batch, image::product(sizes), channels});
  std::vector<std::vector<Corner>> corner(n);
  for (size_t i = 0; i < n; ++i) {  // the last axis of space comes first in the grid
    const Tensor along = astype(grid(ellipsis, int64_t(n - 1 - i)), dtype);
    corner[i] = corners(reshape(along, {batch, -1}), sizes[i], o);
  }
  Shape result(grid.shape().begin(), grid.shape().end() - 1);
  result.push_back(channels);
  const Tensor sampled = reshape(Sampler{flat, sizes, corner}.add_up(0, {}, {}, {}), result);
  return astype(in_layout(sampled, o.layout), to_floating(x.dtype()));
}

Tensor affine_grid(const Tensor& theta, const Dims& size, bool align_corners, Where where) {
  CallerScope caller(where);
  require_operand("affine_grid", theta, where);
  const int64_t n = int64_t(size.size());
  if ((n != 2 && n != 3) || theta.ndim() != 3 || theta.shape()[1] != n || theta.shape()[2] != n + 1 ||
      !is_floating(theta.dtype()))
    fail("affine_grid",
         fmt::format("2 or 3 sizes of space take floating matrices [batch, 2, 3] or [batch, 3, 4]; there are {} sizes. "
                     "operands: {}",
                     n, to_string(theta.spec())),
         where);
  for (int64_t s : size) require_option(s >= 1, "affine_grid", "a size", s, "1 or more", where);
  require_few_numbers("affine_grid", image::product(size), where);
  const Tensor w = to_work(theta);
  const TensorOptions made{w.dtype(), w.device()};
  std::vector<Tensor> coordinates;  // the last axis of space first, then ones
  for (int64_t i = n; i-- > 0;) {
    const int64_t count = size[size_t(i)];
    const double end = align_corners ? 1 : double(count - 1) / double(count);
    const Tensor along = count == 1 ? zeros({1}, made) : linspace(-end, end, count, made);
    Shape at(size_t(n), 1);
    at[size_t(i)] = count;
    coordinates.push_back(broadcast_to(reshape(along, at), Shape(size)));
  }
  coordinates.push_back(ones(Shape(size), made));
  const Tensor base = reshape(stack(coordinates, -1), {-1, n + 1});  // [points, n + 1]
  Shape result{theta.shape()[0]};
  for (int64_t s : size) result.push_back(s);
  result.push_back(n);
  return from_work(reshape(matmul(base, matrix_transpose(w)), result), theta.dtype());
}

}  // namespace rill
