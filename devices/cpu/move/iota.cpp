// The CPU kernel of iota. Runs along the axis are generated in blocks whose loops the compiler vectorises: integers add
// an offset to the block's first number, floats are computed in double and rounded once, as in devices/ref/iota.cpp.
#include <hwy/base.h>

#include <algorithm>

#include "rill/devices/cpu/elementwise/halves.h"
#include "rill/devices/cpu/move/shape_kernels.h"
#include "rill/devices/kernel/convert.h"
#include "rill/devices/params/shape_params.h"
#include "rill/devices/threads.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::cpu {
namespace {

constexpr size_t block = 64;

// Writes blocks by a loop of fixed length into memory that nothing aliases, so that the compiler vectorises it; the
// last, shorter block is copied.
template <class T, class F>
void in_blocks(T* out, size_t n, F fill) {
  for (; n >= block; n -= block, out += block) fill(out);
  T last[block];
  if (n > 0) fill(last), std::copy_n(last, n, out);
}

// out[j] = first + j * step, wrapping.
template <class T>
void count_whole(uint64_t first, uint64_t step, T* out, size_t n) {
  using U = std::make_unsigned_t<T>;
  U offset[block];
  for (size_t j = 0; j < block; ++j) offset[j] = U(step * j);
  in_blocks(out, n, [&, at = first](T* HWY_RESTRICT y) mutable {
    for (size_t j = 0; j < block; ++j) y[j] = T(U(U(at) + offset[j]));
    at += step * block;
  });
}

// out[j] = start + (first + j) * step.
template <class T>
void count_real(double start, double step, double first, T* out, size_t n) {
  double ahead[block];
  for (size_t j = 0; j < block; ++j) ahead[j] = double(j);
  in_blocks(out, n, [&, at = first](T* HWY_RESTRICT y) mutable {
    const double begin = start, by = step, base = at;  // copies, which cannot alias y
    if constexpr (is_half_type<T>) {
      float wide[block];
      for (size_t j = 0; j < block; ++j) wide[j] = float_for_half(begin + by * (base + ahead[j]));
      convert_halves(wide, y, block);
    } else {
      for (size_t j = 0; j < block; ++j) y[j] = T(begin + by * (base + ahead[j]));
    }
    at += double(block);
  });
}

// The numbers at indices [first, first + n) of the axis.
template <class T>
void count(const IotaAttrs& p, int64_t first, T* out, int64_t n) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    const uint64_t step = uint64_t(p.step.whole);
    count_whole(uint64_t(p.start.whole) + step * uint64_t(first), step, out, size_t(n));
  } else if constexpr (std::is_floating_point_v<T> || is_half_type<T>) {
    count_real(p.start.real, p.step.real, double(first), out, size_t(n));
  }
}

}  // namespace

void iota(const KernelArgs& a) {
  const auto& p = a.attrs.as<IotaAttrs>();
  const Shape& shape = a.output().shape();
  const int64_t size = shape[size_t(p.axis)];
  int64_t inner = 1;  // elements after the axis, which have the same number
  for (size_t i = size_t(p.axis) + 1; i < shape.size(); ++i) inner *= shape[i];
  visit_dtype(a.output().dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* const out = a.out_data<T>();
    const int64_t n = a.output().size();
    if (n == 0) return;
    parallel_for(n / inner, std::max<int64_t>(1, 32 * 1024 / inner), [&](int64_t begin, int64_t end) {
      while (begin < end) {
        const int64_t at = begin % size, run = inner == 1 ? std::min(end - begin, size - at) : 1;
        count(p, at, out + begin * inner, run);
        if (inner > 1) std::fill_n(out + begin * inner + 1, inner - 1, out[begin * inner]);
        begin += run;
      }
    });
  });
}

}  // namespace rill::cpu
