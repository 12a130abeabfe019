// A vector times a matrix whose columns are dense, and the product of two vectors: gemm_tiles.cpp does not suit them,
// as its tiles read B along its rows. Start at product().
//
// With several columns each sum is added up as in the tiles, so that its bits do not depend on the layout of B. With
// one column, in any layout, the dot product has 128 bytes of partial sums, in blocks of k that are added in order: the
// same on every processor, for any number of threads. With set_deterministic(true) it is added up as with several
// columns, because then a row's bits may not depend on the other rows.
#include <algorithm>
#include <vector>

#include "rill/devices/cpu/product/gemm.h"
#include "rill/devices/cpu/unroll.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/product/gemm_dots.cpp"
// As in gemm_tiles.cpp: other instruction sets gain nothing here.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | (HWY_AVX3 - 1) | RILL_SVE_TARGETS)
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>

#include "rill/devices/cpu/product/gemm_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {

// As a lane of a vector does it.
template <class T>
HWY_INLINE T multiply_add(T a, T b, T sum) {
  const hn::CappedTag<T, 1> d;
  return hn::GetLane(hn::MulAdd(hn::Set(d, a), hn::Set(d, b), hn::Set(d, sum)));
}

// --- One column: a dot product in partial sums -----------------------------------------------------------------------

constexpr int64_t sums_bytes = 128, block_k = dot_block_k;

// sum_i a[i] b[i] for i below k.
template <class T>
HWY_NOINLINE T dot_block(const T* a, const T* b, int64_t k) {
  const hn::CappedTag<T, sums_bytes / sizeof(T)> d;
  constexpr int lanes = int(hn::MaxLanes(d)), vectors = int(sums_bytes / sizeof(T)) / lanes;
  hn::Vec<decltype(d)> sum[vectors];
  RILL_UNROLL for (int v = 0; v < vectors; ++v) sum[v] = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes * vectors <= k; i += lanes * vectors) {
    RILL_UNROLL for (int v = 0; v < vectors; ++v) {
      sum[v] = hn::MulAdd(hn::LoadU(d, a + i + v * lanes), hn::LoadU(d, b + i + v * lanes), sum[v]);
    }
  }
  HWY_ALIGN T rest[lanes * vectors];
  RILL_UNROLL for (int v = 0; v < vectors; ++v) hn::Store(sum[v], d, rest + v * lanes);
  for (int64_t j = i; j < k; ++j) rest[j - i] = multiply_add(a[j], b[j], rest[j - i]);
  for (int half = lanes * vectors / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) rest[j] += rest[j + half];
  return rest[0];
}

template <class T>
T dot(const T* a, const T* b, int64_t k) {
  if (k <= 2 * worth_a_thread) {
    T sum = dot_block(a, b, std::min(k, block_k));
    for (int64_t i = block_k; i < k; i += block_k) sum += dot_block(a + i, b + i, std::min(block_k, k - i));
    return sum;
  }
  std::vector<T> parts(size_t((k + block_k - 1) / block_k));
  parallel_for(int64_t(parts.size()), worth_a_thread / block_k, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      parts[size_t(p)] = dot_block(a + p * block_k, b + p * block_k, std::min(block_k, k - p * block_k));
  });
  T sum = parts[0];
  for (size_t p = 1; p < parts.size(); ++p) sum += parts[p];
  return sum;
}

// The sums of consecutive blocks of gemm_block_k, each in order of k: interleaved, because each addition waits for the
// one before it in the same sum.
template <int blocks, class T>
void blocks_in_order(const T* a, const T* b, T* sums) {
  T sum[blocks] = {};
  for (int64_t i = 0; i < gemm_block_k; ++i) {
    RILL_UNROLL for (int s = 0; s < blocks; ++s) sum[s] =
        multiply_add(a[s * gemm_block_k + i], b[s * gemm_block_k + i], sum[s]);
  }
  std::copy_n(sum, blocks, sums);
}

// The dot product summed as in every other product: in order of k, by blocks of gemm_block_k.
template <class T>
T dot_in_order(const T* a, const T* b, int64_t k) {
  constexpr int64_t block = gemm_block_k, together = 8;
  const int64_t full_blocks = k / block;
  std::vector<T> sums(size_t((k + block - 1) / block));
  parallel_for(full_blocks / together, 1 + worth_a_thread / (block * together), [&](int64_t begin, int64_t end) {
    for (int64_t g = begin * together; g < end * together; g += together)
      blocks_in_order<together>(a + g * block, b + g * block, &sums[size_t(g)]);
  });
  int64_t s = full_blocks / together * together;
  if (full_blocks & 4) blocks_in_order<4>(a + s * block, b + s * block, &sums[size_t(s)]), s += 4;
  if (full_blocks & 2) blocks_in_order<2>(a + s * block, b + s * block, &sums[size_t(s)]), s += 2;
  if (full_blocks & 1) blocks_in_order<1>(a + s * block, b + s * block, &sums[size_t(s)]);
  for (int64_t i = full_blocks * block; i < k; ++i) sums.back() = multiply_add(a[i], b[i], sums.back());
  T sum = sums[0];
  for (size_t i = 1; i < sums.size(); ++i) sum += sums[i];
  return sum;
}

// --- Several columns: one sum in each lane ---------------------------------------------------------------------------

#if HWY_TARGET != HWY_SCALAR
// c[j] = sum_i a[i] b[j * step + i] for G groups of columns, with as many columns in a group as lanes in 16 bytes.
template <int G, class T>
HWY_NOINLINE void groups(const T* a, const T* b, int64_t step, int64_t k, T* c) {
  constexpr int width = int(16 / sizeof(T));
  const hn::FixedTag<T, 16 / sizeof(T)> d;
  hn::Vec<decltype(d)> sum[G];
  RILL_UNROLL for (int g = 0; g < G; ++g) sum[g] = hn::Zero(d);
  int64_t i = 0;
  for (; i + width <= k; i += width) {
    RILL_UNROLL for (int g = 0; g < G; ++g) {
      hn::Vec<decltype(d)> rows[width];
      RILL_UNROLL for (int r = 0; r < width; ++r) rows[r] = hn::LoadU(d, b + (g * width + r) * step + i);
      transpose_squares(d, rows);
      RILL_UNROLL for (int r = 0; r < width; ++r) sum[g] = hn::MulAdd(hn::Set(d, a[i + r]), rows[r], sum[g]);
    }
  }
  RILL_UNROLL for (int g = 0; g < G; ++g) hn::StoreU(sum[g], d, c + g * width);
  for (; i < k; ++i)
    for (int j = 0; j < G * width; ++j) c[j] = multiply_add(a[i], b[j * step + i], c[j]);
}
#endif

// The same for any number of columns.
template <class T>
void block_of_columns(const T* a, const T* b, int64_t step, int64_t k, T* c, int64_t count) {
  int64_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int width = int(16 / sizeof(T)), together = 4;
  for (; j + together * width <= count; j += together * width) groups<together>(a, b + j * step, step, k, c + j);
  for (; j + width <= count; j += width) groups<1>(a, b + j * step, step, k, c + j);
#endif
  for (; j < count; ++j) {
    c[j] = 0;
    for (int64_t i = 0; i < k; ++i) c[j] = multiply_add(a[i], b[j * step + i], c[j]);
  }
}

template <class T>
void columns(const T* a, const T* b, int64_t step, int64_t k, T* c, int64_t count) {
  constexpr int64_t few = 64;
  for (int64_t j = 0; j < count; j += few) {
    const int64_t n = std::min(few, count - j);
    block_of_columns(a, b + j * step, step, std::min(k, gemm_block_k), c + j, n);
    for (int64_t i = gemm_block_k; i < k; i += gemm_block_k) {
      T more[few];
      block_of_columns(a + i, b + j * step + i, step, std::min(gemm_block_k, k - i), more, n);
      for (int64_t x = 0; x < n; ++x) c[j + x] += more[x];
    }
  }
}

// `x`, or a contiguous copy, which `copy` owns.
template <class T>
const T* dense(const T* x, int64_t step, int64_t count, Ref<Buffer>& copy) {
  if (step == 1 || count == 1) return x;
  copy = allocate(Device(), size_t(count) * sizeof(T));
  T* to = static_cast<T*>(copy->data);
  for (int64_t i = 0; i < count; ++i) to[i] = x[i * step];
  return to;
}

template <class T>
void product(const Gemm& g, const T* a, const T* b, T* c) {
  Ref<Buffer> of_a, of_b;
  a = dense(a, g.a_k, g.k, of_a);
  if (g.n == 1) {
    b = dense(b, g.b_k, g.k, of_b);
    *c = deterministic() ? dot_in_order(a, b, g.k) : dot(a, b, g.k);
  } else if (g.n * g.k < 2 * worth_a_thread) {
    columns(a, b, g.b_n, g.k, c, g.n);
  } else {
    parallel_for(g.n, 16 + worth_a_thread / g.k, [&](int64_t begin, int64_t end) {
      columns(a, b + begin * g.b_n, g.b_n, g.k, c + begin, end - begin);
    });
  }
}

void product_f32(const Gemm& g, const float* a, const float* b, float* c) { product(g, a, b, c); }
void product_f64(const Gemm& g, const double* a, const double* b, double* c) { product(g, a, b, c); }

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(product_f32);
HWY_EXPORT(product_f64);
void gemm_dots(const Gemm& g, const float* a, const float* b, float* c) {
  HWY_DYNAMIC_DISPATCH(product_f32)(g, a, b, c);
}
void gemm_dots(const Gemm& g, const double* a, const double* b, double* c) {
  HWY_DYNAMIC_DISPATCH(product_f64)(g, a, b, c);
}

}  // namespace rill::cpu
#endif
