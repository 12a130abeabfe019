// A matrix whose largest element is about 1, so that no square of an element overflows: multiplied by a power of two, which
// changes no significant digit.
#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

namespace rill::matrix {

template <class T>
class Scaled {
 public:
  Scaled(const T* a, int64_t count) : a_(a) {
    T most = 0;
    for (int64_t i = 0; i < count; ++i) most = std::max(most, std::abs(a[i]));
    constexpr int far = std::is_same_v<T, float> ? 30 : 300;
    if (most == 0 || std::abs(std::ilogb(most)) < far) return;
    exponent_ = std::ilogb(most);
    copy_.assign(a, a + count);
    for (T& x : copy_) x = std::scalbn(x, -exponent_);
    a_ = copy_.data();
  }
  const T* data() const { return a_; }
  // Rescales values of the scaled matrix to those of the original one.
  void put_back(T* values, int64_t count) const {
    if (exponent_ != 0)
      for (int64_t i = 0; i < count; ++i) values[i] = std::scalbn(values[i], exponent_);
  }

 private:
  const T* a_;
  std::vector<T> copy_;
  int exponent_ = 0;
};

}  // namespace rill::matrix
