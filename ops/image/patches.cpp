// Channels moved into space and back, and windows of pixels: unfold() takes a slice for each pixel of the window, and
// fold() pads each of them back to where it was.
#include "rill/ops/apply.h"
#include "rill/ops/image/space.h"
#include "rill/ops/reduce/work_dtype.h"
#include "rill/ops/shape/pads.h"
#include "rill/tensor/limits.h"

namespace rill {

using image::channels_last;
using image::in_layout;
using image::space_axes;

// --- Channels and space ----------------------------------------------------------------------------------------------

namespace {
int64_t checked_factor(std::string_view op, int64_t factor, const Where& where) {
  require_option(factor >= 1 && factor <= 1 << 20, op, "factor", factor, "from 1 to 2^20", where);
  return factor;
}
[[noreturn]] void fail_division(std::string_view op, std::string_view what, int64_t size, int64_t by, const Tensor& x,
                                const Where& where) {
  fail(op, fmt::format("{}, {}, must be divisible by {}. operands: {}", what, size, by, to_string(x.spec())), where);
}
}  // namespace

Tensor pixel_shuffle(const Tensor& x, int64_t factor, Layout layout, Where where) {
  CallerScope caller(where);
  constexpr std::string_view op = "pixel_shuffle";
  const size_t n = space_axes(op, x, 1, 3, where);
  const int64_t f = checked_factor(op, factor, where), block = image::product(Dims(n, f));
  const Tensor last = channels_last(x, layout);
  const Dim channels = last.shape().back();
  if (channels % block != 0) fail_division(op, "the number of channels", channels, block, x, where);
  // [batch, space..., c, f...] to [batch, (space, f)..., c]
  Shape parts = last.shape(), result = last.shape();
  parts[n + 1] = channels / block;
  for (size_t i = 0; i < n; ++i) parts.push_back(f), result[i + 1] *= f;
  result[n + 1] = channels / block;
  Axes order{0};
  for (size_t i = 0; i < n; ++i) order.push_back(int64_t(i + 1)), order.push_back(int64_t(n + 2 + i));
  order.push_back(int64_t(n + 1));
  return in_layout(reshape(transpose(reshape(last, parts), order), result), layout);
}

Tensor pixel_unshuffle(const Tensor& x, int64_t factor, Layout layout, Where where) {
  CallerScope caller(where);
  constexpr std::string_view op = "pixel_unshuffle";
  const size_t n = space_axes(op, x, 1, 3, where);
  const int64_t f = checked_factor(op, factor, where), block = image::product(Dims(n, f));
  const Tensor last = channels_last(x, layout);
  // [batch, (space, f)..., c] to [batch, space..., c, f...]
  Shape parts{last.shape()[0]}, result = last.shape();
  Axes order{0}, inner{int64_t(2 * n + 1)};
  for (size_t i = 0; i < n; ++i) {
    const Dim size = last.shape()[i + 1];
    if (size % f != 0) fail_division(op, fmt::format("axis {} of space", i), size, f, x, where);
    parts.push_back(size / f), parts.push_back(f);
    result[i + 1] = size / f;
    order.push_back(int64_t(2 * i + 1)), inner.push_back(int64_t(2 * i + 2));
  }
  parts.push_back(last.shape().back());
  result[n + 1] *= block;
  for (int64_t axis : inner) order.push_back(axis);
  return in_layout(reshape(transpose(reshape(last, parts), order), result), layout);
}

Tensor channel_shuffle(const Tensor& x, int64_t groups, Axis axis, Where where) {
  CallerScope caller(where);
  constexpr std::string_view op = "channel_shuffle";
  require_operand(op, x, where);
  const size_t at = size_t(normal_axis(axis, x, op, where));
  require_option(groups >= 1, op, "groups", groups, "1 or more", where);
  const Dim channels = x.shape()[at];
  if (channels % groups != 0) fail_division(op, "the number of channels", channels, groups, x, where);
  Shape split = x.shape();
  split[at] = groups;
  split.insert(at + 1, channels / groups);
  return reshape(swapaxes(reshape(x, split), int64_t(at), int64_t(at) + 1), x.shape());
}

// --- Windows of pixels -----------------------------------------------------------------------------------------------

namespace {

// The windows over an image of size `sizes`, with one number for each axis of space.
struct Windows {
  Dims sizes, window, strides, dilation, lo, hi, out;
  size_t axes() const { return sizes.size(); }
  int64_t pixels() const { return image::product(window); }
  // The offsets from a window's first pixel to its k-th, in row-major order.
  Dims steps(int64_t k) const {
    Dims s(axes(), 0);
    for (size_t i = axes(); i-- > 0; k /= window[i]) s[i] = k % window[i] * dilation[i];
    return s;
  }
};

Windows windows_of(std::string_view op, const Dims& sizes, const Dims& window, const PatchOptions& o,
                   const Where& where) {
  const size_t n = sizes.size();
  require_option(!window.empty(), op, "the window", "empty", "a size for each axis of space, or one for all", where);
  Windows w;
  w.sizes = sizes;
  w.window = for_each_axis(window, n, 1, op, "window", where);
  w.strides = for_each_axis(o.strides, n, 1, op, "strides", where);
  w.dilation = for_each_axis(o.dilation, n, 1, op, "dilation", where);
  for (size_t i = 0; i < n; ++i)
    for (int64_t size : {w.window[i], w.strides[i], w.dilation[i]})
      require_option(size >= 1 && size <= largest_step, op, "a window, stride or dilation", size,
                     fmt::format("from 1 to {}", largest_step), where);
  resolve_padding(o.padding, sizes, w.window, w.strides, w.dilation, w.lo, w.hi, op, where);
  for (size_t i = 0; i < n; ++i) {
    require_option(w.lo[i] >= 0 && w.hi[i] >= 0, op, "padding", std::min(w.lo[i], w.hi[i]), "0 or more", where);
    w.out.push_back(window_count(sizes[i], w.window[i], w.strides[i], w.lo[i], w.hi[i], w.dilation[i]));
    if (w.out[i] < 1)
      fail(op,
           fmt::format("a window of {} does not fit axis {} of space: {} pixels with {} of padding", w.window[i], i,
                       sizes[i], w.lo[i] + w.hi[i]),
           where);
  }
  require_few_tensors(op, w.pixels(), where);
  return w;
}

// The patches as [batch, out..., pixels, channels]; in nchw patches the channels come before the pixels.
Tensor patches_in_layout(const Tensor& patches, const Windows& w, Layout layout) {
  const Dim batch = patches.shape()[0], channels = patches.shape().back(), windows = image::product(w.out);
  if (layout == Layout::nhwc) {
    Shape s{batch};
    for (int64_t size : w.out) s.push_back(size);
    s.push_back(channels * w.pixels());
    return reshape(patches, s);
  }
  const Tensor flat = reshape(patches, {batch, windows, w.pixels(), channels});
  return reshape(transpose(flat, {0, 3, 2, 1}), {batch, channels * w.pixels(), windows});
}

}  // namespace

Tensor unfold(const Tensor& x, const Dims& window, const PatchOptions& o, Where where) {
  CallerScope caller(where);
  const size_t n = space_axes("unfold", x, 1, 3, where);
  const Tensor last = channels_last(x, o.layout);
  const Windows w = windows_of("unfold", image::space_of(last, Layout::nhwc), window, o, where);
  std::vector<Padding> widths(n + 2);
  for (size_t i = 0; i < n; ++i) widths[i + 1] = {w.lo[i], w.hi[i]};
  // Halves in f32, in which the gradient, a sum over all windows, is accumulated.
  const Tensor padded = is_half(x.dtype()) ? to_work(pad(last, widths)) : pad(last, widths);
  std::vector<Tensor> pixels;
  for (int64_t k = 0; k < w.pixels(); ++k) {
    const Dims from = w.steps(k);
    Dims starts{0}, stops{last.shape()[0]}, steps{1};
    for (size_t i = 0; i < n; ++i) {
      starts.push_back(from[i]), stops.push_back(from[i] + (w.out[i] - 1) * w.strides[i] + 1);
      steps.push_back(w.strides[i]);
    }
    pixels.push_back(strided_slice(padded, starts, stops, steps));
  }
  return patches_in_layout(astype(stack(pixels, -2), x.dtype()), w, o.layout);
}

Tensor fold(const Tensor& patches, const Dims& size, const Dims& window, const PatchOptions& o, Where where) {
  CallerScope caller(where);
  constexpr std::string_view op = "fold";
  require_operand(op, patches, where);
  const size_t n = size.size();
  if (n < 1 || n > 3) fail(op, fmt::format("takes 1, 2 or 3 sizes of space, not {}", n), where);
  for (int64_t s : size) require_option(s >= 1, op, "a size", s, "1 or more", where);
  const Windows w = windows_of(op, size, window, o, where);
  const int64_t windows = image::product(w.out);
  const bool nhwc = o.layout == Layout::nhwc, flat = patches.ndim() == 3;
  const size_t wide = nhwc ? size_t(std::max<int64_t>(patches.ndim() - 1, 0)) : 1;
  bool fits = flat || (nhwc && patches.ndim() == int64_t(n) + 2);
  if (fits) fits = patches.shape()[wide] % w.pixels() == 0;
  if (fits && flat) fits = patches.shape()[nhwc ? 1 : 2] == windows;
  for (size_t i = 0; fits && !flat && i < n; ++i) fits = patches.shape()[i + 1] == w.out[i];
  if (!fits)
    fail(op,
         fmt::format("an image of {} has {} windows of {} pixels each, {}: patches must be [batch, {}]. operands: {}",
                     to_string(Shape(size)), windows, w.pixels(), to_string(Shape(w.out)),
                     nhwc ? "windows, pixels * channels" : "channels * pixels, windows", to_string(patches.spec())),
         where);
  const Dim batch = patches.shape()[0], channels = patches.shape()[wide] / w.pixels();
  Shape split{batch};
  for (int64_t s : w.out) split.push_back(s);
  split.push_back(w.pixels()), split.push_back(channels);
  const Tensor parts =
      nhwc ? reshape(patches, split)
           : reshape(transpose(reshape(patches, {batch, channels, w.pixels(), windows}), {0, 3, 2, 1}), split);
  Tensor sum;  // of halves in f32, rounded once
  for (int64_t k = 0; k < w.pixels(); ++k) {
    const Dims from = w.steps(k);
    std::vector<Padding> widths(n + 2);
    for (size_t i = 0; i < n; ++i) {  // padding is cut off
      const int64_t reach = (w.out[i] - 1) * w.strides[i] + 1;
      widths[i + 1] = {from[i] - w.lo[i], w.sizes[i] + w.lo[i] - from[i] - reach, w.strides[i] - 1};
    }
    const Tensor part = pad(squeeze(slice_axis(parts, -2, k, k + 1), -2), widths);
    const Tensor wide = is_half(part.dtype()) ? to_work(part) : part;
    sum = k == 0 ? wide : sum + wide;
  }
  return in_layout(astype(sum, patches.dtype()), o.layout);
}

}  // namespace rill
