// Convolutions of bytes. The left rows of a product (byte_products.h) are windows of an input with the channels last;
// depthwise convolutions read the taps in place. Padding has the value of the zero point. Start at
// byte_conv_sums().
#include <algorithm>
#include <bit>
#include <cstring>

#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/cpu/move/transpose.h"
#include "rill/devices/cpu/product/byte_products.h"
#include "rill/devices/params/byte_params.h"
#include "rill/devices/params/conv_params.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

namespace rill::cpu {
namespace {

// Interleaves pixels of three colours, which are stored in three planes: four bytes are written at a time, the last of
// which the next pixel overwrites.
void join_colours(const uint8_t* from, int64_t plane, int64_t pixels, uint8_t* to) {
  parallel_for(pixels, 1 << 15, [&](int64_t begin, int64_t end) {
    const uint8_t *r = from, *g = from + plane, *b = from + 2 * plane;
    for (int64_t i = begin; i + 1 < end; ++i) {
      const uint32_t colours = uint32_t(r[i]) | uint32_t(g[i]) << 8 | uint32_t(b[i]) << 16;
      if constexpr (std::endian::native == std::endian::little) std::memcpy(to + 3 * i, &colours, sizeof colours);
      else to[3 * i] = r[i], to[3 * i + 1] = g[i], to[3 * i + 2] = b[i];
    }
    const int64_t last = end - 1;
    to[3 * last] = r[last], to[3 * last + 1] = g[last], to[3 * last + 2] = b[last];
  });
}

// An input with the channels last: x itself if it is stored so, else a copy.
Tensor with_channels_last(const Tensor& x, const Sliding& s, const ConvParams& p) {
  const SpaceStrides from = activation_strides(x, p.layout);
  const Strides wanted{s.in[0] * s.in[1] * s.in[2] * s.in_channels, s.in[1] * s.in[2] * s.in_channels,
                       s.in[2] * s.in_channels, s.in_channels, 1};
  const Strides given{from.outer, from.space[0], from.space[1], from.space[2], from.inner};
  const Shape shape{s.batch, s.in[0], s.in[1], s.in[2], s.in_channels};
  bool same = true;
  for (size_t i = 0; i < 5; ++i) same = same && (shape[i] == 1 || given[i] == wanted[i]);
  if (same) return x;
  Tensor copy = empty_tensor(Spec{shape, x.dtype(), false, Device()});
  const int64_t plane = s.in[0] * s.in[1] * s.in[2];
  const bool dense_planes =
      given[3] == 1 && (shape[2] == 1 || given[2] == s.in[2]) && (shape[1] == 1 || given[1] == s.in[1] * s.in[2]);
  if (dense_planes && s.in_channels == 3) {
    for (int64_t i = 0; i < s.batch; ++i)
      join_colours(bytes_of(x) + i * given[0], given[4], plane,
                   reinterpret_cast<uint8_t*>(copy.mutable_rep()->data) + 3 * plane * i);
    return copy;
  }
  strided_copy(x.dtype(), shape, x.rep()->data, given, copy.mutable_rep()->data, wanted);
  return copy;
}

// --- As products -----------------------------------------------------------------------------------------------------

// The windows of all images, as rows, with only the channels from `channel` on.
struct WindowRows {
  const Sliding& s;
  const uint8_t* images;  // with the channels last
  int64_t channel, channels;
  uint8_t flip, padding;  // `flip` flips bits of each byte; `padding` is already flipped

  void operator()(int64_t first, int64_t count, uint8_t* to, int64_t step) const {
    int64_t at[4] = {0, 0, 0, first};  // indices in the result: image, then space
    for (int a = 3; a > 0; --a) at[a - 1] = at[a] / s.out[a - 1], at[a] %= s.out[a - 1];
    for (int64_t i = 0; i < count; ++i, to += step) {
      copy_window(at, to, step);
      for (int a = 3; a > 0 && ++at[a] == s.out[a - 1]; --a) at[a] = 0;
      at[0] += at[1] == 0 && at[2] == 0 && at[3] == 0;
    }
  }
  void copy_window(const int64_t (&at)[4], uint8_t* to, int64_t step) const {
    const uint8_t* const image = images + at[0] * s.in[0] * s.in[1] * s.in[2] * s.in_channels + channel;
    const int64_t z0 = at[1] * s.stride[0] - s.lo[0], y0 = at[2] * s.stride[1] - s.lo[1],
                  x0 = at[3] * s.stride[2] - s.lo[2];
    uint8_t* end = to;
    for (int64_t z = 0; z < s.window[0]; ++z)
      for (int64_t y = 0; y < s.window[1]; ++y)
        end = copy_line(image, z0 + z * s.dilation[0], y0 + y * s.dilation[1], x0, end);
    std::memset(end, 0, size_t(to + step - end));
  }
  uint8_t* copy_line(const uint8_t* image, int64_t z, int64_t y, int64_t x, uint8_t* to) const {
    const int64_t width = s.window[2], all = width * channels;
    if (z < 0 || z >= s.in[0] || y < 0 || y >= s.in[1]) {
      std::memset(to, padding, size_t(all));
      return to + all;
    }
    const uint8_t* line = image + (z * s.in[1] + y) * s.in[2] * s.in_channels;
    if (s.dilation[2] == 1 && channels == s.in_channels && x >= 0 && x + width <= s.in[2]) {
      copy_flipped(line + x * channels, to, all, flip);
      return to + all;
    }
    for (int64_t i = 0; i < width; ++i, to += channels) {
      const int64_t position = x + i * s.dilation[2];
      if (position < 0 || position >= s.in[2]) std::memset(to, padding, size_t(channels));
      else copy_flipped(line + position * s.in_channels, to, channels, flip);
    }
    return to;
  }
};

// For each element of a window in the order of WindowRows, taps first and channels last: the offset of its weight.
std::vector<int64_t> steps_of_window(const Sliding& s, const SpaceStrides& w, int64_t channels) {
  std::vector<int64_t> at;
  for (int64_t z = 0; z < s.window[0]; ++z)
    for (int64_t y = 0; y < s.window[1]; ++y)
      for (int64_t x = 0; x < s.window[2]; ++x)
        for (int64_t c = 0; c < channels; ++c)
          at.push_back(z * w.space[0] + y * w.space[1] + x * w.space[2] + c * w.inner);
  return at;
}

// Whether each window is one pixel, read in place, so that no row has to be copied.
bool windows_are_pixels(const Sliding& s, uint8_t flip) {
  bool same = s.groups == 1 && flip == 0 && s.in_channels % bytes_together == 0;
  for (int a = 0; a < 3; ++a) same &= s.window[a] == 1 && s.stride[a] == 1 && s.lo[a] == 0 && s.in[a] == s.out[a];
  return same;
}

void window_sums(const KernelArgs& args, const Sliding& s, const Tensor& x, const SpaceStrides& of_w,
                 const TakeSums& take) {
  const Tensor& w = args.input(1);
  const int64_t in = s.in_channels / s.groups, each = s.out_channels / s.groups,
                pixels = s.batch * s.out[0] * s.out[1] * s.out[2];
  const std::vector<int64_t> at = steps_of_window(s, of_w, in);
  const Zeros zeros(args.input(2), args.input(3));
  const Columns columns{bytes_of(w), at, each, of_w.outer, right_flip(w), s.groups, each * of_w.outer};
  const PackedColumns packed(args, columns, true);
  const uint8_t flip = left_flip(x);
  for (int64_t g = 0; g < s.groups; ++g) {
    const ByteProduct product{
        pixels,   columns,       packed, g, zeros, g * each, windows_are_pixels(s, flip) ? bytes_of(x) : nullptr,
        g * each, s.out_channels};
    product.run(WindowRows{s, bytes_of(x), g * in, in, flip, uint8_t(zeros.left)}, take);
  }
}

// --- Depthwise -------------------------------------------------------------------------------------------------------

bool each_channel_by_itself(const Sliding& s) {
  return s.groups > 1 && s.in_channels == s.groups && s.out_channels == s.groups;
}

struct ChannelLayout {
  SpaceStrides lie;
  int64_t channels, window[3];
  bool is_signed;
  std::vector<int32_t> zeros;
  friend bool operator==(const ChannelLayout& a, const ChannelLayout& b) {
    return std::equal(a.window, a.window + 3, b.window) && std::equal(a.lie.space, a.lie.space + 3, b.lie.space) &&
           a.lie.outer == b.lie.outer && a.channels == b.channels && a.is_signed == b.is_signed && a.zeros == b.zeros;
  }
};

// Weights minus their zero points, [taps, channels], as ChannelTile reads them, followed by their sums over the taps.
Ref<Buffer> packed_channels(const uint8_t* from, const ChannelLayout& l) {
  const int64_t taps = l.window[0] * l.window[1] * l.window[2];
  Ref<Buffer> buffer = allocate(Device(), size_t((taps + 1) * l.channels) * sizeof(int32_t));
  auto* const to = static_cast<int32_t*>(buffer->data);
  for (int64_t c = 0; c < l.channels; ++c) {
    int32_t sum = 0;
    for (int64_t t = 0; t < taps; ++t) {
      const int64_t x = t % l.window[2], y = t / l.window[2] % l.window[1], z = t / l.window[2] / l.window[1];
      const uint8_t byte = from[c * l.lie.outer + z * l.lie.space[0] + y * l.lie.space[1] + x * l.lie.space[2]];
      const int32_t value =
          (l.is_signed ? int32_t(int8_t(byte)) : int32_t(byte)) - l.zeros[l.zeros.size() == 1 ? 0 : size_t(c)];
      sum += value;
      to[t * l.channels + c] = value & 0xffff;
    }
    to[taps * l.channels + c] = sum;
  }
  return buffer;
}

// Computes the result line by line, where a line is the pixels of the last axis.
struct ChannelLines {
  const Sliding& s;
  const uint8_t* images;
  const int32_t *w, *starts;
  const uint8_t* padding;  // a pixel of zero points
  const ChannelTiles& tiles;
  const TakeSums& take;

  static constexpr int64_t sums_at_once = 3 << 12;

  void operator()(int64_t begin, int64_t end) const {
    const int64_t c = s.groups, at_once = std::clamp<int64_t>(sums_at_once / c, 1, s.out[2]);
    auto* const sums = reinterpret_cast<int32_t*>(thread_buffer(1, at_once * c * int64_t(sizeof(int32_t))));
    std::vector<const uint8_t*> lines(size_t(s.window[0] * s.window[1])), taps(lines.size() * size_t(s.window[2]));
    for (int64_t line = begin; line < end; ++line) {
      const int64_t y = line % s.out[1], z = line / s.out[1] % s.out[0], n = line / s.out[1] / s.out[0];
      for (int64_t i = 0; i < s.window[0]; ++i)
        for (int64_t j = 0; j < s.window[1]; ++j)
          lines[size_t(i * s.window[1] + j)] =
              line_at(n, z * s.stride[0] - s.lo[0] + i * s.dilation[0], y * s.stride[1] - s.lo[1] + j * s.dilation[1]);
      for (int64_t x = 0; x < s.out[2]; x += at_once) {
        const int64_t count = std::min(at_once, s.out[2] - x);
        pixels(lines, x, count, taps, sums);
        take({sums, count, c, c, (line * s.out[2] + x) * c, c});
      }
    }
  }

 private:
  // The first element of a line of an image, or null if it is in the padding.
  const uint8_t* line_at(int64_t n, int64_t z, int64_t y) const {
    if (z < 0 || z >= s.in[0] || y < 0 || y >= s.in[1]) return nullptr;
    return images + ((n * s.in[0] + z) * s.in[1] + y) * s.in[2] * s.groups;
  }

  void pixels(const std::vector<const uint8_t*>& lines, int64_t first, int64_t count, std::vector<const uint8_t*>& taps,
              int32_t* sums) const {
    const int64_t c = s.groups, reach = (s.window[2] - 1) * s.dilation[2], width = s.in[2], stride = s.stride[2];
    bool whole = true;
    for (const uint8_t* line : lines) whole &= line != nullptr;
    for (int64_t i = 0; i < count;) {
      const int64_t x = (first + i) * stride - s.lo[2];
      const bool several =
          whole && i + byte_pixels <= count && x >= 0 && x + (byte_pixels - 1) * stride + reach < width;
      size_t t = 0;
      for (const uint8_t* line : lines)
        for (int64_t k = 0; k < s.window[2]; ++k) {
          const int64_t position = x + k * s.dilation[2];
          taps[t++] = line && position >= 0 && position < width ? line + position * c : padding;
        }
      const auto run = several ? tiles.several : tiles.one;
      run(taps.data(), int64_t(t), stride * c, c, w, starts, sums + i * c, c);
      i += several ? byte_pixels : 1;
    }
  }
};

void channel_sums(const KernelArgs& args, const Sliding& s, const Tensor& x, const SpaceStrides& of_w,
                  const TakeSums& take) {
  const Tensor &w = args.input(1), &w_zero = args.input(3);
  const int64_t c = s.groups, taps = s.window[0] * s.window[1] * s.window[2];
  ChannelLayout layout{of_w, c, {s.window[0], s.window[1], s.window[2]}, w.dtype() == DType::i8, {}};
  for (int64_t j = 0; j < w_zero.size(); ++j) {
    const uint8_t byte = bytes_of(w_zero)[w_zero.ndim() == 0 ? 0 : j * w_zero.strides()[0]];
    layout.zeros.push_back(layout.is_signed ? int32_t(int8_t(byte)) : int32_t(byte));
  }
  std::shared_ptr<const PackedOperand<ChannelLayout>> kept;
  if (args.packed) {
    kept = packed_operand(*args.packed, w, bytes_of(w), layout, [&] { return packed_channels(bytes_of(w), layout); });
  }
  const Ref<Buffer> packed = kept ? kept->buffer : packed_channels(bytes_of(w), layout);
  const auto* const weights = static_cast<const int32_t*>(packed->data);
  const bool is_signed = x.dtype() == DType::i8;
  const uint8_t zero = bytes_of(args.input(2))[0];
  const int32_t left = is_signed ? int32_t(int8_t(zero)) : int32_t(zero);
  std::vector<int32_t> starts;
  for (int64_t j = 0; j < c; ++j) starts.push_back(int32_t(0 - uint32_t(left) * uint32_t(weights[taps * c + j])));
  const std::vector<uint8_t> padding(size_t(c), zero);
  const ChannelLines lines{s, bytes_of(x), weights, starts.data(), padding.data(), channel_tiles(is_signed), take};
  parallel_for(s.batch * s.out[0] * s.out[1], 1 + (1 << 17) / (s.out[2] * c * (taps + 8)),
               [&](int64_t begin, int64_t end) { lines(begin, end); });
}

}  // namespace

void byte_conv_sums(const KernelArgs& args, const TakeSums& take) {
  const ConvParams& p = args.attrs.as<ConvParams>();
  const Tensor& w = args.input(1);
  const Sliding s = sliding(p, args.input(0).shape(), w.shape());
  const Tensor x = with_channels_last(args.input(0), s, p);
  if (each_channel_by_itself(s)) channel_sums(args, s, x, weight_strides(w, p.layout), take);
  else window_sums(args, s, x, weight_strides(w, p.layout), take);
}

void byte_conv(const KernelArgs& args) {
  const Tensor& out = args.output();
  int32_t* const to = args.out_data<int32_t>();
  if (out.size() == 0 || args.input(0).size() == 0 || args.input(1).size() == 0) {
    std::fill_n(to, out.size(), 0);
    return;
  }
  const ConvParams& p = args.attrs.as<ConvParams>();
  if (p.layout == Layout::nhwc) {
    return byte_conv_sums(args, [&](const ByteSums& s) {
      for (int64_t r = 0; r < s.rows; ++r)
        std::memcpy(to + s.first + r * s.row, s.sums + r * s.step, size_t(s.columns) * sizeof(int32_t));
    });
  }
  const int64_t channels = out.shape()[1], pixels = out.size() / out.shape()[0] / channels;
  byte_conv_sums(args, [&](const ByteSums& s) {
    for (int64_t done = 0; done < s.rows;) {  // pixels of one image
      const int64_t pixel = s.first / channels + done, image = pixel / pixels;
      const int64_t count = std::min(s.rows - done, pixels - pixel % pixels);
      transpose(s.sums + done * s.step, s.step, count, s.columns,
                to + (image * channels + s.first % channels) * pixels + pixel % pixels, pixels);
      done += count;
    }
  });
}

}  // namespace rill::cpu
