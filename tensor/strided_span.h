// StridedSpan<T, rank>: a view of elements in memory, indexed by one number per axis, like std::mdspan with
// layout_stride. It converts to that where the standard library has it. It owns nothing; strided_span() in
// ops/buffers.h makes one from a tensor.
#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <version>
#ifdef __cpp_lib_mdspan
#include <mdspan>
#endif

#include "rill/tensor/error.h"

#pragma GCC visibility push(default)

namespace rill {

namespace detail {
[[noreturn]] void fail_span_index(int64_t index, int axis, int64_t size, const Where& where);
}

template <class T, int rank>
class StridedSpan {
  static_assert(rank >= 0, "a span has 0 axes or more");

 public:
  using element_type = T;
  using Numbers = std::array<int64_t, size_t(rank)>;

  StridedSpan() = default;
  // The element [0, ..., 0] is at `data`; sizes and strides are counted in elements.
  StridedSpan(T* data, const Numbers& sizes, const Numbers& strides) : data_(data), sizes_(sizes), strides_(strides) {}

  // The element at these indices, each in [0, size of its axis). Unchecked.
  template <std::integral... I>
    requires(sizeof...(I) == size_t(rank))
  T& operator()(I... i) const {
    return data_[offset({int64_t(i)...})];
  }
  // The same, but throws if an index is out of range.
  T& at(const Numbers& i, Where where = Where::current()) const {
    for (size_t k = 0; k < size_t(rank); ++k)
      if (i[k] < 0 || i[k] >= sizes_[k]) detail::fail_span_index(i[k], int(k), sizes_[k], where);
    return data_[offset(i)];
  }
  static constexpr int ndim() { return rank; }                       // the number of axes
  int64_t extent(int axis) const { return sizes_[size_t(axis)]; }    // the size of `axis`
  int64_t stride(int axis) const { return strides_[size_t(axis)]; }  // between neighbours along `axis`
  T* data() const { return data_; }                                  // the element [0, ..., 0]
  int64_t size() const {                                             // the number of elements
    int64_t n = 1;
    for (const int64_t s : sizes_) n *= s;
    return n;
  }

#ifdef __cpp_lib_mdspan
  // As the standard's, which has no negative strides: copy reversed axes first.
  operator std::mdspan<T, std::dextents<int64_t, size_t(rank)>, std::layout_stride>() const {
    using Extents = std::dextents<int64_t, size_t(rank)>;
    return {data_, std::layout_stride::mapping<Extents>(Extents(sizes_), strides_)};
  }
#endif

 private:
  int64_t offset(const Numbers& i) const {
    int64_t at = 0;
    for (size_t k = 0; k < size_t(rank); ++k) at += i[k] * strides_[k];
    return at;
  }
  T* data_ = nullptr;
  Numbers sizes_{}, strides_{};
};

}  // namespace rill

#pragma GCC visibility pop
