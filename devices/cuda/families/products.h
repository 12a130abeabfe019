// Products of matrices, for the launchers of matmul and of convolutions.
#pragma once
#include <array>

#include "rill/devices/cuda/driver/gpu.h"
#include "rill/devices/cuda/families/products_params.h"
#include "rill/tensor/tensor.h"

namespace rill::cuda {

// Appends a digit inside those of `w`, joined to the last one if both together have one stride. False if `w` is
// full.
bool add_digit(IndexLayout& w, int64_t size, int64_t stride, const std::array<int64_t, 3>& step = {});

// How the left operand is read; the numbers are those in products.cuh.
enum class LeftRead : int { plain = 0, through_window = 1, through_divided_window = 2 };

// Whether u32 holds every index, and int every index along a spatial axis.
bool fits_32_bits(const Product& p, LeftRead read);

// Computes `p` by cuBLASLt (unfolded.cpp). False if it is not there, refuses, or would be slower.
bool run_by_library(const Tensor& out, const Product& p, LeftRead read);

// Padding times an infinity is NaN, but the definition has no padding: recomputes those of `out` that are NaN, one by
// one. `out` holds `p`, whose layouts are filled in, as a library has computed it.
void correct_nans(const Tensor& out, Product p, LeftRead read);

// Computes `p` into all of `out`, dense: its operands' addresses, sizes and layouts are filled in; the rest is done
// here.
void run_product(const Tensor& out, Product p, LeftRead read);

}  // namespace rill::cuda
