// Numbers in the simulated GPU's memory, for the simulated libraries.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

inline float half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, part = bits & 1023;
  const float size = exponent == 31  ? (part ? __builtin_nanf("") : __builtin_inff())
                     : exponent == 0 ? std::ldexp(float(part), -24)
                                     : std::ldexp(float(part + 1024), exponent - 25);
  return bits >> 15 ? -size : size;
}
inline uint16_t half_bits(double x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  const double size = std::abs(x);
  if (x != x) return 0x7e00;
  if (size >= 65520) return uint16_t(sign | 0x7c00);
  const int exponent = std::max(size == 0 ? -15 : std::ilogb(size), -14);
  return uint16_t(sign + (exponent + 14) * 1024 + int(std::nearbyint(std::ldexp(size, 10 - exponent))));
}
inline uint16_t bfloat_bits(float x) {
  uint32_t b;
  std::memcpy(&b, &x, 4);
  return x != x ? 0x7fc0 : uint16_t((b + 0x7fff + (b >> 16 & 1)) >> 16);
}

inline float bfloat_value(uint16_t bits) {
  const uint32_t all = uint32_t(bits) << 16;
  float x;
  std::memcpy(&x, &all, 4);
  return x;
}

template <class T>
T read(const char* at) {
  T x;
  std::memcpy(&x, at, sizeof x);
  return x;
}
template <class T>
void write(char* at, T x) {
  std::memcpy(at, &x, sizeof x);
}
