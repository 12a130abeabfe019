// Where squares leave a dtype's range, or third powers of what normalises, which gradients hold; and what the numbers are
// multiplied by first then, so that norms of numbers of any size are right.
#pragma once

namespace rill {

template <class T>
struct SquareExtremes {
  static constexpr bool wide = sizeof(T) == 8;
  // Means of squares within these are used as they are.
  static constexpr double most = wide ? 0x1p600 : 0x1p80, least = wide ? 0x1p-600 : 0x1p-80;
  static constexpr double down = wide ? 0x1p-540 : 0x1p-80, up = wide ? 0x1p540 : 0x1p80;
  // An epsilon that is larger hides what is below `least`.
  static constexpr double felt_epsilon = wide ? 0x1p-540 : 0x1p-56;
};

}  // namespace rill
