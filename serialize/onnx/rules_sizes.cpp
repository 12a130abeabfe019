// ONNX's operators on sizes that a signature leaves open; see imported_sizes.h.
#include <algorithm>

#include "rill/serialize/model/imported_sizes.h"
#include "rill/serialize/onnx/interpreter.h"

namespace rill::onnx_import {
namespace {

using imported::integers;
using imported::Integers;
using imported::MaybeIntegers;

template <imported::Arithmetic f>
MaybeIntegers combined_sizes(const Call& c) {
  return imported::combined(c, f);
}
MaybeIntegers mod_sizes(const Call& c) {
  return imported::combined(c, c.flag("fmod") ? imported::remainder : imported::floored_remainder);
}
MaybeIntegers negated_sizes(const Call& c) {
  const MaybeIntegers x = integers(c, 0);
  return x ? MaybeIntegers(imported::negated(*x)) : std::nullopt;
}

MaybeIntegers gather_sizes(const Call& c) {
  const MaybeIntegers x = integers(c, 0), indices = integers(c, 1);
  return x && indices ? imported::gathered(c, *x, *indices) : std::nullopt;
}
MaybeIntegers concat_sizes(const Call& c) { return imported::joined(c, 0, c.count(), false); }
MaybeIntegers slice_sizes(const Call& c) {
  const MaybeIntegers x = integers(c, 0);
  if (!x || x->scalar) return {};
  const Dims starts = c.either(1, "starts"), stops = c.either(2, "ends"), steps = c.has(4) ? c.dims(4) : Dims{1};
  if (starts.size() != 1 || stops.size() != 1 || steps.size() != 1 || steps[0] == 0) return {};
  // Where ONNX departs from numpy: a slice that goes backwards begins at element 0 at least.
  const int64_t step = steps[0], start = starts[0];
  const int64_t first = step < 0 ? std::max(start, -int64_t(x->dims.size())) : start;
  return Integers{imported::sliced(x->dims, first, stops[0], step)};
}

MaybeIntegers unsqueeze_sizes(const Call& c) {
  const MaybeIntegers x = integers(c, 0);
  return x && c.either(1, "axes").size() == 1 ? imported::as_vector(*x) : std::nullopt;
}
MaybeIntegers squeeze_sizes(const Call& c) {
  const MaybeIntegers x = integers(c, 0);
  return x && !x->scalar ? imported::as_scalar(*x) : std::nullopt;
}
MaybeIntegers reshape_sizes(const Call& c) {
  const MaybeIntegers x = integers(c, 0);
  return x ? imported::reshaped(*x, c.either(1, "shape")) : std::nullopt;
}

MaybeIntegers cast_sizes(const Call& c) { return c.dtype("to", f32) == i64 ? integers(c, 0) : std::nullopt; }
MaybeIntegers same_sizes(const Call& c) { return integers(c, 0); }

// Of a vector; `empty`: what of no elements comes out, where there is something.
template <imported::Arithmetic f>
MaybeIntegers fold_sizes(const Call& c, std::optional<Dim> empty) {
  const MaybeIntegers x = integers(c, 0);
  if (!x || x->scalar) return {};
  if (c.either(1, "axes").empty() && c.flag("noop_with_empty_axes")) return x;
  if (!empty && x->dims.empty()) return {};
  Integers y = imported::folded(*x, f, empty ? *empty : x->dims[0]);
  y.scalar = !c.flag("keepdims", true);
  return y;
}
MaybeIntegers product_sizes(const Call& c) { return fold_sizes<imported::times>(c, 1); }
MaybeIntegers sum_sizes(const Call& c) { return fold_sizes<imported::plus>(c, 0); }
MaybeIntegers max_sizes(const Call& c) { return fold_sizes<imported::greatest>(c, {}); }
MaybeIntegers min_sizes(const Call& c) { return fold_sizes<imported::least>(c, {}); }

}  // namespace

const std::unordered_map<std::string, SizesRule>& sizes_rules() {
  static const std::unordered_map<std::string, SizesRule> table = {
      {"Add", combined_sizes<imported::plus>},
      {"Cast", cast_sizes},
      {"Concat", concat_sizes},
      {"Div", combined_sizes<imported::quotient>},
      {"Gather", gather_sizes},
      {"Identity", same_sizes},
      {"Max", combined_sizes<imported::greatest>},
      {"Min", combined_sizes<imported::least>},
      {"Mod", mod_sizes},
      {"Mul", combined_sizes<imported::times>},
      {"Neg", negated_sizes},
      {"ReduceMax", max_sizes},
      {"ReduceMin", min_sizes},
      {"ReduceProd", product_sizes},
      {"ReduceSum", sum_sizes},
      {"Reshape", reshape_sizes},
      {"Slice", slice_sizes},
      {"Squeeze", squeeze_sizes},
      {"Sub", combined_sizes<imported::minus>},
      {"Unsqueeze", unsqueeze_sizes},
  };
  return table;
}

}  // namespace rill::onnx_import
