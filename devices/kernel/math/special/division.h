// Division of floats with integer quotients, as in Python and numpy, in the operands' own type: the rounding of a
// quotient depends on it.
#pragma once
#include <cmath>

namespace rill::special {

template <class X>
X float_remainder(X x, X y) {
  const X r = std::fmod(x, y);
  if (r == 0) return std::copysign(X(0), y);
  return (y < 0) != (r < 0) ? r + y : r;
}
template <class X>
X float_floor_divide(X x, X y) {
  if (y == 0) return x / y;
  const X r = std::fmod(x, y);
  X q = (x - r) / y;
  if (r != 0 && (y < 0) != (r < 0)) q -= 1;
  if (q == 0) return std::copysign(X(0), x / y);
  const X below = std::floor(q);
  return q - below > X(0.5) ? below + 1 : below;
}

}  // namespace rill::special
