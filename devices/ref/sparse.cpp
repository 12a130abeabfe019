// Products with a sparse matrix, by their definition: one entry after the other, in long double.
#include <fmt/format.h>

#include <vector>

#include "rill/devices/params/sparse_params.h"
#include "rill/devices/ref/iterate.h"

namespace rill::ref {
namespace {

template <class W>
W sum_and_product(W sum, W x, W y) {
  if constexpr (std::is_integral_v<W>) return W(uint64_t(sum) + uint64_t(x) * uint64_t(y));
  else return sum + x * y;
}

// Element `i` of a dense tensor.
template <class W>
W element(const Tensor& t, int64_t i) {
  return load_wide<W>(t.dtype(), t.rep()->data + i * int64_t(size_of(t.dtype())));
}

int64_t checked(const Tensor& indices, int64_t e, int64_t size, std::string_view what) {
  const int64_t i = element<int64_t>(indices, e);
  if (i < 0 || i >= size)
    fail("sparse", fmt::format("entry {} has the {} index {}, and there are {} {}s", e, what, i, size, what));
  return i;
}

template <class W>
void store(const Tensor& out, const std::vector<W>& sums) {
  for (size_t i = 0; i < sums.size(); ++i) store_wide(out.dtype(), out.rep()->data + i * size_of(out.dtype()), sums[i]);
}

}  // namespace

void sparse_matmul(const KernelArgs& a) {
  const Tensor &values = a.input(0), &dense = a.input(3);
  const int64_t n = dense.shape()[1], m = a.output().shape()[0];
  visit_kind(values.dtype(), [&]<class W>(W zero) {
    std::vector<W> sums(size_t(m * n), zero);
    for (int64_t e = 0; e < values.size(); ++e) {
      const int64_t row = checked(a.input(1), e, m, "row"), column = checked(a.input(2), e, dense.shape()[0], "column");
      for (int64_t j = 0; j < n; ++j) {
        W& sum = sums[size_t(row * n + j)];
        sum = sum_and_product<W>(sum, element<W>(values, e), element<W>(dense, column * n + j));
      }
    }
    store(a.output(), sums);
  });
}

void sampled_matmul(const KernelArgs& a) {
  const Tensor &x = a.input(0), &y = a.input(1);
  const int64_t n = x.shape()[1];
  visit_kind(x.dtype(), [&]<class W>(W zero) {
    std::vector<W> sums(size_t(a.output().size()), zero);
    for (int64_t e = 0; e < a.output().size(); ++e) {
      const int64_t row = checked(a.input(2), e, x.shape()[0], "row"),
                    column = checked(a.input(3), e, y.shape()[0], "column");
      for (int64_t j = 0; j < n; ++j)
        sums[size_t(e)] =
            sum_and_product<W>(sums[size_t(e)], element<W>(x, row * n + j), element<W>(y, column * n + j));
    }
    store(a.output(), sums);
  });
}

}  // namespace rill::ref
