// C = A B on the CPU: one description of a product, and rill's own kernels for it. gemm_tiles.cpp reads the operands
// in place, gemm_blocks.cpp by blocks in the caches, gemm_dots.cpp is for vectors; gemm.cpp chooses.
//
// All of them add up an element of C in order of k, in blocks of gemm_block_k, so its bits depend on its row of A, its
// column of B and k alone: not on the kernel, the number of threads, the other rows, or the layout of the operands. The
// exception is a C of one element (gemm_dots.cpp), unless set_deterministic(true).
//
// What librill_ops calls of it (factorisations, products of blocks) has default visibility.
#pragma once
#include <cstdint>

#include "rill/devices/params/contraction_tail.h"

namespace rill::cpu {

// One product of matrices: C[m,n] = sum_k A[m,k] B[k,n]. Strides are in elements and may be anything; C is dense.
struct Gemm {
  int64_t m, n, k;
  int64_t a_m, a_k;  // A's strides along m and k
  int64_t b_k, b_n;  // B's strides along k and n
};

// The largest B (k * n elements) that gemm_small accepts if b_n != 1: it packs B on the stack.
inline constexpr int64_t small_gemm_pack = 64 * 64;
// The rows of C that it computes at once, reading B once for them.
inline constexpr int64_t few_rows = 6;

// Products are summed in blocks of this many k, and the blocks' sums in order: long sums are then more accurate.
inline constexpr int64_t gemm_block_k = 256;
// The same for a product of two vectors.
inline constexpr int64_t dot_block_k = 8192;
// Multiplications that take as long as waking another thread.
inline constexpr int64_t worth_a_thread = 1 << 16;

// Allocates nothing, and reads B in place: for products of a few microseconds, and of few rows. Threads share the rows,
// or the columns if there are few rows.
void gemm_small(const Gemm& g, const float* a, const float* b, float* c);
void gemm_small(const Gemm& g, const double* a, const double* b, double* c);
// One row of C (m == 1), if B's columns are dense (b_k == 1) or there is only one.
[[gnu::visibility("default")]] void gemm_dots(const Gemm& g, const float* a, const float* b, float* c);
[[gnu::visibility("default")]] void gemm_dots(const Gemm& g, const double* a, const double* b, double* c);

// The steps that follow a product, each with its operand except relu.
struct GemmTail {
  std::span<const TailStep> steps;
  const void* const* operands = nullptr;
};
// The operands of `steps`, which follow the product's two among a kernel's arguments; `operands` stores them.
inline GemmTail tail_of(const KernelArgs& args, std::span<const TailStep> steps, SmallVec<const void*, 8>& operands) {
  for (size_t i = 2; i < args.in.size(); ++i) operands.push_back(args.input(int(i)).rep()->data);
  return {steps, operands.data()};
}
template <class T>
struct GemmProduct {
  Gemm g;
  const T *a, *b;
  T* c;
  GemmTail tail = {};
  const T* packed_b = nullptr;  // b packed by pack_gemm(), which is then read instead
};
// Of any size, on all threads. If A's rows are not dense (a_k != 1), blocks of A are packed; for many rows, those of B.
[[gnu::visibility("default")]] void gemm_blocked(const GemmProduct<float>& p);
[[gnu::visibility("default")]] void gemm_blocked(const GemmProduct<double>& p);
// By the fastest of these.
void gemm(const Gemm& g, const float* a, const float* b, float* c);
// B packed for gemm_blocked, and its number of elements.
int64_t packed_gemm_size(const Gemm& g);
void pack_gemm(const Gemm& g, const float* b, float* to);

// Integers, of any size and strides (gemm_integers.cpp). Defined for unsigned ones of 8 to 64 bits.
template <class T>
void gemm_integers(const Gemm& g, const T* a, const T* b, T* c);
// Bools, as bytes of 0 and 1: c is whether any of the products is true. B's rows or columns are dense (b_n or b_k is
// 1).
void gemm_bools(const Gemm& g, const uint8_t* a, const uint8_t* b, uint8_t* c);

// The kernels of gemm_integers() for each instruction set: c[rows][width] = sum_k a[k][rows] b[k][width], all dense.
inline constexpr int integer_tile_rows = 4;
inline constexpr int64_t widest_integer_tile = 256;
template <class T>
struct IntegerTile {
  void (*run)(const T* a, const T* b, int64_t k, T* c);
  void (*row)(const T* a, const T* b, int64_t k, int64_t step, T* c);  // of 2 * width columns
  T (*dot)(const T* a, const T* b, int64_t k);
  int64_t width;
};
struct IntegerTiles {
  IntegerTile<uint16_t> u16;
  IntegerTile<uint32_t> u32;
  IntegerTile<uint64_t> u64;
  void (*row_u8)(const uint16_t* a, const uint8_t* b, int64_t k, int64_t step, uint16_t* c);  // as u16.row
};

}  // namespace rill::cpu
