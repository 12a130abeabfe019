// TensorFlow's operators on sizes that a signature leaves open; see imported_sizes.h.
#include <algorithm>
#include <set>

#include "rill/serialize/model/imported_sizes.h"
#include "rill/serialize/tensorflow/in/slices.h"

namespace rill::tensorflow_in {
namespace {

using imported::integers;
using imported::Integers;
using imported::MaybeIntegers;

// Whether a node's numbers are counts, as sizes are: then C++'s quotient is the rounded one, and stays the same
// expression as for other sizes. `left`: nodes that may still be visited.
bool is_count(const Call& c, const std::string& input, int& left) {
  auto found = c.body.nodes.find(input.substr(0, input.find(':')));
  if (found == c.body.nodes.end() || --left < 0) return false;
  const proto::NodeDef& node = *found->second;
  const std::string& op = node.op();
  if (op == "Shape" || op == "ShapeN" || op == "Size" || op == "Rank") return true;
  if (op == "Const") {
    const Value v = c.program.outside->constant(node);
    if (v.kind != Value::Kind::tensor || !is_integer(v.tensor.dtype())) return false;
    const EagerScope eager;
    return std::ranges::all_of(v.tensor.to_vector<int64_t>(), [](int64_t n) { return n >= 0; });
  }
  static const std::set<std::string> of_first = {"StridedSlice", "GatherV2", "Identity", "Cast", "Squeeze",
                                                 "Reshape",      "Slice",    "Prod",     "Sum",  "ExpandDims"};
  static const std::set<std::string> of_all = {"Add", "AddV2", "Mul", "FloorDiv", "Maximum", "Minimum", "Pack"};
  const int n = of_first.contains(op) ? std::min(node.input_size(), 1) : of_all.contains(op) ? node.input_size() : 0;
  for (int i = 0; i < n; ++i)
    if (!is_count(c, node.input(i), left)) return false;
  return n > 0;
}
bool are_counts(const Call& c) {
  int left = 64;
  return c.node.input_size() >= 2 && is_count(c, c.node.input(0), left) && is_count(c, c.node.input(1), left);
}

template <imported::Arithmetic f>
MaybeIntegers combined_sizes(const Call& c) {
  return imported::combined(c, f);
}
// Quotients are rounded down, and remainders have the divisor's sign.
MaybeIntegers floor_div_sizes(const Call& c) {
  return imported::combined(c, are_counts(c) ? imported::quotient : imported::floored_quotient);
}
MaybeIntegers floor_mod_sizes(const Call& c) {
  return imported::combined(c, are_counts(c) ? imported::remainder : imported::floored_remainder);
}
MaybeIntegers negated_sizes(const Call& c) {
  const MaybeIntegers x = integers(c, 0);
  return x ? MaybeIntegers(imported::negated(*x)) : std::nullopt;
}
MaybeIntegers same_sizes(const Call& c) { return integers(c, 0); }
MaybeIntegers cast_sizes(const Call& c) {
  const DType to = c.dtype("DstT");
  return to == i32 || to == i64 ? integers(c, 0) : std::nullopt;  // other dtypes do not hold every size
}

MaybeIntegers pack_sizes(const Call& c) { return imported::joined(c, 0, c.count(), true); }
MaybeIntegers concat_sizes(const Call& c) {
  return c.count() < 2 ? std::nullopt : imported::joined(c, 0, c.count() - 1, false);
}
MaybeIntegers gather_sizes(const Call& c) {
  const MaybeIntegers x = integers(c, 0), indices = integers(c, 1);
  return x && indices ? imported::gathered(c, *x, *indices) : std::nullopt;
}
MaybeIntegers strided_slice_sizes(const Call& c) {
  const MaybeIntegers x = integers(c, 0);
  if (!x || x->scalar) return {};
  const Strided s(c);
  if (!s.is_known_slice()) return {};
  if (s.shrink_mask) return imported::gathered(c, *x, {{s.begin.known[0]}, true});
  if (s.steps[0] == 0) return {};
  return Integers{s.of(x->dims)};
}
MaybeIntegers slice_sizes(const Call& c) {
  const MaybeIntegers x = integers(c, 0);
  if (!x || x->scalar) return {};
  const int64_t begin = int64_t(c.dim(1)), n = int64_t(x->dims.size());
  if (begin < 0 || begin > n) c.reject("it goes beyond its operand");
  const int64_t size = int64_t(c.dim(2)) == -1 ? n - begin : int64_t(c.dim(2));
  if (size < 0 || size > n - begin) c.reject("it goes beyond its operand");
  return Integers{Dims(x->dims.begin() + begin, x->dims.begin() + begin + size)};
}

MaybeIntegers squeeze_sizes(const Call& c) {
  const MaybeIntegers x = integers(c, 0);
  return x ? imported::as_scalar(*x) : std::nullopt;
}
MaybeIntegers expand_dims_sizes(const Call& c) {
  const MaybeIntegers x = integers(c, 0);
  return x ? imported::as_vector(*x) : std::nullopt;
}
MaybeIntegers reshape_sizes(const Call& c) {
  const MaybeIntegers x = integers(c, 0), to = integers(c, 1);
  if (!x || !to || to->scalar) return {};
  return imported::reshaped(*x, to->dims);
}

// `empty`: the result without elements, if there is one.
template <imported::Arithmetic f>
MaybeIntegers fold_sizes(const Call& c, std::optional<Dim> empty) {
  const MaybeIntegers x = integers(c, 0);
  if (!x || c.flag("keep_dims") || !c.knows(1)) return {};
  if (c.dims(1).empty()) return x;  // no axes: nothing is reduced
  if (!empty && x->dims.empty()) return {};
  return imported::folded(*x, f, empty ? *empty : x->dims[0]);
}
MaybeIntegers product_sizes(const Call& c) { return fold_sizes<imported::times>(c, 1); }
MaybeIntegers sum_sizes(const Call& c) { return fold_sizes<imported::plus>(c, 0); }
MaybeIntegers max_sizes(const Call& c) { return fold_sizes<imported::greatest>(c, {}); }
MaybeIntegers min_sizes(const Call& c) { return fold_sizes<imported::least>(c, {}); }

using SizesRule = MaybeIntegers (*)(const Call&);
const std::unordered_map<std::string_view, SizesRule>& sizes_rules() {
  static const std::unordered_map<std::string_view, SizesRule> table = {
      {"Add", combined_sizes<imported::plus>},
      {"AddV2", combined_sizes<imported::plus>},
      {"Cast", cast_sizes},
      {"ConcatV2", concat_sizes},
      {"ExpandDims", expand_dims_sizes},
      {"FloorDiv", floor_div_sizes},
      {"FloorMod", floor_mod_sizes},
      {"GatherV2", gather_sizes},
      {"Identity", same_sizes},
      {"Max", max_sizes},
      {"Maximum", combined_sizes<imported::greatest>},
      {"Min", min_sizes},
      {"Minimum", combined_sizes<imported::least>},
      {"Mul", combined_sizes<imported::times>},
      {"Neg", negated_sizes},
      {"Pack", pack_sizes},
      {"Prod", product_sizes},
      {"Reshape", reshape_sizes},
      {"Slice", slice_sizes},
      {"Squeeze", squeeze_sizes},
      {"StopGradient", same_sizes},
      {"StridedSlice", strided_slice_sizes},
      {"Sub", combined_sizes<imported::minus>},
      {"Sum", sum_sizes},
      {"TruncateDiv", combined_sizes<imported::quotient>},
  };
  return table;
}

}  // namespace

bool run_on_sizes(const Call& c, Values& out) {
  const auto rule = sizes_rules().find(c.node.op());
  if (rule == sizes_rules().end()) return false;
  const MaybeIntegers y = rule->second(c);
  if (!y) return false;
  const Value& first = c.in[0];
  const DType same = first.kind == Value::Kind::sizes ? first.dtype : first.tensor.dtype();
  out = {Value::sizes(y->dims, y->scalar, c.node.op() == "Cast" ? c.dtype("DstT") : same)};
  return true;
}

}  // namespace rill::tensorflow_in
