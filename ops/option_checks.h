// Checks of options and of undefined operands, with one wording for all: the message names the option, its value and
// the rule.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>

#include "rill/tensor/callback.h"
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
inline void require_fraction(std::string_view op, std::string_view option, double value, const Where& where) {
  require_option(value >= 0 && value < 1, op, option, value, "at least 0 and less than 1", where);
}
// For functions that look at an operand before the dispatcher does.
inline void require_operand(std::string_view op, const Tensor& x, const Where& where) {
  require_defined(op, x, "an operand", where);
}
inline bool is_real(const Tensor& x) { return !is_complex(x.dtype()) && x.dtype() != DType::string; }
// For functions of real numbers that look at an operand before the dispatcher does.
inline void require_real(std::string_view op, const Tensor& x, const Where& where) {
  require_operand(op, x, where);
  if (!is_real(x)) [[unlikely]]
    fail(op, fmt::format("takes real numbers. got {}", to_string(x.spec())), where);
}
// For functions that convert an operand before the dispatcher sees it.
inline void reject_float8(std::string_view op, const Tensor& x, const Where& where) {
  if (x.defined() && is_float8(x.dtype())) [[unlikely]]
    fail(op,
         fmt::format("{} is not taken: 8-bit floats are for storage. convert with astype(f32) first",
                     to_string(x.spec())),
         where);
}
inline void require_finite(std::string_view op, std::string_view option, double value, const Where& where) {
  require_option(std::isfinite(value), op, option, value, "finite", where);
}

// The dtype that is asked for, f32 by default, of what integers could not hold.
inline DType dtype_of_fractions(std::string_view op, std::optional<DType> asked, const Where& where) {
  const DType d = asked.value_or(DType::f32);
  require_option(is_differentiable(d), op, "dtype", name(d), "floating or complex, for the result has fractions",
                 where);
  return d;
}

// The same of the elements of an operand: throws, naming the op, the message and the value, unless `holds`, a bool
// scalar, is true. Inside `function`, of what a call brings, at every call, as assert_that.
void require_elements(const Callback<Tensor(const Tensor&)>& holds, std::string_view op, std::string message,
                      const Tensor& value, const Where& where);

// Where the channels of an image `x`, on axis `at`, are not the `wanted` ones but lie where the other layout has them:
// what to do. Empty otherwise.
inline std::string layout_hint(const Shape& x, size_t at, int64_t wanted) {
  const size_t last = x.size() - 1, other = at == last ? 1 : last;
  if (x.size() < 3 || at == other || at == 0 || x[at] == wanted || x[other] != wanted) return "";
  std::string order = "0";
  for (size_t i = 1; i <= last; ++i)
    order += fmt::format(", {}", at == last ? (i == last ? 1 : i + 1) : (i == 1 ? last : i - 1));
  return fmt::format(". axis {} has {}: the input looks like {}; transpose(x, {{{}}}) makes it {}", other, wanted,
                     at == last ? "NCHW" : "NHWC", order, at == last ? "NHWC" : "NCHW");
}

}  // namespace rill

#pragma GCC visibility pop
