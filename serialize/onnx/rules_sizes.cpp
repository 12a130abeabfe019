// Arithmetic on sizes that a signature leaves open: what Shape gives, and what files make of it before they hand it to
// Reshape, Expand or Slice. All of it is done with Dims, so that one trace is right for every size.
#include <algorithm>

#include "rill/serialize/onnx/interpreter.h"

namespace rill::onnx_import {
namespace {

// Operand i as integers; false where it is none that is known, or has more than one axis.
bool integers(const Call& c, size_t i, Dims& out, bool& scalar) {
  if (!c.has(i) || !c.knows(i)) return false;
  const Value& v = c.in[i];
  if (v.kind == Value::Kind::sizes) {
    out = v.dims, scalar = v.scalar;
    return true;
  }
  if (!is_integer(v.tensor.dtype()) || v.tensor.ndim() > 1) return false;
  out = c.dims(i), scalar = v.tensor.ndim() == 0;
  return true;
}

template <class F>
bool arithmetic(const Call& c, Values& out, F f) {
  Dims a, b, y;
  bool a_scalar = false, b_scalar = false;
  if (!integers(c, 0, a, a_scalar) || !integers(c, 1, b, b_scalar)) return false;
  const size_t n = std::max(a.size(), b.size());
  if ((a.size() != n && a.size() != 1) || (b.size() != n && b.size() != 1)) return false;
  for (size_t i = 0; i < n; ++i) y.push_back(f(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]));
  out = {Value::sizes(y, a_scalar && b_scalar)};
  return true;
}
bool add_sizes(const Call& c, Values& out) {
  return arithmetic(c, out, [](Dim a, Dim b) { return a + b; });
}
bool subtract_sizes(const Call& c, Values& out) {
  return arithmetic(c, out, [](Dim a, Dim b) { return a - b; });
}
bool multiply_sizes(const Call& c, Values& out) {
  return arithmetic(c, out, [](Dim a, Dim b) { return a * b; });
}
bool divide_sizes(const Call& c, Values& out) {
  return arithmetic(c, out, [](Dim a, Dim b) { return a / b; });
}
bool max_sizes(const Call& c, Values& out) {
  return c.count() == 2 && arithmetic(c, out, [](Dim a, Dim b) { return larger(a, b); });
}
bool min_sizes(const Call& c, Values& out) {
  return c.count() == 2 && arithmetic(c, out, [](Dim a, Dim b) { return smaller(a, b); });
}

bool gather_sizes(const Call& c, Values& out) {
  Dims from, places, y;
  bool from_scalar = false, scalar = false;
  if (!integers(c, 0, from, from_scalar) || from_scalar || !integers(c, 1, places, scalar)) return false;
  for (Dim p : places) y.push_back(from[size_t(axis_of(c, p, int64_t(from.size())))]);
  out = {Value::sizes(y, scalar)};
  return true;
}

bool concat_sizes(const Call& c, Values& out) {
  Dims y;
  for (size_t i = 0; i < c.count(); ++i) {
    Dims part;
    bool scalar = false;
    if (!integers(c, i, part, scalar) || scalar) return false;
    for (Dim d : part) y.push_back(d);
  }
  out = {Value::sizes(y)};
  return true;
}

bool slice_sizes(const Call& c, Values& out) {
  Dims x;
  bool scalar = false;
  if (!integers(c, 0, x, scalar) || scalar) return false;
  const Dims starts = c.either(1, "starts"), stops = c.either(2, "ends"), steps = c.has(4) ? c.dims(4) : Dims{1};
  if (starts.size() != 1 || stops.size() != 1 || steps.size() != 1 || steps[0] == 0) return false;
  // Where ONNX departs from numpy: a slice that goes backwards begins at element 0 at least.
  const int64_t step = steps[0], start = starts[0];
  const int64_t first = step < 0 ? std::max(start, -int64_t(x.size())) : start;
  out = {Value::sizes(imported::sliced(x, first, stops[0], step))};
  return true;
}

bool unsqueeze_sizes(const Call& c, Values& out) {
  const Value& v = c.in[0];
  if (v.kind != Value::Kind::sizes || !v.scalar || c.either(1, "axes").size() != 1) return false;
  out = {Value::sizes(v.dims)};
  return true;
}
bool squeeze_sizes(const Call& c, Values& out) {
  const Value& v = c.in[0];
  if (v.kind != Value::Kind::sizes || v.dims.size() != 1) return false;
  out = {Value::sizes(v.dims, true)};
  return true;
}
bool reshape_sizes(const Call& c, Values& out) {
  const Value& v = c.in[0];
  if (v.kind != Value::Kind::sizes) return false;
  const Dims to = c.either(1, "shape");
  const auto n = int64_t(v.dims.size());
  if (to.empty() ? n != 1 : to.size() > 1 || (to[0] != -1 && to[0] != n)) return false;
  out = {Value::sizes(v.dims, to.empty())};
  return true;
}

bool cast_sizes(const Call& c, Values& out) {
  if (c.dtype("to", f32) != i64) return false;
  out = {c.in[0]};
  return true;
}
bool same_sizes(const Call& c, Values& out) {
  out = {c.in[0]};
  return true;
}
bool product_of_sizes(const Call& c, Values& out) {
  const Value& v = c.in[0];
  if (v.kind != Value::Kind::sizes || v.scalar) return false;
  if (c.either(1, "axes").empty() && c.flag("noop_with_empty_axes")) return same_sizes(c, out);
  Dim product = 1;
  for (Dim d : v.dims) product *= d;
  out = {Value::sizes({product}, !c.flag("keepdims", true))};
  return true;
}

}  // namespace

const std::unordered_map<std::string, SizesRule>& sizes_rules() {
  static const std::unordered_map<std::string, SizesRule> table = {
      {"Add", add_sizes},
      {"Cast", cast_sizes},
      {"Concat", concat_sizes},
      {"Div", divide_sizes},
      {"Gather", gather_sizes},
      {"Identity", same_sizes},
      {"Max", max_sizes},
      {"Min", min_sizes},
      {"Mul", multiply_sizes},
      {"Reshape", reshape_sizes},
      {"ReduceProd", product_of_sizes},
      {"Slice", slice_sizes},
      {"Squeeze", squeeze_sizes},
      {"Sub", subtract_sizes},
      {"Unsqueeze", unsqueeze_sizes},
  };
  return table;
}

}  // namespace rill::onnx_import
