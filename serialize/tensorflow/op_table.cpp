// The table; see op_table.h. Operators of the same form are in one list.
#include "rill/serialize/tensorflow/op_table.h"

#include <stdexcept>
#include <string>
#include <unordered_map>

namespace rill::tensorflow_out {

namespace {

// One operand or two of a dtype, to one of the same or to bools: by the name of the result.
constexpr std::string_view to_z[] = {
    "AddV2",     "Sub",        "Mul",         "RealDiv",    "TruncateDiv",  "TruncateMod", "FloorDiv",
    "FloorMod",  "Maximum",    "Minimum",     "Pow",        "Atan2",        "Xlogy",       "MulNoNan",
    "Equal",     "NotEqual",   "Less",        "Greater",    "GreaterEqual", "LessEqual",   "BitwiseAnd",
    "BitwiseOr", "BitwiseXor", "LeftShift",   "RightShift", "TanhGrad",     "SigmoidGrad", "RsqrtGrad",
    "Igamma",    "Igammac",    "IgammaGradA", "Betainc",    "Zeta",         "Polygamma"};
constexpr std::string_view to_y[] = {
    "Neg",        "Abs",       "Sign",      "Exp",      "Expm1",     "Log",      "Log1p",      "Sqrt",      "Rsqrt",
    "Reciprocal", "Square",    "Sin",       "Cos",      "Tan",       "Asin",     "Acos",       "Atan",      "Sinh",
    "Cosh",       "Tanh",      "Asinh",     "Acosh",    "Atanh",     "Erf",      "Erfc",       "Floor",     "Ceil",
    "Round",      "Rint",      "Erfinv",    "Lgamma",   "Digamma",   "IsNan",    "IsInf",      "IsFinite",  "Sigmoid",
    "Invert",     "BesselI0",  "BesselI0e", "BesselI1", "BesselI1e", "BesselJ0", "BesselJ1",   "BesselK0",  "BesselK0e",
    "BesselK1",   "BesselK1e", "BesselY0",  "BesselY1", "Dawsn",     "Expint",   "FresnelCos", "FresnelSin"};
constexpr std::string_view of_bools[] = {"LogicalAnd", "LogicalOr"};
constexpr std::string_view folds[] = {"Sum", "Prod", "Max", "Min", "Mean", "EuclideanNorm"};
constexpr std::string_view windows[] = {
    "Conv2D",    "Conv3D",      "MaxPool",         "MaxPool3D",         "AvgPool",
    "AvgPool3D", "MaxPoolGrad", "MaxPoolGradGrad", "MaxPool3DGradGrad", "DepthwiseConv2dNative"};

constexpr OpForm others[] = {
    {"LogicalNot", "y", ""},
    {"Elu", "activations"},
    {"LeakyRelu", "activations"},
    {"Relu6", "activations"},
    {"Selu", "activations"},
    {"Softplus", "activations"},
    {"Softsign", "activations"},
    {"Relu", "activations"},
    {"ReluGrad", "backprops"},
    {"NextAfter", "output"},
    {"SelectV2", "output", "T=1"},
    {"Cast", "y", "SrcT=0 DstT>0"},
    {"Bitcast", "output", "T=0 type>0"},
    {"Identity", "output"},
    {"StopGradient", "output"},
    {"Reshape", "output", "T=0 Tshape=1"},
    {"Transpose", "y", "T=0 Tperm=1"},
    {"BroadcastTo", "output", "T=0 Tidx=1"},
    {"Slice", "output", "T=0 Index=1"},
    {"StridedSlice", "output", "T=0 Index=1"},
    {"TensorStridedSliceUpdate", "output", "T=0 Index=1"},
    {"Squeeze", "output"},
    {"ExpandDims", "output", "T=0 Tdim=1"},
    {"ReverseV2", "output", "T=0 Tidx=1"},
    {"PadV2", "output", "T=0 Tpaddings=1"},
    {"ConcatV2", "output", "T=0 Tidx=-1"},
    {"Pack", "output"},
    {"Shape", "output", "T=0 out_type>0"},
    {"Size", "output", "T=0 out_type>0"},
    {"Range", "output", "Tidx=0"},
    {"All", "output", "Tidx=1"},
    {"Any", "output", "Tidx=1"},
    {"ArgMax", "output", "T=0 Tidx=1 output_type>0"},
    {"ArgMin", "output", "T=0 Tidx=1 output_type>0"},
    {"Cumsum", "out", "T=0 Tidx=1"},
    {"Cumprod", "out", "T=0 Tidx=1"},
    {"TopKV2", "values indices", "T=0 Tk=1 index_type>1"},
    {"GatherV2", "output", "Tparams=0 Tindices=1 Taxis=2"},
    {"GatherNd", "output", "Tparams=0 Tindices=1"},
    {"TensorScatterUpdate", "output", "T=0 Tindices=1"},
    {"TensorScatterAdd", "output", "T=0 Tindices=1"},
    {"TensorScatterMin", "output", "T=0 Tindices=1"},
    {"TensorScatterMax", "output", "T=0 Tindices=1"},
    {"UnsortedSegmentProd", "output", "T=0 Tindices=1 Tnumsegments=2"},
    {"MatMul", "product"},
    {"BatchMatMulV2", "output"},
    {"Einsum", "output"},
    {"Cholesky", "output"},
    {"MatrixSolve", "output"},
    {"MatrixTriangularSolve", "output"},
    {"MatrixDeterminant", "output"},
    {"LogMatrixDeterminant", "sign log_abs_determinant"},
    {"Lu", "lu p", "T=0 output_idx_type>1"},
    {"Qr", "q r"},
    {"Svd", "s u v"},
    {"SelfAdjointEigV2", "e v"},
    {"Softmax", "softmax"},
    {"LogSoftmax", "logsoftmax"},
    {"Conv2DBackpropInput", "output", "T=1"},
    {"Conv2DBackpropFilter", "output"},
    {"Conv3DBackpropInputV2", "output", "T=1 Tshape=0"},
    {"Conv3DBackpropFilterV2", "output"},
    {"MaxPool3DGrad", "output", "T=0 TInput=0"},
    {"AvgPoolGrad", "output", "T=1"},
    {"AvgPool3DGrad", "output", "T=1"},
    {"Const", "output", "dtype>0"},
    {"Placeholder", "output", "dtype>0"},
    {"StatelessIf", "output", "Tcond=0"},
    {"StatelessCase", "output", ""},
    {"StatelessWhile", "output", ""},
    {"TensorListReserve", "handle", ""},
    {"TensorListSetItem", "output_handle", ""},
    {"TensorListStack", "tensor", ""},
    {"Real", "output", "T=0 Tout>0"},
    {"Imag", "output", "T=0 Tout>0"},
    {"ComplexAbs", "y", "T=0 Tout>0"},
    {"Complex", "out", "T=0 Tout>0"},
    {"Conj", "output"},
    {"StringLower", "output", ""},
    {"StringUpper", "output", ""},
    {"StringStrip", "output", ""},
    {"StringLength", "output", ""},
    {"StringJoin", "output", ""},
    {"StringToNumber", "output", "out_type>0"},
    {"AsString", "output"},
    {"StaticRegexReplace", "output", ""},
    {"StaticRegexFullMatch", "output", ""},
    {"StringToHashBucketFast", "output", ""},
    {"SparseCross", "output_indices output_values output_shape", ""},
};

std::unordered_map<std::string_view, OpForm> make_table() {
  std::unordered_map<std::string_view, OpForm> table;
  for (std::string_view op : to_z) table[op] = {op, "z"};
  for (std::string_view op : to_y) table[op] = {op, "y"};
  for (std::string_view op : of_bools) table[op] = {op, "z", ""};
  for (std::string_view op : folds) table[op] = {op, "output", "T=0 Tidx=1"};
  for (std::string_view op : windows) table[op] = {op, "output"};
  for (const OpForm& f : others) table[f.op] = f;
  return table;
}

}  // namespace

const OpForm* find_form(std::string_view op) {
  static const std::unordered_map<std::string_view, OpForm> table = make_table();
  auto found = table.find(op);
  return found == table.end() ? nullptr : &found->second;
}
const OpForm& form_of(std::string_view op) {
  const OpForm* form = find_form(op);
  if (!form) throw std::logic_error("no form of the operator " + std::string(op));
  return *form;
}

std::vector<std::string_view> result_names(const OpForm& form) {
  std::vector<std::string_view> all;
  std::string_view rest = form.results;
  for (size_t end; (end = rest.find(' ')) != std::string_view::npos; rest.remove_prefix(end + 1))
    all.push_back(rest.substr(0, end));
  all.push_back(rest);
  return all;
}
std::string_view result_name(const OpForm& form, size_t i, size_t& index) {
  const std::vector<std::string_view> all = result_names(form);
  index = all.size() == 1 ? i : 0;  // one of them may be a list
  return all.size() == 1 ? all[0] : all.at(i);
}

}  // namespace rill::tensorflow_out
