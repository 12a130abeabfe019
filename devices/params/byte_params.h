// Kernels of products of bytes (ops/product/byte_products.h): u8 and i8 minus their zero points, summed in i32.
#pragma once
#include <memory>
#include <string>

#include "rill/devices/fused.h"
#include "rill/devices/kernel.h"

namespace rill {

// A product (or convolution) of bytes and the fused kernel that reads it as its operand `operand`. Operands: the
// product's four, then the kernel's others in order.
struct ByteTailParams {
  bool is_conv = false;
  Attrs attrs;  // the product's
  int operand = 0;
  std::shared_ptr<const FusedKernel> fused;

  std::string ops() const { return (is_conv ? "byte_conv, " : "byte_matmul, ") + fused->ops(); }
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("ops", s.ops());
    v("of", to_string(AttrsView(s.attrs)));
    v("kernel", kernel::to_string(s.fused->kernel));
  }
};

namespace cpu {
void byte_matmul(const KernelArgs& args);
void byte_conv(const KernelArgs& args);
void byte_tail(const KernelArgs& args);
}  // namespace cpu
namespace ref {
void byte_matmul(const KernelArgs& args);
void byte_conv(const KernelArgs& args);
}  // namespace ref

}  // namespace rill
