// argmax and argmin on the CPU, over operands that are dense, or copied to be, treated as [outer, n, inner].
//
// Along the last axis a vector loop finds the extreme of each piece of 4096 elements, and only the piece that has the
// overall extreme is searched for its index. Along other axes rows are compared with the extremes so far.
#include <algorithm>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "rill/devices/cpu/elementwise/halves.h"
#include "rill/devices/cpu/reduce/reduce_loops.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::cpu {
namespace {

constexpr int64_t piece = 4096;
constexpr int64_t argreduce_grain = 1 << 16;  // elements worth a thread

// Whether `a`, which comes after `b`, replaces it: NaN wins, the first of equals stays.
template <bool largest, class T>
bool beats(const T& a, const T& b) {
  if constexpr (std::is_integral_v<T>) return largest ? a > b : a < b;
  else {
    const auto x = static_cast<std::conditional_t<std::is_same_v<T, double>, double, float>>(a),
               y = static_cast<decltype(x)>(b);
    return (largest ? x > y : x < y) || (x != x && y == y);
  }
}

// Halves are converted to f32, a piece at a time.
template <class T, class N>
const N* as_numbers(const T* x, [[maybe_unused]] int64_t n, [[maybe_unused]] N* buffer) {
  if constexpr (std::is_same_v<T, N>) return x;
  else return convert_halves(x, buffer, size_t(n)), buffer;
}

template <bool largest, class T>
int64_t best_of_line(const T* x, int64_t n) {
  using N = std::conditional_t<is_half_type<T>, float, T>;
  const auto& loops = std::get<Extremes<N>>(reduce_tables().extremes);
  N buffer[is_half_type<T> ? piece : 1];
  N best = N(x[0]);  // if this is NaN, the search is over
  int64_t start = 0;
  for (int64_t i = 0; i < n && best == best; i += piece) {
    const int64_t count = std::min(piece, n - i);
    const N extreme = (largest ? loops.largest : loops.smallest)(as_numbers(x + i, count, buffer), count);
    if (beats<largest>(extreme, best)) best = extreme, start = i;
  }
  const int64_t count = std::min(piece, n - start);
  return start + loops.find(as_numbers(x + start, count, buffer), count, best);
}

// Bools: the first true (or false) ends the search.
template <bool largest>
int64_t best_of_bools(const uint8_t* x, int64_t n) {
  const void* found = std::memchr(x, largest, size_t(n));
  return found ? static_cast<const uint8_t*>(found) - x : 0;
}

template <bool largest, class T>
void best_of_rows(const T* x, int64_t n, int64_t inner, int64_t begin, int64_t end, int64_t* out) {
  constexpr int64_t strip = 256;
  for (int64_t c = begin; c < end; c += strip) {
    const int64_t width = std::min(strip, end - c);
    T best[strip];
    int64_t at[strip] = {};
    std::copy(x + c, x + c + width, best);
    for (int64_t r = 1; r < n; ++r) {
      const T* row = x + r * inner + c;
      for (int64_t i = 0; i < width; ++i) {
        const bool wins = beats<largest>(row[i], best[i]);
        best[i] = wins ? row[i] : best[i];
        at[i] = wins ? r : at[i];
      }
    }
    std::copy(at, at + width, out + c);
  }
}

// A dense operand with the elements to compare along `axis`: x, or a view of it with that axis last if its elements
// are contiguous (in a transposed matrix), or a copy.
Tensor dense_operand(const Tensor& x, int64_t& axis) {
  if (x.is_contiguous()) return x;
  Shape shape = x.shape();
  Strides strides = x.strides();
  const Dim size = shape[size_t(axis)];
  const int64_t stride = strides[size_t(axis)];
  shape.erase(size_t(axis)), strides.erase(size_t(axis));
  shape.push_back(size), strides.push_back(stride);
  Tensor lines = make_view(x, shape, strides, 0);
  if (lines.is_contiguous()) {
    axis = x.ndim() - 1;
    return lines;
  }
  Tensor copy = empty_tensor(x.spec());
  copy_elements(x, copy);
  return copy;
}

template <bool largest>
void arg_extreme(const KernelArgs& args) {
  int64_t axis = args.attrs.as<ArgReduceParams>().axis;
  if (const Tensor& in = args.input(0); in.size() > 0 && in.strides()[size_t(axis)] == 0) {  // all are equal: the first
    std::fill_n(args.out_data<int64_t>(), args.output().size(), int64_t(0));
    return;
  }
  const Tensor x = dense_operand(args.input(0), axis);
  const int64_t n = x.shape()[size_t(axis)];
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < x.ndim(); ++i)
    if (i != axis) (i < axis ? outer : inner) *= x.shape()[size_t(i)];
  if (outer * inner == 0) return;
  int64_t* out = args.out_data<int64_t>();
  visit_dtype(x.dtype(), [&](auto zero) {
    using S = decltype(zero);
    using T = std::conditional_t<std::is_same_v<S, bool>, uint8_t, S>;
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      const T* data = reinterpret_cast<const T*>(x.rep()->data);
      if (inner == 1) {
        parallel_for(outer, std::max<int64_t>(1, argreduce_grain / n), [&](int64_t begin, int64_t end) {
          for (int64_t o = begin; o < end; ++o) {
            if constexpr (std::is_same_v<S, bool>) out[o] = best_of_bools<largest>(data + o * n, n);
            else out[o] = best_of_line<largest>(data + o * n, n);
          }
        });
      } else {
        parallel_for(outer * inner, std::max<int64_t>(1, argreduce_grain / n), [&](int64_t begin, int64_t end) {
          for (int64_t o = begin / inner; o * inner < end; ++o)
            best_of_rows<largest>(data + o * n * inner, n, inner, std::max(begin - o * inner, int64_t(0)),
                                  std::min(end - o * inner, inner), out + o * inner);
        });
      }
    }
  });
}

}  // namespace

void reduce_argmax(const KernelArgs& args) { arg_extreme<true>(args); }
void reduce_argmin(const KernelArgs& args) { arg_extreme<false>(args); }

}  // namespace rill::cpu
