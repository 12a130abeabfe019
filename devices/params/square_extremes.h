// Where sums of squares leave a dtype's range, and what the numbers are multiplied by first then: for norms of numbers
// so large or small that only their squares overflow or vanish.
#pragma once
#include <limits>

namespace rill {

template <class T>
struct SquareExtremes {
  static constexpr bool wide = sizeof(T) == 8;
  static constexpr double most = double(std::numeric_limits<T>::max());  // a mean of squares that is larger is infinite
  static constexpr double least = wide ? 0x1p-900 : 0x1p-100;            // one that is smaller has lost digits
  static constexpr double down = wide ? 0x1p-540 : 0x1p-80, up = wide ? 0x1p500 : 0x1p80;
  // An epsilon that is larger hides what `least` is about.
  static constexpr double felt_epsilon = wide ? 0x1p-840 : 0x1p-76;
};

}  // namespace rill
