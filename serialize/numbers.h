// Numbers from text, the same in every locale: strtod() and what is made of it take the locale's decimal point.
#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

namespace rill {

// Whether a number that no floating dtype holds is too large, and not too small: by the place of its first digit.
inline bool is_too_large(std::string_view text) {
  const size_t e = std::min(text.find_first_of("eE"), text.size());
  const size_t point = std::min(text.find('.'), e), first = std::min(text.find_first_of("123456789"), e);
  int exponent = 0;
  std::string_view rest = text.substr(std::min(e + 1, text.size()));
  if (rest.starts_with('+')) rest.remove_prefix(1);
  if (std::from_chars(rest.data(), rest.data() + rest.size(), exponent).ec == std::errc::result_out_of_range)
    return !rest.starts_with('-');
  return int64_t(point) - int64_t(first) + exponent > 0;
}

// The same for what most numbers look like: digits, with a sign and a point or not. W. D. Clinger: How to read floating
// point numbers accurately, 1990: where both the digits and the power of ten are exact in T, their quotient is rounded
// once.
template <class T>
bool parse_short_number(std::string_view text, T& value) {
  constexpr bool real = std::is_floating_point_v<T>;
  constexpr double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                             1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  const char *p = text.data(), *const end = p + text.size();
  const bool minus = p < end && *p == '-';
  if (minus) ++p;
  const char* const first = p;
  if (end - p < 1 || end - p > 18 || (minus && std::is_unsigned_v<T>)) return false;
  uint64_t digits = 0;
  const auto take = [&] {
    for (; p < end && uint8_t(*p - '0') <= 9; ++p) digits = 10 * digits + uint8_t(*p - '0');
  };
  take();
  if constexpr (real) {
    constexpr bool narrow = std::numeric_limits<T>::digits < 53;
    int64_t behind = 0;
    if (p < end && *p == '.') {
      const char* const point = ++p;
      take();
      behind = p - point;
    }
    if (p != end || (end - first == 1 && *first == '.')) return false;
    if (digits > (uint64_t(1) << std::numeric_limits<T>::digits) || behind > (narrow ? 10 : 22)) return false;
    value = T(digits) / T(tens[behind]);
  } else {
    if (p != end || digits > uint64_t(std::numeric_limits<T>::max())) return false;
    value = T(digits);
  }
  if constexpr (std::is_signed_v<T>)
    if (minus) value = T(-value);
  return true;
}

// All of `text` as a T; nothing where it is none. Takes a sign, and of floating T "inf" and "nan"; what is too large
// for these is infinite, what is too small 0, as IEEE 754 rounds it. An integer T that is too small is nothing.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  T value{};
  if (parse_short_number(text, value)) return value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (error == std::errc()) return value;
  if constexpr (std::is_floating_point_v<T>)
    return std::copysign(is_too_large(text) ? std::numeric_limits<T>::infinity() : T(0), text[0] == '-' ? T(-1) : T(1));
  return std::nullopt;
}

}  // namespace rill
