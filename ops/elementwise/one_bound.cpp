// clip with one bound.
#include <cstdint>
#include <limits>

#include "rill/ops/apply.h"
#include "rill/ops/creation.h"
#include "rill/ops/elementwise.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/standard.h"

namespace rill {

namespace {
// The largest or smallest number of x's dtype, which as a bound changes nothing.
Tensor no_bound(const Tensor& x, bool largest) {
  const DType d = x.dtype();
  if (d == DType::u64 && largest) return full({}, std::numeric_limits<uint64_t>::max(), {d, x.device()});
  if (is_integer(d)) return largest ? int64_t(iinfo(d).max) : iinfo(d).min;
  if (is_bool(d)) return largest;
  return largest ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}
}  // namespace

Tensor clip(const Tensor& x, const ClipOptions& o, Where where) {
  CallerScope caller(where);
  require_operand("clip", x, where);
  if (!o.low && !o.high) return x;
  return clip(x, o.low ? *o.low : no_bound(x, false), o.high ? *o.high : no_bound(x, true));
}

}  // namespace rill
