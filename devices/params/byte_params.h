// Kernels of products of bytes (ops/product/byte_products.h): u8 and i8 less their zero points, added up in i32.
#pragma once
#include "rill/devices/kernel.h"

namespace rill {

namespace cpu {
void byte_matmul(const KernelArgs& args);
void byte_conv(const KernelArgs& args);
}  // namespace cpu
namespace ref {
void byte_matmul(const KernelArgs& args);
void byte_conv(const KernelArgs& args);
}  // namespace ref

}  // namespace rill
