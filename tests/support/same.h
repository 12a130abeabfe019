// Equal bits, as traced and eager results must have.
#pragma once
#include "rill/rill.h"

// Whether shape, dtype and bits are equal, except for NaN, whose payload and sign are unspecified (docs/function.md).
inline bool same(const rill::Tensor& a, const rill::Tensor& b) {
  if (same_bits(a, b)) return true;
  if (a.shape() != b.shape() || a.dtype() != b.dtype() || !is_floating(a.dtype())) return false;
  const rill::Tensor both_nan = logical_and(isnan(a), isnan(b));
  return same_bits(where(both_nan, zeros_like(a), a), where(both_nan, zeros_like(b), b));
}
