// ONNX's operators on sizes that a signature leaves open; see imported_sizes.h.
#include <algorithm>
#include <set>

#include "rill/serialize/model/imported_sizes.h"
#include "rill/serialize/onnx/in/interpreter.h"

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
  // ONNX departs from numpy: a slice that goes backwards starts at element 0 at least.
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

MaybeIntegers cast_sizes(const Call& c) {
  const DType to = c.dtype("to", f32);
  const bool holds = to == i32 || to == i64 || to == boolean || to == f32 || to == f64;
  const MaybeIntegers x = holds ? integers(c, 0) : std::nullopt;
  return x && to == boolean && c.in[0].dtype != boolean ? MaybeIntegers(imported::mapped(*x, imported::is_true)) : x;
}
MaybeIntegers same_sizes(const Call& c) { return integers(c, 0); }
MaybeIntegers absolute_sizes(const Call& c) {
  const MaybeIntegers x = integers(c, 0);
  return x ? MaybeIntegers(imported::mapped(*x, [](Dim d) { return larger(d, 0 - d); })) : std::nullopt;
}
MaybeIntegers not_sizes(const Call& c) {
  const MaybeIntegers x = integers(c, 0);
  return x ? MaybeIntegers(imported::mapped(*x, [](Dim d) { return 1 - d; })) : std::nullopt;
}
MaybeIntegers where_sizes(const Call& c) {
  const MaybeIntegers which = integers(c, 0), a = integers(c, 1), b = integers(c, 2);
  return which && a && b ? imported::picked(*which, *a, *b) : std::nullopt;
}
MaybeIntegers expand_sizes(const Call& c) {
  const MaybeIntegers x = integers(c, 0);
  return x && c.knows(1) ? imported::expanded(*x, c.dims(1)) : std::nullopt;
}

// Of a vector; `empty`: the result without elements, if there is one.
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

DType sizes_dtype(const Call& c) {
  static const std::set<std::string> tests = {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"};
  const std::string& op = c.node.op_type();
  if (op == "Cast") return c.dtype("to", f32);
  if (tests.contains(op)) return boolean;
  const Value& first = c.in[op == "Where" ? 1 : 0];
  return first.kind == Value::Kind::sizes ? first.dtype : first.tensor.dtype();
}

const std::unordered_map<std::string, SizesRule>& sizes_rules() {
  static const std::unordered_map<std::string, SizesRule> table = {
      {"Abs", absolute_sizes},
      {"Add", combined_sizes<imported::plus>},
      {"And", combined_sizes<imported::least>},
      {"Cast", cast_sizes},
      {"Concat", concat_sizes},
      {"Div", combined_sizes<imported::quotient>},
      {"Equal", combined_sizes<imported::is_equal>},
      {"Expand", expand_sizes},
      {"Gather", gather_sizes},
      {"Greater", combined_sizes<imported::is_more>},
      {"GreaterOrEqual", combined_sizes<imported::is_at_least>},
      {"Identity", same_sizes},
      {"Less", combined_sizes<imported::is_less>},
      {"LessOrEqual", combined_sizes<imported::is_at_most>},
      {"Max", combined_sizes<imported::greatest>},
      {"Min", combined_sizes<imported::least>},
      {"Mod", mod_sizes},
      {"Mul", combined_sizes<imported::times>},
      {"Neg", negated_sizes},
      {"Not", not_sizes},
      {"Or", combined_sizes<imported::greatest>},
      {"ReduceMax", max_sizes},
      {"ReduceMin", min_sizes},
      {"ReduceProd", product_sizes},
      {"ReduceSum", sum_sizes},
      {"Reshape", reshape_sizes},
      {"Slice", slice_sizes},
      {"Squeeze", squeeze_sizes},
      {"Sub", combined_sizes<imported::minus>},
      {"Unsqueeze", unsqueeze_sizes},
      {"Where", where_sizes},
  };
  return table;
}

}  // namespace rill::onnx_import
