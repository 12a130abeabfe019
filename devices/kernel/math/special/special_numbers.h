// What the functions of special/ share. Like all of this room's plain code they are compiled by NVRTC too, as text
// (devices/cuda/families/special.cuh), and so only use <cmath> and similar headers, and C++17.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

namespace rill::special {

template <class T>
constexpr T nan = std::numeric_limits<T>::quiet_NaN();
// An operand that is an order of derivation: an integer from 0 to 170, beyond which n! overflows f64; else -1.
template <class T>
int order_of(T n) {
  const int order = n >= 0 && n <= T(170) ? int(n) : -1;
  return order >= 0 && T(order) == n ? order : -1;
}
template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();
constexpr long double pi = 3.14159265358979323846264338327950288L, euler = 0.577215664901532860606512090082402431L;

template <class T>
bool is_whole(T x) {
  return std::floor(x) == x;
}
template <class T>
bool is_odd(T v) {
  return std::fmod(v, T(2)) != 0;
}

}  // namespace rill::special
