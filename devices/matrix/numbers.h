// Memory for a matrix while it is factorised, from the allocator, which caches it for the next one: page faults would
// take a tenth of the time of the singular values of 512 rows.
#pragma once
#include <algorithm>

#include "rill/devices/registry.h"

namespace rill::matrix {

template <class T>
class Numbers {
 public:
  Numbers() = default;
  explicit Numbers(size_t count) : buffer_(allocate(Device(), count * sizeof(T))), count_(count) {}  // uninitialised
  static Numbers zeros(size_t count) {
    Numbers n(count);
    std::fill_n(n.data(), count, T(0));
    return n;
  }
  T* data() const { return buffer_ ? static_cast<T*>(buffer_->data) : nullptr; }
  T& operator[](size_t i) const { return data()[i]; }
  size_t size() const { return count_; }

 private:
  Ref<Buffer> buffer_;
  size_t count_ = 0;
};

}  // namespace rill::matrix
