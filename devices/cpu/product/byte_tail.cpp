// A product or convolution of bytes, and the fused kernel that reads it: block by block, while the sums are in the
// cache.
#include "rill/devices/cpu/elementwise/fused_call.h"
#include "rill/devices/cpu/product/byte_products.h"
#include "rill/devices/params/byte_params.h"

namespace rill::cpu {

void byte_tail(const KernelArgs& args) {
  const ByteTailParams& p = args.attrs.as<ByteTailParams>();
  const FusedKernel& f = *p.fused;
  constexpr size_t of_product = 4;
  SmallVec<Tensor, 8> others;
  for (size_t i = of_product; i < args.in.size(); ++i) others.push_back(as_dense(*args.in[i]));
  Pointers base;
  size_t sums = 0;
  for (const FusedKernel::Access& a : f.inputs) {
    if (a.operand == p.operand) sums = base.size();
    base.push_back(a.operand < 0            ? FusedKernel::counter_start()
                   : a.operand == p.operand ? nullptr
                                            : others[size_t(a.operand - (a.operand > p.operand))].rep()->data);
  }
  for (Tensor* t : args.out) base.push_back(t->mutable_rep()->data);
  const FusedCall call{f, f.layout, std::move(base)};
  const KernelArgs product{args.in.first(of_product), {}, p.attrs, args.packed};
  (p.is_conv ? byte_conv_sums : byte_matmul_sums)(product, [&](const ByteSums& s) {
    call.read_tile(s.first, s.rows, s.row, s.columns, sums, reinterpret_cast<char*>(s.sums), s.step,
                   int64_t(sizeof(int32_t)));
  });
}

}  // namespace rill::cpu
