// Products and convolutions of bytes: u8 or i8 less their zero points, added up in i32, which is exact.
//
// Every product is one of u8 by i8: of what is the other way, the top bit is turned, which moves it and its zero point
// by 128. Then sum (x - p)(w - q) = sum x w - p sum w - q sum x + k p q, where the sums of w are known when it is
// packed. B (the weights) is packed into strips of 32 columns, four steps of k next to each other, as AVX-512 VNNI
// multiplies them; without VNNI, pairs of 16 bits are multiplied instead: pairs of bytes, as AVX2 has them, saturate.
// Rows of A are copied, padded with zeros; of a convolution they are its windows, from an input with the channels last.
// Sums wrap, so nothing depends on how the work is divided. Start at byte_matmul() and byte_conv().
#include <algorithm>
#include <cstring>
#include <vector>

#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/cpu/move/transpose.h"
#include "rill/devices/cpu/product/packed_operands.h"
#include "rill/devices/cpu/unroll.h"
#include "rill/devices/kernel/isa.h"
#include "rill/devices/params/byte_params.h"
#include "rill/devices/params/conv_params.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace rill::cpu {
namespace {

constexpr int64_t together = 4;  // steps of k
constexpr int64_t strip = 32;    // columns
constexpr int64_t most_rows = 12;

// --- Tiles: sums[r][j] = sum over k of a[r * step + k] * b's column j, over `groups` of four steps of k --------------

using Tile = void (*)(const uint8_t* a, int64_t step, const int8_t* b, int64_t groups, int32_t (*sums)[strip]);
// For `rows` of A at once, the most first; the last has one row.
struct Tiles {
  int64_t rows[3];
  Tile run[3];
};

template <int rows>
void plain_tile(const uint8_t* a, int64_t step, const int8_t* b, int64_t groups, int32_t (*sums)[strip]) {
  for (int r = 0; r < rows; ++r) std::memset(sums[r], 0, sizeof(sums[r]));
  for (int64_t g = 0; g < groups; ++g, b += strip * together)
    for (int r = 0; r < rows; ++r)
      for (int64_t j = 0; j < strip; ++j)
        for (int64_t t = 0; t < together; ++t)
          sums[r][j] += int32_t(a[r * step + g * together + t]) * int32_t(b[j * together + t]);
}

#ifdef __x86_64__
int32_t four_bytes(const uint8_t* a) {
  int32_t x;
  std::memcpy(&x, a, 4);
  return x;
}

template <int rows>
[[gnu::target("avx512f,avx512bw,avx512vnni")]] void vnni_tile(const uint8_t* a, int64_t step, const int8_t* b,
                                                              int64_t groups, int32_t (*sums)[strip]) {
  __m512i low[rows], high[rows];
  RILL_UNROLL for (int r = 0; r < rows; ++r) low[r] = high[r] = _mm512_setzero_si512();
  for (int64_t g = 0; g < groups; ++g, a += together, b += strip * together) {
    const __m512i left = _mm512_loadu_si512(b), right = _mm512_loadu_si512(b + 64);
    RILL_UNROLL for (int r = 0; r < rows; ++r) {
      const __m512i x = _mm512_set1_epi32(four_bytes(a + r * step));
      low[r] = _mm512_dpbusd_epi32(low[r], x, left);
      high[r] = _mm512_dpbusd_epi32(high[r], x, right);
    }
  }
  RILL_UNROLL for (int r = 0; r < rows; ++r) {
    _mm512_storeu_si512(sums[r], low[r]);
    _mm512_storeu_si512(sums[r] + 16, high[r]);
  }
}

// 16 columns: a register has two sums of two steps for each of four columns.
template <int rows>
[[gnu::target("avx2")]] void pairs_of_half(const uint8_t* a, int64_t step, const int8_t* b, int64_t groups,
                                           int32_t (*sums)[strip]) {
  __m256i sum[rows][4];
  RILL_UNROLL for (int r = 0; r < rows; ++r) {
    RILL_UNROLL for (int v = 0; v < 4; ++v) sum[r][v] = _mm256_setzero_si256();
  }
  for (int64_t g = 0; g < groups; ++g, a += together, b += strip * together) {
    __m256i x[rows];
    RILL_UNROLL for (int r = 0; r < rows; ++r) {
      x[r] = _mm256_cvtepu8_epi16(_mm_set1_epi32(four_bytes(a + r * step)));
    }
    RILL_UNROLL for (int v = 0; v < 4; ++v) {
      const __m256i y = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + 16 * v)));
      RILL_UNROLL for (int r = 0; r < rows; ++r) {
        sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(x[r], y));
      }
    }
  }
  RILL_UNROLL for (int r = 0; r < rows; ++r) {
    RILL_UNROLL for (int v = 0; v < 4; v += 2) {
      const __m256i both = _mm256_permute4x64_epi64(_mm256_hadd_epi32(sum[r][v], sum[r][v + 1]), 0xD8);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums[r] + 4 * v), both);
    }
  }
}
template <int rows>
void avx2_tile(const uint8_t* a, int64_t step, const int8_t* b, int64_t groups, int32_t (*sums)[strip]) {
  pairs_of_half<rows>(a, step, b, groups, sums);
  // The other half of each row: sums[r] + 16.
  int32_t other[rows][strip];
  pairs_of_half<rows>(a, step, b + 64, groups, other);
  for (int r = 0; r < rows; ++r) std::memcpy(sums[r] + 16, other[r], 16 * sizeof(int32_t));
}
#endif

const Tiles& tiles() {
  static const Tiles chosen = []() -> Tiles {
#ifdef __x86_64__
    const std::string_view limit = isa_limit();
    const bool avx2 = limit != "baseline" && __builtin_cpu_supports("avx2");
    if (avx2 && limit != "avx2" && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vnni"))
      return {{most_rows, 4, 1}, {vnni_tile<most_rows>, vnni_tile<4>, vnni_tile<1>}};
    if (avx2) return {{3, 2, 1}, {avx2_tile<3>, avx2_tile<2>, avx2_tile<1>}};
#endif
    return {{4, 2, 1}, {plain_tile<4>, plain_tile<2>, plain_tile<1>}};
  }();
  return chosen;
}

// --- Packing ---------------------------------------------------------------------------------------------------------

constexpr uint8_t top_bit = 0x80;

// Copies `n` bytes, turning bits; `to` may not overlap.
void copy_turned(const uint8_t* from, uint8_t* to, int64_t n, uint8_t turn) {
  if (turn == 0) {
    std::memcpy(to, from, size_t(n));
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] ^ turn;
}

// The right side of a product: step k of column j lies at at[k] + j * column.
struct Columns {
  const uint8_t* data;
  const std::vector<int64_t>& at;
  int64_t n, column;
  uint8_t turn;

  int64_t k() const { return int64_t(at.size()); }
  int64_t groups() const { return (k() + together - 1) / together; }
  int64_t strips() const { return (n + strip - 1) / strip; }
  int64_t bytes_of_strip() const { return groups() * strip * together; }
  // With the sums of the columns behind.
  int64_t bytes() const { return strips() * (bytes_of_strip() + strip * int64_t(sizeof(int32_t))); }

  void pack(int8_t* to) const {
    int32_t* sums = reinterpret_cast<int32_t*>(to + strips() * bytes_of_strip());
    std::memset(to, 0, size_t(bytes()));
    parallel_for(strips(), 1 + (1 << 16) / (strip * (k() + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t s = begin; s < end; ++s) {
        int8_t* strip_to = to + s * bytes_of_strip();
        const int64_t columns = std::min(strip, n - s * strip);
        for (int64_t i = 0; i < k(); ++i) {
          const uint8_t* from = data + at[size_t(i)] + s * strip * column;
          int8_t* group = strip_to + i / together * strip * together + i % together;
          for (int64_t j = 0; j < columns; ++j) {
            const auto value = int8_t(from[j * column] ^ turn);
            group[j * together] = value;
            sums[s * strip + j] += value;
          }
        }
      }
    });
  }
};

// How the weights lie, for those that never change.
struct ByteLayout {
  std::vector<int64_t> at;
  int64_t n, column;
  uint8_t turn;
  friend bool operator==(const ByteLayout&, const ByteLayout&) = default;
};

// The packed columns, kept where args has room for them and this is `part` 0 of 1.
class PackedColumns {
 public:
  PackedColumns(const KernelArgs& args, const Columns& c, bool whole) : columns_(c) {
    if (args.packed && whole) {
      kept_ = packed_operand(*args.packed, args.input(1), c.data, ByteLayout{c.at, c.n, c.column, c.turn},
                             [&] { return packed(c); });
    }
    if (!kept_) own_ = packed(c);
  }
  const int8_t* strip_at(int64_t s) const { return data() + s * columns_.bytes_of_strip(); }
  const int32_t* sums() const {
    return reinterpret_cast<const int32_t*>(data() + columns_.strips() * columns_.bytes_of_strip());
  }

 private:
  static Ref<Buffer> packed(const Columns& c) {
    Ref<Buffer> buffer = allocate(Device(), size_t(c.bytes()));
    c.pack(static_cast<int8_t*>(buffer->data));
    return buffer;
  }
  const int8_t* data() const { return static_cast<const int8_t*>((kept_ ? kept_->buffer : own_)->data); }

  Columns columns_;
  std::shared_ptr<const PackedOperand<ByteLayout>> kept_;
  Ref<Buffer> own_;
};

// --- Products --------------------------------------------------------------------------------------------------------

// Zero points, as those of u8 on the left and i8 on the right.
struct Zeros {
  int32_t left = 0;
  std::vector<int32_t> right;  // one, or one a column
  bool any_right = false;

  Zeros(const Tensor& of_left, const Tensor& of_right) {
    const auto value = [](const Tensor& t, int64_t i) {
      const uint8_t bits = *reinterpret_cast<const uint8_t*>(t.rep()->data + i);
      return t.dtype() == DType::u8 ? int32_t(bits) : int32_t(int8_t(bits));
    };
    left = value(of_left, 0) + (of_left.dtype() == DType::i8 ? 128 : 0);
    for (int64_t j = 0; j < of_right.size(); ++j) {
      right.push_back(value(of_right, of_right.ndim() == 0 ? 0 : j * of_right.strides()[0]) -
                      (of_right.dtype() == DType::u8 ? 128 : 0));
      any_right |= right.back() != 0;
    }
  }
  int32_t of_column(int64_t j) const { return right[right.size() == 1 ? 0 : size_t(j)]; }
};

uint8_t turn_left(const Tensor& x) { return x.dtype() == DType::i8 ? top_bit : 0; }
uint8_t turn_right(const Tensor& w) { return w.dtype() == DType::u8 ? top_bit : 0; }

// Where element (i, j) of the result goes: to c[i * row + j * column].
struct Result {
  int32_t* c;
  int64_t row, column;
};

// Rows [i, i + rows) and some columns, from a tile's sums.
template <bool any_right>
void store(const Result& to, const Zeros& zeros, const PackedColumns& b, int64_t first_column, int64_t columns,
           int64_t k, int32_t (*sums)[strip], const int32_t* row_sums, int64_t i, int64_t rows) {
  uint32_t constant[strip] = {}, right[strip] = {};
  const auto left = uint32_t(zeros.left);
  for (int64_t j = 0; j < columns; ++j) {
    right[j] = uint32_t(zeros.of_column(first_column + j));
    constant[j] = left * (uint32_t(k) * right[j] - uint32_t(b.sums()[first_column + j]));
  }
  for (int64_t r = 0; r < rows; ++r) {
    const uint32_t of_row = any_right ? uint32_t(row_sums[i + r]) : 0;
    for (int64_t j = 0; j < strip; ++j) {
      const uint32_t sum = uint32_t(sums[r][j]) + constant[j];
      sums[r][j] = int32_t(any_right ? sum - right[j] * of_row : sum);
    }
  }
  int32_t* c = to.c + i * to.row + first_column * to.column;
  if (to.column == 1)
    for (int64_t r = 0; r < rows; ++r) std::memcpy(c + r * to.row, sums[r], size_t(columns) * sizeof(int32_t));
  else transpose(&sums[0][0], strip, rows, columns, c, to.column);  // to.row is 1 then
}

// The whole product of m rows, of which copy(first, count, to, step) makes some, padded with anything up to `step`.
template <class CopyRows>
void product(int64_t m, const Columns& columns, const PackedColumns& b, const Zeros& zeros, const Result& to,
             CopyRows copy) {
  const int64_t k = columns.k(), groups = columns.groups(), step = groups * together;
  const int64_t rows_at_once = std::clamp<int64_t>((1 << 17) / (step + 1) / most_rows * most_rows, most_rows, 96);
  const int64_t down = (m + rows_at_once - 1) / rows_at_once, threads = num_threads();
  const int64_t across = std::min(columns.strips(), down >= 2 * threads ? 1 : (2 * threads + down - 1) / down);
  const int64_t strips_at_once = (columns.strips() + across - 1) / across;
  const int64_t work = std::min(rows_at_once, m) * strips_at_once * strip * (k + 1);
  parallel_for(down * across, 1 + (1 << 19) / work, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> a(size_t(rows_at_once * step));
    std::vector<int32_t> row_sums(size_t(rows_at_once), 0);
    int32_t sums[most_rows][strip];
    int64_t copied = -1;
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t i0 = piece / across * rows_at_once, count = std::min(rows_at_once, m - i0);
      if (copied != i0) {
        copy(i0, count, a.data(), step);
        copied = i0;
        for (int64_t r = 0; zeros.any_right && r < count; ++r) {
          row_sums[size_t(r)] = 0;
          for (int64_t i = 0; i < k; ++i) row_sums[size_t(r)] += a[size_t(r * step + i)];
        }
      }
      const Result here{to.c + i0 * to.row, to.row, to.column};
      const int64_t last = std::min(columns.strips(), (piece % across + 1) * strips_at_once);
      for (int64_t s = piece % across * strips_at_once; s < last; ++s)
        for (int64_t i = 0; i < count;) {
          int which = 0;
          while (tiles().rows[which] > count - i) ++which;
          tiles().run[which](a.data() + i * step, step, b.strip_at(s), groups, sums);
          const auto store_tile = zeros.any_right ? store<true> : store<false>;
          store_tile(here, zeros, b, s * strip, std::min(strip, columns.n - s * strip), k, sums, row_sums.data(), i,
                     tiles().rows[which]);
          i += tiles().rows[which];
        }
    }
  });
}

const uint8_t* bytes_of(const Tensor& t) { return reinterpret_cast<const uint8_t*>(t.rep()->data); }

// --- Convolutions ----------------------------------------------------------------------------------------------------

// An input with the channels last: a copy where it lies otherwise.
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
  strided_copy(x.dtype(), shape, x.rep()->data, given, copy.mutable_rep()->data, wanted);
  return copy;
}

// The windows of an image, of the channels from `channel` on, as rows.
struct WindowRows {
  const Sliding& s;
  const uint8_t* image;  // with the channels last
  int64_t channel, channels;
  uint8_t turn, padding;  // as it is when turned

  void operator()(int64_t first, int64_t count, uint8_t* to, int64_t step) const {
    for (int64_t i = first; i < first + count; ++i, to += step) {
      const int64_t at[3] = {i / s.out[2] / s.out[1] * s.stride[0] - s.lo[0],
                             i / s.out[2] % s.out[1] * s.stride[1] - s.lo[1], i % s.out[2] * s.stride[2] - s.lo[2]};
      uint8_t* end = to;
      for (int64_t z = 0; z < s.window[0]; ++z)
        for (int64_t y = 0; y < s.window[1]; ++y)
          end = copy_line(at[0] + z * s.dilation[0], at[1] + y * s.dilation[1], at[2], end);
      std::memset(end, 0, size_t(to + step - end));
    }
  }
  uint8_t* copy_line(int64_t z, int64_t y, int64_t x, uint8_t* to) const {
    const int64_t width = s.window[2], all = width * channels;
    if (z < 0 || z >= s.in[0] || y < 0 || y >= s.in[1]) {
      std::memset(to, padding, size_t(all));
      return to + all;
    }
    const uint8_t* line = image + (z * s.in[1] + y) * s.in[2] * s.in_channels + channel;
    if (s.dilation[2] == 1 && channels == s.in_channels && x >= 0 && x + width <= s.in[2]) {
      copy_turned(line + x * channels, to, all, turn);
      return to + all;
    }
    for (int64_t i = 0; i < width; ++i, to += channels) {
      const int64_t place = x + i * s.dilation[2];
      if (place < 0 || place >= s.in[2]) std::memset(to, padding, size_t(channels));
      else copy_turned(line + place * s.in_channels, to, channels, turn);
    }
    return to;
  }
};

// Where the weights of a step of a window lie: the kernel's places one after the other, each with its channels.
std::vector<int64_t> steps_of_window(const Sliding& s, const SpaceStrides& w, int64_t channels) {
  std::vector<int64_t> at;
  for (int64_t z = 0; z < s.window[0]; ++z)
    for (int64_t y = 0; y < s.window[1]; ++y)
      for (int64_t x = 0; x < s.window[2]; ++x)
        for (int64_t c = 0; c < channels; ++c)
          at.push_back(z * w.space[0] + y * w.space[1] + x * w.space[2] + c * w.inner);
  return at;
}

// Whether there is nothing to add up, and done.
bool is_nothing(const KernelArgs& args) {
  const Tensor& out = args.output();
  if (out.size() > 0 && args.input(0).size() > 0 && args.input(1).size() > 0) return false;
  std::fill_n(args.out_data<int32_t>(), out.size(), 0);
  return true;
}

}  // namespace

void byte_matmul(const KernelArgs& args) {
  Tensor& out = args.output();
  if (is_nothing(args)) return;
  const Tensor x = as_dense(args.input(0));
  const Tensor& w = args.input(1);
  const size_t axes = w.shape().size();
  const int64_t k = x.shape().back(), n = w.shape().back(),
                matrices = axes == 2 ? 1 : out.size() / n / x.shape()[axes - 2];
  const int64_t m = out.size() / n / matrices;
  const Tensor b = axes == 2 ? w : as_dense(w);
  std::vector<int64_t> at;
  for (int64_t i = 0; i < k; ++i) at.push_back(i * b.strides()[axes - 2]);
  const Zeros zeros(args.input(2), args.input(3));
  const uint8_t turn = turn_left(x);
  for (int64_t i = 0; i < matrices; ++i) {
    const Columns columns{bytes_of(b) + i * k * n, at, n, b.strides()[axes - 1], turn_right(w)};
    const PackedColumns packed(args, columns, matrices == 1);
    const uint8_t* rows = bytes_of(x) + i * m * k;
    product(m, columns, packed, zeros, {args.out_data<int32_t>() + i * m * n, n, 1},
            [&](int64_t first, int64_t count, uint8_t* to, int64_t step) {
              for (int64_t r = 0; r < count; ++r) {
                copy_turned(rows + (first + r) * k, to + r * step, k, turn);
                std::memset(to + r * step + k, 0, size_t(step - k));
              }
            });
  }
}

void byte_conv(const KernelArgs& args) {
  Tensor& out = args.output();
  if (is_nothing(args)) return;
  const ConvParams& p = args.attrs.as<ConvParams>();
  const Tensor& w = args.input(1);
  const Sliding s = sliding(p, args.input(0).shape(), w.shape());
  const Tensor x = with_channels_last(args.input(0), s, p);
  const SpaceStrides of_w = weight_strides(w, p.layout), of_y = activation_strides(out, p.layout);
  const int64_t in = s.in_channels / s.groups, each = s.out_channels / s.groups,
                pixels = s.out[0] * s.out[1] * s.out[2];
  const std::vector<int64_t> at = steps_of_window(s, of_w, in);
  const Zeros all_zeros(args.input(2), args.input(3));
  for (int64_t g = 0; g < s.groups; ++g) {
    const Columns columns{bytes_of(w) + g * each * of_w.outer, at, each, of_w.outer, turn_right(w)};
    const PackedColumns packed(args, columns, s.groups == 1);
    Zeros zeros = all_zeros;
    if (zeros.right.size() > 1)
      zeros.right = {&all_zeros.right[size_t(g * each)], &all_zeros.right[size_t(g * each)] + each};
    for (int64_t n = 0; n < s.batch; ++n)
      product(pixels, columns, packed, zeros,
              {args.out_data<int32_t>() + n * of_y.outer + g * each * of_y.inner, of_y.space[2], of_y.inner},
              WindowRows{s, bytes_of(x) + n * s.in[0] * s.in[1] * s.in[2] * s.in_channels, g * in, in, turn_left(x),
                         uint8_t(zeros.left)});
  }
}

}  // namespace rill::cpu
