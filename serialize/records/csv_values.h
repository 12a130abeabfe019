// Numbers and bools as CSV files have them, and the dtype that fits all texts of a column: what read_csv() and
// data::csv() share.
#pragma once
#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "rill/serialize/numbers.h"
#include "rill/tensor/dtype.h"

namespace rill::csv {

inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

template <class T>
std::optional<T> number(std::string_view text) {
  return parse_number<T>(trimmed(text));
}

inline std::optional<bool> truth(std::string_view text) {
  text = trimmed(text);
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

// "123" of "+00123"; empty where `text` is no integer, and "0" where it is 0.
inline std::string_view digits_of(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
  if (text.find_first_not_of("0123456789") != text.npos) return {};
  while (text.size() > 1 && text[0] == '0') text.remove_prefix(1);
  return text;
}
inline bool rounds_in_f64(std::string_view digits) {
  return digits.size() > 15 && fmt::format("{:.0f}", number<double>(digits).value_or(0)) != digits;
}

// What the texts of a column have in common.
struct Column {
  std::string name = "";
  bool whole = true, natural = true;  // all are i64, u64
  bool real = true, truth = true, gaps = false;
  bool integers = true, rounds = false;  // all are integers of any size; an f64 does not hold one of them

  // A text that stands for a value.
  void see(std::string_view text) {
    if (whole && !number<int64_t>(text)) whole = false;
    if (natural && !number<uint64_t>(text)) natural = false;
    if (real && !number<double>(text)) real = false;
    const std::string_view digits = integers ? digits_of(text) : std::string_view();
    integers = !digits.empty();
    rounds = rounds || (integers && rounds_in_f64(digits));
    if (truth && !csv::truth(text)) truth = false;
  }
  DType dtype() const {
    const bool number = whole || natural || real;
    if (truth && !number) return gaps ? DType::f64 : DType::boolean;
    if (!number) return DType::string;
    if (!gaps && (whole || natural)) return whole ? DType::i64 : DType::u64;
    return integers && rounds ? DType::string : DType::f64;
  }
};

}  // namespace rill::csv
