// The records of derivatives: first ones that are ops themselves, and those of any order (derivative_records.cpp). For
// ops/*.cpp only.
#pragma once
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"

namespace rill::elementwise {

// The derivative with the record `op`, at x.
inline Tensor slope_at(const Op& op, const Tensor& x) { return apply1(op, {&x}, {}, Where::current()); }

// The n-th derivative at x, n >= 1, whose derivative is the next one.
#define RILL_DERIVATIVE(fn) Tensor fn##_derivative(const Tensor& n, const Tensor& x);
RILL_DERIVATIVE(dawsn)
RILL_DERIVATIVE(erfcx)
RILL_DERIVATIVE(i0e)
RILL_DERIVATIVE(i1e)
RILL_DERIVATIVE(k0e)
RILL_DERIVATIVE(k1e)
#undef RILL_DERIVATIVE

}  // namespace rill::elementwise
