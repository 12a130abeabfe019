// ONNX's operators by TensorFlow's: those that the rules of serialize/onnx/export_*.cpp use, for records without a rule
// of their own here. Start at GraphWriter::ops.
#include <unordered_map>

#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/serialize/tensorflow/out/graph_writer.h"

namespace rill::tensorflow_out {

namespace {

struct Standard {
  GraphWriter& w;
  const Values& in;
  const onnx_out::Attributes& attributes;
  const std::vector<DType>& out;

  int64_t integer(std::string_view name, int64_t otherwise) const {
    for (const onnx_out::Attribute& a : attributes)
      if (a.name == name) return std::get<int64_t>(a.value);
    return otherwise;
  }
  std::vector<int64_t> integers(std::string_view name) const {
    for (const onnx_out::Attribute& a : attributes)
      if (a.name == name) return std::get<std::vector<int64_t>>(a.value);
    return {};
  }
  std::string text(std::string_view name) const {
    for (const onnx_out::Attribute& a : attributes)
      if (a.name == name) return std::get<std::string>(a.value);
    return {};
  }
};

// --- Elementwise -----------------------------------------------------------------------------------------------------

Value quotient(const Standard& s) { return s.w.node(is_floating(s.out[0]) ? "RealDiv" : "TruncateDiv", s.in); }
Value rest(const Standard& s) { return s.w.node(s.out[0] == DType::u64 ? "FloorMod" : "TruncateMod", s.in); }
Value cast(const Standard& s) { return s.w.node("Cast", s.in, {}, s.out[0]); }
Value bit_cast(const Standard& s) { return s.w.node("Bitcast", s.in, {}, s.out[0]); }
Value shifted(const Standard& s) {
  return s.w.node(s.text("direction") == "LEFT" ? "LeftShift" : "RightShift",
                  {s.in[0], s.w.cast(s.in[1], s.in[0].dtype)});
}
// TensorFlow's only has kernels for some dtypes, and no unsigned ones.
Value sign(const Standard& s) {
  const DType d = s.in[0].dtype;
  if (d == DType::u64) return s.w.cast(s.w.bools("NotEqual", {s.in[0], s.w.number(0, d)}), d);
  const DType wide = is_half(d) ? DType::f32 : d;
  return s.w.cast(s.w.node("Sign", {s.w.cast(s.in[0], wide)}), d);
}
Value different(const Standard& s) { return s.w.bools("NotEqual", s.in); }

// --- Shapes ----------------------------------------------------------------------------------------------------------

Value shape_of(const Standard& s) {
  const Value shape = s.w.node("Shape", s.in, {}, DType::i64);
  const int64_t start = s.integer("start", 0), end = s.integer("end", -1);
  return end < 0 ? shape : s.w.cut(shape, 0, s.w.ints({start}), s.w.ints({end}));
}
Value size_of(const Standard& s) { return s.w.node("Size", s.in, {}, DType::i64); }
Value squeezed(const Standard& s) { return s.w.node("Squeeze", {s.in[0]}); }
Value concatenated(const Standard& s) { return s.w.joined(s.in, s.integer("axis", 0)); }
Value transposed(const Standard& s) { return s.w.node("Transpose", {s.in[0], s.w.i32s(s.integers("perm"))}); }
// All before, then all after, as pairs.
Value padded(const Standard& s) {
  const Value pairs = s.w.node("Transpose", {s.w.node("Reshape", {s.in[1], s.w.ints({2, -1})}), s.w.i32s({1, 0})});
  const Value fill = s.in.size() > 2 && !s.in[2].name.empty() ? s.in[2] : s.w.number(0, s.in[0].dtype);
  return s.w.node("PadV2", {s.in[0], pairs, fill});
}

// --- Indices ---------------------------------------------------------------------------------------------------------

// A negative index counts from the back, which TensorFlow's operators do not support.
Value from_front(const Standard& s, const Value& index, const Value& sizes) {
  const Value negative = s.w.bools("Less", {index, s.w.number(0, index.dtype)});
  return s.w.select(negative, s.w.node("AddV2", {index, sizes}), index);
}
Value gathered(const Standard& s) {
  const int64_t axis = s.integer("axis", 0);
  const Value shape = s.w.node("Shape", {s.in[0]}, {}, DType::i64);
  const Value n = s.w.scalar(s.w.cut(shape, 0, s.w.ints({axis}), s.w.ints({axis + 1})));
  return s.w.node("GatherV2", {s.in[0], from_front(s, s.in[1], n), s.w.scalar(s.w.i32s({axis}))});
}
// The sizes of the indexed axes, and of the others.
struct Indexed {
  Value sizes, others, at;
  explicit Indexed(const Standard& s) {
    const Value shape = s.w.node("Shape", {s.in[0]}, {}, DType::i64);
    const Value of_places = s.w.node("Shape", {s.in[1]}, {}, DType::i64);
    const Value count = s.w.node("StridedSlice", {of_places, s.w.ints({-1}), s.w.ints({0}), s.w.ints({1})},
                                 {{"end_mask", number_attr(1)}});
    sizes = s.w.cut(shape, 0, s.w.ints({0}), count);
    others = s.w.node("StridedSlice", {shape, count, s.w.ints({0}), s.w.ints({1})}, {{"end_mask", number_attr(1)}});
    at = from_front(s, s.in[1], sizes);
  }
};
Value gathered_places(const Standard& s) { return s.w.node("GatherNd", {s.in[0], Indexed(s).at}); }
Value multiplied(const Standard& s, const Indexed& to) {
  GraphWriter& w = s.w;
  const Value strides = w.node("Cumprod", {to.sizes, w.scalar(w.i32s({0}))},
                               {{"exclusive", flag_attr(true)}, {"reverse", flag_attr(true)}});
  const Value flat = w.node("Sum", {w.node("Mul", {to.at, strides}), w.i32s({-1})});
  const Value rows = w.node("Reshape", {s.in[2], w.joined({w.ints({-1}), to.others}, 0)});
  const Value n = w.node("Prod", {to.sizes, w.i32s({0})});
  const Value products = w.node("UnsortedSegmentProd", {rows, w.node("Reshape", {flat, w.ints({-1})}), n});
  const Value shape = w.node("Shape", {s.in[0]}, {}, DType::i64);
  return w.node("Mul", {s.in[0], w.node("Reshape", {products, shape})});
}
Value scattered(const Standard& s) {
  const std::string reduction = s.text("reduction");
  const Indexed to(s);
  if (reduction == "mul") return multiplied(s, to);
  const char* op = reduction == "add"   ? "TensorScatterAdd"
                   : reduction == "min" ? "TensorScatterMin"
                   : reduction == "max" ? "TensorScatterMax"
                                        : "TensorScatterUpdate";
  return s.w.node(op, {s.in[0], to.at, s.in[2]});
}
// Only for vectors.
Value scattered_elements(const Standard& s) {
  const Value at = s.w.node("ExpandDims", {s.in[1], s.w.scalar(s.w.i32s({1}))});
  return s.w.node("TensorScatterUpdate", {s.in[0], at, s.in[2]});
}

// --- Reductions ------------------------------------------------------------------------------------------------------

template <const char* name>
Value folded(const Standard& s) {
  return s.w.node(name, {s.in[0], s.in[1]}, {{"keep_dims", flag_attr(s.integer("keepdims", 1) != 0)}});
}
template <const char* name>
Value index_of_extreme(const Standard& s) {
  const Value axis = s.w.scalar(s.w.i32s({s.integer("axis", 0)}));
  const Value y = s.w.node(name, {s.in[0], axis}, {}, DType::i64);
  return s.integer("keepdims", 1) ? s.w.node("ExpandDims", {y, axis}) : y;
}
Value cumulated(const Standard& s) {
  return s.w.node(
      "Cumsum", {s.in[0], s.w.scalar(s.in[1])},
      {{"exclusive", flag_attr(s.integer("exclusive", 0) != 0)}, {"reverse", flag_attr(s.integer("reverse", 0) != 0)}});
}
Value einsum(const Standard& s) {
  return s.w.node("Einsum", s.in,
                  {{"equation", text_attr(s.text("equation"))}, {"N", number_attr(int64_t(s.in.size()))}});
}

constexpr char sum_name[] = "Sum", prod_name[] = "Prod", max_name[] = "Max", min_name[] = "Min",
               norm_name[] = "EuclideanNorm", argmax_name[] = "ArgMax", argmin_name[] = "ArgMin";

using Writing = Value (*)(const Standard&);
const std::unordered_map<std::string_view, Writing>& writings() {
  static const std::unordered_map<std::string_view, Writing> all = {
      {"Div", quotient},
      {"Mod", rest},
      {"Cast", cast},
      {"BitCast", bit_cast},
      {"BitShift", shifted},
      {"Xor", different},
      {"Sign", sign},
      {"Shape", shape_of},
      {"Size", size_of},
      {"Squeeze", squeezed},
      {"Concat", concatenated},
      {"Transpose", transposed},
      {"Pad", padded},
      {"Gather", gathered},
      {"GatherND", gathered_places},
      {"ScatterND", scattered},
      {"ScatterElements", scattered_elements},
      {"ReduceSum", folded<sum_name>},
      {"ReduceProd", folded<prod_name>},
      {"ReduceMax", folded<max_name>},
      {"ReduceMin", folded<min_name>},
      {"ReduceL2", folded<norm_name>},
      {"ArgMax", index_of_extreme<argmax_name>},
      {"ArgMin", index_of_extreme<argmin_name>},
      {"CumSum", cumulated},
      {"Einsum", einsum},
  };
  return all;
}

// The same operator under another name.
const std::unordered_map<std::string_view, std::string_view>& names() {
  static const std::unordered_map<std::string_view, std::string_view> all = {
      {"Add", "AddV2"},          {"And", "LogicalAnd"},        {"Or", "LogicalOr"},
      {"Not", "LogicalNot"},     {"Where", "SelectV2"},        {"Max", "Maximum"},
      {"Min", "Minimum"},        {"LessOrEqual", "LessEqual"}, {"GreaterOrEqual", "GreaterEqual"},
      {"IsNaN", "IsNan"},        {"BitwiseNot", "Invert"},     {"Round", "Rint"},
      {"Expand", "BroadcastTo"}, {"MatMul", "BatchMatMulV2"},
  };
  return all;
}

}  // namespace

Values GraphWriter::ops(std::string_view type, const Values& in, const onnx_out::Attributes& attributes,
                        const std::vector<DType>& out) {
  if (auto found = writings().find(type); found != writings().end())
    return {found->second({*this, in, attributes, out})};
  auto renamed = names().find(type);
  return nodes(renamed == names().end() ? type : renamed->second, in, {}, out);
}

}  // namespace rill::tensorflow_out
