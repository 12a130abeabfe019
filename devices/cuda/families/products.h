// Products of matrices, as the launchers of matmul and of convolutions use it.
#pragma once
#include <array>

#include "rill/devices/cuda/driver/gpu.h"
#include "rill/devices/cuda/families/products_params.h"
#include "rill/tensor/tensor.h"

namespace rill::cuda {

// Appends a digit inside those of `w`, joined to the last one where both together have one stride. False where `w` is
// full.
bool add_digit(IndexLayout& w, int64_t size, int64_t stride, const std::array<int64_t, 3>& step = {});

// How the left operand is read, and the name of that in products.cuh.
enum class LeftRead : int { plain = 0, through_window = 1, through_divided_window = 2 };

// Whether u32 holds every index, and int every index along an axis of space.
bool fits_32_bits(const Product& p, LeftRead read);

// Computes `p` by cuBLASLt (unfolded.cpp). False where it is not there, refuses, or does not pay.
bool run_by_library(const Tensor& out, const Product& p, LeftRead read);

// Padding times an infinity is NaN, but the definition has no padding: computes those of `out` that are NaN once more,
// one by one. `out` holds `p`, whose walks are filled in, as a library has computed it.
void correct_nans(const Tensor& out, Product p, LeftRead read);

// Computes `p` into all of `out`, dense: its operands' addresses, sizes and walks are filled in; the rest is done here.
void run_product(const Tensor& out, Product p, LeftRead read);

}  // namespace rill::cuda
