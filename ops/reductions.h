// Reductions, arg-reductions, cumulative ops, sorting. Included by ops.h.
#pragma once
#include "rill/ops/apply.h"

namespace rill {

namespace detail {
struct NamedOnly {  // keeps sum(x, {0, 1}) meaning two axes
  explicit constexpr NamedOnly() = default;
};
}  // namespace detail

// Empty axes: all of them.
struct ReduceOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axes axis = {};
  bool keepdims = false;
};

}  // namespace rill
