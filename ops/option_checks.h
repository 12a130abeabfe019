// Checks of options and of undefined operands, with one wording for all: the message names the option, its value and
// the rule.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

// "[op] betas are 1.5. ...": throws where the rule does not hold. NaN holds no rule that is a comparison.
template <class T>
void require_option(bool holds, std::string_view op, std::string_view option, const T& value, std::string_view rule,
                    const Where& where) {
  if (!holds) [[unlikely]]
    fail(op, fmt::format("{} is {} and must be {}", option, value, rule), where);
}
inline void require_not_negative(std::string_view op, std::string_view option, double value, const Where& where) {
  require_option(value >= 0 && value <= std::numeric_limits<double>::max(), op, option, value,
                 "finite and not negative", where);
}
// 0 <= value < 1.
inline void require_share(std::string_view op, std::string_view option, double value, const Where& where) {
  require_option(value >= 0 && value < 1, op, option, value, "at least 0 and less than 1", where);
}
// For functions that look at an operand before the dispatcher does.
inline void require_operand(std::string_view op, const Tensor& x, const Where& where) {
  if (!x.defined()) [[unlikely]]
    fail(op, "an operand is an undefined tensor. assign a value to it first", where);
}
inline void require_finite(std::string_view op, std::string_view option, double value, const Where& where) {
  require_option(std::isfinite(value), op, option, value, "finite", where);
}

}  // namespace rill

#pragma GCC visibility pop
