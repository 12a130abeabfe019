// Names, nodes, functions: how a graph is run. See interpreter.h.
#include "rill/serialize/tensorflow/in/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "rill/ops/apply.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/serialize/checkpoint/bundle.h"
#include "rill/serialize/tensorflow/op_table.h"

namespace rill::tensorflow_in {
namespace {

// Functions that call each other endlessly would overflow the stack.
thread_local int depth = 0;
struct Deeper {
  explicit Deeper(const std::string& name) {
    if (++depth > 100) {
      --depth;
      imported::fail_import(fmt::format("function '{}' stands more than 100 calls deep: does it call itself?", name));
    }
  }
  ~Deeper() { --depth; }
};

// Operators whose results depend on more than their operands, or are no tensors.
bool depends_on_more(const std::string& op) {
  static const std::set<std::string> ops = {"Const",
                                            "If",
                                            "StatelessIf",
                                            "While",
                                            "StatelessWhile",
                                            "Case",
                                            "StatelessCase",
                                            "PartitionedCall",
                                            "StatefulPartitionedCall",
                                            "VarHandleOp",
                                            "VariableV2",
                                            "Variable",
                                            "RestoreV2",
                                            "Multinomial",
                                            "TruncatedNormal"};
  return ops.contains(op) || op.starts_with("Random") || op.starts_with("TensorList") || op == "EmptyTensorList";
}

Values run_call(const Call& c) {
  const std::string& op = c.node.op();
  if (c.program.functions.contains(op)) return run_function(c, op, c.in);
  const Rule rule = find_rule(op);
  if (!rule) c.reject("the operator is not known");
  if (Values out; imported::any_sizes(c.in) && run_on_sizes(c, out)) return out;
  if (!imported::all_constant(c.in) || depends_on_more(op)) return rule(c);
  return imported::run_on_constants(rule, c);
}

// Operators on variables of TensorFlow 1 themselves: to others they are tensors.
bool takes_references(const std::string& op) {
  static const std::set<std::string> ops = {"Assign", "AssignAdd", "AssignSub", "IsVariableInitialized"};
  return ops.contains(op);
}

// The nodes that must run before a node. For a Merge these are not its operands, one of which is run as a branch.
std::vector<std::string> needed_by(const Body& body, const proto::NodeDef& node) {
  if (!is_merge(node)) return {node.input().begin(), node.input().end()};
  Choice choice = choice_of(body, node);
  choice.passed.push_back(choice.condition);
  return choice.passed;
}

struct Reference {
  std::string node, result;
  size_t index = 0;
};
size_t number_in(const std::string& text, const std::string& whole) {
  if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string::npos)
    imported::fail_import(fmt::format("'{}' names no result of a node", whole));
  return size_t(std::stoul(text));
}
Reference parse(const std::string& name) {
  const size_t first = name.find(':');
  if (first == std::string::npos) return {name, "", 0};
  const size_t second = name.find(':', first + 1);
  if (second == std::string::npos) return {name.substr(0, first), "", number_in(name.substr(first + 1), name)};
  return {name.substr(0, first), name.substr(first + 1, second - first - 1), number_in(name.substr(second + 1), name)};
}

}  // namespace

// --- Values ----------------------------------------------------------------------------------------------------------

Value Value::sizes(const Dims& d, bool scalar, DType dtype) { return imported::sizes_value<Value>(d, scalar, dtype); }
Value Value::of(Slot* slot) {
  Value v;
  v.kind = Kind::variable;
  v.slot = slot;
  return v;
}
Value Value::of(List list) {
  Value v;
  v.kind = Kind::list;
  v.list = std::make_shared<const List>(std::move(list));
  return v;
}

Tensor as_tensor(const Value& v, const std::string& what) {
  switch (v.kind) {
    case Value::Kind::tensor: return v.tensor;
    case Value::Kind::absent: imported::fail_import(what + " is missing");
    case Value::Kind::variable: imported::fail_import(what + " is a variable, and should be a tensor");
    case Value::Kind::list: imported::fail_import(what + " is a list, and should be a tensor");
    case Value::Kind::sizes: break;
  }
  return imported::open_sizes(v.dims, v.scalar, v.dtype);
}

// --- Nodes -----------------------------------------------------------------------------------------------------------

void index(Program& program) {
  auto add = [](Body& body, const auto& nodes) {
    for (const proto::NodeDef& n : nodes)
      if (!body.nodes.emplace(n.name(), &n).second)
        imported::fail_import(fmt::format("two nodes of {} are called '{}'", body.name, n.name()));
  };
  program.main.name = "the graph";
  add(program.main, program.graph.node());
  for (const proto::FunctionDef& f : program.graph.library().function()) {
    Body& body = program.functions[f.signature().name()];
    if (body.function) imported::fail_import(fmt::format("two functions are called '{}'", f.signature().name()));
    body.name = "function '" + f.signature().name() + "'";
    body.function = &f;
    add(body, f.node_def());
  }
}

Value Run::value(const std::string& name) {
  const Reference r = parse(name);
  finish(r.node);
  const Values& all = *find(r.node);
  size_t i = r.index;
  if (auto node = body_.nodes.find(r.node); !r.result.empty() && node != body_.nodes.end())
    i = result_index(node->second->op(), r.result, r.index);
  if (i >= all.size())
    imported::fail_import(fmt::format("'{}': {} of {} gives {} values", name, r.node, body_.name, all.size()));
  return all[i];
}

const Values* Run::find(const std::string& node) const {
  const auto found = done_.find(node);
  if (found != done_.end()) return &found->second;
  return outer_ ? outer_->find(node) : nullptr;
}

// Not recursive, for a graph may be a chain of any length.
void Run::finish(const std::string& wanted) {
  std::vector<std::string> waiting{wanted};
  std::set<std::string> begun;
  while (!waiting.empty()) {
    const std::string name = waiting.back();
    if (find(name)) {
      waiting.pop_back();
      continue;
    }
    auto node = body_.nodes.find(name);
    if (node == body_.nodes.end()) imported::fail_import(fmt::format("{} has no node '{}'", body_.name, name));
    bool ready = true;
    for (const std::string& in : needed_by(body_, *node->second)) {
      const std::string from = in.starts_with("^") ? in.substr(1) : parse(in).node;
      if (find(from)) continue;
      if (begun.contains(from) || from == name)
        imported::fail_import(fmt::format("node '{}' of {} depends on itself", from, body_.name));
      waiting.push_back(from);
      ready = false;
    }
    if (!ready) {
      begun.insert(name);
      continue;
    }
    run(*node->second);
    begun.erase(name);
    waiting.pop_back();
  }
}

void Run::run(const proto::NodeDef& node) {
  Call c(program_, body_, node);
  const NameScope name(node.name());
  if (is_merge(node)) {
    done_[node.name()] = imported::naming_node(c, [&] { return run_merge(c); });
    return;
  }
  for (const std::string& in : node.input())
    if (!in.starts_with("^")) c.in.push_back(value(in));
  done_[node.name()] = imported::naming_node(c, [&] {
    if (is_switch(node)) return run_switch(c);
    if (!takes_references(node.op()))
      for (Value& v : c.in)
        if (v.kind == Value::Kind::variable && is_reference(*v.slot)) v = value_of(c, *v.slot);
    return run_call(c);
  });
}

Values run_function(const Call& c, const std::string& name, const Values& arguments) {
  auto found = c.program.functions.find(name);
  if (found == c.program.functions.end()) c.reject(fmt::format("there is no function '{}'", name));
  const Deeper deeper(name);
  const Body& body = found->second;
  const proto::OpDef& signature = body.function->signature();
  if (signature.input_arg_size() != int(arguments.size()))
    c.reject(fmt::format("function '{}' takes {} values and is given {}", name, signature.input_arg_size(),
                         arguments.size()));
  Run run(c.program, body);
  for (int i = 0; i < signature.input_arg_size(); ++i) run.set(signature.input_arg(i).name(), arguments[size_t(i)]);
  std::set<std::string> effects;  // in the same order each time
  for (const auto& [key, node] : body.function->control_ret()) effects.insert(node);
  for (const std::string& node : effects) run.effect(node);
  Values out;
  for (const auto& a : signature.output_arg()) {
    auto from = body.function->ret().find(a.name());
    if (from == body.function->ret().end()) c.reject(fmt::format("function '{}' does not give '{}'", name, a.name()));
    out.push_back(run.value(from->second));
  }
  return out;
}

size_t result_index(const std::string& op, const std::string& name, size_t index) {
  // Operators with several named results that rill does not write; for all others except those the name is irrelevant.
  static const std::unordered_map<std::string, std::vector<std::string_view>> results = {
      {"Eig", {"e", "v"}},
      {"FusedBatchNormV3",
       {"y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"}},
      {"FusedBatchNormV2", {"y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"}},
      {"SparseSoftmaxCrossEntropyWithLogits", {"loss", "backprop"}},
      {"SoftmaxCrossEntropyWithLogits", {"loss", "backprop"}},
      {"BroadcastGradientArgs", {"r0", "r1"}},
      {"MaxPoolWithArgmax", {"output", "argmax"}},
      {"FusedBatchNormGrad", {"x_backprop", "scale_backprop", "offset_backprop", "reserve_space_3", "reserve_space_4"}},
      {"FusedBatchNormGradV2",
       {"x_backprop", "scale_backprop", "offset_backprop", "reserve_space_3", "reserve_space_4"}},
      {"FusedBatchNormGradV3",
       {"x_backprop", "scale_backprop", "offset_backprop", "reserve_space_4", "reserve_space_5"}},
      {"Unique", {"y", "idx"}},
      {"UniqueV2", {"y", "idx"}},
      {"UniqueWithCounts", {"y", "idx", "count"}},
      {"UniqueWithCountsV2", {"y", "idx", "count"}},
      {"ListDiff", {"out", "idx"}},
      {"LSTMBlockCell", {"i", "cs", "f", "o", "ci", "co", "h"}},
      {"BlockLSTM", {"i", "cs", "f", "o", "ci", "co", "h"}},
      {"BlockLSTMV2", {"i", "cs", "f", "o", "ci", "co", "h"}},
      {"GRUBlockCell", {"r", "u", "c", "h"}},
      {"NonMaxSuppressionV4", {"selected_indices", "valid_outputs"}},
      {"NonMaxSuppressionV5", {"selected_indices", "selected_scores", "valid_outputs"}},
      {"CombinedNonMaxSuppression", {"nmsed_boxes", "nmsed_scores", "nmsed_classes", "valid_detections"}},
      {"StringSplit", {"indices", "values", "shape"}},
      {"StringSplitV2", {"indices", "values", "shape"}},
      {"StringNGrams", {"ngrams", "ngrams_splits"}},
      {"Switch", {"output_false", "output_true"}},
      {"Merge", {"output", "value_index"}},
      {"RaggedTensorToSparse", {"sparse_indices", "sparse_values", "sparse_dense_shape"}},
      {"StatelessRandomGetKeyCounter", {"key", "counter"}},
      {"TensorListPopBack", {"output_handle", "tensor"}},
      {"TensorListConcat", {"tensor", "lengths"}},
      {"TensorListConcatV2", {"tensor", "lengths"}},
  };
  std::vector<std::string_view> names;
  if (auto found = results.find(op); found != results.end()) names = found->second;
  else if (const tensorflow_out::OpForm* form = tensorflow_out::find_form(op)) names = result_names(*form);
  if (names.size() < 2) return index;
  auto at = std::ranges::find(names, name);
  if (at == names.end()) imported::fail_import(fmt::format("{} has no result '{}'", op, name));
  return size_t(at - names.begin());
}

Rule find_rule(const std::string& op) {
  for (const RuleTable* t :
       {&elementwise_rules(), &shape_rules(), &order_rules(), &segment_rules(), &matrix_rules(), &neural_rules(),
        &recurrent_rules(), &gradient_rules(), &quantised_rules(), &signal_rules(), &image_rules(), &box_rules(),
        &random_rules(), &string_rules(), &control_rules()})
    if (auto it = t->find(op); it != t->end()) return it->second;
  return nullptr;
}

// --- Call ------------------------------------------------------------------------------------------------------------

Axes Call::axes(size_t i) const {
  std::vector<int64_t> all;
  for (Dim d : dims(i)) all.push_back(d);
  return Axes(all);
}

const proto::AttrValue* Call::attribute(const std::string& name) const {
  auto found = node.attr().find(name);
  return found == node.attr().end() ? nullptr : &found->second;
}
bool Call::flag(const std::string& name, bool otherwise) const {
  const proto::AttrValue* a = attribute(name);
  return a ? a->b() : otherwise;
}
std::vector<int64_t> Call::integers(const std::string& name) const {
  const proto::AttrValue* a = attribute(name);
  return a ? std::vector<int64_t>(a->list().i().begin(), a->list().i().end()) : std::vector<int64_t>();
}
DType Call::dtype(const std::string& name) const {
  const proto::AttrValue* a = attribute(name);
  if (!a) reject("attribute '" + name + "' is missing");
  return dtype_of(a->type(), imported::described(node));
}
std::string Call::function(const std::string& name) const {
  const proto::AttrValue* a = attribute(name);
  if (!a) reject("attribute '" + name + "' is missing");
  return a->func().name();
}
std::vector<std::string> Call::functions(const std::string& name) const {
  std::vector<std::string> all;
  if (const proto::AttrValue* a = attribute(name))
    for (const proto::NameAttrList& f : a->list().func()) all.push_back(f.name());
  return all;
}

double lowest(DType dtype) {
  switch (dtype) {
    case DType::f16: return -65504;
    case DType::bf16: return -3.3895313892515355e38;
    case DType::f64: return std::numeric_limits<double>::lowest();
    default: return double(std::numeric_limits<float>::lowest());
  }
}
DType dtype_of(proto::DataType type, const std::string& what) {
  DType dtype;
  if (!from_proto(type, dtype))
    imported::fail_import(fmt::format("{}: rill has no dtype for TensorFlow's {}", what, int(type)));
  return dtype;
}

}  // namespace rill::tensorflow_in
