// Numbers of up to 16 digits, eight at a time. They only parse digits, with an optional minus and point; parse_number()
// (serialize/numbers.h) parses everything else, and returns the same bits. Not installed.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace rill::csv {

// The n digits at `from`, 1 to 8, if 8 bytes may be read; false if there is anything else among them. D. Lemire:
// Quickly parsing eight digits, 2018.
inline bool eight_digits(const char* from, size_t n, uint64_t& value) {
  uint64_t w = 0;
  std::memcpy(&w, from, sizeof w);
  const auto unused = unsigned(8 * (8 - n));
  w = w << unused | (0x3030303030303030 & ~(~uint64_t(0) << unused));
  constexpr uint64_t high = 0xF0F0F0F0F0F0F0F0;
  if (((w & high) | ((w + 0x0606060606060606) & high) >> 4) != 0x3333333333333333) return false;
  w -= 0x3030303030303030;
  w = w * 10 + (w >> 8);
  value = ((w & 0x000000FF000000FF) * 0x000F424000000064 + ((w >> 16) & 0x000000FF000000FF) * 0x0000271000000001) >> 32;
  return true;
}

// Up to 16.
inline bool some_digits(const char* from, size_t n, uint64_t& value) {
  if (n <= 8) return n > 0 && eight_digits(from, n, value);
  uint64_t upper = 0, lower = 0;
  if (n > 16 || !eight_digits(from, n - 8, upper) || !eight_digits(from + n - 8, 8, lower)) return false;
  value = upper * 100'000'000 + lower;
  return true;
}

// Both read up to 16 bytes from the text's first; n > 0. False if they cannot parse the number.
template <class T>
bool quick_integer(const char* from, size_t n, T& value) {
  if constexpr (std::endian::native != std::endian::little) return false;
  const size_t minus = *from == '-';
  uint64_t digits = 0;
  if (!some_digits(from + minus, n - minus, digits) || digits > uint64_t(std::numeric_limits<T>::max())) return false;
  value = T((digits ^ (0 - uint64_t(minus))) + minus);
  return true;
}

template <class T>
bool quick_real(const char* from, size_t n, T& value) {
  if constexpr (std::endian::native != std::endian::little) return false;
  constexpr uint64_t tens[] = {1,
                               10,
                               100,
                               1'000,
                               10'000,
                               100'000,
                               1'000'000,
                               10'000'000,
                               100'000'000,
                               1'000'000'000,
                               10'000'000'000,
                               100'000'000'000,
                               1'000'000'000'000,
                               10'000'000'000'000,
                               100'000'000'000'000,
                               1'000'000'000'000'000,
                               10'000'000'000'000'000};
  constexpr int precision = std::numeric_limits<T>::digits;
  constexpr size_t most_behind = precision < 53 ? 10 : 16;
  const size_t minus = *from == '-';
  from += minus, n -= minus;
  uint64_t w = 0;
  std::memcpy(&w, from, sizeof w);
  w ^= 0x2E2E2E2E2E2E2E2E;  // points become zero
  const uint64_t points = (w - 0x0101010101010101) & ~w & 0x8080808080808080;
  const size_t before = std::min<size_t>(size_t(std::countr_zero(points)) / 8, n);
  uint64_t digits = 0;
  size_t behind = 0;
  if (points == 0 || before == n) {
    if (!some_digits(from, n, digits)) return false;
  } else {
    uint64_t whole = 0;
    behind = n - before - 1;
    if (before == 0 || behind > most_behind || before + behind > 18) return false;
    if (!eight_digits(from, before, whole) || !some_digits(from + before + 1, behind, digits)) return false;
    digits += whole * tens[behind];
  }
  if (digits > uint64_t(1) << precision) return false;
  const T x = T(digits) / T(tens[behind]);  // as parse_short_number() has it
  value = minus ? -x : x;
  return true;
}

}  // namespace rill::csv
