// See sums.h.
#include "rill/distribute/engine/sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>
#include <vector>

namespace rill::distribute {
namespace {

constexpr int64_t piece = 512;  // elements that are worked on at once, in the cache

template <class T>
inline constexpr bool is_complex_type = false;
template <class T>
inline constexpr bool is_complex_type<std::complex<T>> = true;

template <class T>
T larger_of(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(a)) return a;
  return b > a || b != b ? b : a;
}
template <class T>
T smaller_of(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(a)) return a;
  return b < a || b != b ? b : a;
}

// Integers wrap; complex products are by the textbook's formula: both as in rill's ops.
template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) return T(uint64_t(a) + uint64_t(b));
  else return a + b;
}
template <class T>
T product_of(T a, T b) {
  if constexpr (std::is_integral_v<T>) return T(uint64_t(a) * uint64_t(b));
  else if constexpr (is_complex_type<T>)
    return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  else return a * b;
}

// out[i] = f(a[i], b[i]), in chunks that compilers vectorise. out may be a or b.
template <class T, class F>
void combine_by(const T* a, const T* b, int64_t n, T* out, F f) {
  constexpr int64_t some = 64 / sizeof(T);
  int64_t i = 0;
  for (; i + some <= n; i += some) {
    T sums[some];
    for (int64_t k = 0; k < some; ++k) sums[k] = f(a[i + k], b[i + k]);
    std::memcpy(out + i, sums, sizeof sums);
  }
  for (; i < n; ++i) out[i] = f(a[i], b[i]);
}

template <class T>
void combine(const T* a, const T* b, int64_t n, Reduce reduce, T* out) {
  switch (reduce) {
    case Reduce::sum:
    case Reduce::mean: return combine_by(a, b, n, out, [](T x, T y) { return sum_of(x, y); });
    case Reduce::product: return combine_by(a, b, n, out, [](T x, T y) { return product_of(x, y); });
    case Reduce::max:
      if constexpr (!is_complex_type<T>) return combine_by(a, b, n, out, [](T x, T y) { return larger_of(x, y); });
      return;
    case Reduce::min:
      if constexpr (!is_complex_type<T>) return combine_by(a, b, n, out, [](T x, T y) { return smaller_of(x, y); });
  }
}

// S: the stored type; T: the type of computation.
template <class S, class T = S>
struct Blocks {
  const char* const* parts;
  Reduce reduce;
  std::vector<std::vector<T>> rooms;  // for the right halves, by depth

  const S* part(int rank, int64_t at) const { return reinterpret_cast<const S*>(parts[rank]) + at; }

  // Of ranks [first, last), elements [at, at + n).
  void run(int first, int last, int64_t at, int64_t n, T* out, size_t depth) {
    if constexpr (std::is_same_v<S, T>)
      if (last - first == 2) return combine(part(first, at), part(first + 1, at), n, reduce, out);
    if (last - first == 1) {
      const S* from = part(first, at);
      for (int64_t i = 0; i < n; ++i) out[i] = T(from[i]);
      return;
    }
    const int left = int(std::bit_floor(unsigned(last - first - 1)));
    if (rooms.size() <= depth) rooms.emplace_back(size_t(piece));
    run(first, first + left, at, n, out, depth + 1);
    run(first + left, last, at, n, rooms[depth].data(), depth + 1);
    combine(out, rooms[depth].data(), n, reduce, out);
  }
};

template <class T>
void divide(T* a, int64_t count, int n) {
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (is_complex_type<T>) a[i] /= typename T::value_type(n);
    else a[i] = T(a[i] / T(n));
  }
}

template <class S, class T = S>
void reduce_as(const char* const* parts, int n, int64_t count, Reduce reduce, char* out) {
  Blocks<S, T> blocks{parts, reduce, {}};
  S* to = reinterpret_cast<S*>(out);
  // For two, each element is read before it is written, whichever of them `out` is.
  const bool in_place = std::is_same_v<S, T> && n == 2;
  std::vector<T> room(in_place ? 0 : size_t(piece));
  for (int64_t at = 0; at < count; at += piece) {
    const int64_t some = std::min(piece, count - at);
    T* const sum = in_place ? reinterpret_cast<T*>(to + at) : room.data();
    blocks.run(0, n, at, some, sum, 0);
    if (reduce == Reduce::mean) divide(sum, some, n);
    for (int64_t i = 0; i < some && !in_place; ++i) to[at + i] = S(sum[i]);
  }
}

}  // namespace

void reduce_parts(const char* const* parts, int n, int64_t count, DType dtype, Reduce reduce, char* out) {
  switch (dtype) {
    case DType::i8: return reduce_as<int8_t>(parts, n, count, reduce, out);
    case DType::i16: return reduce_as<int16_t>(parts, n, count, reduce, out);
    case DType::i32: return reduce_as<int32_t>(parts, n, count, reduce, out);
    case DType::i64: return reduce_as<int64_t>(parts, n, count, reduce, out);
    case DType::u8: return reduce_as<uint8_t>(parts, n, count, reduce, out);
    case DType::u16: return reduce_as<uint16_t>(parts, n, count, reduce, out);
    case DType::u32: return reduce_as<uint32_t>(parts, n, count, reduce, out);
    case DType::u64: return reduce_as<uint64_t>(parts, n, count, reduce, out);
    case DType::f16: return reduce_as<Half, float>(parts, n, count, reduce, out);
    case DType::bf16: return reduce_as<BFloat16, float>(parts, n, count, reduce, out);
    case DType::f32: return reduce_as<float>(parts, n, count, reduce, out);
    case DType::f64: return reduce_as<double>(parts, n, count, reduce, out);
    case DType::c64: return reduce_as<std::complex<float>>(parts, n, count, reduce, out);
    case DType::c128: return reduce_as<std::complex<double>>(parts, n, count, reduce, out);
    default: break;  // infer has rejected it
  }
}

void divide_sum(char* sum, int64_t count, DType dtype, int n) {
  switch (dtype) {
    case DType::f32: return divide(reinterpret_cast<float*>(sum), count, n);
    case DType::f64: return divide(reinterpret_cast<double*>(sum), count, n);
    case DType::c64: return divide(reinterpret_cast<std::complex<float>*>(sum), count, n);
    case DType::c128: return divide(reinterpret_cast<std::complex<double>*>(sum), count, n);
    default: break;
  }
}

}  // namespace rill::distribute
