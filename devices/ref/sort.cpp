// Sorting by comparison of the elements' values, with the standard library's stable sort.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "rill/devices/params/reduce_params.h"
#include "rill/devices/ref/iterate.h"

namespace rill::ref {
namespace {

// Whether `a` comes before `b`: NaN comes after everything else.
template <class W>
bool before(const W& a, const W& b, bool descending) {
  if (is_nan(a)) return false;
  if (is_nan(b)) return true;
  return descending ? b < a : a < b;
}

// Element `i` of those from `from` on, which are `step` elements apart.
template <class W>
W element(const Tensor& x, int64_t from, int64_t step, int64_t i) {
  return load_wide<W>(x.dtype(), x.rep()->data + (from + i * step) * int64_t(size_of(x.dtype())));
}

// Calls f for a zero of a real type.
template <class F>
void visit_real_kind(DType d, F&& f) {
  visit_kind(d, [&]<class W>(W zero) {
    if constexpr (!std::is_same_v<W, Complex>) f(zero);
  });
}

// The indices 0 ... n-1 of the line of x that starts at element `from`, sorted.
std::vector<int64_t> sorted_indices(const Tensor& x, int64_t from, int64_t axis, bool descending) {
  std::vector<int64_t> order(size_t(x.shape()[size_t(axis)]));
  std::iota(order.begin(), order.end(), int64_t(0));
  visit_real_kind(x.dtype(), [&]<class W>(W) {
    const auto at = [&](int64_t i) { return element<W>(x, from, x.strides()[size_t(axis)], i); };
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return before(at(a), at(b), descending); });
  });
  return order;
}

// Calls f(from, order, index) for every line: its first element, its sorted indices, the index of its first element.
template <class F>
void for_each_order(const KernelArgs& args, int64_t axis, bool descending, F&& f) {
  const Tensor& x = args.input(0);
  if (x.shape()[size_t(axis)] == 0) return;
  for_each_line(x.shape(), axis, [&](const Ints& index) {
    const int64_t from = offset(x.strides(), index);
    f(from, sorted_indices(x, from, axis, descending), index);
  });
}

// Writes the first `count` elements in order to the line of args' first output that starts at `index`.
void put(const KernelArgs& args, int64_t axis, int64_t from, const std::vector<int64_t>& order, int64_t count,
         const Ints& index) {
  const Tensor& x = args.input(0);
  const Strides to = contiguous_strides(args.output().shape());
  const int64_t size = int64_t(size_of(x.dtype()));
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(args.out_data<char>() + (offset(to, index) + i * to[size_t(axis)]) * size,
                x.rep()->data + (from + order[size_t(i)] * x.strides()[size_t(axis)]) * size, size_t(size));
}
void put_positions(int64_t* out, const Shape& shape, int64_t axis, const std::vector<int64_t>& order, int64_t count,
                   const Ints& index) {
  const Strides to = contiguous_strides(shape);
  for (int64_t i = 0; i < count; ++i) out[offset(to, index) + i * to[size_t(axis)]] = order[size_t(i)];
}

}  // namespace

void sort(const KernelArgs& args) {
  const auto& p = args.attrs.as<SortParams>();
  for_each_order(args, p.axis, p.descending, [&](int64_t from, const std::vector<int64_t>& order, const Ints& index) {
    put(args, p.axis, from, order, int64_t(order.size()), index);
  });
}

void argsort(const KernelArgs& args) {
  const auto& p = args.attrs.as<SortParams>();
  for_each_order(args, p.axis, p.descending, [&](int64_t, const std::vector<int64_t>& order, const Ints& index) {
    put_positions(args.out_data<int64_t>(), args.output().shape(), p.axis, order, int64_t(order.size()), index);
  });
}

void topk(const KernelArgs& args) {
  const auto& p = args.attrs.as<TopKParams>();
  for_each_order(args, p.axis, p.largest, [&](int64_t from, const std::vector<int64_t>& order, const Ints& index) {
    put(args, p.axis, from, order, p.k, index);
    put_positions(args.out_data<int64_t>(1), args.output(1).shape(), p.axis, order, p.k, index);
  });
}

void searchsorted(const KernelArgs& args) {
  const bool right = args.attrs.as<SearchParams>().right;
  const Tensor &sorted = args.input(0), &values = args.input(1);
  int64_t* out = args.out_data<int64_t>();
  visit_real_kind(sorted.dtype(), [&]<class W>(W) {
    for_each_index(values.shape(), [&](const Ints& index) {
      const W v = element<W>(values, offset(values.strides(), index), 0, 0);
      int64_t at = 0;
      for (; at < sorted.size(); ++at) {
        const W s = element<W>(sorted, 0, sorted.strides()[0], at);
        if (right ? before(v, s, false) : !before(s, v, false)) break;
      }
      *out++ = at;
    });
  });
}

}  // namespace rill::ref
