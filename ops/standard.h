// What the Python array API standard (2024.12) asks for and other headers do not have: its names of functions,
// questions about dtypes, constants. Included by ops.h.
#pragma once
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "rill/ops/elementwise.h"
#include "rill/ops/reductions.h"

#pragma GCC visibility push(default)

namespace rill {

// --- Constants -------------------------------------------------------------------------------------------------------

// In a namespace of their own, for their names are short: using namespace rill::constants.
namespace constants {
inline constexpr double pi = 3.141592653589793, e = 2.718281828459045;
inline constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
}  // namespace constants

// --- Questions about dtypes ------------------------------------------------------------------------------------------

// The limits of a floating dtype, or of the parts of a complex one. Throws for others.
struct FloatInfo {
  int bits;                // of a number
  double eps;              // from 1 to the next number
  double max, min;         // the largest finite number, and its negative
  double smallest_normal;  // the smallest positive number of full precision
  DType dtype;             // of the parts
};
FloatInfo finfo(DType d, Where where = Where::current());
// The limits of an integer dtype. Throws for others.
struct IntegerInfo {
  int bits;
  uint64_t max;
  int64_t min;
  DType dtype;
};
IntegerInfo iinfo(DType d, Where where = Where::current());

// The dtype of the result of an op on these, by rill's rules of promotion (docs/tensors.md). C++ scalars are tensors
// here, whose dtypes give way to others of their kind. Throws without operands.
DType result_type(const std::vector<DType>& dtypes, Where where = Where::current());
DType result_type(const std::vector<Tensor>& operands, Where where = Where::current());
// Whether `from` promoted with `to` is `to`, so that no number is lost by its kind or its size.
bool can_cast(DType from, DType to);
// Whether `d` is of that kind: "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex
// floating", "numeric". Throws for other words.
bool isdtype(DType d, std::string_view kind, Where where = Where::current());

// --- Names -----------------------------------------------------------------------------------------------------------

// transpose, bitwise_not, left_shift, right_shift, identity of numbers.
Tensor permute_dims(const Tensor& x, const Axes& axes, Where where = Where::current());
Tensor bitwise_invert(const Tensor& x, Where where = Where::current());
Tensor bitwise_left_shift(const Tensor& x, const Tensor& y, Where where = Where::current());
Tensor bitwise_right_shift(const Tensor& x, const Tensor& y, Where where = Where::current());
Tensor positive(const Tensor& x, Where where = Where::current());

struct CumulativeSumOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<Axis> axis = {};
  std::optional<DType> dtype = {};  // to which x is converted first
  bool include_initial = false;     // begin with 0 (or 1 of a product), so that the axis gets longer by one
};
// cumsum and cumprod; of the flattened operand where there is no axis.
Tensor cumulative_sum(const Tensor& x, const CumulativeSumOptions& options = {}, Where where = Where::current());
Tensor cumulative_prod(const Tensor& x, const CumulativeSumOptions& options = {}, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
