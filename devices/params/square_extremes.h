// The range in which squares, and cubes of inverse norms in gradients, neither overflow nor underflow, and the factors
// that scale numbers outside of it first, so that norms of numbers of any magnitude are right.
#pragma once

namespace rill {

template <class T>
struct SquareExtremes {
  static constexpr bool wide = sizeof(T) == 8;
  // Means of squares in this range are used as they are.
  static constexpr double most = wide ? 0x1p600 : 0x1p80, least = wide ? 0x1p-600 : 0x1p-80;
  static constexpr double down = wide ? 0x1p-540 : 0x1p-80, up = wide ? 0x1p540 : 0x1p80;
  // From this epsilon on, means of squares below `least` do not affect the result.
  static constexpr double dominant_epsilon = wide ? 0x1p-540 : 0x1p-56;
};

}  // namespace rill
