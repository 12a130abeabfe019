// Numbers from text, the same in every locale: strtod() and what is made of it take the locale's decimal point.
#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
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

// All of `text` as a T; nothing where it is none. Takes a sign, and of floating T "inf" and "nan"; what is too large
// for these is infinite, what is too small 0, as IEEE 754 rounds it. An integer T that is too small is nothing.
template <class T>
std::optional<T> parse_number(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (error == std::errc()) return value;
  if constexpr (std::is_floating_point_v<T>)
    return std::copysign(is_too_large(text) ? std::numeric_limits<T>::infinity() : T(0), text[0] == '-' ? T(-1) : T(1));
  return std::nullopt;
}

}  // namespace rill
