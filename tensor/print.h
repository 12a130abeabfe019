// How tensors are printed: numpy's options, for one call, for a scope, or for the process.
#pragma once
#include <cstdint>
#include <string>

#include "rill/tensor/error.h"
#include "rill/tensor/shape.h"

#pragma GCC visibility push(default)

namespace rill {

class Tensor;

// How many digits behind the point a float gets. fixed: `precision`. unique: as many as tell it from its neighbours,
// each its own number. maxprec: as unique, and at most `precision`. maxprec_equal: as maxprec, and the same for all.
enum class FloatMode : uint8_t { maxprec, maxprec_equal, fixed, unique };

// numpy's printoptions, by their meaning there.
struct PrintOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int precision = 8;         // digits behind the point
  int64_t threshold = 1000;  // with more elements than this, only those at the edges are shown
  int64_t edge_items = 3;    // so many at each end of each axis
  int64_t line_width = 75;   // columns, after which a row goes on in the next line
  bool suppress = false;     // no scientific notation for small numbers, nor for magnitudes that differ much
  char sign = '-';           // '-': of negative numbers alone; '+': of all; ' ': a space in front of positive ones
  FloatMode float_mode = FloatMode::maxprec;
  friend bool operator==(const PrintOptions&, const PrintOptions&) = default;
};

// The text of `t` under these options, a tensor of shape {} included: to_string(x, {.precision = 3}). Throws for a
// negative number among them, or another sign.
std::string to_string(const Tensor& t, const PrintOptions& options, Where where = Where::current());

// From now on `<<`, to_string(t) and print() use these, on all threads that are in no PrintScope. As in numpy, they do
// not apply to tensors of shape {}. Throws as to_string() does.
void set_print_options(const PrintOptions& options, Where where = Where::current());
// Those that this thread prints with now.
PrintOptions print_options();

// While it lives, this thread prints with these options: PrintScope digits({.precision = 3}).
class PrintScope {
 public:
  [[nodiscard]] explicit PrintScope(const PrintOptions& options, Where where = Where::current());
  ~PrintScope();
  PrintScope(const PrintScope&) = delete;

 private:
  PrintOptions options_;
  const PrintOptions* outer_;
};

}  // namespace rill

#pragma GCC visibility pop
