// Memory for a matrix while it is factorised, from the allocator, which keeps it for the next one: new pages cost a tenth of
// the time that singular values of 512 rows take.
#pragma once
#include <algorithm>

#include "rill/devices/registry.h"

namespace rill::matrix {

template <class T>
class Numbers {
 public:
  Numbers() = default;
  explicit Numbers(size_t count) : buffer_(allocate(Device(), count * sizeof(T))), count_(count) {}  // of any value
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
