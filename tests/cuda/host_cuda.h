// The vocabulary of CUDA C++ for the host's compiler, so that tests run the text of kernels without a GPU. Each kernel
// is compiled by itself, thousands of them, so this has only declarations: their definitions are in host_cuda.cpp,
// compiled once, which explains how threads run.
#pragma once
#include <math.h>
#include <string.h>

#define RILL_ON_HOST
#define __global__
#define __device__
#define __shared__ static thread_local

// A kernel is a function of its parameters' address; NAME_bytes() returns their size.
#define RILL_KERNEL(name, Params)                                                 \
  static void name##_of(const Params s);                                          \
  extern "C" void name(const void* params) { name##_of(*(const Params*)params); } \
  extern "C" unsigned name##_bytes() { return sizeof(Params); }                   \
  static void name##_of(const Params s)

extern "C" {
// The distance of a device's memory from its address: the simulated driver sets it.
extern long long rill_shift;
// Aborts the program: a GPU faults if an access is not aligned to its type, which the host would not.
[[noreturn]] void rill_unaligned(const void* address, int bytes);
// Runs a kernel: called by the program that has loaded it.
void rill_launch(void (*kernel)(const void*), const void* params, unsigned grid, unsigned threads);
void rill_sync_block();
void rill_sync_warp();
// Where the threads of the running block store the values that they pass to others of their warp, by thread.
unsigned long long* rill_given();
}

struct Dim3 {
  unsigned x, y, z;
};
// At a fixed offset from the thread pointer, instead of by a call for each use. (A library that has kernels with shared
// memory in it has no room there, and defines it as __thread alone.)
#ifndef RILL_THREAD
#define RILL_THREAD __thread __attribute__((tls_model("initial-exec")))
#endif
extern "C" {
extern RILL_THREAD Dim3 gridDim, blockDim, blockIdx, threadIdx;
// Whether accesses are recorded, to find races (host_cuda.cpp), and the function that records them.
extern RILL_THREAD bool rill_records;
void rill_record(const void* address, int bytes, bool writes);
void rill_forget(const void* address, int bytes);  // an atomic operation's, which is no race
}
template <class T>
struct IsConst {
  enum { value = false };
};
template <class T>
struct IsConst<const T> {
  enum { value = true };
};
// Kernels only write through non-const pointers.
template <class T>
T* rill_at(T* p) {
  if ((unsigned long long)p % alignof(T) != 0) rill_unaligned((const void*)p, int(sizeof(T)));
  if (__builtin_expect(rill_records, false)) rill_record((const void*)p, int(sizeof(T)), !IsConst<T>::value);
  return (T*)((char*)p + rill_shift);
}
#define RILL_AT(pointer) rill_at(pointer)

inline void __syncthreads() { rill_sync_block(); }
inline void __syncwarp(unsigned = ~0u) { rill_sync_warp(); }
// Every lane of a warp must call it equally often.
template <class T>
T __shfl_sync(unsigned, T x, int lane) {
  static_assert(sizeof(T) <= sizeof(unsigned long long), "");
  unsigned long long* given = rill_given();
  const unsigned me = threadIdx.x;
  memcpy(&given[me], &x, sizeof(T));
  __syncwarp();
  T y;
  memcpy(&y, &given[me / 32 * 32 + unsigned(lane) % 32], sizeof(T));
  __syncwarp();
  return y;
}
template <class T>
T __shfl_down_sync(unsigned mask, T x, unsigned by) {
  const unsigned lane = threadIdx.x % 32;
  return __shfl_sync(mask, x, int(lane + by < 32 ? lane + by : lane));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int with) {
  return __shfl_sync(mask, x, int(threadIdx.x % 32) ^ with);
}
template <class T>
T __shfl_up_sync(unsigned mask, T x, unsigned by) {
  const unsigned lane = threadIdx.x % 32;
  return __shfl_sync(mask, x, int(lane >= by ? lane - by : lane));
}
// The values that every lane of the warp passes, by f(lane, its value).
template <class T, class F>
void __of_all_lanes(T x, F f) {
  unsigned long long* given = rill_given();
  const unsigned me = threadIdx.x;
  memcpy(&given[me], &x, sizeof(T));
  __syncwarp();
  for (unsigned i = 0; i < 32; ++i) {
    T y;
    memcpy(&y, &given[me / 32 * 32 + i], sizeof(T));
    f(i, y);
  }
  __syncwarp();
}
inline unsigned __ballot_sync(unsigned, int yes) {
  unsigned all = 0;
  __of_all_lanes(yes, [&](unsigned i, int y) { all |= unsigned(y != 0) << i; });
  return all;
}
template <class T>
unsigned __match_any_sync(unsigned, T x) {
  unsigned all = 0;
  __of_all_lanes(x, [&](unsigned i, T y) { all |= unsigned(y == x) << i; });
  return all;
}
// The computation of tensor cores for m16n8k16 of halves, of which each lane has its part (PTX, mma): here the 16
// products and the addend are summed in f64 and rounded once. (The real ones round in between, in an undocumented way.)
template <class Wide>
void __of_tensor_cores(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, Wide wide) {
  typedef unsigned long long Word;
  Word left[2][32], right[32];
  for (int k = 0; k < 2; ++k)
    __of_all_lanes(Word(a[2 * k]) | Word(a[2 * k + 1]) << 32, [&](unsigned i, Word y) { left[k][i] = y; });
  __of_all_lanes(Word(b0) | Word(b1) << 32, [&](unsigned i, Word y) { right[i] = y; });
  const unsigned lane = threadIdx.x % 32;
  for (int e = 0; e < 4; ++e) {
    const unsigned row = lane / 4, high = e / 2, column = lane % 4 * 2 + e % 2;
    double all = 0;
    for (unsigned k = 0; k < 16; ++k) {
      const unsigned half = 16 * (k % 2), with = k % 8 / 2;
      const Word x = left[k / 8][row * 4 + with] >> (32 * high + half),
                 y = right[column * 4 + with] >> (32 * (k / 8) + half);
      all += double(wide((unsigned short)x)) * double(wide((unsigned short)y));
    }
    sum[e] = float(double(sum[e]) + all);
  }
}
// The same for m16n8k8 of TF32, with a left operand whose columns are a result's, the even ones first.
inline void __of_tensor_cores_wide(float (&sum)[4], const float (&a)[4], float b0, float b1) {
  typedef unsigned long long Word;
  Word left[2][32], right[32];
  const auto pair = [](float low, float high) {
    unsigned l, h;
    memcpy(&l, &low, 4), memcpy(&h, &high, 4);
    return Word(l) | Word(h) << 32;
  };
  const auto part = [](Word x, unsigned high) {
    const unsigned bits = unsigned(x >> (32 * high));
    float y;
    memcpy(&y, &bits, 4);
    return double(y);
  };
  for (int high = 0; high < 2; ++high)
    __of_all_lanes(pair(a[2 * high], a[2 * high + 1]), [&](unsigned i, Word y) { left[high][i] = y; });
  __of_all_lanes(pair(b0, b1), [&](unsigned i, Word y) { right[i] = y; });
  const unsigned lane = threadIdx.x % 32;
  for (int e = 0; e < 4; ++e) {
    const unsigned row = lane / 4, column = lane % 4 * 2 + e % 2;
    double all = 0;
    for (unsigned k = 0; k < 8; ++k)
      all += part(left[e / 2][row * 4 + k % 4], k / 4) * part(right[column * 4 + k % 4], k / 4);
    sum[e] = float(double(sum[e]) + all);
  }
}
// Four 8 x 8 matrices of halves in shared memory; lane i has the address of row i % 8 of matrix i / 8 (PTX, ldmatrix).
inline void __load_matrices(unsigned (&to)[4], const unsigned short* row, bool turned) {
  const unsigned short* rows[32];
  __of_all_lanes(row, [&](unsigned i, const unsigned short* y) { rows[i] = y; });
  const unsigned lane = threadIdx.x % 32, far = lane / 4, near = lane % 4 * 2;
  for (unsigned m = 0; m < 4; ++m) {
    if ((unsigned long long)rows[8 * m + far] % 16 != 0) rill_unaligned(rows[8 * m + far], 16);
    const unsigned first = turned ? rows[8 * m + near][far] : rows[8 * m + far][near];
    const unsigned second = turned ? rows[8 * m + near + 1][far] : rows[8 * m + far][near + 1];
    to[m] = first | second << 16;
  }
  __syncwarp();
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }

// Streams are threads, so these are atomic. Kernels get their pointers by RILL_AT, which has recorded a write.
template <class T>
T atomicCAS(T* at, T from, T to) {
  __atomic_compare_exchange_n(at, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return from;
}
template <class T>
T atomicAdd(T* at, T by) {
  if (__builtin_expect(rill_records, false)) rill_forget((const char*)at - rill_shift, int(sizeof(T)));
  T old, sum;
  __atomic_load(at, &old, __ATOMIC_SEQ_CST);
  do sum = old + by;
  while (!__atomic_compare_exchange(at, &old, &sum, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}
