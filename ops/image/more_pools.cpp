// Pools composed of public functions: by the p-norm, by windows at random distances; and the inverse of max_pool.
#include <algorithm>
#include <cmath>
#include <limits>

#include "rill/ops/apply.h"
#include "rill/ops/image/space.h"
#include "rill/ops/index/from_front.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/ops/shape/pads.h"
#include "rill/tensor/limits.h"

namespace rill {

using image::channels_last;
using image::in_layout;
using image::space_axes;

Tensor lp_pool(const Tensor& x, const Dims& window, double p, const PoolOptions& options, Where where) {
  CallerScope caller(where);
  const size_t n = space_axes("lp_pool", x, 1, 3, where);
  require_option(p > 0 && std::isfinite(p), "lp_pool", "p", p, "positive and finite", where);
  require_option(!window.empty(), "lp_pool", "the window", "empty", "a size for each axis of space, or one for all",
                 where);
  PoolOptions whole = options;
  whole.count_include_pad = true;
  const double pixels = double(image::product(for_each_axis(window, n, 1, "lp_pool", "window", where)));
  const Tensor w = to_work(x), sum = avg_pool(power(w, p), window, whole, where) * pixels;
  const Tensor none = sum == 0;
  return from_work(rill::where(none, 0, power(rill::where(none, 1, sum), 1 / p)), x.dtype());
}

Tensor max_unpool(const Tensor& x, const Tensor& indices, const Dims& window, const UnpoolOptions& o, Where where) {
  CallerScope caller(where);
  constexpr std::string_view op = "max_unpool";
  const size_t n = space_axes(op, x, 1, 3, where);
  require_operand(op, indices, where);
  if (indices.shape() != x.shape() || !is_integer(indices.dtype()))
    fail(op,
         fmt::format("indices must be integers of x's shape, as max_pool_with_indices() gives them. operands: {}, {}",
                     to_string(x.spec()), to_string(indices.spec())),
         where);
  const Dims in = image::space_of(x, o.layout), sizes = for_each_axis(window, n, 1, op, "window", where);
  const Dims strides = o.strides.empty() ? sizes : for_each_axis(o.strides, n, 1, op, "strides", where);
  const Dims padding = for_each_axis(o.padding, n, 0, op, "padding", where);
  Dims out = o.size.empty() ? Dims() : for_each_axis(o.size, n, 1, op, "size", where);
  for (size_t i = 0; i < n && o.size.empty(); ++i) {
    for (int64_t size : {sizes[i], strides[i]})
      require_option(size >= 1 && size <= largest_step, op, "a window or stride", size,
                     fmt::format("from 1 to {}", largest_step), where);
    require_option(padding[i] >= 0 && padding[i] <= largest_step, op, "padding", padding[i],
                   fmt::format("from 0 to {}", largest_step), where);
    const int64_t whole = add_sizes(multiply_sizes(in[i] - 1, strides[i]), sizes[i]);
    out.push_back(whole - 2 * padding[i]);
  }
  for (int64_t size : out) require_option(size >= 1, op, "a size of the result", size, "1 or more", where);
  const Tensor last = channels_last(x, o.layout);
  const Dim batch = x.shape()[0], channels = last.shape().back();
  const int64_t pixels = image::product(out);
  Dim pixels_of_image = 1;  // no -1 in a shape: an empty batch would leave it undetermined
  for (Dim size : in) pixels_of_image = pixels_of_image * size;
  const Shape flat{batch, pixels_of_image, channels};
  if (!batch.is_open() && !channels.is_open())
    require_few_numbers(op, multiply_sizes(pixels, multiply_sizes(batch, channels)), where);
  const Tensor empty = zeros({batch, pixels, channels}, {x.dtype(), x.device()});
  const Tensor places = reshape(channels_last(from_front(indices), o.layout), flat);
  const Tensor full = put_along_axis(empty, places, reshape(last, flat), 1);
  Shape result{batch};
  for (int64_t size : out) result.push_back(size);
  result.push_back(channels);
  return in_layout(reshape(full, result), o.layout);
}

namespace {
// The first indices of the windows of one axis, i64 [batch, channels, out], for samples u [batch, channels]: floor((i +
// u) a) - floor(u a), with a = (in - window) / (out - 1); the last window is at the end.
Tensor window_starts(const Tensor& u, int64_t in, int64_t window, int64_t out) {
  const TensorOptions made{DType::f64, u.device()};
  if (out == 1) return broadcast_to(full({1}, in - window, {DType::i64, u.device()}), {u.shape()[0], u.shape()[1], 1});
  const double step = double(in - window) / double(out - 1);
  const Tensor i = arange(0, out, 1, made), v = expand_dims(astype(u, DType::f64), -1);
  const Tensor starts = floor((i + v) * step) - floor(v * step);
  return astype(where(i == double(out - 1), double(in - window), starts), DType::i64);
}
}  // namespace

Tensor fractional_max_pool(const Tensor& x, const Dims& window, const Dims& out, const FractionalPoolOptions& o,
                           Where where) {
  CallerScope caller(where);
  constexpr std::string_view op = "fractional_max_pool";
  const size_t n = space_axes(op, x, 1, 3, where);
  require_option(!window.empty() && !out.empty(), op, "the window, or `out`,", "empty",
                 "a size for each axis of space, or one for all", where);
  const Dims sizes = for_each_axis(window, n, 1, op, "window", where),
             places = for_each_axis(out, n, 1, op, "out", where);
  const Dims in = image::space_of(x, o.layout);
  for (size_t i = 0; i < n; ++i)
    if (sizes[i] < 1 || places[i] < 1 || sizes[i] > in[i] || places[i] > in[i] - sizes[i] + 1)
      fail(op,
           fmt::format("{} windows of {} do not fit axis {} of space, which has {} pixels: there is room for {}",
                       places[i], sizes[i], i, in[i], std::max<int64_t>(in[i] - sizes[i] + 1, 0)),
           where);
  Tensor y = o.layout == Layout::nchw ? x : moveaxis(x, -1, 1);  // [batch, channels, space...]
  const Shape drawn{y.shape()[0], y.shape()[1], int64_t(n)};
  if (o.samples && o.samples->shape() != drawn)
    fail(op, fmt::format("samples must be of shape {} but are of {}", to_string(drawn), to_string(o.samples->shape())),
         where);
  const auto in_unit = [](const Tensor& s) { return all(logical_and(s >= 0, s < 1)); };
  if (o.samples) require_elements(in_unit, op, "samples must be in [0, 1)", *o.samples, where);
  const Tensor u = o.samples ? stop_gradient(*o.samples)
                             : random::uniform(drawn, {.dtype = DType::f64, .key = o.key, .device = x.device()});
  for (size_t i = 0; i < n; ++i) {
    // torch draws for the last axis of space first
    const Tensor starts = window_starts(u(ellipsis, int64_t(n - 1 - i)), in[i], sizes[i], places[i]);
    Shape along(n + 2, 1);
    along[0] = drawn[0], along[1] = drawn[1], along[i + 2] = places[i];
    const Tensor at = reshape(starts, along);
    Tensor largest;
    for (int64_t k = 0; k < sizes[i]; ++k) {
      const Tensor pixel = take_along_axis(y, at + k, int64_t(i) + 2);
      largest = k == 0 ? pixel : maximum(largest, pixel);
    }
    y = largest;
  }
  return o.layout == Layout::nchw ? y : moveaxis(y, 1, -1);
}

}  // namespace rill
