// Sorting by comparison of what the elements are, with the standard library's stable sort.
#include <algorithm>
#include <numeric>
#include <vector>

#include "rill/devices/params/reduce_params.h"
#include "rill/devices/ref/iterate.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::ref {
namespace {

// Whether `a` belongs before `b`: NaN belongs behind everything else.
template <class T>
bool before(const T& a, const T& b, bool descending) {
  if (is_nan(a)) return false;
  if (is_nan(b)) return true;
  return descending ? widen(b) < widen(a) : widen(a) < widen(b);
}

// The positions 0 ... n-1 of the numbers line[i * step], sorted.
template <class T>
std::vector<int64_t> sorted_positions(const T* line, int64_t n, int64_t step, bool descending) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t(0));
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return before(line[a * step], line[b * step], descending); });
  return order;
}

// Calls f(index, order, element) for every line, where order lists the line's positions sorted, `index` is of its
// first element, and element(i) reads position i.
template <class F>
void for_each_order(const KernelArgs& args, int64_t axis, bool descending, F&& f) {
  const Tensor& x = args.input(0);
  const int64_t n = x.shape()[size_t(axis)], step = x.strides()[size_t(axis)];
  visit_dtype(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T> || is_half_type<T>) {
      if (n == 0) return;
      for_each_line(x.shape(), axis, [&](const Ints& index) {
        const T* line = args.in_data<T>(0) + offset(x.strides(), index);
        f(index, sorted_positions(line, n, step, descending), [&](int64_t i) { return line[i * step]; });
      });
    }
  });
}

}  // namespace

void sort(const KernelArgs& args) {
  const auto& p = args.attrs.as<SortParams>();
  const Strides to = contiguous_strides(args.output().shape());
  for_each_order(args, p.axis, p.descending, [&](const Ints& index, const std::vector<int64_t>& order, auto element) {
    auto* out = args.out_data<decltype(element(0))>() + offset(to, index);
    for (size_t i = 0; i < order.size(); ++i) out[int64_t(i) * to[size_t(p.axis)]] = element(order[i]);
  });
}

void argsort(const KernelArgs& args) {
  const auto& p = args.attrs.as<SortParams>();
  const Strides to = contiguous_strides(args.output().shape());
  for_each_order(args, p.axis, p.descending, [&](const Ints& index, const std::vector<int64_t>& order, auto) {
    int64_t* out = args.out_data<int64_t>() + offset(to, index);
    for (size_t i = 0; i < order.size(); ++i) out[int64_t(i) * to[size_t(p.axis)]] = order[i];
  });
}

void topk(const KernelArgs& args) {
  const auto& p = args.attrs.as<TopKParams>();
  const Strides to = contiguous_strides(args.output().shape());
  for_each_order(args, p.axis, p.largest, [&](const Ints& index, const std::vector<int64_t>& order, auto element) {
    auto* values = args.out_data<decltype(element(0))>(0) + offset(to, index);
    int64_t* indices = args.out_data<int64_t>(1) + offset(to, index);
    for (int64_t i = 0; i < p.k; ++i) {
      indices[i * to[size_t(p.axis)]] = order[size_t(i)];
      values[i * to[size_t(p.axis)]] = element(order[size_t(i)]);
    }
  });
}

void searchsorted(const KernelArgs& args) {
  const bool right = args.attrs.as<SearchParams>().right;
  const Tensor &sorted = args.input(0), &values = args.input(1);
  visit_dtype(sorted.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T> || is_half_type<T>) {
      int64_t* out = args.out_data<int64_t>();
      for_each_index(values.shape(), [&](const Ints& index) {
        const T& v = args.in_data<T>(1)[offset(values.strides(), index)];
        int64_t at = 0;
        for (; at < sorted.size(); ++at) {
          const T& s = args.in_data<T>(0)[at * sorted.strides()[0]];
          if (right ? before(v, s, false) : !before(s, v, false)) break;
        }
        *out++ = at;
      });
    }
  });
}

}  // namespace rill::ref
