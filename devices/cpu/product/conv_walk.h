// What the sums of rill's own convolution share: which pixels each tap reads, columns and channels, blocks of a sum.
// Used by conv_own.cpp and conv_rows.cpp alone. Start at Walk.
#pragma once
#include <algorithm>
#include <cstring>
#include <vector>

#include "rill/devices/cpu/product/conv_tiles.h"
#include "rill/devices/cpu/product/gemm.h"
#include "rill/devices/params/conv_params.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

namespace rill::cpu {

// --- Geometry --------------------------------------------------------------------------------------------------------

// A spatial axis: the pixels start, start + step, ... of one activation are combined with the pixels
// mul * (0, 1, ...) + tap.offset of the other one, which has `size` of them.
struct AxisTap {
  int64_t index, offset;  // in the kernel; in the other activation
};
struct SpaceAxis {
  int64_t count, start, step, mul, size;
  std::vector<AxisTap> taps;

  // The number of pairs of pixels, of all taps together.
  int64_t pairs() const {
    int64_t n = 0;
    for (const AxisTap& t : taps)
      for (int64_t i = 0; i < count; ++i) n += mul * i + t.offset >= 0 && mul * i + t.offset < size;
    return n;
  }
  // Taps that only read padding are left out.
  void add(int64_t index, int64_t offset) {
    const int64_t first = offset >= 0 ? 0 : (-offset + mul - 1) / mul;
    if (first < count && mul * first + offset < size) taps.push_back({index, offset});
  }
};

struct Pixel {
  int64_t at[3], from, to;  // the position in the other activation without a tap's offset, and an element range
};
struct Tap {
  int64_t offset[3], from, weight;
};

// The pixels of one activation, in order, and those of the other that they are combined with. Both are dense NHWC.
struct Walk {
  SpaceAxis axes[3];
  int64_t batch, to_image, from_image, to_step[3], from_step[3];

  int64_t pixels() const { return batch * axes[0].count * axes[1].count * axes[2].count; }
  // Whether taps read padding so often that it is worth skipping it, pixel by pixel.
  bool is_mostly_padding() const {
    double met = 1;
    for (const SpaceAxis& a : axes) met *= double(a.pairs()) / double(a.count * int64_t(a.taps.size()));
    return met < 0.6;
  }

  void fill(int64_t first, int64_t n, Pixel* to) const {
    int64_t i[4];  // image, position
    for (int a = 2; a >= 0; first /= axes[a].count, --a) i[a + 1] = first % axes[a].count;
    for (i[0] = first; n > 0; --n, ++to) {
      to->from = i[0] * from_image, to->to = i[0] * to_image;
      for (int a = 0; a < 3; ++a) {
        to->at[a] = i[a + 1] * axes[a].mul;
        to->from += to->at[a] * from_step[a];
        to->to += (axes[a].start + i[a + 1] * axes[a].step) * to_step[a];
      }
      int a = 3;
      while (++i[a] == (a > 0 ? axes[a - 1].count : batch) && a > 0) i[a--] = 0;
    }
  }

  std::vector<Tap> taps(const SpaceStrides& weight) const {
    std::vector<Tap> out;
    for (const AxisTap& x : axes[0].taps)
      for (const AxisTap& y : axes[1].taps)
        for (const AxisTap& z : axes[2].taps)
          out.push_back({{x.offset, y.offset, z.offset},
                         x.offset * from_step[0] + y.offset * from_step[1] + z.offset * from_step[2],
                         x.index * weight.space[0] + y.index * weight.space[1] + z.index * weight.space[2]});
    return out;
  }

  // For n pixels, a pointer to what each reads at a tap, `stride` apart. The pixels are given by the first one, and by
  // the number of them that are on one line of the last axis.
  template <class T>
  void meet(const Pixel* pixels, int64_t n, const Tap& t, const T* from, const T* zeros, const T** out,
            int64_t stride) const {
    const SpaceAxis& line = axes[2];
    for (int64_t i = 0; i < n;) {
      const Pixel& p = pixels[i];
      const int64_t end = std::min(n, i + line.count - p.at[2] / line.mul), at = p.at[2] + t.offset[2];
      bool inside = true;
      for (int a = 0; a < 2; ++a) inside &= uint64_t(p.at[a] + t.offset[a]) < uint64_t(axes[a].size);
      const auto until = [&](int64_t position) {  // the first pixel of the line that reads a later position
        return std::min(end, position <= at ? i : i + (position - at + line.mul - 1) / line.mul);
      };
      const int64_t first = inside ? until(0) : end, last = inside ? until(line.size) : end;
      const T* x = from + p.from + t.from + (first - i) * line.mul * from_step[2];
      for (; i < first; ++i) out[i * stride] = zeros;
      for (; i < last; ++i, x += line.mul * from_step[2]) out[i * stride] = x;
      for (; i < end; ++i) out[i * stride] = zeros;
    }
  }
};

inline Walk walk_of(const Sliding& s, bool to_input) {
  Walk w{.axes = {}, .batch = s.batch, .to_image = 0, .from_image = 0, .to_step = {}, .from_step = {}};
  w.to_image = to_input ? s.in_channels : s.out_channels, w.from_image = to_input ? s.out_channels : s.in_channels;
  for (int a = 2; a >= 0; --a) {
    w.to_step[a] = w.to_image, w.from_step[a] = w.from_image;
    w.to_image *= to_input ? s.in[a] : s.out[a], w.from_image *= to_input ? s.out[a] : s.in[a];
  }
  return w;
}
inline SpaceAxis forward_axis(const Sliding& s, int a) {
  SpaceAxis x{.count = s.out[a], .start = 0, .step = 1, .mul = s.stride[a], .size = s.in[a], .taps = {}};
  for (int64_t k = 0; k < s.window[a]; ++k) x.add(k, k * s.dilation[a] - s.lo[a]);
  return x;
}
// The input's pixels phase, phase + stride, ...
inline SpaceAxis input_axis(const Sliding& s, int a, int64_t phase) {
  const int64_t stride = s.stride[a];
  SpaceAxis x{.count = (s.in[a] - phase + stride - 1) / stride,
              .start = phase,
              .step = stride,
              .mul = 1,
              .size = s.out[a],
              .taps = {}};
  for (int64_t k = 0; k < s.window[a]; ++k) {
    const int64_t offset = phase + s.lo[a] - k * s.dilation[a];
    if (offset % stride == 0) x.add(k, offset / stride);
  }
  return x;
}

// --- Columns ---------------------------------------------------------------------------------------------------------

struct Strip {
  int64_t start, columns, width;  // `width` is `columns` rounded up to full vectors
};
struct Strips {
  std::vector<Strip> each;
  int64_t width = 0;
};
// Strips of widths as equal as vectors allow.
template <class T>
Strips strips_of(int64_t columns) {
  const ConvTiles<T>& tiles = conv_tiles<T>();
  const int64_t vectors = (columns + tiles.lanes - 1) / tiles.lanes, n = (vectors + tiles.vectors - 1) / tiles.vectors;
  Strips out;
  out.width = vectors * tiles.lanes;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t start = vectors * i / n * tiles.lanes, end = vectors * (i + 1) / n * tiles.lanes;
    out.each.push_back({start, std::min(end, columns) - start, end - start});
  }
  return out;
}

// Channels in groups. If each group has one channel on either side, all groups are the columns of one product instead.
struct Groups {
  int64_t count, from, to;  // groups; a group's channels of the activation that is read, and its columns of the result
  bool side_by_side;

  Groups(int64_t n, int64_t from_channels, int64_t to_channels)
      : count(n), from(from_channels / n), to(to_channels / n), side_by_side(n > 1 && from == 1 && to == 1) {
    if (side_by_side) count = 1, to = n;
  }
  // The offset from which a strip reads.
  int64_t offset(int64_t group, const Strip& s) const { return side_by_side ? s.start : group * from; }
};
template <class T>
auto tile_of(const Groups& g) {
  return g.side_by_side ? conv_tiles<T>().sum_channels : conv_tiles<T>().sum;
}

template <class T>
struct Room {
  Ref<Buffer> buffer;
  T* data;
  explicit Room(int64_t n) : buffer(allocate(Device(), size_t(n) * sizeof(T))), data(static_cast<T*>(buffer->data)) {}
};
template <class T>
Room<T> zeros(int64_t n) {
  Room<T> room(n);
  std::memset(room.data, 0, size_t(n) * sizeof(T));
  return room;
}

// What is summed before it is added to the result: some taps over all channels, or one tap over some channels.
struct Block {
  int64_t tap, taps, channel, depth;
  int64_t before;  // the number of k in earlier blocks
  int64_t k() const { return taps * depth; }
};
inline std::vector<Block> blocks_of(int64_t taps, int64_t channels) {
  std::vector<Block> out;
  const int64_t together = std::max<int64_t>(1, gemm_block_k / channels);
  for (int64_t t = 0; t < taps; t += together)
    for (int64_t c = 0; c < channels; c += gemm_block_k) {
      const int64_t before = out.empty() ? 0 : out.back().before + out.back().k();
      out.push_back({t, std::min(together, taps - t), c, std::min(gemm_block_k, channels - c), before});
    }
  return out;
}

template <class T>
struct Weights {
  const T* data;
  SpaceStrides strides;
  int64_t group = 0, from = 0, to = 0;  // strides: of groups, of the channel that is read, of columns

  Weights(const T* w, const SpaceStrides& s, const Groups& g, bool to_input) : data(w), strides(s) {
    group = (to_input ? g.from : g.to) * s.outer;
    from = to_input ? s.outer : s.inner;
    to = to_input && !g.side_by_side ? s.inner : s.outer;
  }
};

// Multiplying by padding equals leaving it out, except that infinity times 0 is NaN: if an operand is not finite,
// padding is really skipped, which takes longer.
template <class T>
bool all_finite(const T* x, int64_t n) {
  constexpr int64_t chunk = 16;  // a length that compilers vectorise
  T sums[chunk] = {}, rest = 0;
  int64_t i = 0;
  for (; i + chunk <= n; i += chunk)
    for (int64_t j = 0; j < chunk; ++j) sums[j] += x[i + j] * T(0);
  for (; i < n; ++i) rest += x[i] * T(0);
  for (T sum : sums) rest += sum;
  return rest == 0;
}

// --- Few columns: conv_rows.cpp --------------------------------------------------------------------------------------

// If a group's result has so few channels that they would leave most of a vector empty, pixels or taps of the last axis
// fill it. Each function returns false, having done nothing, if that does not apply.
inline constexpr int64_t few_columns = most_row_tile;
template <class T>
bool sum_rows(const Walk& walk, const Groups& groups, const T* from, const Weights<T>& weights, T* to);
template <class T>
bool sum_weight_rows(const Sliding& s, const T* x, const T* g, T* w);

}  // namespace rill::cpu
