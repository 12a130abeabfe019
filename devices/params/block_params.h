// Kernels on numbers in blocks (ops/blocks.h).
#pragma once
#include "rill/devices/kernel.h"

#pragma GCC visibility push(default)

namespace rill {

struct BlockParams {
  int64_t type = 0;  // GgufType::code
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("type", s.type);
  }
};

#pragma GCC visibility pop  // kernels are not shown

namespace cpu {
void from_blocks(const KernelArgs& args);
void block_matmul(const KernelArgs& args);
}  // namespace cpu
namespace ref {
void from_blocks(const KernelArgs& args);
void block_matmul(const KernelArgs& args);
}  // namespace ref

}  // namespace rill
