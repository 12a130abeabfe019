// See parts.h.
#include "rill/distribute/parallel/parts.h"

#include "rill/autodiff/transforms.h"
#include "rill/ops/ops.h"

namespace rill::distribute {

Tensor own_part(const Tensor& x, size_t axis, const Group& group, const Where& where) {
  const Dim part = x.shape()[axis] / group.size(where), first = part * group.rank(where);
  return moveaxis(moveaxis(x, int64_t(axis), 0)(slice(first, first + part)), 0, int64_t(axis));
}

Tensor joined_parts(const Tensor& part, size_t axis, const Group& group, const Where& where) {
  return merged_from_front(all_gather(part, group, where), axis);
}

Tensor summed_part(const Tensor& x, size_t axis, const Group& group, const Where& where) {
  const Tensor front = moveaxis(x, int64_t(axis), 0);
  return moveaxis(reduce_scatter(front, Reduce::sum, group, where), 0, int64_t(axis));
}

Tensor merged_from_front(const Tensor& parts, size_t axis) {
  Shape shape(parts.shape().begin() + 1, parts.shape().end());
  shape[axis] = shape[axis] * parts.shape()[0];
  return moveaxis(parts, 0, int64_t(axis)).reshape(shape);
}

Tensor with_mean_gradient(const Tensor& x, int64_t n) {
  return custom_gradient(
      [n](const Tensor& v) { return std::pair(identity(v), [n](const Tensor& g) { return g / double(n); }); })(x);
}

}  // namespace rill::distribute
