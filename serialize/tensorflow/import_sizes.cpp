// Arithmetic on sizes that a signature leaves open, which are carried as Dims.
#include <algorithm>
#include <set>

#include "rill/serialize/tensorflow/slices.h"

namespace rill::tensorflow_in {
namespace {

struct Integers {
  Dims dims;
  bool scalar = false;
};
std::optional<Integers> integers(const Call& c, size_t i) {
  if (!c.knows(i)) return {};
  const Value& v = c.in[i];
  if (v.kind == Value::Kind::sizes) return Integers{v.dims, v.scalar};
  if (!is_integer(v.tensor.dtype()) || v.tensor.ndim() > 1) return {};
  return Integers{c.dims(i), v.tensor.ndim() == 0};
}

// The rest has the divisor's sign, and quotients are rounded down, where a Dim's arithmetic is C++'s.
Dim floored_rest(Dim a, Dim b) { return (a % b + b) % b; }
Dim floored_quotient(Dim a, Dim b) { return (a - floored_rest(a, b)) / b; }

// Whether the numbers that a node gives count something, as sizes do: then C++'s quotient is the rounded one, and stays
// the same expression as that of other sizes. `left`: nodes that may still be looked at.
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

using Arithmetic = Dim (*)(Dim, Dim);
Arithmetic arithmetic(const Call& c) {
  const std::string& op = c.node.op();
  if ((op == "FloorDiv" || op == "FloorMod") && !are_counts(c))
    return op == "FloorDiv" ? floored_quotient : floored_rest;
  static const std::unordered_map<std::string, Arithmetic> all = {
      {"Add", +[](Dim a, Dim b) { return Dim(a + b); }},
      {"AddV2", +[](Dim a, Dim b) { return Dim(a + b); }},
      {"Sub", +[](Dim a, Dim b) { return Dim(a - b); }},
      {"Mul", +[](Dim a, Dim b) { return Dim(a * b); }},
      {"FloorDiv", +[](Dim a, Dim b) { return Dim(a / b); }},
      {"TruncateDiv", +[](Dim a, Dim b) { return Dim(a / b); }},
      {"FloorMod", +[](Dim a, Dim b) { return Dim(a % b); }},
      {"Maximum", +[](Dim a, Dim b) { return Dim(larger(a, b)); }},
      {"Minimum", +[](Dim a, Dim b) { return Dim(smaller(a, b)); }},
  };
  auto found = all.find(op);
  return found == all.end() ? nullptr : found->second;
}

}  // namespace

bool run_on_sizes(const Call& c, Values& out) {
  const std::string& op = c.node.op();
  const DType dtype = c.in[0].kind == Value::Kind::sizes    ? c.in[0].dtype
                      : c.in[0].kind == Value::Kind::tensor ? c.in[0].tensor.dtype()
                                                            : i64;
  auto give = [&](const Dims& d, bool scalar) {
    out = {Value::sizes(d, scalar, dtype)};
    return true;
  };
  if (const Arithmetic f = arithmetic(c)) {
    const auto a = integers(c, 0), b = integers(c, 1);
    if (!a || !b) return false;
    const size_t n = std::max(a->dims.size(), b->dims.size());
    if ((a->dims.size() != n && a->dims.size() != 1) || (b->dims.size() != n && b->dims.size() != 1)) return false;
    Dims y;
    for (size_t i = 0; i < n; ++i)
      y.push_back(f(a->dims[a->dims.size() == 1 ? 0 : i], b->dims[b->dims.size() == 1 ? 0 : i]));
    return give(y, a->scalar && b->scalar);
  }
  if (op == "Pack") {
    Dims y;
    for (size_t i = 0; i < c.count(); ++i) {
      const auto part = integers(c, i);
      if (!part || !part->scalar) return false;
      y.push_back(part->dims[0]);
    }
    return give(y, false);
  }
  if (op == "ConcatV2") {
    Dims y;
    for (size_t i = 0; i + 1 < c.count(); ++i) {
      const auto part = integers(c, i);
      if (!part || part->scalar) return false;
      for (Dim d : part->dims) y.push_back(d);
    }
    return give(y, false);
  }
  const auto x = integers(c, 0);
  if (!x) return false;
  if (op == "Identity" || op == "StopGradient") return give(x->dims, x->scalar);
  if (op == "Neg") {
    Dims y;
    for (Dim d : x->dims) y.push_back(0 - d);
    return give(y, x->scalar);
  }
  if (op == "Cast") {
    const DType to = c.dtype("DstT");
    if (to != i32 && to != i64) return false;  // others hold not every size
    out = {Value::sizes(x->dims, x->scalar, to)};
    return true;
  }
  if (op == "Squeeze") return x->dims.size() == 1 && give(x->dims, true);
  if (op == "ExpandDims") return x->scalar && give(x->dims, false);
  if (op == "Reshape") {
    const auto to = integers(c, 1);
    if (!to || to->dims.size() > 1) return false;
    const auto n = int64_t(x->dims.size());
    const Dim wanted = to->dims.empty() ? Dim(1) : to->dims[0];
    return (wanted == n || (wanted == -1 && !to->dims.empty())) && give(x->dims, to->dims.empty());
  }
  if (op == "Prod" || op == "Sum" || op == "Max" || op == "Min") {
    if (c.flag("keep_dims") || !c.knows(1)) return false;
    if (c.dims(1).empty()) return give(x->dims, x->scalar);  // no axes: nothing is folded
    const bool sum = op == "Sum", product = op == "Prod";
    if (!sum && !product && x->dims.empty()) return false;
    Dim y = product ? Dim(1) : sum ? Dim(0) : x->dims[0];
    for (Dim d : x->dims)
      y = product ? Dim(y * d) : sum ? Dim(y + d) : op == "Max" ? Dim(larger(y, d)) : Dim(smaller(y, d));
    return give({y}, true);
  }
  if (op == "GatherV2") {
    const auto at = integers(c, 1);
    if (!at || x->scalar) return false;
    Dims y;
    for (Dim i : at->dims) y.push_back(x->dims[size_t(axis_of(c, int64_t(i), int64_t(x->dims.size())))]);
    return give(y, at->scalar);
  }
  if (op == "StridedSlice" && !x->scalar) {
    const Strided s(c);
    if (!s.is_known_slice()) return false;
    const int64_t n = int64_t(x->dims.size());
    if (s.shrink_mask) return give({x->dims[size_t(axis_of(c, int64_t(s.begin.known[0]), n))]}, true);
    return s.steps[0] != 0 && give(s.of(x->dims), false);
  }
  if (op == "Slice" && !x->scalar) {
    const int64_t begin = int64_t(c.dim(1)), n = int64_t(x->dims.size());
    if (begin < 0 || begin > n) c.reject("it goes beyond its operand");
    const int64_t size = int64_t(c.dim(2)) == -1 ? n - begin : int64_t(c.dim(2));
    if (size < 0 || size > n - begin) c.reject("it goes beyond its operand");
    return give(Dims(x->dims.begin() + begin, x->dims.begin() + begin + size), false);
  }
  return false;
}

}  // namespace rill::tensorflow_in
