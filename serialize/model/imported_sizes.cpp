// See imported_sizes.h.
#include "rill/serialize/model/imported_sizes.h"

#include <algorithm>

#include "rill/tensor/dim_table.h"

namespace rill::imported {

namespace {

bool never_negative(Dim d) {
  const DimTable* table = OpenDims::now();
  return d.is_open() ? table && table->is_never_negative(d) : d.plain() >= 0;
}
bool is_negative(Dim d) { return !d.is_open() && d.plain() < 0; }
bool same(Dim a, Dim b) { return a.is_open() && b.is_open() && a.number() == b.number(); }

}  // namespace

Dim is_equal(Dim a, Dim b) {
  if (!a.is_open() && !b.is_open()) return a.plain() == b.plain() ? 1 : 0;
  if (same(a, b)) return 1;
  if ((never_negative(a) && is_negative(b)) || (never_negative(b) && is_negative(a))) return 0;
  const Dim apart = larger(a - b, b - a);
  return 1 - smaller(apart, 1);
}
Dim is_less(Dim a, Dim b) {
  if (!a.is_open() && !b.is_open()) return a.plain() < b.plain() ? 1 : 0;
  if (same(a, b) || (never_negative(a) && !b.is_open() && b.plain() <= 0)) return 0;
  if (never_negative(b) && is_negative(a)) return 1;
  return larger(smaller(b - a, 1), 0);
}

MaybeIntegers picked(const Integers& which, const Integers& a, const Integers& b) {
  Integers y{{}, which.scalar && a.scalar && b.scalar};
  const auto n = std::max({which.dims.size(), a.dims.size(), b.dims.size()});
  for (const Integers* part : {&which, &a, &b})
    if (part->dims.size() != n && part->dims.size() != 1) return {};
  const auto at = [](const Integers& v, size_t i) { return v.dims[v.dims.size() == 1 ? 0 : i]; };
  for (size_t i = 0; i < n; ++i) {
    const Dim yes = at(a, i), no = at(b, i), w = at(which, i);
    y.dims.push_back(!w.is_open() ? (w.plain() != 0 ? yes : no) : Dim(w * yes + (1 - w) * no));
  }
  return y;
}

MaybeIntegers expanded(const Integers& x, const Dims& shape) {
  if (shape.empty()) return x;
  if (shape.size() > 1 || shape[0].is_open()) return {};
  const auto n = size_t(shape[0].plain());
  if (x.dims.size() == n || n == 1) return Integers{x.dims, false};
  if (x.dims.size() != 1 || n > 64) return {};
  return Integers{Dims(n, x.dims[0]), false};
}

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

std::optional<Tensor> known_range(Dim start, Dim stop, Dim step) {
  if (start.is_open() || stop.is_open() || step.is_open()) return {};
  return arange(start.plain(), stop.plain(), step.plain(), {i64});
}

TopK best_of(const Tensor& x, Dim k, int64_t axis, bool largest) {
  if (x.ndim() == 0 || !same(k, x.dim(axis))) return topk(x, int64_t(k), {.axis = axis, .largest = largest});
  const Tensor order = argsort(x, {.axis = axis, .descending = largest});
  return {take_along_axis(x, order, axis), order};
}

}  // namespace rill::imported
