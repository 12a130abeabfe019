// Rill's own convolution for groups with few channels in the result: image filters, signals, the gradient by an image.
// Vectors hold pixels of the last spatial axis, or (the gradient by the weights) taps along it, which are contiguous in
// a copy of the activation with its padding. Every sum is in the order of conv_own.cpp's. Start at sum_rows().
#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/cpu/product/conv_walk.h"

namespace rill::cpu {
namespace {

constexpr int64_t slack = 64;  // elements at the end, as full vectors are read
constexpr int64_t line = 16;   // elements that fill at least one cache line
// A copy has at most this many times the elements of the activation: padding may be larger than what it surrounds.
constexpr int64_t most_padding = 4, always_allowed = 4096;

// A copy of [batch, space, channels], of `size` positions from `lo` on, with zeros outside of the activation.
template <class T>
class Padded {
 public:
  Padded(const Walk& w, int64_t batch, int64_t channels, const int64_t (&lo)[3], const int64_t (&size)[3])
      : walk_(w), batch_(batch), channels_(channels) {
    std::copy(lo, lo + 3, lo_), std::copy(size, size + 3, size_);
  }

  bool is_reasonable() const {
    int64_t inside = channels_ * batch_, outside = inside;
    for (int a = 0; a < 3; ++a) {
      if (size_[a] > most_padding * walk_.axes[a].size + always_allowed) return false;
      inside *= walk_.axes[a].size, outside *= size_[a];
    }
    return outside <= most_padding * inside + always_allowed;
  }

  // Copies with one plane for each channel, or with the channels last.
  const T* copy(const T* from, bool planes) {
    int64_t plane = size_[0] * size_[1] * size_[2];
    if (planes) plane = (plane + line - 1) / line * line | line;  // so that planes do not map to the same cache sets
    const int64_t total = batch_ * channels_ * plane + slack;
    room_ = Room<T>(total);
    parallel_for(total, worth_a_thread, [&](int64_t begin, int64_t end) {
      std::memset(room_.data + begin, 0, size_t(end - begin) * sizeof(T));
    });
    image_ = channels_ * plane, channel_ = planes ? plane : 1;
    int64_t step = planes ? 1 : channels_, at = 0;
    Shape shape{batch_, channels_};
    Strides strides{walk_.from_image, 1}, to{image_, channel_};
    for (int a = 2; a >= 0; step *= size_[a], --a) step_[a] = step;
    const T* first = from;
    for (int a = 0; a < 3; ++a) {
      const int64_t begin = std::max<int64_t>(0, lo_[a]), end = std::min(walk_.axes[a].size, lo_[a] + size_[a]);
      if (end <= begin) return room_.data;
      shape.push_back(end - begin), strides.push_back(walk_.from_step[a]), to.push_back(step_[a]);
      first += begin * walk_.from_step[a], at += (begin - lo_[a]) * step_[a];
    }
    strided_copy(dtype_of<T>(), shape, first, strides, room_.data + at, to);
    return room_.data;
  }
  int64_t image() const { return image_; }
  int64_t channel() const { return channel_; }
  int64_t step(int a) const { return step_[a]; }
  int64_t lo(int a) const { return lo_[a]; }

 private:
  const Walk& walk_;
  int64_t batch_, channels_, lo_[3], size_[3], image_ = 0, channel_ = 0, step_[3] = {};
  Room<T> room_{slack};
};

template <class T>
int64_t whole_vectors(int64_t columns) {
  const int64_t lanes = conv_tiles<T>().lanes;
  return (columns + lanes - 1) / lanes * lanes;
}

// The weights of each group, dense in the order of the sum: [group][tap][channel][column].
template <class T>
Room<T> weights_in_order(const Groups& g, const std::vector<Tap>& taps, const Weights<T>& w) {
  Room<T> room(g.count * int64_t(taps.size()) * g.from * g.to);
  T* to = room.data;
  for (int64_t group = 0; group < g.count; ++group)
    for (const Tap& t : taps)
      for (int64_t c = 0; c < g.from; ++c)
        for (int64_t j = 0; j < g.to; ++j) *to++ = w.data[t.weight + group * w.group + c * w.from + j * w.to];
  return room;
}

}  // namespace

template <class T>
bool sum_rows(const Walk& walk, const Groups& groups, const T* from, const Weights<T>& weights, T* to) {
  const SpaceAxis& line = walk.axes[2];
  const std::vector<Tap> taps = walk.taps(weights.strides);
  if (groups.side_by_side || groups.to > few_columns || line.mul != 1 || line.count < 4 || taps.size() == 1)
    return false;
  int64_t lo[3], size[3];
  for (int a = 0; a < 3; ++a) {
    const SpaceAxis& axis = walk.axes[a];
    const auto [least, most] = std::minmax_element(axis.taps.begin(), axis.taps.end(),
                                                   [](AxisTap x, AxisTap y) { return x.offset < y.offset; });
    lo[a] = least->offset, size[a] = axis.mul * (axis.count - 1) + most->offset - lo[a] + 1;
  }
  Padded<T> padded(walk, walk.batch, groups.count * groups.from, lo, size);
  const Room<T> a = weights_in_order(groups, taps, weights);
  const int64_t k = int64_t(taps.size()) * groups.from;
  if (!padded.is_reasonable() || !all_finite(a.data, groups.count * k * groups.to)) return false;
  const T* source = padded.copy(from, true);

  const int64_t wide = whole_vectors<T>(line.count);
  std::vector<int64_t> offsets;
  for (const Tap& t : taps)
    for (int64_t c = 0; c < groups.from; ++c) {
      offsets.push_back(c * padded.channel());
      for (int d = 0; d < 3; ++d) offsets.back() += (t.offset[d] - padded.lo(d)) * padded.step(d);
    }
  const std::vector<Block> blocks = blocks_of(int64_t(taps.size()), groups.from);
  const int64_t high = walk.axes[1].count, lines = walk.batch * groups.count * walk.axes[0].count * high;
  parallel_for(lines, 1 + worth_a_thread / (wide * groups.to * k), [&](int64_t begin, int64_t end) {
    const Room<T> sums(wide * groups.to);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t y = i % high, x = i / high % walk.axes[0].count, of = i / high / walk.axes[0].count;
      const int64_t group = of % groups.count, image = of / groups.count;
      const T* first = source + image * padded.image() + group * groups.from * padded.channel() +
                       walk.axes[0].mul * x * padded.step(0) + walk.axes[1].mul * y * padded.step(1);
      for (const Block& b : blocks)
        conv_tiles<T>().rows({first, &offsets[size_t(b.before)], a.data + (group * k + b.before) * groups.to, b.k(),
                              sums.data, wide, groups.to, line.count, b.before > 0});
      Pixel pixel;
      walk.fill(((image * walk.axes[0].count + x) * high + y) * line.count, 1, &pixel);
      T* out = to + pixel.to + group * groups.to;
      for (int64_t r = 0; r < groups.to; ++r)
        for (int64_t j = 0; j < line.count; ++j) out[j * line.step * walk.to_step[2] + r] = sums.data[r * wide + j];
    }
  });
  return true;
}

// Rows are the result's channels, columns the taps along the last axis and their channels.
template <class T>
bool sum_weight_rows(const Sliding& s, const T* x, const T* g, T* w) {
  const int64_t columns = s.window[2] * s.in_channels, rows = s.out_channels;
  if (s.groups > 1 || rows > few_columns || columns < 4 || s.dilation[2] != 1) return false;
  Walk walk = walk_of(s, false);
  int64_t lo[3], size[3];
  for (int a = 0; a < 3; ++a) {
    walk.axes[a] = forward_axis(s, a);
    lo[a] = -s.lo[a], size[a] = s.stride[a] * (s.out[a] - 1) + s.dilation[a] * (s.window[a] - 1) + 1;
  }
  Padded<T> padded(walk, s.batch, s.in_channels, lo, size);
  if (!padded.is_reasonable() || !all_finite(g, walk.pixels() * rows)) return false;
  const T* source = padded.copy(x, false);

  constexpr int64_t most_pieces = 16;
  const int64_t units = s.window[0] * s.window[1], wide = whole_vectors<T>(columns), pixels = walk.pixels();
  const int64_t blocks = (pixels + gemm_block_k - 1) / gemm_block_k, unit_size = wide * rows;
  const int64_t pieces = std::clamp<int64_t>(2 * most_pieces / units, 1, std::min(most_pieces, blocks));
  const Room<T> sums(pieces * units * unit_size);
  parallel_for(pieces * units, 1 + worth_a_thread / (pixels / pieces * unit_size + 1), [&](int64_t begin, int64_t end) {
    std::vector<Pixel> at(static_cast<size_t>(gemm_block_k));
    std::vector<int64_t> offsets(at.size());
    for (int64_t i = begin; i < end; ++i) {
      const int64_t piece = i / units, tap = i % units, first = blocks * piece / pieces;
      const int64_t offset =
          tap / s.window[1] * s.dilation[0] * padded.step(0) + tap % s.window[1] * s.dilation[1] * padded.step(1);
      for (int64_t b = first; b < blocks * (piece + 1) / pieces; ++b) {
        const int64_t n = std::min(gemm_block_k, pixels - b * gemm_block_k);
        walk.fill(b * gemm_block_k, n, at.data());
        for (size_t j = 0; j < size_t(n); ++j) {
          offsets[j] = at[j].to / (s.out[0] * s.out[1] * s.out[2] * rows) * padded.image();
          for (int a = 0; a < 3; ++a) offsets[j] += at[j].at[a] * padded.step(a);
        }
        conv_tiles<T>().rows({source + offset, offsets.data(), g + b * gemm_block_k * rows, n,
                              sums.data + i * unit_size, wide, rows, columns, b > first});
      }
    }
  });
  for (int64_t tap = 0; tap < units; ++tap)
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t r = 0; r < rows; ++r) {
        const T* from = sums.data + tap * unit_size + r * wide + j;
        T sum = *from;
        for (int64_t p = 1; p < pieces; ++p) sum += from[p * units * unit_size];
        *w++ = sum;
      }
  return true;
}

template bool sum_rows(const Walk&, const Groups&, const float*, const Weights<float>&, float*);
template bool sum_rows(const Walk&, const Groups&, const double*, const Weights<double>&, double*);
template bool sum_weight_rows(const Sliding&, const float*, const float*, float*);
template bool sum_weight_rows(const Sliding&, const double*, const double*, double*);

}  // namespace rill::cpu
