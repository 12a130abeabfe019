// The kernel of exchange.cuh that sums the blocks of a group's members.
#include "rill/devices/cuda/driver/exchange.h"

#include "rill/devices/cuda/families/exchange_params.h"
#include "rill/devices/cuda/families/families.h"

namespace rill::cuda {

namespace {

std::string type_of_sum(DType d) {
  return is_complex(d) ? fmt::format("Complex<{}>", name(real_of(d))) : std::string(name(d));
}
std::string_view combination(Combine c) {
  switch (c) {
    case Combine::sum:
    case Combine::mean: return "SumOf";
    case Combine::product: return "ProductOf";
    case Combine::max: return "LargerOf";
    case Combine::min: return "SmallerOf";
  }
  return "?";
}

}  // namespace

void add_up(Gpu& gpu, const ExchangeSum& sum, int members, int me, Stream stream) {
  if (sum.count == 0) return;
  const std::string stored = type_of_sum(sum.dtype), wide = is_half(sum.dtype) ? "f32" : stored;
  const Function f = kernel_of(gpu, {exchange_family, "AddingUp",
                                     fmt::format("add_up<{}, {}, {}<{}>, {}>", stored, wide, combination(sum.combine),
                                                 wide, sum.combine == Combine::mean)});
  AddingUp s{sum.blocks, sum.own, sum.to, sum.count, sum.stride, members, me};
  void* list[] = {&s};
  gpu.enter();
  RILL_CUDA(cuLaunchKernel, f, gpu.blocks_for(sum.count), 1, 1, 256, 1, 1, 0, stream, list, nullptr);
}

}  // namespace rill::cuda
