// See imported_sizes.h.
#include "rill/serialize/model/imported_sizes.h"

namespace rill::imported {

MaybeIntegers combined(const Integers& a, const Integers& b, Arithmetic f) {
  const size_t n = a.dims.size() == 1 ? b.dims.size() : a.dims.size();
  if (b.dims.size() != n && b.dims.size() != 1) return {};
  Integers y{{}, a.scalar && b.scalar};
  for (size_t i = 0; i < n; ++i)
    y.dims.push_back(f(a.dims[a.dims.size() == 1 ? 0 : i], b.dims[b.dims.size() == 1 ? 0 : i]));
  return y;
}

Integers negated(Integers x) {
  for (Dim& d : x.dims) d = Dim(0) - d;
  return x;
}

Integers folded(const Integers& x, Arithmetic f, Dim start) {
  for (Dim d : x.dims) start = f(start, d);
  return {{start}, true};
}

MaybeIntegers reshaped(const Integers& x, const Dims& shape) {
  const auto n = int64_t(x.dims.size());
  if (shape.empty()) return as_scalar(x);
  if (shape.size() > 1 || shape[0].is_open() || (shape[0] != -1 && shape[0] != n)) return {};
  return Integers{x.dims, false};
}

MaybeIntegers as_scalar(const Integers& x) {
  if (x.dims.size() != 1) return {};
  return Integers{x.dims, true};
}
MaybeIntegers as_vector(const Integers& x) {
  if (!x.scalar) return {};
  return Integers{x.dims, false};
}

}  // namespace rill::imported
