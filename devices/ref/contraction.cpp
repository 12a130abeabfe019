// dot_general, by its definition: for every element of the result, one loop over the contracted axes.
#include <algorithm>

#include "rill/devices/params/contraction_params.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::ref {
namespace {

// The type of sums: twice the precision of the elements; integers keep their own type.
template <class T>
auto wide(T x) {
  if constexpr (std::is_same_v<T, double>) return static_cast<long double>(x);
  else if constexpr (std::is_same_v<T, std::complex<double>>) return std::complex<long double>(x);
  else if constexpr (std::is_same_v<T, std::complex<float>>) return std::complex<double>(x);
  else if constexpr (std::is_integral_v<T>) return x;
  else return double(x);
}
template <class W>
W multiply_add(W sum, W a, W b) {
  if constexpr (std::is_same_v<W, bool>) return sum || (a && b);
  else if constexpr (std::is_integral_v<W>) return W(uint64_t(sum) + uint64_t(a) * uint64_t(b));
  else return sum + a * b;
}
template <class T, class W>
T narrow(W x) {
  if constexpr (std::is_same_v<T, std::complex<float>>) return T(float(x.real()), float(x.imag()));
  else if constexpr (std::is_same_v<T, std::complex<double>>) return T(double(x.real()), double(x.imag()));
  else return T(x);
}

Dims other_axes(const Tensor& t, const Dims& batch, const Dims& contract) {
  Dims out;
  for (int64_t a = 0; a < t.ndim(); ++a)
    if (std::count(batch.begin(), batch.end(), a) + std::count(contract.begin(), contract.end(), a) == 0)
      out.push_back(a);
  return out;
}

// The offset in elements of `index`, which is row-major over the sizes of `axes` of `t`.
int64_t offset_along(const Tensor& t, const Dims& axes, int64_t index) {
  int64_t at = 0;
  for (size_t i = axes.size(); i-- > 0;) {
    const int64_t n = t.shape()[size_t(axes[i])];
    at += index % n * t.strides()[size_t(axes[i])];
    index /= n;
  }
  return at;
}
int64_t count(const Tensor& t, const Dims& axes) {
  int64_t n = 1;
  for (int64_t a : axes) n *= t.shape()[size_t(a)];
  return n;
}

template <class T>
void run(const KernelArgs& args) {
  const ContractionParams& p = args.attrs.as<ContractionParams>();
  const Tensor &a = args.input(0), &b = args.input(1);
  const Dims a_free = other_axes(a, p.lhs_batch, p.lhs_contract), b_free = other_axes(b, p.rhs_batch, p.rhs_contract);
  const int64_t batch = count(a, p.lhs_batch), rows = count(a, a_free), columns = count(b, b_free),
                terms = count(a, p.lhs_contract);
  T* out = args.out_data<T>();
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        const T* x = args.in_data<T>(0) + offset_along(a, p.lhs_batch, n) + offset_along(a, a_free, i);
        const T* y = args.in_data<T>(1) + offset_along(b, p.rhs_batch, n) + offset_along(b, b_free, j);
        auto sum = wide(T());
        for (int64_t k = 0; k < terms; ++k)
          sum = multiply_add(sum, wide(x[offset_along(a, p.lhs_contract, k)]),
                             wide(y[offset_along(b, p.rhs_contract, k)]));
        *out++ = narrow<T>(sum);
      }
}

}  // namespace

void dot_general(const KernelArgs& args) {
  visit_dtype(args.output().dtype(), [&]<class T>(T) {
    if constexpr (!std::is_same_v<T, std::string>) run<T>(args);
  });
}

}  // namespace rill::ref
