// Fused kernels with outputs that are sums over all rows (the gradients of a scale or a bias), besides outputs that are
// rows or one number for each row: the kernel adds rows to accumulators, in the order that row_sums.h defines.
#include "rill/devices/cpu/elementwise/fused_sums.h"

#include "rill/devices/cpu/elementwise/fused_call.h"
#include "rill/devices/cpu/reduce/reduce_fold.h"
#include "rill/devices/cpu/reduce/row_sums.h"

namespace rill::cpu {

namespace {

template <class T>
void sum_points(const FusedCall& call, std::span<Tensor* const> out, int64_t grain) {
  const FusedKernel& f = call.f;
  const int64_t k = call.l.n;
  std::vector<size_t> added;  // the summed outputs
  std::vector<T*> sums;
  std::vector<std::unique_ptr<T[]>> wide;  // sums that are rounded to a narrower dtype
  for (size_t o = 0; o < out.size(); ++o) {
    if (!f.kernel.outputs[o].added) continue;
    added.push_back(o);
    if (out[o]->dtype() == dtype_of<T>()) sums.push_back(reinterpret_cast<T*>(out[o]->mutable_rep()->data));
    else sums.push_back(wide.emplace_back(std::make_unique_for_overwrite<T[]>(size_t(k))).get());
  }
  sum_rows(call.l.rows, k, int(added.size()), std::max<int64_t>(1, grain / std::max<int64_t>(1, k)), sums.data(),
           [&](int64_t begin, int64_t end, const RowSums<T>& to) {
             FusedCall own = call;
             for (size_t s = 0; s < added.size(); ++s)
               own.base[f.inputs.size() + added[s]] = reinterpret_cast<char*>(to.at(int64_t(s), 0));
             own.first_row = begin;
             own.wrap = to.wrap;
             own.rows(begin, end);
           });
  for (size_t s = 0; s < added.size(); ++s)
    if (Tensor& t = *out[added[s]]; t.dtype() != dtype_of<T>()) write(sums[s], k, t.dtype(), t.mutable_rep()->data);
}

}  // namespace

void sum_fused(const FusedKernel& f, const FusedLayout& layout, std::span<char* const> base,
               std::span<Tensor* const> out, int64_t grain) {
  const FusedCall call{f, layout, Pointers(base.begin(), base.end())};
  const auto added = std::find_if(f.kernel.outputs.begin(), f.kernel.outputs.end(), [](auto& o) { return o.added; });
  if (added->dtype == DType::f64) sum_points<double>(call, out, grain);
  else sum_points<float>(call, out, grain);
}

}  // namespace rill::cpu
