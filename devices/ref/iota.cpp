// Reference kernels of full and iota. Computed in double (integers in int64) and rounded once.
#include "rill/devices/params/shape_params.h"
#include "rill/devices/ref/iterate.h"
#include "rill/devices/ref/shape_kernels.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::ref {

void full(const KernelArgs& a) {
  const FillValue& value = a.attrs.as<FullAttrs>().value;
  visit_dtype(a.output().dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* out = a.out_data<T>();
    for (int64_t i = 0, n = a.output().size(); i < n; ++i) out[i] = value.as<T>();
  });
}

namespace {
template <class T>
T count(const IotaAttrs& p, int64_t i) {
  if constexpr (std::is_integral_v<T>) return T(uint64_t(p.start.whole) + uint64_t(p.step.whole) * uint64_t(i));
  else if constexpr (std::is_same_v<T, std::string>) return {};
  else return convert_number<T>(p.start.real + p.step.real * double(i));
}
}  // namespace

void iota(const KernelArgs& a) {
  const auto& p = a.attrs.as<IotaAttrs>();
  visit_dtype(a.output().dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* out = a.out_data<T>();
    for_each_index(a.output().shape(), [&](const Ints& index) { *out++ = count<T>(p, index[size_t(p.axis)]); });
  });
}

}  // namespace rill::ref
