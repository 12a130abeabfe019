// An estimate of an element's memory, for limits in bytes.
#pragma once
#include "rill/data/item.h"
#include "rill/tensor/tensor.h"

namespace rill::data {

namespace detail {
class ByteCount final : public LeafVisitor {
 public:
  void tensor(Tensor& t) override {
    all += int64_t(sizeof(TensorRep));
    if (!t.defined()) return;
    all += int64_t(t.size()) * int64_t(size_of(t.dtype()));
    if (t.dtype() != DType::string) return;
    const Tensor dense = t.contiguous();
    const auto* const texts = reinterpret_cast<const std::string*>(dense.rep()->data);
    for (int64_t i = 0; i < int64_t(dense.size()); ++i) all += int64_t(texts[i].capacity());
  }
  void constant(const void*, size_t n) override { all += int64_t(n); }
  int64_t all = int64_t(sizeof(Item));
};
}  // namespace detail

// Its tensors, each as if it shared no memory, and everything else in it.
inline int64_t bytes_of(Item& x) {
  detail::ByteCount count;
  x.visit(count);
  return count.all;
}

}  // namespace rill::data
