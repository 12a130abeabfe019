// See through_f32.h.
#include "rill/devices/cpu/elementwise/through_f32.h"

#include "rill/devices/cpu/elementwise/elementwise.h"
#include "rill/devices/cpu/move/strided_copy.h"
#include "rill/devices/cpu/product/packed_operands.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"

namespace rill::cpu {
namespace {

// Converts between f32 and f16 or bf16, both dense.
void convert(const Tensor& from, Tensor& to) {
  parallel_for(from.size(), 32768, [&](int64_t begin, int64_t end) {
    convert_run(from.dtype(), from.rep()->data + begin * int64_t(size_of(from.dtype())), to.dtype(),
                to.mutable_rep()->data + begin * int64_t(size_of(to.dtype())), size_t(end - begin));
  });
}

// In host memory, whichever of the host's devices x is on.
Tensor empty_on_host(const Tensor& x, DType dtype) { return empty_tensor(Spec{x.shape(), dtype, false, Device()}); }

Tensor widened(const Tensor& x) {
  if (!is_half(x.dtype())) return x;
  Tensor dense = x;
  if (!x.is_contiguous()) {
    dense = empty_on_host(x, x.dtype());
    strided_copy(x.dtype(), x.shape(), x.rep()->data, x.strides(), dense.mutable_rep()->data, dense.strides());
  }
  Tensor wide = empty_on_host(x, DType::f32);
  convert(dense, wide);
  return wide;
}

// Weights that never change, widened once, and what the kernel of f32 keeps of them.
struct WidenedOperand : PackedAny {
  Tensor operand, wide;
  mutable Packed packed;
};
// Null if they are not halves, or if other weights are kept.
std::shared_ptr<const WidenedOperand> widened_once(const KernelArgs& args) {
  if (!args.packed || args.in.size() < 2 || !is_half(args.input(1).dtype())) return nullptr;
  const Tensor& x = args.input(1);
  auto kept = kept_in<WidenedOperand, WidenedOperand>(*args.packed, [&] {
    auto made = std::make_shared<WidenedOperand>();
    made->kind = &packed_kind<WidenedOperand>;
    made->operand = x;
    made->wide = widened(x);
    return made;
  });
  const bool same = kept && kept->operand.rep()->data == x.rep()->data && kept->operand.shape() == x.shape() &&
                    kept->operand.strides() == x.strides() && kept->operand.dtype() == x.dtype();
  return same ? kept : nullptr;
}

}  // namespace

void through_f32(const KernelArgs& args, Kernel kernel) {
  Tensors in, out;
  const std::shared_ptr<const WidenedOperand> weights = widened_once(args);
  for (const Tensor* t : args.in) in.push_back(weights && in.size() == 1 ? weights->wide : widened(*t));
  for (const Tensor* t : args.out) out.push_back(is_half(t->dtype()) ? empty_on_host(*t, DType::f32) : *t);
  SmallVec<const Tensor*, 4> in_pointers;
  SmallVec<Tensor*, 4> out_pointers;
  for (const Tensor& t : in) in_pointers.push_back(&t);
  for (Tensor& t : out) out_pointers.push_back(&t);
  kernel(KernelArgs{
      in_pointers, {out_pointers.data(), out_pointers.size()}, args.attrs, weights ? &weights->packed : nullptr});
  for (size_t i = 0; i < out.size(); ++i)
    if (is_half(args.out[i]->dtype())) convert(out[i], *args.out[i]);
}

}  // namespace rill::cpu
