#include "rill/serialize/model/taps.h"

#include <algorithm>
#include <cmath>

#include "rill/ops/apply.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/ops.h"

namespace rill::imported {

namespace {
DType weighing_dtype(DType d) { return is_half(d) ? f32 : is_floating(d) ? d : f64; }
}  // namespace

// The elements that each element of the result is made from lie side by side along a new axis, and are added up there.
Tensor weighted(const Tensor& x, int64_t axis, const Taps& taps) {
  const int64_t out = taps.count ? int64_t(taps.places.size()) / taps.count : 0;
  const DType d = weighing_dtype(x.dtype());
  Tensor places, weights;
  {
    const EagerScope eager;
    Shape along(size_t(x.ndim()) + 1, 1);
    along[size_t(axis)] = out, along[size_t(axis) + 1] = taps.count;
    places = tensor(taps.places, Shape{out * taps.count});
    weights = tensor(taps.weights, along).astype(d);
  }
  Shape split = x.shape();
  split[size_t(axis)] = out;
  split.insert(size_t(axis) + 1, taps.count);
  return sum(reshape(take(x.astype(d), places, Axis(axis)), split) * weights, axis + 1);
}

Tensor weighted(const Tensor& x, int64_t axis, const TapTensors& taps) {
  const DType d = weighing_dtype(x.dtype());
  const Dim out = taps.places.dim(0);
  Shape along(size_t(x.ndim()) + 1, 1), split = x.shape();
  along[size_t(axis)] = out, along[size_t(axis) + 1] = taps.count;
  split[size_t(axis)] = out;
  split.insert(size_t(axis) + 1, taps.count);
  const Tensor taken = take(x.astype(d), reshape(taps.places, {out * taps.count}), Axis(axis));
  return sum(reshape(taken, split) * reshape(taps.weights.astype(d), along), axis + 1);
}

Tensor linear_weights(const Tensor& distances) { return maximum(1.0 - abs(distances), 0.0); }
Tensor cubic_weights(const Tensor& distances, double a) {
  const Tensor d = abs(distances);
  const Tensor near = ((a + 2) * d - (a + 3)) * d * d + 1.0, far = ((d - 5.0) * d + 8.0) * d * a - 4 * a;
  return where(less_equal(d, 1.0), near, where(less(d, 2.0), far, zeros_like(d)));
}

double linear_weight(double d) { return std::max(0.0, 1 - std::abs(d)); }
double cubic_weight(double d, double a) {
  d = std::abs(d);
  if (d >= 2) return 0;
  return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((d - 5) * d + 8) * d * a - 4 * a;
}

}  // namespace rill::imported
