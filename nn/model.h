// Operations on any model, a layer, a struct or a container of those: build, clone, cast, summary, repeat. All of them
// use the fields that the model names or has (rill/ops/names.h).
#pragma once
#include <iosfwd>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "rill/nn/layer.h"
#include "rill/trace/function.h"

#pragma GCC visibility push(default)

namespace rill::nn {

namespace impl {
// Names the parameters that have no value yet by their paths, so that errors and graphs say "stem/kernel". Also names
// the Variables in fields by their paths. Of parts that only list Variables, only those that are not made yet: the
// paths of others are made from their names.
class FieldVariables final : public ModelVisitor {
 public:
  void enter(std::string_view, const ModelPart&) override {}
  void leave() override {}
  void variable(std::string_view, Variable& v) override { states.insert(&v.state()); }
  void listed(const std::vector<Variable>&, const ModelPart&) override {}
  std::unordered_set<const VariableState*> states;
};
void name_by_path(const NamedVariables& variables, const FieldVariables& fields);
template <class Model>
void name_by_path(Model& model) {
  FieldVariables fields;
  rill::detail::visit_inside(model, fields);
  name_by_path(rill::variables(model), fields);
}

// Gives every Variable that it visits a copy of its value, once, and every owner its own object.
class Cloner final : public ModelVisitor {
 public:
  explicit Cloner(const Where& where) : where_(where) {}
  void enter(std::string_view name, const ModelPart&) override { path_.push_back(std::string(name)); }
  void leave() override { path_.pop_back(); }
  void variable(std::string_view name, Variable& v) override;
  void listed(const std::vector<Variable>& variables, const ModelPart& part) override;
  void unreachable(const ModelPart& part) override;
  std::unordered_map<const void*, std::shared_ptr<void>>* copies() override { return &copies_; }

 private:
  const Where where_;
  std::vector<std::string> path_;
  std::unordered_map<const VariableState*, Variable> made_;
  std::unordered_map<const void*, std::shared_ptr<void>> copies_;
};

template <class T, class>
using First = T;
// The graph of model(x) or, of a struct of several inputs, of model(x, y), for a call of `op` at `where`: what fails in a
// layer of rill's is told there, what fails in a model of the user's at the line of the model. `begins` is called ahead of
// each call of the model, of which a trace may make several, the last of which counts.
template <class Model, class Begins, class... X>
Graph trace_model(const Model& model, const char* op, const Begins& begins, const Where& where, X... specs) {
  const auto call = [&](First<const Tensor&, X>... x) {
    begins();
    if constexpr (rill::detail::is_of_nn<Model>()) {
      const CallerScope caller(where, op);
      return model(x...);
    } else return model(x...);
  };
  return function("build", call, {}, where).graph(std::move(specs)..., where);
}
template <class Model, class... X>
Graph trace_model(const Model& model, const char* op, const Where& where, X... specs) {
  return trace_model(model, op, [] {}, where, std::move(specs)...);
}
// For each argument a tensor like it, or its spec.
using Input = rill::detail::TensorOrSpec;
}  // namespace impl

// Makes every parameter, without computing anything: the model is traced with inputs of these specs, one for each
// argument, whose sizes may be open if no parameter depends on them: nn::build(net, spec(f32, {any, 28, 28, 1})).
// Parameters are named by their paths, including those that existed before (those of a nested model by the outer path).
// No other thread may use the model meanwhile. Throws if a parameter was made with another shape before, and names it.
template <class Model>
Model& build(Model& model, impl::Input x, Where where = Where::current()) {
  impl::name_by_path(model);
  impl::trace_model(model, "nn::build", where, x);
  return model;
}
template <class Model>
Model& build(Model& model, impl::Input x, impl::Input y, Where where = Where::current()) {
  impl::name_by_path(model);
  impl::trace_model(model, "nn::build", where, x, y);
  return model;
}
template <class Model>
Model& build(Model& model, impl::Input x, impl::Input y, impl::Input z, Where where = Where::current()) {
  impl::name_by_path(model);
  impl::trace_model(model, "nn::build", where, x, y, z);
  return model;
}

// A copy that shares nothing: its Variables have the same values and are its own; shared ones stay shared within the
// copy. (A plain copy of a model shares its Variables.) An optimizer of the old model does not know the new one. Throws
// if a part of the model only lists its Variables: name its fields with RILL_LAYER.
template <class Model>
Model clone(const Model& model, Where where = Where::current()) {
  Model copy = model;
  impl::Cloner cloner(where);
  rill::detail::visit_inside(copy, cloner);
  return copy;
}

// Converts the floating Variables of a model whose paths match, and returns them. Everything that shares one of them
// shares the new value; traced functions are traced again in the next call. A layer computes in the promoted dtype of
// its input and its parameters, or in Call::compute. No other thread may use the model meanwhile. Throws if nothing
// matches, if the dtype is not floating, and inside a traced function.
template <class Model>
NamedVariables cast(Model& model, DType dtype, std::string_view pattern = "*", Where where = Where::current()) {
  return rill::detail::cast_to(rill::variables(model), dtype, pattern, where);
}

// n results of make(), each with its own parameters: std::vector<Block> blocks = nn::repeat(6, [] { return Block(8);
// }).
template <class Make>
auto repeat(int64_t n, const Make& make) {
  std::vector<decltype(make())> result;
  for (int64_t i = 0; i < n; ++i) result.push_back(make());
  return result;
}

// --- Summary ---------------------------------------------------------------------------------------------------------

// A layer of a model, or a part of it that holds Variables.
struct SummaryRow {
  std::string path, type;   // "blocks/1/two", "Conv2D"
  std::string output;       // "f32[64,8,8,8]"; empty where it was not called
  int64_t parameters = 0;   // its own, without those of layers in it
  int64_t bytes = 0;        // of these
  double flops = 0;         // of its matrix products and convolutions, of one call; open sizes count as 1
  int64_t calls = 0;        // how often it was called
  std::string shared_with;  // the path under which its Variables were counted already; else empty
};
struct Summary {
  std::vector<SummaryRow> rows;  // in the order of the model
  int64_t parameters = 0, trainable = 0, bytes = 0;
  double flops = 0;
};
// A table, and the sums.
std::string to_string(const Summary& summary);
std::ostream& operator<<(std::ostream& out, const Summary& summary);

namespace impl {
// The paths of a model's parts, and their Variables.
class SummaryVisitor final : public ModelVisitor {
 public:
  struct Part {
    const void* address;
    SummaryRow row;
    bool has_rows = false;  // Variables of its own, or layers that were called
  };
  void enter(std::string_view name, const ModelPart& part) override;
  void leave() override;
  void variable(std::string_view name, Variable& v) override;
  void listed(const std::vector<Variable>& variables, const ModelPart& part) override;
  void unreachable(const ModelPart&) override {}

  std::vector<Part> parts;
  std::vector<size_t> open;

 private:
  void add(const Variable& v, size_t part);
  VariablePaths paths_;
  std::unordered_map<const VariableState*, std::string> seen_;
};
// The calls of layers in one trace, whose nodes have "@3", the index of the call, among their scopes.
class CallNotes final : public LayerObserver {
 public:
  struct Note {
    const void* layer;
    std::string_view function;
    std::optional<Spec> output = {};  // nothing where it threw
  };
  std::string began(const void* layer, const char* function) override;
  void gave(const void* layer, const Tensor& y) override;
  // Forgets the calls so far: the model is traced again.
  void restart() { notes.clear(), open_.clear(); }
  std::vector<Note> notes;

 private:
  std::vector<size_t> open_;
};
Summary summarize(SummaryVisitor& visitor, const NamedVariables& variables, const CallNotes& calls, const Graph& graph);
}  // namespace impl

namespace impl {
template <class Model, class... X>
Summary summary_of(Model& model, const Where& where, const X&... x) {
  name_by_path(model);
  trace_model(model, "nn::summary", where, x...);  // makes the parameters
  SummaryVisitor visitor;
  visitor.enter("", rill::detail::part_of(model));
  rill::detail::visit_inside(model, visitor);
  visitor.leave();
  CallNotes calls;
  const Graph graph = trace_model(model, "nn::summary", [&] { calls.restart(); }, where, x...);
  return summarize(visitor, rill::variables(model), calls, graph);
}
}  // namespace impl

// The layers of a model with their output shapes, parameters and work, as a call with such inputs (tensors or specs) has
// them; nothing is computed. Parameters are made if they were not.
template <class Model>
Summary summary(Model& model, impl::Input x, Where where = Where::current()) {
  return impl::summary_of(model, where, x);
}
template <class Model>
Summary summary(Model& model, impl::Input x, impl::Input y, Where where = Where::current()) {
  return impl::summary_of(model, where, x, y);
}
template <class Model>
Summary summary(Model& model, impl::Input x, impl::Input y, impl::Input z, Where where = Where::current()) {
  return impl::summary_of(model, where, x, y, z);
}

}  // namespace rill::nn

#pragma GCC visibility pop
