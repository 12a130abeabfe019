// The register tiles of rill's own convolution, for every instruction set by Highway: like those of gemm_tiles.cpp, but
// A's rows are addressed through pointers, so that no patch of the input is ever copied. Start at tile().
#include "rill/devices/cpu/product/conv_tiles.h"

#include <algorithm>

#include "rill/devices/cpu/product/conv_direct.h"
#include "rill/devices/cpu/unroll.h"
#include "rill/devices/registry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/product/conv_tiles.cpp"
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>
#include "rill/devices/cpu/product/gemm_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using namespace rill::HWY_NAMESPACE;

// As many sums as leave registers for a row of B and an element of A.
constexpr bool many_registers = vector_registers == 32;
constexpr int most_rows(int vectors) { return vectors == 1 || (many_registers && vectors == 2) ? 12 : 6; }

// R rows from `row` on and V vectors of columns.
template <int R, int V, bool Channels, class T>
HWY_NOINLINE void tile(const ConvTile<T>& c, int64_t row) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const size_t last = size_t(c.columns - (V - 1) * lanes);
  hn::Vec<decltype(d)> sum[R][V];
  RILL_UNROLL for (int r = 0; r < R; ++r) { RILL_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = hn::Zero(d); }
  const T* const* from = c.from + row;
  const T* b = c.b;
  for (int64_t tap = 0; tap < c.taps; ++tap, from += c.pitch) {
    const T* a[R];
    RILL_UNROLL for (int r = 0; r < R; ++r) a[r] = from[r] + c.offset;
    for (int64_t i = 0; i < (Channels ? 1 : c.depth); ++i, b += V * lanes) {
      hn::Vec<decltype(d)> columns[V];
      RILL_UNROLL for (int v = 0; v < V; ++v) columns[v] = hn::LoadU(d, b + v * lanes);
      RILL_UNROLL for (int r = 0; r < R; ++r) {
        if constexpr (Channels) {
          RILL_UNROLL for (int v = 0; v < V; ++v) {
            const auto x = v == V - 1 ? load_up_to(d, a[r] + v * lanes, last) : hn::LoadU(d, a[r] + v * lanes);
            sum[r][v] = hn::MulAdd(x, columns[v], sum[r][v]);
          }
        } else {
          const auto x = hn::Set(d, a[r][i]);
          RILL_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = hn::MulAdd(x, columns[v], sum[r][v]);
        }
      }
    }
  }
  RILL_UNROLL for (int r = 0; r < R; ++r) {
    RILL_UNROLL for (int v = 0; v < V; ++v) {
      T* to = c.to[row + r] + c.to_offset + v * lanes;
      const size_t n = v == V - 1 ? last : size_t(lanes);
      if (c.add) sum[r][v] = hn::Add(load_up_to(d, to, n), sum[r][v]);
      store_up_to(d, sum[r][v], to, n);
    }
  }
}

template <int V, bool Channels, class T>
void all_rows(const ConvTile<T>& c) {
  constexpr int most = most_rows(V);
  int64_t i = 0;
  for (; i + most <= c.rows; i += most) tile<most, V, Channels>(c, i);
  if (most > 6 && i + 6 <= c.rows) tile<6, V, Channels>(c, i), i += 6;
  if (i + 4 <= c.rows) tile<4, V, Channels>(c, i), i += 4;
  if (i + 2 <= c.rows) tile<2, V, Channels>(c, i), i += 2;
  for (; i < c.rows; ++i) tile<1, V, Channels>(c, i);
}

template <bool Channels, class T>
void sum(const ConvTile<T>& c) {
  const int64_t lanes = int64_t(hn::Lanes(hn::ScalableTag<T>()));
  if constexpr (tile_vectors == 4) {
    if (c.columns > 3 * lanes) return all_rows<4, Channels>(c);
    if (c.columns > 2 * lanes) return all_rows<3, Channels>(c);
  }
  if (c.columns > lanes) return all_rows<2, Channels>(c);
  all_rows<1, Channels>(c);
}

// V vectors of columns from `column` on, of R rows.
template <int R, int V, class T>
HWY_NOINLINE void row_tile(const ConvRowTile<T>& c, int64_t column) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[R][V];
  RILL_UNROLL for (int r = 0; r < R; ++r) { RILL_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = hn::Zero(d); }
  const T *from = c.from + column, *a = c.a;
  for (int64_t i = 0; i < c.k; ++i, a += R) {
    const T* b = from + c.offsets[i];
    hn::Vec<decltype(d)> x[R];
    RILL_UNROLL for (int r = 0; r < R; ++r) x[r] = hn::Set(d, a[r]);
    RILL_UNROLL for (int v = 0; v < V; ++v) {
      const auto y = hn::LoadU(d, b + v * lanes);
      RILL_UNROLL for (int r = 0; r < R; ++r) sum[r][v] = hn::MulAdd(x[r], y, sum[r][v]);
    }
  }
  RILL_UNROLL for (int r = 0; r < R; ++r) {
    RILL_UNROLL for (int v = 0; v < V; ++v) {
      T* to = c.to + r * c.to_row + column + v * lanes;
      hn::StoreU(c.add ? hn::Add(hn::LoadU(d, to), sum[r][v]) : sum[r][v], d, to);
    }
  }
}
template <int R, class T>
void all_columns(const ConvRowTile<T>& c) {
  const int64_t lanes = int64_t(hn::Lanes(hn::ScalableTag<T>()));
  constexpr int most = many_registers ? (R <= 2 ? 8 : 4) : (R == 1 ? 8 : R == 4 ? 2 : 4);
  int64_t j = 0, left = (c.columns + lanes - 1) / lanes;
  for (; left >= most; left -= most, j += most * lanes) row_tile<R, most>(c, j);
  if (most > 4 && left >= 4) row_tile<R, 4>(c, j), left -= 4, j += 4 * lanes;
  if (left >= 2) row_tile<R, 2>(c, j), left -= 2, j += 2 * lanes;
  if (left > 0) row_tile<R, 1>(c, j), left -= 1, j += lanes;
  if (left > 0) row_tile<R, 1>(c, j);
}
template <class T>
void rows(const ConvRowTile<T>& c) {
  switch (c.rows) {
    case 1: return all_columns<1>(c);
    case 2: return all_columns<2>(c);
    case 3: return all_columns<3>(c);
    default: return all_columns<4>(c);
  }
}

// --- Depthwise -------------------------------------------------------------------------------------------------------

// Some pixels of a row, some vectors of channels: the first tap inside the image, and the number of taps inside.
struct ChannelTile {
  const float *x, *w;
  float* y;
  int64_t pixel, x_row, x_tap, w_row, channels;  // strides: from pixel to pixel, from tap to tap down and across
  int64_t down, across;
  size_t last;        // lanes of the last vector
  const float* bias;  // of the channels, for tiles of three taps: null if the tail is another, or empty
  bool relu;
};

HWY_INLINE const float* hidden(const float* p) {
#if defined(__GNUC__)
  asm("" : "+r"(p));
#endif
  return p;
}

// P pixels, V vectors, A taps across (0: any number). Small numbers of taps and pixels are template arguments, because
// a loop that ends after three iterations costs as much as they do.
template <int P, int V, int A, bool Whole>
HWY_NOINLINE void channel_tile(const ChannelTile& t) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto load = [&](const float* p) HWY_ATTR { return Whole ? hn::LoadU(d, p) : load_first(d, p, t.last); };
  hn::Vec<decltype(d)> sum[P][V];
  RILL_UNROLL for (int p = 0; p < P; ++p) { RILL_UNROLL for (int v = 0; v < V; ++v) sum[p][v] = hn::Zero(d); }
  const float* row[P];
  RILL_UNROLL for (int p = 0; p < P; ++p) row[p] = t.x + p * t.pixel;
  const float* weights = t.w;
  const int64_t x_tap = t.x_tap, w_tap = t.channels;
  for (int64_t y = 0; y < t.down; ++y, weights += t.w_row) {
    const float *x[P], *w = weights;
    // Hides from the compiler that these differ by constants: it would keep all differences, in vector registers.
    RILL_UNROLL for (int p = 0; p < P; ++p) x[p] = hidden(row[p]);
    const auto tap = [&] HWY_ATTR {
      hn::Vec<decltype(d)> weight[V];
      RILL_UNROLL for (int v = 0; v < V; ++v) weight[v] = load(w + v * lanes);
      RILL_UNROLL for (int p = 0; p < P; ++p) {
        RILL_UNROLL for (int v = 0; v < V; ++v) sum[p][v] = hn::MulAdd(load(x[p] + v * lanes), weight[v], sum[p][v]);
        x[p] += x_tap;
      }
      w += w_tap;
    };
    if constexpr (A > 0) {
      RILL_UNROLL for (int i = 0; i < A; ++i) tap();
    } else {
      for (int64_t i = 0; i < t.across; ++i) tap();
    }
    RILL_UNROLL for (int p = 0; p < P; ++p) row[p] += t.x_row;
  }
  RILL_UNROLL for (int p = 0; p < P; ++p) {
    RILL_UNROLL for (int v = 0; v < V; ++v) {
      float* const to = t.y + p * t.channels + v * lanes;
      if (Whole) hn::StoreU(sum[p][v], d, to);
      else store_first(d, sum[p][v], to, t.last);
    }
  }
}

// For index i of the result, taps [first, end) of a window are inside the image.
struct TapRange {
  int64_t first = 0, end;
  TapRange(const ConvChannels& c, int axis, int64_t i) {
    const int64_t from = i * c.stride[axis] - c.lo[axis], step = c.dilation[axis];
    const auto taps = [&](int64_t length) { return length <= 0 ? 0 : step == 1 ? length : (length + step - 1) / step; };
    end = std::min(c.window[axis], taps(c.in[axis] - from));
    if (from < 0) first = taps(-from);
    if (end < first) end = first = 0;
  }
};

// The result's columns whose windows are inside the image.
struct Inside {
  int64_t begin, end;
  explicit Inside(const ConvChannels& c) {
    const int64_t reach = (c.window[1] - 1) * c.dilation[1] + 1, room = c.in[1] + c.lo[1] - reach;
    begin = std::min(c.out[1], (c.lo[1] + c.stride[1] - 1) / c.stride[1]);
    end = std::max(begin, room < 0 ? 0 : std::min(c.out[1], room / c.stride[1] + 1));
  }
};

// What the tiles of a row of the result share; its channels start at 0.
ChannelTile tile_of_row(const ConvChannels& c, int64_t row) {
  const int64_t image = row / c.out[0], line = row - image * c.out[0];
  const TapRange down(c, 0, line);
  ChannelTile t{};
  t.pixel = c.stride[1] * c.channels, t.x_row = c.dilation[0] * c.in[1] * c.channels;
  t.x_tap = c.dilation[1] * c.channels, t.w_row = c.window[1] * c.channels, t.channels = c.channels;
  t.x = c.x, t.w = c.w + down.first * t.w_row;
  t.down = down.end - down.first;
  if (t.down > 0)
    t.x += (image * c.in[0] + line * c.stride[0] - c.lo[0] + down.first * c.dilation[0]) * c.in[1] * c.channels;
  return t;
}

// --- Windows of three taps with stride 1 ---

constexpr int most_threes = 8, vectors_of_threes = many_registers ? 2 : 1;

// P neighbouring pixels; each input is read once for the three pixels that use it. The input left of the first and
// right of the last may be padding. Each sum is in the order of channel_tile's.
template <int P, int V>
HWY_NOINLINE void tile_of_threes(const ChannelTile& t, bool left_inside, bool right_inside) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[P][V];
  RILL_UNROLL for (int p = 0; p < P; ++p) { RILL_UNROLL for (int v = 0; v < V; ++v) sum[p][v] = hn::Zero(d); }
  const float *row = t.x, *weights = t.w;
  for (int64_t y = 0; y < t.down; ++y, row += t.x_row, weights += t.w_row) {
    hn::Vec<decltype(d)> weight[3][V];
    RILL_UNROLL for (int i = 0; i < 3; ++i) {
      RILL_UNROLL for (int v = 0; v < V; ++v) weight[i][v] = hn::LoadU(d, weights + i * t.channels + v * lanes);
    }
    const float* x = hidden(row);
    const auto meet = [&]<int Q>(std::integral_constant<int, Q>) HWY_ATTR {
      RILL_UNROLL for (int v = 0; v < V; ++v) {
        const auto number = hn::LoadU(d, x + v * lanes);
        RILL_UNROLL for (int i = 0; i < 3; ++i) {
          if (Q - i >= 0 && Q - i < P) sum[Q - i][v] = hn::MulAdd(number, weight[i][v], sum[Q - i][v]);
        }
      }
    };
    if (left_inside) meet(std::integral_constant<int, 0>());
    [&]<int... Q>(std::integer_sequence<int, Q...>) HWY_ATTR {
      ((x += t.pixel, meet(std::integral_constant<int, Q + 1>())), ...);
    }(std::make_integer_sequence<int, P>());
    x += t.pixel;
    if (right_inside) meet(std::integral_constant<int, P + 1>());
  }
  if (t.bias) {
    RILL_UNROLL for (int v = 0; v < V; ++v) {
      const auto bias = hn::LoadU(d, t.bias + v * lanes);
      RILL_UNROLL for (int p = 0; p < P; ++p) sum[p][v] = hn::Add(sum[p][v], bias);
    }
  }
  if (t.relu) {
    RILL_UNROLL for (int p = 0; p < P; ++p) { RILL_UNROLL for (int v = 0; v < V; ++v) sum[p][v] = relu_of(sum[p][v]); }
  }
  RILL_UNROLL for (int p = 0; p < P; ++p) {
    RILL_UNROLL for (int v = 0; v < V; ++v) hn::StoreU(sum[p][v], d, t.y + p * t.channels + v * lanes);
  }
}

bool moves_by_one(const ConvChannels& c) {
  return c.window[1] == 3 && c.stride[1] == 1 && c.dilation[1] == 1 && c.lo[1] <= 1 && c.out[1] - c.lo[1] < c.in[1];
}

// As channels_of_row().
template <int V>
void threes_of_row(const ConvChannels& c, ChannelTile t, int64_t channel, float* y) {
  using Run = void (*)(const ChannelTile&, bool, bool);
  constexpr Run of[most_threes] = {tile_of_threes<1, V>, tile_of_threes<2, V>, tile_of_threes<3, V>,
                                   tile_of_threes<4, V>, tile_of_threes<5, V>, tile_of_threes<6, V>,
                                   tile_of_threes<7, V>, tile_of_threes<8, V>};
  t.w += channel;
  if (t.bias) t.bias += channel;
  const float* const x = t.x + channel - c.lo[1] * c.channels;
  for (int64_t i = 0, left = (c.out[1] + most_threes - 1) / most_threes; left > 0; --left) {
    const int64_t rest = c.out[1] - i, pixels = left == 1 ? rest : (rest + left - 1) / left;
    t.x = x + i * c.channels, t.y = y + channel + i * c.channels;
    of[pixels - 1](t, i >= c.lo[1], i + pixels + 1 - c.lo[1] < c.in[1]);
    i += pixels;
  }
}

// --- Any window ---

// A row of the result before the tail, in `y`: V vectors of channels from `channel` on.
template <int V, bool Whole>
void channels_of_row(const ConvChannels& c, const Inside& inside, ChannelTile t, int64_t channel, size_t last,
                     float* y) {
  constexpr int together = many_registers && V < 4 ? 8 : V == 1 ? 8 : 4;  // pixels
  using Run = void (*)(const ChannelTile&);
  constexpr Run one[] = {channel_tile<1, V, 0, Whole>, channel_tile<1, V, 1, Whole>, channel_tile<1, V, 2, Whole>,
                         channel_tile<1, V, 3, Whole>, channel_tile<1, V, 4, Whole>, channel_tile<1, V, 5, Whole>};
  constexpr Run any = channel_tile<together, V, 0, Whole>, three = channel_tile<together, V, 3, Whole>,
                five = channel_tile<together, V, 5, Whole>, pair_of_three = channel_tile<2, V, 3, Whole>,
                pair_of_five = channel_tile<2, V, 5, Whole>;
  const int64_t window = c.window[1];
  const float *const x = t.x + channel, *const w = t.w + channel;
  t.last = last;
  y += channel;
  const auto border = [&](int64_t i) {
    const TapRange range(c, 1, i);
    t.across = range.end - range.first, t.w = w + range.first * c.channels, t.y = y + i * c.channels, t.x = x;
    if (t.across > 0) t.x += (i * c.stride[1] - c.lo[1] + range.first * c.dilation[1]) * c.channels;
    one[t.across <= 5 ? t.across : 0](t);
  };
  int64_t i = 0;
  for (; i < inside.begin; ++i) border(i);
  t.across = window, t.w = w;
  const auto within = [&](Run run, int64_t pixels) {
    t.x = x + (i * c.stride[1] - c.lo[1]) * c.channels, t.y = y + i * c.channels;
    run(t);
    i += pixels;
  };
  const Run many = window == 3 ? three : window == 5 ? five : any, single = one[window <= 5 ? window : 0];
  while (i + together <= inside.end) within(many, together);
  if (window == 3 || window == 5)
    while (i + 2 <= inside.end) within(window == 3 ? pair_of_three : pair_of_five, 2);
  while (i < inside.end) within(single, 1);
  for (; i < c.out[1]; ++i) border(i);
}

// A step on a row of `pixels` that is in `y`, and then relu if asked: its operand is at t, with stride `pixel`.
template <TailStep::Kind kind, bool relu>
void take_step(float* y, int64_t pixels, int64_t channels, const float* t, int64_t pixel, bool one) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  const auto taken = [](auto x, auto by) HWY_ATTR {
    if constexpr (kind == TailStep::Kind::add) return hn::Add(x, by);
    else if constexpr (kind == TailStep::Kind::subtract) return hn::Sub(x, by);
    else if constexpr (kind == TailStep::Kind::subtract_from) return hn::Sub(by, x);
    else return hn::Mul(x, by);
  };
  for (int64_t channel = 0; channel < channels; channel += lanes) {
    const size_t n = size_t(std::min(lanes, channels - channel));
    float* to = y + channel;
    const float* from = one ? t : t + channel;
    auto by = one ? hn::Set(d, *t) : load_up_to(d, from, n);
    for (int64_t i = 0; i < pixels; ++i, to += channels, from += pixel) {
      if (pixel > 0) by = load_up_to(d, from, n);
      const auto x = taken(load_up_to(d, to, n), by);
      store_up_to(d, relu ? relu_of(x) : x, to, n);
    }
  }
}

void take_relu(float* y, int64_t size) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = int64_t(hn::Lanes(d));
  for (int64_t i = 0; i < size; i += lanes) {
    const size_t n = size_t(std::min(lanes, size - i));
    store_up_to(d, relu_of(load_up_to(d, y + i, n)), y + i, n);
  }
}

// The tail, on a row whose sums are in `y`.
void finish_row(const ConvChannels& c, int64_t row, float* y) {
  using Step = void (*)(float*, int64_t, int64_t, const float*, int64_t, bool);
  using Kind = TailStep::Kind;
  static_assert(int(Kind::add) == 0 && int(Kind::subtract) == 1 && int(Kind::subtract_from) == 2 &&
                int(Kind::multiply) == 3);
  constexpr Step take[2][4] = {{take_step<Kind::add, false>, take_step<Kind::subtract, false>,
                                take_step<Kind::subtract_from, false>, take_step<Kind::multiply, false>},
                               {take_step<Kind::add, true>, take_step<Kind::subtract, true>,
                                take_step<Kind::subtract_from, true>, take_step<Kind::multiply, true>}};
  const size_t steps = c.tail.steps.size();
  for (size_t s = 0; s < steps; ++s) {
    const TailStep step = c.tail.steps[s];
    if (step.kind == Kind::relu) return take_relu(y, c.out[1] * c.channels);
    const bool relu = s + 1 < steps && c.tail.steps[s + 1].kind == Kind::relu;
    const float* const t = static_cast<const float*>(c.tail.operands[s]);
    const bool one = step.broadcast == TailStep::Broadcast::scalar,
               has_every_element = !one && step.broadcast != TailStep::Broadcast::row;
    take[relu][int(step.kind)](y, c.out[1], c.channels, has_every_element ? t + row * c.out[1] * c.channels : t,
                               has_every_element ? c.channels : 0, one);
    if (relu) return;
  }
}

// The bias of a tail that is only a bias and perhaps relu, else null: the tiles of three taps add it themselves.
const float* bias_of(const GemmTail& tail) {
  const auto& steps = tail.steps;
  const bool plain = steps.size() == 1 || (steps.size() == 2 && steps[1].kind == TailStep::Kind::relu);
  const bool has = plain && steps[0].kind == TailStep::Kind::add && steps[0].broadcast == TailStep::Broadcast::row;
  return has ? static_cast<const float*>(tail.operands[0]) : nullptr;
}

void channels(const ConvChannels& c, int64_t begin, int64_t end) {
  const int64_t lanes = int64_t(hn::Lanes(hn::ScalableTag<float>())), size = c.out[1] * c.channels;
  const Inside inside(c);
  constexpr int wide = vectors_of_threes;
  const bool by_one = moves_by_one(c);
  const float* const bias = by_one && c.channels % (wide * lanes) == 0 ? bias_of(c.tail) : nullptr;
  Ref<Buffer> sums;  // allocated if the result's memory holds an operand
  for (const TailStep& step : c.tail.steps)
    if (step.broadcast == TailStep::Broadcast::in_place && !sums)
      sums = allocate(Device(), size_t(size) * sizeof(float));
  for (int64_t row = begin; row < end; ++row) {
    float* const y = sums ? static_cast<float*>(sums->data) : c.y + row * size;
    ChannelTile t = tile_of_row(c, row);
    t.bias = bias, t.relu = bias && c.tail.steps.size() > 1;
    int64_t channel = 0;
    for (; by_one && channel + wide * lanes <= c.channels; channel += wide * lanes)
      threes_of_row<wide>(c, t, channel, y);
    if constexpr (tile_vectors == 4)
      for (; channel + 4 * lanes <= c.channels; channel += 4 * lanes)
        channels_of_row<4, true>(c, inside, t, channel, size_t(lanes), y);
    for (; channel + 2 * lanes <= c.channels; channel += 2 * lanes)
      channels_of_row<2, true>(c, inside, t, channel, size_t(lanes), y);
    for (; channel + lanes <= c.channels; channel += lanes)
      channels_of_row<1, true>(c, inside, t, channel, size_t(lanes), y);
    if (channel < c.channels) channels_of_row<1, false>(c, inside, t, channel, size_t(c.channels - channel), y);
    if (!bias) finish_row(c, row, y);
    if (sums) std::copy_n(y, size, c.y + row * size);
  }
}

template <class T>
ConvTiles<T> tiles() {
  const auto of_channels = std::is_same_v<T, float> ? channels : nullptr;
  return {sum<false, T>, sum<true, T>, rows<T>, of_channels, int64_t(hn::Lanes(hn::ScalableTag<T>())), tile_vectors};
}
ConvTiles<float> tiles_f32() { return tiles<float>(); }
ConvTiles<double> tiles_f64() { return tiles<double>(); }

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(tiles_f32);
HWY_EXPORT(tiles_f64);

template <>
const ConvTiles<float>& conv_tiles() {
  static const ConvTiles<float> made = HWY_DYNAMIC_DISPATCH(tiles_f32)();
  return made;
}
template <>
const ConvTiles<double>& conv_tiles() {
  static const ConvTiles<double> made = HWY_DYNAMIC_DISPATCH(tiles_f64)();
  return made;
}

}  // namespace rill::cpu
#endif
