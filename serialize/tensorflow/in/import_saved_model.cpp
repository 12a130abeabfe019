// From the files of a SavedModel, or a GraphDef, to a Model: parsing, checking, weights, and the callable that Model
// traces. Variables get their values as TensorFlow gives them: the graph's own restoring operators are run, with a
// RestoreV2 that reads the bundle. Start at import_saved_model.
#include <fmt/format.h>

#include <deque>
#include <filesystem>
#include <set>

#include "rill/devices/registry.h"
#include "rill/ops/apply.h"
#include "rill/serialize/checkpoint/bundle.h"
#include "rill/serialize/checkpoint/object_graph.h"
#include "rill/serialize/files.h"
#include "rill/serialize/messages.h"
#include "rill/serialize/model/model_impl.h"
#include "rill/serialize/tensorflow/in/interpreter.h"
#include "rill/serialize/tensorflow/saved_model.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/trace/graph/unique_names.h"
#include "saved_model.pb.h"

namespace rill {
namespace tensorflow_in {
namespace {

// --- Values from outside of the graph --------------------------------------------------------------------------------

class Imported final : public Outside {
 public:
  Program program;
  std::deque<Slot> slots;
  std::unique_ptr<BundleReader> bundle;
  std::unordered_map<const proto::NodeDef*, Variable> weights;  // constants that are trained

  Slot* variable(const proto::NodeDef& node) override {
    auto shared = node.attr().find("shared_name");
    const std::string name =
        shared == node.attr().end() || shared->second.s().empty() ? node.name() : shared->second.s();
    // Nodes of the graph are variables of their own; those in functions are identified by the name that they share.
    auto main = program.main.nodes.find(node.name());
    const bool own = main != program.main.nodes.end() && main->second == &node;
    Slot*& slot = by_name_[own ? "node " + node.name() : "shared " + name];
    if (!slot && !own)
      for (Slot& s : slots)
        if (s.name == name) slot = &s;
    if (!slot) slot = &slots.emplace_back(Slot{name, &node, {}, {}, {}});
    return slot;
  }
  Tensor restored(const std::string& key) override {
    if (!bundle || !bundle->contains(key))
      imported::fail_import(fmt::format("the checkpoint of the model has no '{}', which its graph restores", key));
    const Tensor value = bundle->read(key);
    return value.dtype() == DType::string ? value : value.to(default_device());
  }
  Value constant(const proto::NodeDef& node) override {
    if (auto w = weights.find(&node); w != weights.end()) return {w->second.value()};
    const std::lock_guard lock(mutex_);
    auto [known, added] = constants_.try_emplace(&node);
    if (added) known->second = read_tensor(value_of(node), "node '" + node.name() + "'");
    return {known->second, true};
  }
  static const proto::TensorProto& value_of(const proto::NodeDef& node) {
    auto value = node.attr().find("value");
    if (value == node.attr().end() || !value->second.has_tensor())
      imported::fail_import(fmt::format("node '{}' (Const) has no value", node.name()));
    return value->second.tensor();
  }

 private:
  ForkMutex mutex_;
  std::map<std::string, Slot*> by_name_;
  std::unordered_map<const proto::NodeDef*, Tensor> constants_;
};

struct Signature {
  std::vector<std::string> inputs, outputs;  // values of the graph, in the order of the Model's
};

// --- Checking --------------------------------------------------------------------------------------------------------

std::string node_of(const std::string& value) { return value.substr(0, value.find(':')); }

// Finds unknown operators that the results need, with their nodes.
class Check {
 public:
  explicit Check(const Program& program) : program_(program) {}
  void need(const Body& body, const std::string& value) {
    const std::string name = node_of(value.starts_with("^") ? value.substr(1) : value);
    if (!seen_.insert({&body, name}).second) return;
    waiting_.emplace_back(&body, name);
  }
  void run() {
    while (!waiting_.empty()) {
      const auto [body, name] = waiting_.back();
      waiting_.pop_back();
      auto node = body->nodes.find(name);
      if (node != body->nodes.end()) look(*body, *node->second);
    }
  }
  void report(const std::string& path, const Where& where) const {
    if (missing_.empty()) return;
    std::string list;
    for (const auto& [op, nodes] : missing_) {
      list += fmt::format("\n  {}: {} node{}", op, nodes.size(), nodes.size() == 1 ? "" : "s");
      for (size_t i = 0; i < nodes.size() && i < 5; ++i) list += fmt::format("{} '{}'", i == 0 ? "," : "", nodes[i]);
    }
    imported::fail_import(fmt::format("'{}' has operators that rill does not know:{}", path, list), where);
  }
  void stop_at(const Body& body, const std::string& node) { seen_.insert({&body, node}); }
  // Whether the results need a node of the graph.
  bool needs(const proto::NodeDef& node) const { return needed_.contains(&node); }

 private:
  void need_function(const std::string& name) {
    auto f = program_.functions.find(name);
    if (f == program_.functions.end()) return;
    for (const auto& [key, value] : f->second.function->ret()) need(f->second, value);
    for (const auto& [key, node] : f->second.function->control_ret()) need(f->second, node);
  }
  void look(const Body& body, const proto::NodeDef& n) {
    needed_.insert(&n);
    for (const std::string& in : n.input()) need(body, in);
    if (program_.functions.contains(n.op())) return need_function(n.op());
    if (!find_rule(n.op())) missing_[n.op()].push_back(n.name());
    for (const auto& [key, a] : n.attr()) {
      if (a.has_func()) need_function(a.func().name());
      for (const proto::NameAttrList& f : a.list().func()) need_function(f.name());
    }
  }
  const Program& program_;
  std::set<const proto::NodeDef*> needed_;
  std::set<std::pair<const Body*, std::string>> seen_;
  std::vector<std::pair<const Body*, std::string>> waiting_;
  std::map<std::string, std::vector<std::string>> missing_;
};

// --- Signatures ------------------------------------------------------------------------------------------------------

Shape shape_of(const proto::TensorShapeProto& p, const std::string& what) {
  if (p.dim_size() > 64) imported::fail_import(what + ": too many axes");
  Shape shape;
  for (const auto& d : p.dim()) {
    if (d.size() < -1) imported::fail_import(what + ": a negative size");
    shape.push_back(d.size() < 0 ? Dim(any) : Dim(d.size()));
  }
  return shape;
}

ValueInfo info_of(const std::string& name, proto::DataType type, const proto::TensorShapeProto* shape) {
  ValueInfo info;
  info.name = name;
  const std::string what = "'" + name + "'";
  info.dtype = dtype_of(type, what);
  info.has_shape = shape && !shape->unknown_rank();
  if (info.has_shape) info.shape = shape_of(*shape, what);
  return info;
}

template <class Map>
std::set<std::string> keys_of(const Map& map) {
  std::set<std::string> keys;
  for (const auto& [key, value] : map) keys.insert(key);
  return keys;
}
template <class List>
std::string listed(const List& names) {
  std::string text;
  for (const auto& name : names) text += fmt::format("{}'{}'", text.empty() ? "" : ", ", name);
  return text.empty() ? "none" : text;
}

const proto::SignatureDef& find_signature(const proto::MetaGraphDef& meta, const ImportOptions& options,
                                          const std::string& path, const Where& where) {
  std::set<std::string> names = keys_of(meta.signature_def());
  names.erase("__saved_model_init_op");
  std::string wanted = options.signature;
  if (!names.contains(wanted) && names.size() == 1 && wanted == ImportOptions().signature) wanted = *names.begin();
  if (!names.contains(wanted))
    imported::fail_import(fmt::format("'{}' has no signature '{}'. it has {}", path, wanted, listed(names)), where);
  return meta.signature_def().at(wanted);
}

Signature read_signature(const proto::SignatureDef& s, Model::Impl& impl) {
  Signature signature;
  for (const std::string& name : keys_of(s.inputs())) {
    const proto::TensorInfo& info = s.inputs().at(name);
    impl.inputs.push_back(info_of(name, info.dtype(), &info.tensor_shape()));
    signature.inputs.push_back(node_of(info.name()));
  }
  for (const std::string& name : keys_of(s.outputs())) {
    const proto::TensorInfo& info = s.outputs().at(name);
    impl.outputs.push_back(info_of(name, info.dtype(), &info.tensor_shape()));
    signature.outputs.push_back(info.name());
  }
  return signature;
}

// Placeholders, and values that no node reads.
Signature guess_signature(const proto::GraphDef& graph, const ImportOptions& options, Model::Impl& impl) {
  Signature signature;
  std::set<std::string> read;
  for (const proto::NodeDef& n : graph.node())
    for (const std::string& in : n.input()) read.insert(node_of(in.starts_with("^") ? in.substr(1) : in));
  for (const proto::NodeDef& n : graph.node()) {
    if (n.op() == "Placeholder") {
      auto type = n.attr().find("dtype"), shape = n.attr().find("shape");
      impl.inputs.push_back(info_of(n.name(), type == n.attr().end() ? proto::DT_INVALID : type->second.type(),
                                    shape == n.attr().end() ? nullptr : &shape->second.shape()));
      signature.inputs.push_back(n.name());
    } else if (options.outputs.empty() && !read.contains(n.name()) && n.op() != "NoOp" && n.op() != "Const" &&
               n.op() != "Assert") {
      signature.outputs.push_back(n.name());
    }
  }
  if (!options.outputs.empty()) signature.outputs = options.outputs;
  for (const std::string& name : signature.outputs) {
    ValueInfo info;
    info.name = name;
    info.has_shape = false;
    impl.outputs.push_back(info);
  }
  return signature;
}

// --- Weights ---------------------------------------------------------------------------------------------------------

// The object of each VarHandleOp that is an argument of a function, by the nodes' names. Names of variables are not
// unique.
std::map<std::string, int> objects_of_nodes(const proto::GraphDef& graph, const proto::SavedObjectGraph& saved) {
  std::map<std::string, int> objects;
  for (const proto::NodeDef& n : graph.node()) {
    const auto called = n.attr().find("f");
    if (called == n.attr().end()) continue;
    const auto f = saved.concrete_functions().find(called->second.func().name());
    if (f == saved.concrete_functions().end()) continue;
    std::vector<std::string> operands;
    for (const std::string& in : n.input())
      if (!in.starts_with("^")) operands.push_back(node_of(in));
    const auto& bound = f->second.bound_inputs();
    if (size_t(bound.size()) > operands.size()) continue;
    for (int i = 0; i < bound.size(); ++i)
      if (bound[i] >= 0 && bound[i] < saved.nodes_size() && saved.nodes(bound[i]).has_variable())
        objects[operands[operands.size() - size_t(bound.size() - i)]] = bound[i];
  }
  return objects;
}

// The checkpoint's names of the variables among the model's objects: objects that are reached by the same path from the
// model are the same.
std::map<int, std::string> entries_of_objects(const proto::SavedObjectGraph& saved, const BundleReader& file) {
  const ObjectGraph stored(file);
  std::map<int, std::string> entries;
  std::set<int> seen;
  std::vector<std::pair<int, int>> waiting{{0, ObjectGraph::root}};  // pairs of objects in both graphs
  while (!waiting.empty()) {
    const auto [a, b] = waiting.back();
    waiting.pop_back();
    if (a < 0 || a >= saved.nodes_size() || b == ObjectGraph::none || !seen.insert(a).second) continue;
    const proto::SavedObject& object = saved.nodes(a);
    if (object.has_variable())
      if (std::string entry = stored.entry(b); !entry.empty()) entries[a] = std::move(entry);
    for (const auto& child : object.children())
      waiting.emplace_back(child.node_id(), stored.child(b, child.local_name()));
  }
  return entries;
}

// Keras's variables inside a tf.Module: the graph restores copies of them.
void restore_by_objects(Imported& m, const proto::SavedObjectGraph& saved, const Check& check) {
  const std::map<int, std::string> entries = entries_of_objects(saved, *m.bundle);
  const std::map<std::string, int> objects = objects_of_nodes(m.program.graph, saved);
  for (const proto::NodeDef& n : m.program.graph.node()) {
    if (n.op() != "VarHandleOp" || !check.needs(n) || !objects.contains(n.name())) continue;
    Slot& slot = *m.variable(n);
    const proto::SavedVariable& object = saved.nodes(objects.at(n.name())).variable();
    slot.trainable = object.trainable();
    const auto entry = entries.find(objects.at(n.name()));
    if (!slot.value.defined() && entry != entries.end()) slot.value = m.restored(entry->second);
  }
}

void restore(Imported& m, const proto::MetaGraphDef& meta, const Check& check, const std::string& prefix,
             const Where& where) {
  const proto::SaverDef& saver = meta.saver_def();
  if (std::error_code none; !std::filesystem::exists(prefix + ".index", none) || saver.restore_op_name().empty())
    return;
  m.bundle = std::make_unique<BundleReader>(prefix, "import_model", where);
  const EagerScope eager;
  const PauseTapes pause;
  Run run(m.program, m.program.main);
  run.set(node_of(saver.filename_tensor_name()), Value(tensor(std::vector<std::string>{prefix}, Shape{}), true));
  run.effect(node_of(saver.restore_op_name()));
  restore_by_objects(m, meta.object_graph_def(), check);
  m.bundle.reset();
}

// The file's variables by their names: whether they are trainable.
std::map<std::string, bool> known_variables(const proto::MetaGraphDef& meta) {
  std::map<std::string, bool> known;
  for (const proto::SavedObject& o : meta.object_graph_def().nodes())
    if (o.has_variable()) known[o.variable().name()] = o.variable().trainable();
  auto variables = meta.collection_def().find("variables");
  if (variables != meta.collection_def().end())
    for (const auto& bytes : variables->second.bytes_list().value()) {
      proto::VariableDef v;
      if (parse(bytes, v)) known[node_of(v.variable_name())] = v.trainable();
    }
  return known;
}

// Keras saves "dense/kernel" as "dense/kernel_1" if it has a copy of that name.
std::string plain_name(const std::string& name, const std::map<std::string, bool>& known) {
  const size_t end = name.find_last_not_of("0123456789");
  if (known.contains(name) || end == std::string::npos || end + 1 == name.size() || name[end] != '_') return name;
  const std::string plain = name.substr(0, end);
  return known.contains(plain) ? plain : name;
}

// Of those that the results depend on.
void make_variables(Imported& m, Model::Impl& impl, const Check& check, const std::map<std::string, bool>& known,
                    const ImportOptions& options) {
  if (!options.trainable) return;
  UniqueNames names;
  for (Slot& s : m.slots) {
    if (!s.value.defined() || !check.needs(*s.node)) continue;
    const std::string name = plain_name(s.name, known);
    const bool trained = s.trainable.value_or(!known.contains(name) || known.at(name));
    const bool trainable = is_floating(s.value.dtype()) && trained;
    s.variable.emplace(s.value, VariableOptions{.name = name, .trainable = trainable});
    s.value = {};
    impl.variables.emplace(names.add(name), *s.variable);
  }
}

// For a graph whose weights are constants. The sizes of a resize are none: its rule must know the numbers.
void make_weights(Imported& m, Model::Impl& impl, const ImportOptions& options) {
  if (!options.trainable) return;
  std::set<std::string> fixed;
  UniqueNames names;
  for (const auto& [name, v] : impl.variables) names.take(name);
  for (const proto::NodeDef& n : m.program.graph.node())
    for (int i = 2; n.op() == "ScaleAndTranslate" && i < n.input_size(); ++i) fixed.insert(node_of(n.input(i)));
  for (const proto::NodeDef& n : m.program.graph.node()) {
    if (n.op() != "Const" || fixed.contains(n.name())) continue;
    const proto::TensorProto& p = Imported::value_of(n);
    DType dtype;
    if (!from_proto(p.dtype(), dtype) || !is_floating(dtype) || p.tensor_shape().dim_size() == 0) continue;
    const Variable v(read_tensor(p, "node '" + n.name() + "'"), {.name = n.name()});
    m.weights.emplace(&n, v);
    impl.variables.emplace(names.add(n.name()), v);
  }
}

// --- The model -------------------------------------------------------------------------------------------------------

Model finish(Shared<Imported> m, Shared<Model::Impl> impl, const Signature& signature, const Where& where) {
  impl->run = [m, signature](const Model::Impl::Given& given) {
    Run run(m->program, m->program.main);
    for (size_t i = 0; i < given.size(); ++i) run.set(signature.inputs[i], Value(given[i].at(0)));
    Model::Impl::Results results;
    for (const std::string& name : signature.outputs)
      results.push_back({false, false, {as_tensor(run.value(name), "result '" + name + "'")}});
    return results;
  };
  impl->needs_values = imported::is_needs_values;
  impl->trace(where);
  return Model(impl);
}

Check checked(const Imported& m, const Signature& signature, const std::string& path, const Where& where) {
  Check check(m.program);
  for (const std::string& name : signature.inputs) check.stop_at(m.program.main, name);
  for (const std::string& name : signature.outputs) check.need(m.program.main, name);
  check.run();
  check.report(path, where);
  return check;
}

// The folder itself, or that of its newest version.
std::filesystem::path model_folder(const std::string& folder) {
  std::filesystem::path last;
  long highest = -1;
  std::error_code unreadable;  // reading the file will report it
  if (std::filesystem::exists(std::filesystem::path(folder) / "saved_model.pb", unreadable)) return folder;
  for (std::filesystem::directory_iterator at(folder, unreadable), end; !unreadable && at != end;
       at.increment(unreadable)) {
    const std::string name = at->path().filename().string();
    if (name.empty() || name.size() > 15 || name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::error_code none;
    if (std::stol(name) > highest && std::filesystem::exists(at->path() / "saved_model.pb", none))
      highest = std::stol(name), last = at->path();
  }
  return last.empty() ? std::filesystem::path(folder) : last;
}

std::string name_of(const std::string& path) {
  std::filesystem::path p(path);
  if (!p.has_filename()) p = p.parent_path();
  const std::string stem = p.stem().string();
  return stem.empty() ? "model" : stem;
}

}  // namespace
}  // namespace tensorflow_in

static proto::SavedModel read_saved_model(const std::string& path, const Where& where) {
  const std::string bytes = read_file(path, "import_model", where);
  proto::SavedModel file;
  if (!parse(bytes, file))
    imported::fail_import(fmt::format("'{}': its {} bytes are no SavedModel", path, bytes.size()), where);
  return file;
}

std::vector<FunctionInfo> saved_model_signatures(const std::string& folder, const Where& where) {
  using namespace tensorflow_in;
  const CallerScope caller(where, "model_functions");
  const proto::SavedModel file = read_saved_model((model_folder(folder) / "saved_model.pb").string(), where);
  std::vector<FunctionInfo> all;
  for (const proto::MetaGraphDef& g : file.meta_graphs())
    for (const std::string& name : keys_of(g.signature_def())) {
      if (name == "__saved_model_init_op") continue;
      Model::Impl signature;
      read_signature(g.signature_def().at(name), signature);
      const auto& tags = g.meta_info_def().tags();
      all.push_back({name, {tags.begin(), tags.end()}, std::move(signature.inputs), std::move(signature.outputs)});
    }
  return all;
}

// The prefix of its checkpoint, which may not exist.
static std::string variables_in(const std::filesystem::path& model) {
  const std::filesystem::path folder = model / "variables";
  std::error_code none;
  const bool unnamed =
      !std::filesystem::exists(folder / "variables.index", none) && std::filesystem::exists(folder / ".index", none);
  return (folder / (unnamed ? "" : "variables")).string();
}

Model import_saved_model(const std::string& folder, const ImportOptions& options, const Where& where) {
  using namespace tensorflow_in;
  const CallerScope caller(where, "import_model");
  const std::filesystem::path at = model_folder(folder);
  const std::string path = (at / "saved_model.pb").string();
  proto::SavedModel file = read_saved_model(path, where);
  const std::set<std::string> wanted(options.tags.begin(), options.tags.end());
  proto::MetaGraphDef* meta = nullptr;
  std::string tags;
  for (proto::MetaGraphDef& g : *file.mutable_meta_graphs()) {
    const auto& own = g.meta_info_def().tags();
    if (std::set<std::string>(own.begin(), own.end()) == wanted) meta = &g;
    tags += fmt::format("{}{{{}}}", tags.empty() ? "" : ", ", listed(own));
  }
  if (!meta && file.meta_graphs_size() == 1 && options.tags == ImportOptions().tags) meta = file.mutable_meta_graphs(0);
  if (!meta)
    imported::fail_import(fmt::format("'{}' has no graph with the tags {{{}}}. it has {}", path, listed(wanted),
                                      tags.empty() ? "none" : tags),
                          where);
  auto m = Shared<Imported>::make();
  auto impl = Shared<Model::Impl>::make();
  impl->name = name_of(folder);
  const Signature signature = read_signature(find_signature(*meta, options, path, where), *impl);
  m->program.graph.Swap(meta->mutable_graph_def());
  m->program.outside = m.get();
  index(m->program);
  const Check check = checked(*m, signature, path, where);
  restore(*m, *meta, check, variables_in(at), where);
  make_variables(*m, *impl, check, known_variables(*meta), options);
  return finish(m, impl, signature, where);
}

Model import_frozen_graph(std::string_view bytes, const std::string& path, const ImportOptions& options,
                          const Where& where) {
  using namespace tensorflow_in;
  const CallerScope caller(where, "import_model");
  auto m = Shared<Imported>::make();
  auto impl = Shared<Model::Impl>::make();
  if (!parse(bytes, m->program.graph))
    imported::fail_import(fmt::format("'{}': its {} bytes are no GraphDef", path, bytes.size()), where);
  impl->name = name_of(path);
  const Signature signature = guess_signature(m->program.graph, options, *impl);
  if (signature.outputs.empty())
    imported::fail_import(fmt::format("'{}' has no node that no other reads", path), where);
  m->program.outside = m.get();
  index(m->program);
  checked(*m, signature, path, where);
  make_weights(*m, *impl, options);
  return finish(m, impl, signature, where);
}

}  // namespace rill
