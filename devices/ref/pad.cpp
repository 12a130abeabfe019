// Reference kernels of pad and update_slice.
#include <algorithm>

#include "rill/devices/params/shape_params.h"
#include "rill/devices/ref/iterate.h"
#include "rill/devices/ref/shape_kernels.h"
#include "rill/devices/registry.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::ref {

void pad(const KernelArgs& a) {
  const auto& p = a.attrs.as<PadAttrs>();
  const Tensor& x = a.input(0);
  visit_stored_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* out = a.out_data<T>();
    std::fill_n(out, a.output().size(), p.value.as<T>());
    for_each_index(x.shape(), [&](const Ints& index) {
      Ints at(index);
      for (size_t i = 0; i < at.size(); ++i) {
        at[i] = p.lo[i] + index[i] * (p.interior[i] + 1);
        if (at[i] < 0 || at[i] >= a.output().shape()[i]) return;
      }
      out[offset(a.output().strides(), at)] = a.in_data<T>(0)[offset(x.strides(), index)];
    });
  });
}

void update_slice(const KernelArgs& a) {
  const auto& s = a.attrs.as<SliceAttrs>();
  if (a.input(0).rep()->data != a.output().rep()->data)
    copy_elements(a.input(0), a.output());  // otherwise it is updated in place
  Window w = slice_window(a.output().shape(), a.output().strides(), s);
  visit_dtype(moved_as(a.output().dtype()), [&](auto zero) {
    using T = decltype(zero);
    for_each_index(w.shape, [&](const Ints& index) {
      Ints kept;
      for (size_t i = 0; i < index.size(); ++i)
        if (std::find(s.drop.begin(), s.drop.end(), int64_t(i)) == s.drop.end()) kept.push_back(index[i]);
      a.out_data<T>()[w.offset + offset(w.strides, index)] = a.in_data<T>(1)[offset(a.input(1).strides(), kept)];
    });
  });
}

}  // namespace rill::ref
