// Cumulative ops on the CPU, over dense operands treated as [outer, n, inner]: sequentially along n, with lines in
// parallel. Sums and products of f16, bf16 and f32 are accumulated in f64, and only what is written is rounded, so that
// long lines stay accurate.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <type_traits>

#include "rill/devices/cpu/elementwise/halves.h"
#include "rill/devices/cpu/elementwise/through_f32.h"
#include "rill/devices/cpu/unroll.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::cpu {
namespace {

constexpr int64_t cumulative_grain = 1 << 15;  // elements worth a thread

// The type in which T is accumulated.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, float>, double,
                                std::conditional_t<std::is_same_v<T, std::complex<float>>, std::complex<double>, T>>;

struct Plus {
  template <class A>
  static A combine(const A& a, const A& b) {
    return a + b;
  }
};
struct Times {
  template <class A>
  static A combine(const A& a, const A& b) {
    return a * b;
  }
};
// For factors with fewer digits and a smaller range: a product that underflows even in f64 becomes 0. Its digits would
// be lost, and processors take a hundred times as long for subnormal numbers.
struct TimesNarrow {
  static double combine(double a, double b) {
    const double y = a * b;
    return std::abs(y) < std::numeric_limits<double>::min() ? std::copysign(0.0, y) : y;
  }
};
// Of zeros of either sign the first one stays.
template <bool largest>
struct Extreme {
  template <class A>
  static A combine(const A& a, const A& b) {
    if constexpr (std::is_integral_v<A>) return largest ? std::max(a, b) : std::min(a, b);
    else return a != a || !(b != b || (largest ? b > a : b < a)) ? a : b;
  }
};

// `columns` lines of n elements. Consecutive elements of a line are `step` elements apart, and neighbouring lines
// `distance`.
struct Lines {
  int64_t n, step, columns, distance;
};

// `width` lines at once, so that no sum waits for another. A accumulates. y may be x. Arrays that nothing aliases stay
// in registers.
template <int width, bool exclusive, class R, class A, class S, class T>
void scan_some(const S* x, T* y, const Lines& lines, bool reverse, const A& identity) {
  const int64_t step = reverse ? -lines.step : lines.step, start = reverse ? (lines.n - 1) * lines.step : 0;
  const int64_t distance = lines.distance;
  A acc[width];
  RILL_UNROLL for (int i = 0; i < width; ++i) acc[i] = identity;
  const S* from = x + start;
  T* to = y + start;
  for (int64_t r = 0; r < lines.n; ++r, from += step, to += step) {
    A next[width];
    RILL_UNROLL for (int i = 0; i < width; ++i) next[i] = R::combine(acc[i], A(from[i * distance]));
    RILL_UNROLL for (int i = 0; i < width; ++i) to[i * distance] = T(exclusive ? acc[i] : next[i]);
    RILL_UNROLL for (int i = 0; i < width; ++i) acc[i] = next[i];
  }
}
// `strip` neighbouring lines: a row of elements is read and written at once.
template <int strip, bool exclusive, class R, class A, class S, class T>
void scan_strip(const S* x, T* y, const Lines& lines, bool reverse, const A& identity) {
  const int64_t step = reverse ? -lines.step : lines.step, start = reverse ? (lines.n - 1) * lines.step : 0;
  A acc[strip];
  std::fill_n(acc, strip, identity);
  const S* from = x + start;
  T* to = y + start;
  for (int64_t r = 0; r < lines.n; ++r, from += step, to += step) {
    S row[strip];
    T result[strip];
    std::copy_n(from, strip, row);
    for (int i = 0; i < strip; ++i) {
      const A next = R::combine(acc[i], A(row[i]));
      result[i] = T(exclusive ? acc[i] : next);
      acc[i] = next;
    }
    std::copy_n(result, strip, to);
  }
}
template <bool exclusive, class R, class A, class S, class T>
void scan(const S* x, T* y, const Lines& lines, bool reverse, const A& identity) {
  constexpr int few = std::is_arithmetic_v<A> ? 8 : 4, strip = 32;
  int64_t c = 0;
  if (std::is_arithmetic_v<A> && lines.distance == 1)
    for (; c + strip <= lines.columns; c += strip)
      scan_strip<strip, exclusive, R, A>(x + c, y + c, lines, reverse, identity);
  for (; c + few <= lines.columns; c += few)
    scan_some<few, exclusive, R, A>(x + c * lines.distance, y + c * lines.distance, lines, reverse, identity);
  for (; c < lines.columns; ++c)
    scan_some<1, exclusive, R, A>(x + c * lines.distance, y + c * lines.distance, lines, reverse, identity);
}

// Calls scan(offset, lines) for runs of neighbouring lines, in parallel.
template <class F>
void each_run(const KernelArgs& args, F scan) {
  const Tensor& x = args.input(0);
  const auto& p = args.attrs.as<CumulativeParams>();
  const int64_t n = x.shape()[size_t(p.axis)];
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < x.ndim(); ++i)
    if (i != p.axis) (i < p.axis ? outer : inner) *= x.shape()[size_t(i)];
  if (n * outer * inner == 0) return;
  parallel_for(outer * inner, std::max<int64_t>(1, cumulative_grain / n), [&](int64_t begin, int64_t end) {
    if (inner == 1) return scan(begin * n, Lines{n, 1, end - begin, n});
    for (int64_t line = begin; line < end;) {
      const int64_t o = line / inner, c = line % inner, columns = std::min(inner - c, end - line);
      scan(o * n * inner + c, Lines{n, inner, columns, 1});
      line += columns;
    }
  });
}

template <class R, class A, class S, class T>
void scan_by(const CumulativeParams& p, const S* x, T* y, const Lines& lines, const A& identity) {
  if (p.exclusive) scan<true, R, A>(x, y, lines, p.reverse, identity);
  else scan<false, R, A>(x, y, lines, p.reverse, identity);
}
template <class R, class A, class S, class T>
void scan_all(const KernelArgs& args, const S* x, T* y, const A& identity) {
  const auto& p = args.attrs.as<CumulativeParams>();
  each_run(args, [&](int64_t at, const Lines& lines) { scan_by<R>(p, x + at, y + at, lines, identity); });
}

// Halves are converted to f32 and back, for as many lines at a time as fit in the L2 cache.
template <class R, class A, class H>
void scan_halves(const KernelArgs& args, const H* x, H* y, const A& identity) {
  constexpr int64_t elements_at_once = 1 << 15, strip = 32;  // floats; neighbouring columns that are read at once
  const auto& p = args.attrs.as<CumulativeParams>();
  each_run(args, [&](int64_t start, const Lines& lines) {
    const bool dense = lines.distance == lines.n;
    const int64_t columns_at_once = std::min(lines.columns, std::max(elements_at_once / lines.n, dense ? 1 : strip));
    const Ref<Buffer> buffer = allocate(Device(), size_t(columns_at_once * lines.n) * sizeof(float));
    float* const wide = static_cast<float*>(buffer->data);
    for (int64_t c = 0; c < lines.columns; c += columns_at_once) {
      const int64_t columns = std::min(columns_at_once, lines.columns - c), at = start + c * lines.distance;
      const int64_t runs = dense ? 1 : lines.n, length = dense ? columns * lines.n : columns;
      for (int64_t r = 0; r < runs; ++r) convert_halves(x + at + r * lines.step, wide + r * length, size_t(length));
      scan_by<R>(p, wide, wide, dense ? Lines{lines.n, 1, columns, lines.n} : Lines{lines.n, columns, columns, 1},
                 identity);
      for (int64_t r = 0; r < runs; ++r) convert_halves(wide + r * length, y + at + r * lines.step, size_t(length));
    }
  });
}

// Integers and bools in 64 bits, where signed and unsigned ones wrap around the same way.
template <class R>
void accumulate_integers(const KernelArgs& args, uint64_t identity) {
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using S = std::conditional_t<std::is_same_v<decltype(zero), bool>, uint8_t, decltype(zero)>;
    if constexpr (std::is_integral_v<S>) scan_all<R>(args, args.in_data<S>(0), args.out_data<uint64_t>(), identity);
  });
}

// Calls f with a zero of args' floating or complex type.
template <class F>
void visit_inexact(const KernelArgs& args, F&& f) {
  switch (args.input(0).dtype()) {
    case DType::f16: return f(Half());
    case DType::bf16: return f(BFloat16());
    case DType::f32: return f(float());
    case DType::f64: return f(double());
    case DType::c64: return f(std::complex<float>());
    case DType::c128: return f(std::complex<double>());
    default: return;
  }
}

// Sums start with -0, because -0 + -0 is -0.
template <class A>
A first_of(const KernelArgs& args, int identity) {
  return identity == 0 && !args.attrs.as<CumulativeParams>().exclusive ? -A(0) : A(identity);
}

template <class R, class OfFloats = R>
void accumulate(const KernelArgs& args, int identity) {
  if (!is_differentiable(args.input(0).dtype())) return accumulate_integers<R>(args, uint64_t(identity));
  visit_inexact(args, [&]<class T>(T) {
    using Rule = std::conditional_t<std::is_same_v<T, float>, OfFloats, R>;
    if constexpr (is_half_type<T>)
      scan_halves<OfFloats>(args, args.in_data<T>(0), args.out_data<T>(), first_of<double>(args, identity));
    else scan_all<Rule>(args, args.in_data<T>(0), args.out_data<T>(), first_of<Wide<T>>(args, identity));
  });
}

// y[i] = a[i] y[i-1] + b[i] along lines, as scan() computes sums.
template <class A, class T>
void recur_lines(const T* a, const T* b, T* y, const Lines& lines, bool reverse) {
  constexpr int64_t strip = 64;
  const int64_t step = reverse ? -lines.step : lines.step, start = reverse ? (lines.n - 1) * lines.step : 0;
  for (int64_t c = 0; c < lines.columns; c += strip) {
    const int64_t width = std::min(strip, lines.columns - c);
    A last[strip];
    std::fill(last, last + width, A(0));
    for (int64_t r = 0, first = start + c * lines.distance; r < lines.n; ++r, first += step)
      for (int64_t i = 0; i < width; ++i) {
        const int64_t at = first + i * lines.distance;
        const A carried = last[i] == A(0) ? A(0) : A(a[at]) * last[i];
        last[i] = carried + A(b[at]);
        y[at] = T(last[i]);
      }
  }
}

template <bool largest>
void extreme(const KernelArgs& args) {
  visit_dtype(args.input(0).dtype(), [&](auto zero) {
    using T = std::conditional_t<std::is_same_v<decltype(zero), bool>, uint8_t, decltype(zero)>;
    using L = std::numeric_limits<std::conditional_t<is_half_type<T>, float, T>>;
    constexpr bool has_infinity = L::has_infinity;
    if constexpr (is_half_type<T>) {
      scan_halves<Extreme<largest>>(args, args.in_data<T>(0), args.out_data<T>(),
                                    largest ? -L::infinity() : L::infinity());
    } else if constexpr (std::is_arithmetic_v<T>) {
      const T least =
          largest ? (has_infinity ? -L::infinity() : L::lowest()) : (has_infinity ? L::infinity() : L::max());
      scan_all<Extreme<largest>>(args, args.in_data<T>(0), args.out_data<T>(), least);
    }
  });
}

}  // namespace

void cumulate_sum(const KernelArgs& args) { accumulate<Plus>(args, 0); }
void cumulate_prod(const KernelArgs& args) { accumulate<Times, TimesNarrow>(args, 1); }
void cumulate_max(const KernelArgs& args) { extreme<true>(args); }
void cumulate_min(const KernelArgs& args) { extreme<false>(args); }

void recur(const KernelArgs& args) {
  if (is_half(args.input(0).dtype())) return through_f32(args, recur);
  visit_inexact(args, [&]<class T>(T) {
    if constexpr (!is_half_type<T>)
      each_run(args, [&](int64_t at, const Lines& lines) {
        recur_lines<Wide<T>>(args.in_data<T>(0) + at, args.in_data<T>(1) + at, args.out_data<T>() + at, lines,
                             args.attrs.as<CumulativeParams>().reverse);
      });
  });
}

}  // namespace rill::cpu
