// dot_general on the CPU: operands are treated as batches of matrices by their strides (gemm_sides.h), and each product
// goes to the fastest kernel for it. Start at dot_general().
#include "rill/devices/cpu/product/gemm.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <vector>

#include "rill/devices/cpu/elementwise/through_f32.h"
#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/cpu/product/gemm_halves.h"
#include "rill/devices/cpu/product/gemm_sides.h"
#include "rill/devices/cpu/product/packed_operands.h"
#include "rill/devices/params/contraction_params.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

namespace rill::cpu {
namespace {

// Which products gemm_small() computes: those of few multiplications or few rows, which read each element of b once.
// (The choice of the kernel changes no bits.)
constexpr int64_t small_gemm_flops = 72 * 72 * 72;
bool is_small(const Gemm& g) {
  const bool dense = g.b_n == 1 || g.n == 1;
  return (g.m * g.n * g.k <= small_gemm_flops && (dense || g.k * g.n <= small_gemm_pack)) || (dense && g.m <= few_rows);
}

// A product with one column is one with one row of the transposed matrices; the layout of C is the same.
bool is_column(const Gemm& g) { return g.n == 1 && g.m > 1; }
Gemm transposed(const Gemm& g) { return {g.n, g.m, g.k, g.b_n, g.b_k, g.a_k, g.a_m}; }
// A vector times a matrix whose columns are dense, or a product of two vectors.
bool is_dots(const Gemm& g) { return g.m == 1 && g.k > 0 && (g.n == 1 || (g.b_k == 1 && g.b_n != 1)); }
// Runs gemm_dots or gemm_small if the product suits one of them; false otherwise.
template <class T>
bool run_small(const Gemm& g, const T* a, const T* b, T* c) {
  if (is_dots(g)) gemm_dots(g, a, b, c);
  else if (is_small(g)) gemm_small(g, a, b, c);
  else return false;
  return true;
}

// A vector times dense columns of complex numbers, `step` apart: each complex sum is two real ones, of a column's real
// and imaginary parts.
template <class T>
void complex_dots(const std::complex<T>* lines, int64_t count, int64_t step, const std::complex<T>* x, int64_t x_step,
                  int64_t k, std::complex<T>* c) {
  std::vector<T> for_real(size_t(2 * k)), for_imag(size_t(2 * k)), real(size_t(count), 0), imag(size_t(count), 0);
  for (int64_t i = 0; i < k; ++i) {
    const std::complex<T> v = x[i * x_step];
    for_real[size_t(2 * i)] = v.real(), for_real[size_t(2 * i + 1)] = -v.imag();
    for_imag[size_t(2 * i)] = v.imag(), for_imag[size_t(2 * i + 1)] = v.real();
  }
  const Gemm g{1, count, 2 * k, 0, 1, 1, 2 * step};
  gemm_dots(g, for_real.data(), reinterpret_cast<const T*>(lines), real.data());
  gemm_dots(g, for_imag.data(), reinterpret_cast<const T*>(lines), imag.data());
  for (int64_t i = 0; i < count; ++i) c[i] = {real[size_t(i)], imag[size_t(i)]};
}

// A long row times a vector, in pieces that stay in the L1 cache.
template <class T>
std::complex<T> complex_dot(const std::complex<T>* line, const std::complex<T>* x, int64_t x_step, int64_t k) {
  constexpr int64_t piece = 1024;
  std::vector<std::complex<T>> sums(size_t((k + piece - 1) / piece));
  parallel_for(int64_t(sums.size()), worth_a_thread / piece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      complex_dots(line + i * piece, 1, 0, x + i * piece * x_step, x_step, std::min(piece, k - i * piece),
                   &sums[size_t(i)]);
  });
  for (size_t half = sums.size(); half > 1;) {  // pairwise, so that rounding errors stay small
    half = (half + 1) / 2;
    for (size_t i = half; i < sums.size(); ++i) sums[i - half] += sums[i];
    sums.resize(half);
  }
  return sums[0];
}

// Complex numbers by two real products, in which a column of B is two, its real and its imaginary parts: for A =
// x + iy, x B and y B, of which the second is multiplied by i and added.
template <class T>
void gemm_complex(const Gemm& g, const std::complex<T>* a, const std::complex<T>* b, std::complex<T>* c) {
  // Other layouts are copied, so that the order of a sum depends on the sizes alone.
  std::vector<std::complex<T>> room;
  const auto dense = [&](const std::complex<T>* x, int64_t rows, int64_t columns, int64_t row_step, int64_t step) {
    room.resize(size_t(rows * columns));
    strided_copy(dtype_of<std::complex<T>>(), Shape{rows, columns}, x, Strides{row_step, step}, room.data(),
                 Strides{columns, 1});
    return room.data();
  };
  if (g.n == 1) {
    const int64_t step = g.a_k == 1 ? g.a_m : g.k;
    if (g.a_k != 1) a = dense(a, g.m, g.k, g.a_m, g.a_k);
    if (g.m > 1 || deterministic()) complex_dots(a, g.m, step, b, g.b_k, g.k, c);
    else *c = complex_dot(a, b, g.b_k, g.k);
    return;
  }
  const int64_t b_k = g.b_n == 1 ? g.b_k : g.n;
  if (g.b_n != 1) b = dense(b, g.k, g.n, g.b_k, g.b_n);
  const Gemm real{g.m, 2 * g.n, g.k, 2 * g.a_m, 2 * g.a_k, 2 * b_k, 1};
  const T *x = reinterpret_cast<const T*>(a), *columns = reinterpret_cast<const T*>(b);
  const auto product = [&](const T* part, T* to) {
    if (!run_small(real, part, columns, to)) gemm_blocked(GemmProduct<T>{real, part, columns, to});
  };
  const Ref<Buffer> space = allocate(Device(), size_t(2 * g.m * g.n) * sizeof(T));
  T *out = reinterpret_cast<T*>(c), *rotated = static_cast<T*>(space->data);
  product(x, out);
  product(x + 1, rotated);
  parallel_for(g.m * g.n, worth_a_thread, [&](int64_t begin, int64_t end) {
    for (int64_t i = 2 * begin; i < 2 * end; i += 2) out[i] -= rotated[i + 1], out[i + 1] += rotated[i];
  });
}

// A batch whose matrices are all small, or of a type that only rill's own kernels support.
template <class T, class F>
void each_matrix(int64_t batch, const Gemm& g, const Side& a, const Side& b, T* c, bool parallel, F&& product) {
  // Few matrices, as in each step of a loop, must be larger to be worth a thread: it has nothing else to do afterwards.
  const int64_t worth = batch < 4 * num_threads() ? 2 * worth_a_thread : worth_a_thread;
  // A row or two take the time that reading b takes, which four rows would take as well.
  constexpr int64_t rows_of_reading = 4;
  const int64_t work = std::max(g.m, rows_of_reading) * g.n * g.k;
  const int64_t grain = parallel ? 1 + worth / (1 + work) : batch;
  parallel_for(batch, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      product(g, reinterpret_cast<const T*>(a.data) + a.offset(i), reinterpret_cast<const T*>(b.data) + b.offset(i),
              c + i * g.m * g.n);
  });
}

// Whether each thread computes some of the matrices of a batch, or all threads compute each matrix: an element's sum is
// the same in both. If the number of matrices divides evenly, no thread waits, and each matrix is read by one thread;
// but a few tiny ones take less time than waking another thread.
bool shares_batch(int64_t batch, const Gemm& g) {
  constexpr int64_t worth_threads = 1 << 18, waits_little = 1 << 23;
  const int64_t threads = num_threads(), multiplications = g.m * g.n * g.k;
  return batch >= 4 * threads ||
         (batch % threads == 0 && worth_threads <= multiplications && multiplications <= waits_little);
}

template <class T>
void own_float(int64_t batch, const Gemm& g, const Side& a, const Side& b, T* c) {
  if (is_small(g) || is_dots(g)) {
    each_matrix(batch, g, a, b, c, true, [](auto&&... x) { run_small(x...); });
  } else {
    each_matrix(batch, g, a, b, c, shares_batch(batch, g),
                [](const Gemm& g, const T* a, const T* b, T* c) { gemm_blocked(GemmProduct<T>{g, a, b, c}); });
  }
}

// The layout of b: its sizes and strides, the number of matrices and their distance.
struct PackedLayout {
  int64_t k, n, b_k, b_n, batch, stride;
  friend bool operator==(const PackedLayout&, const PackedLayout&) = default;
};
using PackedMatrices = std::shared_ptr<const PackedOperand<PackedLayout>>;

// The op's second operand packed for gemm_blocked, if it never changes and is read in place; else null.
PackedMatrices packed_matrices(const KernelArgs& args, int64_t batch, const Gemm& g, const Side& b) {
  int64_t stride;
  if (!args.packed || b.copy.defined() || !b.batch_stride(stride)) return nullptr;
  const PackedLayout layout{g.k, g.n, g.b_k, g.b_n, stride == 0 ? 1 : batch, stride};
  return packed_operand(*args.packed, args.input(1), b.data, layout, [&] {
    const int64_t size = packed_gemm_size(g);
    Ref<Buffer> buffer = allocate(Device(), size_t(layout.batch * size) * sizeof(float));
    for (int64_t i = 0; i < layout.batch; ++i)
      pack_gemm(g, b.as<float>() + i * stride, static_cast<float*>(buffer->data) + i * size);
    return buffer;
  });
}

void product_f32(const KernelArgs& args, int64_t batch, const Gemm& g, const Side& a, const Side& b, float* c,
                 bool exchanged) {
  const PackedMatrices packed = exchanged || is_small(g) || is_dots(g) ? nullptr : packed_matrices(args, batch, g, b);
  if (!packed) return own_float(batch, g, a, b, c);
  const float* of_b = static_cast<const float*>(packed->buffer->data);
  const int64_t size = packed->layout.stride == 0 ? 0 : packed_gemm_size(g);
  parallel_for(batch, shares_batch(batch, g) ? 1 : batch, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      gemm_blocked(GemmProduct<float>{g, a.as<float>() + a.offset(i), nullptr, c + i * g.m * g.n, {}, of_b + i * size});
  });
}

// Integers and bools, for which the order of a sum does not matter, and complex numbers.
void exact_or_complex(DType dtype, int64_t batch, const Gemm& g, const Side& a, const Side& b, void* c) {
  const auto each = [&]<class T>(T, auto product) {
    each_matrix(batch, g, a, b, static_cast<T*>(c), batch >= 4 * num_threads(), product);
  };
  const auto integers = [](auto&&... x) { gemm_integers(x...); };
  const auto complex = [](auto&&... x) { gemm_complex(x...); };
  if (is_bool(dtype)) each(uint8_t(), [](auto&&... x) { gemm_bools(x...); });
  else if (dtype == DType::c64) each(std::complex<float>(), complex);
  else if (dtype == DType::c128) each(std::complex<double>(), complex);
  else if (size_of(dtype) == 1) each(uint8_t(), integers);
  else if (size_of(dtype) == 2) each(uint16_t(), integers);
  else if (size_of(dtype) == 4) each(uint32_t(), integers);
  else each(uint64_t(), integers);
}

// A small 2-D f32 product without batch axes: the eager call whose cost is all overhead.
bool small_plain(const KernelArgs& args, const ContractionParams& p) {
  const TensorRep &a = *args.in[0]->rep(), &b = *args.in[1]->rep();
  if (a.spec.dtype != DType::f32 || a.spec.shape.size() != 2 || b.spec.shape.size() != 2) return false;
  if (p.lhs_contract.size() != 1 || p.lhs_contract[0] != 1 || p.rhs_contract[0] != 0 || !p.lhs_batch.empty())
    return false;
  const Gemm g{a.spec.shape[0], b.spec.shape[1], a.spec.shape[1], a.strides[0],
               a.strides[1],    b.strides[0],    b.strides[1]};
  if (is_column(g))
    return run_small(transposed(g), args.in_data<float>(1), args.in_data<float>(0), args.out_data<float>());
  return run_small(g, args.in_data<float>(0), args.in_data<float>(1), args.out_data<float>());
}

}  // namespace

void gemm(const Gemm& g, const float* a, const float* b, float* c) {
  if (is_column(g)) return gemm(transposed(g), b, a, c);
  if (!run_small(g, a, b, c)) gemm_blocked(GemmProduct<float>{g, a, b, c});
}

void dot_general(const KernelArgs& args) {
  const ContractionParams& p = args.attrs.as<ContractionParams>();
  if (small_plain(args, p)) return;
  Tensor& out = args.output();
  if (out.size() == 0) return;
  const DType dtype = out.dtype();
  const bool half = is_half(dtype);
  const bool dense_lines = half || dtype == DType::f32 || is_bool(dtype);
  Side a = look_at(args.input(0), p.lhs_batch, p.lhs_contract, dense_lines);
  Side b = look_at(args.input(1), p.rhs_batch, p.rhs_contract, dense_lines);
  Gemm g{a.free.size, b.free.size, a.contract.size, a.free.stride, a.contract.stride, b.contract.stride, b.free.stride};
  const bool exchanged = (is_floating(dtype) || is_integer(dtype)) && is_column(g);
  if (exchanged) {
    std::swap(a, b);
    g = transposed(g);
  }
  void* c = out.mutable_rep()->data;
  if (g.k == 0) {
    std::memset(c, 0, size_t(out.size()) * size_of(dtype));
    return;
  }
  const int64_t batch = out.size() / (g.m * g.n);

  // Chooses the kernel.
  if (half) {
    // oneDNN chooses the order of a sum by the sizes of the product.
    if (deterministic() || !product_of_halves(args, batch, g, a, b, c, exchanged)) through_f32(args, dot_general);
  } else if (dtype == DType::f32) {
    product_f32(args, batch, g, a, b, static_cast<float*>(c), exchanged);
  } else if (dtype == DType::f64) {
    own_float(batch, g, a, b, static_cast<double*>(c));
  } else {
    exact_or_complex(dtype, batch, g, a, b, c);
  }
}

bool dot_general_with_tail(const KernelArgs& args, std::span<const TailStep> steps) {
  const ContractionParams& p = args.attrs.as<ContractionParams>();
  Tensor& out = args.output();
  if (out.dtype() != DType::f32 || out.size() == 0 || !p.lhs_batch.empty()) return false;
  const Side a = look_at(args.input(0), p.lhs_batch, p.lhs_contract, true);
  const Side b = look_at(args.input(1), p.rhs_batch, p.rhs_contract, true);
  const Gemm g{a.free.size,       b.free.size,       a.contract.size, a.free.stride,
               a.contract.stride, b.contract.stride, b.free.stride};
  if (g.k == 0 || is_small(g) || is_column(g) || is_dots(g)) return false;
  SmallVec<const void*, 8> operands;
  const GemmTail tail = tail_of(args, steps, operands);
  const PackedMatrices packed = packed_matrices(args, 1, g, b);
  gemm_blocked(GemmProduct<float>{g, a.as<float>(), b.as<float>(), args.out_data<float>(), tail,
                                  packed ? static_cast<const float*>(packed->buffer->data) : nullptr});
  return true;
}

}  // namespace rill::cpu
