// Finding functions of rill in a graph, and ONNX's operators for them. See idioms.h.
#include "rill/serialize/onnx/out/idioms.h"

#include <cstring>
#include <optional>

#include "rill/ops/listeners.h"
#include "rill/ops/ops.h"
#include "rill/trace/graph/tracer.h"

namespace rill::onnx_out {

namespace {

// Stands for the function's number in its trace: exact in f32 and wider formats, and different from all numbers in the
// functions.
constexpr double probe = 0.337890625;

// The function's trace for an operand of this kind.
Graph trace_of(const Idiom& idiom, DType dtype, const Shape& shape) {
  const PauseTapes pause;
  Tracer tracer{std::string(idiom.name)};
  tracer.add_output(
      idiom.function(tracer.add_argument(Spec{.shape = shape, .dtype = dtype, .device = {}}, "x"), probe));
  return tracer.finish();
}

bool has_same_bytes(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape() || a.dtype() == DType::string) return false;
  const Tensor x = a.to(Device()).contiguous(), y = b.to(Device()).contiguous();
  return std::memcmp(x.rep()->data, y.rep()->data, size_t(x.size()) * size_of(x.dtype())) == 0;
}

// Compares a pattern with a graph, and finds its operand and its number there.
struct Matcher {
  const Graph &pattern, &graph;
  std::optional<ValueId> x = {};
  std::optional<double> p = {};

  bool same(ValueId want, ValueId got) {
    const Node &a = pattern.nodes()[size_t(want.node)], &b = graph.nodes()[size_t(got.node)];
    if (a.kind == Node::Kind::input) return is_operand(got, a.outputs[0].dtype);
    if (a.kind != b.kind || want.index != got.index) return false;
    if (a.kind == Node::Kind::constant) return has_same_bytes(a.constant, b.constant) || is_number(a, b);
    if (a.op != b.op || a.inputs.size() != b.inputs.size() || !(AttrsView(a.attrs) == AttrsView(b.attrs))) return false;
    for (size_t i = 0; i < a.inputs.size(); ++i)
      if (!same(a.inputs[i], b.inputs[i])) return false;
    return true;
  }
  bool is_operand(ValueId v, DType dtype) {
    if (x) return *x == v;
    x = v;
    return graph.spec(v).dtype == dtype;
  }
  bool is_number(const Node& a, const Node& b) {
    const auto is_scalar = [](const Tensor& t) { return t.size() == 1 && is_floating(t.dtype()); };
    if (!is_scalar(a.constant) || !is_scalar(b.constant) || a.constant.dtype() != b.constant.dtype()) return false;
    const EagerScope eager;
    if (astype(a.constant, f64).item<double>() != probe) return false;
    const double value = astype(b.constant, f64).item<double>();
    if (p) return *p == value;
    p = value;
    return true;
  }
};

// Traces of the idioms, by the operand's kind.
class Patterns {
 public:
  const Graph& of(const Idiom& idiom, DType dtype, const Shape& shape) {
    const std::string key = std::string(idiom.name) + " " + std::string(name(dtype)) + " " + to_string(shape);
    auto found = traces_.find(key);
    return found != traces_.end() ? found->second : traces_.emplace(key, trace_of(idiom, dtype, shape)).first->second;
  }

 private:
  std::map<std::string, Graph> traces_;
};

std::optional<IdiomMatch> match(const Idiom& idiom, const Graph& g, int32_t root, Patterns& patterns) {
  const Spec& out = g.nodes()[size_t(root)].outputs[0];
  const Graph& any = patterns.of(idiom, out.dtype, {2, 3});
  if (any.nodes()[size_t(any.outputs[0].node)].op != g.nodes()[size_t(root)].op) return {};
  Shape shape = out.shape;  // the trace cannot depend on an open size, so any number will do
  for (Dim& d : shape)
    if (d.is_open()) d = 2;
  if (!idiom.elementwise && shape.empty()) return {};
  const Graph& pattern = idiom.elementwise ? any : patterns.of(idiom, out.dtype, shape);
  Matcher m{pattern, g};
  if (!m.same(pattern.outputs[0], {root, 0}) || !m.x) return {};
  return IdiomMatch{&idiom, *m.x, m.p.value_or(0)};
}

// --- ONNX's operators ------------------------------------------------------------------------------------------------

template <const char* name>
Value write_named(Exporter& e, const Value& x, double) {
  return e.op(name, {x});
}
template <const char* name>
Value write_with_alpha(Exporter& e, const Value& x, double p) {
  return e.op(name, {x}, {{"alpha", p}});
}
constexpr char softplus_name[] = "Softplus", softsign_name[] = "Softsign", mish_name[] = "Mish", selu_name[] = "Selu",
               hard_swish_name[] = "HardSwish", elu_name[] = "Elu", celu_name[] = "Celu", leaky_name[] = "LeakyRelu";

Value write_gelu(Exporter& e, const Value& x, double) { return e.op("Gelu", {x}); }
Value write_tanh_gelu(Exporter& e, const Value& x, double) {
  return e.op("Gelu", {x}, {{"approximate", std::string("tanh")}});
}
Value write_log_sigmoid(Exporter& e, const Value& x, double) {
  return e.op("Neg", {e.op("Softplus", {e.op("Neg", {x})})});
}
Value write_hard_sigmoid(Exporter& e, const Value& x, double) {
  return e.op("HardSigmoid", {x}, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
}
Value write_relu6(Exporter& e, const Value& x, double) {
  return e.op("Clip", {x, e.number(0, x.dtype), e.number(6, x.dtype)});
}
Value write_rms_norm(Exporter& e, const Value& x, double p) {
  const Value mean = e.op("ReduceMean", {e.op("Mul", {x, x}), e.ints({-1})});
  return e.op("Div", {x, e.op("Sqrt", {e.op("Add", {mean, e.number(p, x.dtype)})})});
}

}  // namespace

Value write_silu(Exporter& e, const Value& x, double) { return e.op("Mul", {x, e.op("Sigmoid", {x})}); }

std::span<const Idiom> idioms() {
  static const Idiom all[] = {
      {"gelu", [](const Tensor& x, double) { return gelu(x, false); }, write_gelu},
      {"gelu by tanh", [](const Tensor& x, double) { return gelu(x, true); }, write_tanh_gelu},
      {"silu", [](const Tensor& x, double) { return silu(x); }, write_silu},
      {"mish", [](const Tensor& x, double) { return mish(x); }, write_named<mish_name>},
      {"softplus", [](const Tensor& x, double) { return softplus(x); }, write_named<softplus_name>},
      {"log_sigmoid", [](const Tensor& x, double) { return log_sigmoid(x); }, write_log_sigmoid},
      {"softsign", [](const Tensor& x, double) { return softsign(x); }, write_named<softsign_name>},
      {"selu", [](const Tensor& x, double) { return selu(x); }, write_named<selu_name>},
      {"celu", [](const Tensor& x, double p) { return celu(x, p); }, write_with_alpha<celu_name>},
      {"elu", [](const Tensor& x, double p) { return elu(x, p); }, write_with_alpha<elu_name>},
      {"leaky_relu", [](const Tensor& x, double p) { return leaky_relu(x, p); }, write_with_alpha<leaky_name>},
      {"hard_swish", [](const Tensor& x, double) { return hard_swish(x); }, write_named<hard_swish_name>},
      {"hard_sigmoid", [](const Tensor& x, double) { return hard_sigmoid(x); }, write_hard_sigmoid},
      {"relu6", [](const Tensor& x, double) { return relu6(x); }, write_relu6},
      {"rms_norm", [](const Tensor& x, double p) { return rms_norm(x, {.epsilon = p}); }, write_rms_norm, false},
  };
  return all;
}

// The first one in the list that a node ends is used: hard_swish is hard_sigmoid times its operand, and ends at another
// node.
std::map<int32_t, IdiomMatch> find_idioms(const Graph& g, std::span<const Idiom> idioms) {
  std::map<int32_t, IdiomMatch> found;
  Patterns patterns;
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    if (n.kind != Node::Kind::op || n.outputs.size() != 1) continue;
    const DType d = n.outputs[0].dtype;  // runtimes lack some of the operators in f64
    if (d != DType::f32 && d != DType::f16 && d != DType::bf16) continue;
    for (const Idiom& idiom : idioms)
      if (const auto m = match(idiom, g, int32_t(i), patterns)) {
        found.emplace(int32_t(i), *m);
        break;
      }
  }
  return found;
}

}  // namespace rill::onnx_out
