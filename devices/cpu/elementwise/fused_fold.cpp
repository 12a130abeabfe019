// Fused kernels whose first output is reduced: the kernel computes the elements of the reduction tree, tile by tile.
#include "rill/devices/cpu/elementwise/fused_fold.h"
#include "rill/devices/cpu/elementwise/fused_call.h"
#include "rill/devices/cpu/reduce/reduce_fold.h"

namespace rill::cpu {

namespace {

template <class T>
const ReduceLoops<T>& loops_of(kernel::Code code) {
  const ReduceTables& t = reduce_tables();
  constexpr bool is_f32 = std::is_same_v<T, float>;
  using kernel::Code;
  if constexpr (is_f32)
    return code == Code::reduce_sum    ? t.sum_f32
           : code == Code::reduce_prod ? t.prod_f32
           : code == Code::reduce_max  ? t.max_f32
                                       : t.min_f32;
  else
    return code == Code::reduce_sum    ? t.sum_f64
           : code == Code::reduce_prod ? t.prod_f64
           : code == Code::reduce_max  ? t.max_f64
                                       : t.min_f64;
}

template <class T>
void fold_points(const FusedCall& call, Tensor& out) {
  const FusedKernel& f = call.f;
  FoldAxes axes;
  int64_t stride = 1;
  for (int64_t size : f.space) axes.push_back({size, 0, false});
  for (size_t i = f.space.size(); i-- > 0; stride *= f.space[i])
    axes[i].stride = stride, axes[i].reduced = f.fold->reduced[i];
  const Produce<T> produce = {[](const void* context, int64_t first, int64_t rows, int64_t step, int64_t width, T* to) {
                                static_cast<const FusedCall*>(context)->tile(first, rows, step, width, 0,
                                                                             reinterpret_cast<char*>(to), sizeof(T));
                              },
                              &call};
  fold<T>(std::move(axes), loops_of<T>(f.fold->code), nullptr, sizeof(T), nullptr, out.mutable_rep()->data, out.dtype(),
          out.dtype() == dtype_of<T>(), &produce);
}

}  // namespace

void fold_fused(const FusedKernel& f, const FusedLayout& layout, std::span<char* const> base, Tensor& out) {
  FusedCall call{f, layout, Pointers(base.begin(), base.end())};
  if (f.kernel.outputs[0].dtype == DType::f64) fold_points<double>(call, out);
  else fold_points<float>(call, out);
}

}  // namespace rill::cpu
