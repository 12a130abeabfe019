// For tests of the GPU: compares gpu:0, this machine's or the simulated one (tests/cuda), with the CPU.
#pragma once
#include <dlfcn.h>

#include <cmath>
#include <limits>

#include "op_check.h"

inline const rill::Device host("cpu:0"), gpu("gpu:0");

using op_check::to;

// A function of a library that is open; null if it has none, as real libraries lack those of the simulated ones.
template <class F>
F* of_library(const char* library, const char* name) {
  void* opened = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  return opened ? reinterpret_cast<F*>(dlsym(opened, name)) : nullptr;
}
// A function of the driver, which is opened first.
template <class F>
F* of_driver(const char* name) {
  static_cast<void>(dlopen("libcuda.so.1", RTLD_NOW));
  return of_library<F>("libcuda.so.1", name);
}

// Whether there is also a gpu:1. Cases that need one are skipped without.
inline bool has_second_gpu() { return rill::has_device("gpu:1"); }
inline constexpr const char* one_gpu = "this machine has one GPU";

// Whether the record's arithmetic calls the C library, for some arguments or all: a GPU calls CUDA's there, whose
// last bits may differ (docs/gpu_internals.md).
inline bool takes_library_numbers(const rill::Op& op) {
  for (const char* name : {"sin", "cos", "tan", "lgamma", "digamma"})
    if (op.name == name) return true;
  return false;
}

// Whether results far from 0 depend on an angle or exponent, 2/3 |x|^1.5, which the CPU has in long double and a GPU in
// f64: at -3e38 it has no digits, and at 88 a result loses three (docs/gpu_internals.md).
inline bool takes_large_angles(const rill::Op& op) { return op.name.starts_with("airy"); }

// The error in ulp of f64 results of special functions for which the CPU uses long double, and of draws that use CUDA's
// logarithms (docs/gpu_internals.md).
inline double lost_digits(const rill::Op& op, const rill::Tensor& want) {
  const bool is_special = op.kind == rill::OpKind::elementwise && !op.record_point;
  if ((!is_special && op.name != "random_gamma") || want.dtype() != rill::f64 || want.size() == 0) return 0;
  // A large result is e to an exponent whose last bits differ.
  const double largest = max(where(isfinite(want), abs(want), 0)).item<double>();
  return std::max(64., 2 * std::log(largest)) * std::numeric_limits<double>::epsilon() * largest;
}
