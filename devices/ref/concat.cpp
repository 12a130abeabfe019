// Reference kernel of concat.
#include "rill/devices/params/shape_params.h"
#include "rill/devices/ref/iterate.h"
#include "rill/devices/ref/shape_kernels.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::ref {

namespace {
// Copies the elements of `from` into the dense `to`, shifted by `shift` along `axis`.
template <class T>
void copy_into(const Tensor& from, T* to, const Strides& strides, int64_t axis, int64_t shift) {
  const T* data = reinterpret_cast<const T*>(from.rep()->data);
  for_each_index(from.shape(), [&](const Ints& index) {
    Ints at(index);
    at[size_t(axis)] += shift;
    to[offset(strides, at)] = data[offset(from.strides(), index)];
  });
}
}  // namespace

void concat(const KernelArgs& a) {
  int64_t axis = a.attrs.as<ConcatAttrs>().axis;
  visit_dtype(moved_as(a.output().dtype()), [&](auto zero) {
    int64_t shift = 0;
    for (const Tensor* t : a.in) {
      copy_into(*t, a.out_data<decltype(zero)>(), a.output().strides(), axis, shift);
      shift += t->shape()[size_t(axis)];
    }
  });
}

}  // namespace rill::ref
