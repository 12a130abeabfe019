// Numbers in JSON, which has no infinities and no NaN: those are the texts "inf", "-inf" and "nan". Not installed.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace rill::train {

inline nlohmann::json as_json(double x) {
  return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(fmt::format("{}", x));
}
// The inverse of as_json().
inline double number_of(const nlohmann::json& x) {
  if (!x.is_string()) return x.get<double>();
  const auto text = x.get<std::string>();
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "inf" ? infinity : text == "-inf" ? -infinity : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace rill::train
