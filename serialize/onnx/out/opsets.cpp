// See opsets.h. The versions are those of the changelog of ONNX's operators; operators that are not listed here, nor
// with a listed attribute or dtype, are the same in opset 13 as in the newest.
#include "rill/serialize/onnx/out/opsets.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "rill/tensor/error.h"

namespace rill::onnx_out {

namespace {

// Operators that were added later, or whose written form was.
const std::unordered_map<std::string_view, int64_t> operators = {
    {"BatchNormalization", 15},
    {"BitCast", 26},
    {"BitwiseAnd", 18},
    {"BitwiseNot", 18},
    {"BitwiseOr", 18},
    {"BitwiseXor", 18},
    {"CumSum", 14},
    {"DFT", 20},
    {"Gelu", 20},
    {"GreaterOrEqual", 16},
    {"HardSwish", 14},
    {"LayerNormalization", 17},
    {"LessOrEqual", 16},
    {"Mish", 18},
    {"Pow", 15},
    {"ReduceL1", 18},
    {"ReduceL2", 18},
    {"ReduceLogSum", 18},
    {"ReduceLogSumExp", 18},
    {"ReduceMax", 18},
    {"ReduceMean", 18},
    {"ReduceMin", 18},
    {"ReduceProd", 18},
    {"ReduceSumSquare", 18},
    {"RegexFullMatch", 20},
    {"StringConcat", 20},
    {"StringSplit", 20},
    {"Trilu", 14},
    {"Where", 16},
};

// Attributes that were added after their operator.
const std::unordered_map<std::string_view, int64_t> attributes = {
    {"AveragePool.dilations", 19}, {"Cast.saturate", 19}, {"Reshape.allowzero", 14}, {"ScatterElements.reduction", 18},
    {"ScatterND.reduction", 18},   {"Shape.end", 15},     {"Shape.start", 15},       {"Split.num_outputs", 18},
};

bool is_float8(int64_t type) {
  return type >= onnx::TensorProto::FLOAT8E4M3FN && type <= onnx::TensorProto::FLOAT8E5M2FNUZ;
}

void note_type(int64_t type, OpsetNeed& need) {
  if (is_float8(type)) need.at_least(21, "numbers of 8 bits");
}
void note_graph(const onnx::GraphProto& g, OpsetNeed& need);

void note_node(const onnx::NodeProto& n, OpsetNeed& need) {
  if (auto found = operators.find(n.op_type()); found != operators.end()) need.at_least(found->second, n.op_type());
  for (const onnx::AttributeProto& a : n.attribute()) {
    const std::string name = n.op_type() + "." + a.name();
    if (auto found = attributes.find(name); found != attributes.end()) need.at_least(found->second, name);
    if (name == "Cast.to") note_type(a.i(), need);
    if (a.has_g()) note_graph(a.g(), need);
  }
}

void note_graph(const onnx::GraphProto& g, OpsetNeed& need) {
  for (const onnx::NodeProto& n : g.node()) note_node(n, need);
  for (const onnx::TensorProto& t : g.initializer()) note_type(t.data_type(), need);
  for (const auto* list : {&g.input(), &g.output()})
    for (const onnx::ValueInfoProto& v : *list) note_type(v.type().tensor_type().elem_type(), need);
}

}  // namespace

int64_t opset_for(const onnx::ModelProto& model, OpsetNeed need, int64_t asked, const Where& where) {
  note_graph(model.graph(), need);
  if (asked == 0) return need.opset;
  if (asked < oldest_opset || asked > newest_opset)
    fail("export_model",
         fmt::format("the option opset is {}; {} to {} can be written", asked, oldest_opset, newest_opset), where);
  if (asked < need.opset)
    fail("export_model",
         fmt::format("the option opset is {}, and '{}' came with opset {}. ask for {}, or leave the option out", asked,
                     need.what, need.opset, need.opset),
         where);
  return asked;
}

int64_t ir_version_of(int64_t opset) {
  constexpr std::pair<int64_t, int64_t> first[] = {{28, 14}, {25, 13}, {24, 12}, {23, 11}, {21, 10}, {19, 9}, {15, 8}};
  for (const auto& [from, version] : first)
    if (opset >= from) return version;
  return 7;
}

}  // namespace rill::onnx_out
