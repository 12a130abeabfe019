// Calls of a Model: inputs by name, checked against what the file says, into its traced function or through its
// interpreter.
#include "rill/serialize/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/autodiff/tape_impl.h"
#include "rill/ops/apply.h"
#include "rill/ops/names.h"
#include "rill/ops/ops.h"
#include "rill/serialize/model/model_impl.h"
#include "rill/tensor/text.h"
#include "rill/trace/graph/control_node.h"
#include "rill/trace/graph/instantiate.h"
#include "rill/trace/passes.h"

namespace rill {
namespace {

std::string names_of(const std::vector<ValueInfo>& values) {
  std::string text;
  for (const ValueInfo& v : values) text += (text.empty() ? "" : ", ") + to_string(v);
  return text.empty() ? "nothing" : text;
}

// Throws where `x` is not what the file says of `v`; a C++ number takes the dtype.
Tensor fitting(const ValueInfo& v, const Tensor& x, const std::string& model, const Where& where) {
  require_defined(model, x, "input '" + v.name + "'", where);
  const Tensor t = x.spec().weak ? full({}, x, v.dtype) : x;
  bool fits = t.dtype() == v.dtype && (!v.has_shape || size_t(t.ndim()) == v.shape.size());
  for (size_t i = 0; fits && v.has_shape && i < v.shape.size(); ++i)
    fits = v.shape[i] == open_size || t.shape()[i] == v.shape[i];
  if (!fits) fail(model, fmt::format("the model takes {}, and is given {}", to_string(v), to_string(x.spec())), where);
  return t;
}

// The tensors "s/0", "s/1", ... of a sequence.
std::vector<Tensor> items_of(const ValueInfo& v, const std::map<std::string, Tensor>& by_name, size_t& used) {
  std::vector<Tensor> items;
  for (auto it = by_name.find(v.name + "/0"); it != by_name.end();
       it = by_name.find(fmt::format("{}/{}", v.name, items.size())))
    items.push_back(it->second), ++used;
  return items;
}

}  // namespace

std::string to_string(const ValueInfo& v) {
  const std::string shape = v.has_shape ? with_open_sizes(v.shape) : "[...]";
  return fmt::format("{}: {}{}{}{}", one_line(v.name), v.optional ? "optional " : "",
                     v.kind == ValueInfo::Kind::sequence ? "sequence of " : "", rill::name(v.dtype), shape);
}

Model::Impl::Given Model::Impl::arrange(const std::map<std::string, Tensor>& by_name, const Where& where) const {
  Given given;
  size_t used = 0;
  for (const ValueInfo& v : inputs) {
    std::vector<Tensor> values;
    if (v.kind == ValueInfo::Kind::sequence) {
      values = items_of(v, by_name, used);
    } else if (auto it = by_name.find(v.name); it != by_name.end()) {
      values = {fitting(v, it->second, name, where)};
      ++used;
    } else if (!v.optional) {
      fail(name, fmt::format("input '{}' is missing. the model takes {}", v.name, names_of(inputs)), where);
    }
    given.push_back(std::move(values));
  }
  if (used == by_name.size()) return given;
  for (const auto& [key, value] : by_name) {
    const std::string whole = key.substr(0, key.rfind('/'));
    const bool known = std::ranges::any_of(inputs, [&](const ValueInfo& v) {
      return v.kind == ValueInfo::Kind::sequence ? v.name == whole : v.name == key;
    });
    if (!known) fail(name, fmt::format("no input is called '{}'. the model takes {}", key, names_of(inputs)), where);
  }
  fail(name, "the tensors of a sequence are numbered from 0 without gaps", where);
}

std::vector<ArgSpec> Model::Impl::signature(std::span<const ArgSpec> given, const Where& where) const {
  if (const std::string because = op_by_op_because(); !because.empty())
    fail(name, "has no graph, for it runs op by op: " + because, where);
  std::vector<ArgSpec> specs;
  for (const ValueInfo& v : inputs) {
    if (v.optional) continue;
    if (v.kind == ValueInfo::Kind::sequence)
      fail(name, fmt::format("{}: there is no graph for any number of tensors", to_string(v)), where);
    if (!given.empty()) {
      specs.push_back({given[std::min(specs.size(), given.size() - 1)].spec, v.name});
      continue;
    }
    if (!v.has_shape) fail(name, fmt::format("{}: the file says nothing of its shape. give one", to_string(v)), where);
    specs.push_back(spec(v.dtype, v.shape, v.name));
  }
  if (!given.empty() && given.size() != specs.size())
    fail(name, fmt::format("{} specs for the {} inputs. give one each", given.size(), specs.size()), where);
  return specs;
}

void Model::Impl::trace(const Where& where) {
  FunctionOptions options;
  for (const ValueInfo& v : inputs) {
    if (v.kind != ValueInfo::Kind::tensor || !v.has_shape || v.optional) {
      options.signature.clear();
      break;
    }
    options.signature.push_back(spec(v.dtype, v.shape, v.name));
  }
  const Callback<Results(const Given&)> body = run;
  traced = rill::function(name, [body](const Given& given) { return body(given); }, options, where);
  traced_each = rill::function(name, [body](const Given& given) { return body(given); }, {}, where);
}

bool Model::Impl::has_open_sizes() const {
  return std::ranges::any_of(inputs, [](const ValueInfo& v) {
    return v.has_shape && std::ranges::any_of(v.shape, [](Dim d) { return d == open_size; });
  });
}

namespace {

// Whether every listener that watches `t` is a GradientTape, and there is one: vmap and forward mode take loops as
// nodes.
bool on_tapes_alone(const Tensor& t) {
  bool any = false;
  for (const TapeListener* listener : listeners().tapes) {
    if (!listener->watches(t)) continue;
    if (!dynamic_cast<const GradientTape::Impl*>(listener)) return false;
    any = true;
  }
  return any;
}

bool has_endless_loop(const Graph& g) {
  return std::ranges::any_of(g.nodes(), [](const Node& n) {
    if (n.kind != Node::Kind::op || !n.op->graphs) return false;
    const auto endless = control_of(*n.op).endless;
    if (endless && endless(n.attrs)) return true;
    return std::ranges::any_of(n.op->graphs(n.attrs),
                               [](const auto& inner) { return has_endless_loop(*inner.second); });
  });
}

}  // namespace

bool Model::Impl::wants_endless_gradient(const Given& given, const Where& where) {
  if (!executing_eagerly() || listeners().tapes.empty()) return false;
  const int traces = tracing().trace_count();
  if (!endless_ && traces > 0 && seen_traces_ == traces) return false;
  const auto watched = [](const auto& list) { return std::ranges::any_of(list, on_tapes_alone); };
  if (!std::ranges::any_of(given, watched) &&
      !std::ranges::any_of(variables, [](const auto& v) { return v.second.trainable() && on_tapes_alone(v.second); }))
    return false;
  if (endless_) return true;
  if (has_endless_loop(tracing().graph(given, where))) endless_ = true;
  seen_traces_ = tracing().trace_count();
  return endless_;
}

Model::Impl::Results Model::Impl::call(const Given& given, const Where& where) {
  const CallerScope caller(where);
  if (loaded || op_by_op_.load(std::memory_order_acquire)) return run(given);
  while (!op_by_op_.load(std::memory_order_acquire)) {
    try {
      if (wants_endless_gradient(given, where)) return run(given);
      return tracing()(given, where);
    } catch (const Error& e) {
      if (!executing_eagerly() || !needs_values || !needs_values(e)) throw;
      give_up_on(e);
    }
  }
  return run(given);
}

Graph Model::Impl::graph(const Given& given, const Where& where) {
  try {
    return tracing().graph(given, where);
  } catch (const Error& e) {
    if (each_size_ || !has_open_sizes() || !needs_values || !needs_values(e)) throw;
    give_up_on(e);
  }
  return tracing().graph(given, where);
}

void Model::Impl::give_up_on(const Error& e) {
  if (each_size_ || !has_open_sizes()) return run_op_by_op(e.what());
  const std::lock_guard lock(mutex_);
  each_because_ = e.what();
  each_size_.store(true, std::memory_order_release);
}

void Model::Impl::run_op_by_op(const std::string& because) {
  const std::lock_guard lock(mutex_);
  because_ = because;
  op_by_op_.store(true, std::memory_order_release);
}
std::string Model::Impl::each_size_because() const {
  const std::lock_guard lock(mutex_);
  return each_because_;
}
std::string Model::Impl::op_by_op_because() const {
  const std::lock_guard lock(mutex_);
  return because_;
}

FunctionCore::OpenGraph Model::Impl::traced_whole(const Where& where) const {
  if (!loaded)
    fail(name, "only functions of a .rill file can be saved into one. trace a function that calls it", where);
  return loaded->traced();
}

Model::Model(Shared<Impl> impl) : impl_(std::move(impl)) {}
const std::string& Model::name() const& { return impl_->name; }
const std::vector<ValueInfo>& Model::inputs() const& { return impl_->inputs; }
const std::vector<ValueInfo>& Model::outputs() const& { return impl_->outputs; }
const NamedMap<Variable>& Model::variables() const& { return impl_->variables; }
void Model::name_variables(VariablePaths& paths) const {
  for (const auto& [name, v] : impl_->variables) paths.add(name, v);
}

NamedMap<Tensor> Model::operator()(const NamedMap<Tensor>& inputs, Where where) const {
  Impl::Results results = impl_->call(impl_->arrange(inputs, where), where);
  NamedMap<Tensor> out;
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string& name = impl_->outputs[i].name;
    Impl::Result& r = results[i];
    if (!r.sequence && !r.absent) out[name] = std::move(r.tensors[0]);
    if (r.sequence)
      for (size_t j = 0; j < r.tensors.size(); ++j) out[fmt::format("{}/{}", name, j)] = std::move(r.tensors[j]);
  }
  return out;
}

NamedMap<Tensor> Model::operator()(std::initializer_list<Tensor> inputs, Where where) const {
  if (inputs.size() > impl_->inputs.size())
    fail(impl_->name, fmt::format("got {} tensors, and the model takes {}", inputs.size(), names_of(impl_->inputs)),
         where);
  NamedMap<Tensor> by_name;
  for (const Tensor& x : inputs) {
    const ValueInfo& input = impl_->inputs[by_name.size()];
    if (input.kind == ValueInfo::Kind::sequence)
      fail(impl_->name,
           fmt::format("input '{0}' is a sequence. give its tensors by name: model({{{{\"{0}/0\", x}}}})", input.name),
           where);
    by_name.emplace(input.name, x);
  }
  return (*this)(by_name, where);
}

Graph Model::graph(const NamedMap<Tensor>& inputs, Where where) const {
  return impl_->graph(impl_->arrange(inputs, where), where);
}
Graph Model::graph(Where where) const {
  if (impl_->loaded) return with_open_sizes(eliminate_dead_code(impl_->loaded->traced().graph));
  std::map<std::string, Tensor> by_name;
  for (const ArgSpec& s : impl_->signature({}, where)) by_name[s.name] = make_stand_in(s.spec);
  return impl_->traced.graph(impl_->arrange(by_name, where), where);
}
int Model::trace_count() const { return impl_->loaded ? impl_->loaded->trace_count() : impl_->tracing().trace_count(); }
std::string Model::without_one_trace() const {
  if (const std::string because = impl_->op_by_op_because(); !because.empty()) return "runs op by op: " + because;
  const std::string because = impl_->each_size_because();
  return because.empty() ? "" : "has a trace for each combination of sizes: " + because;
}
std::string Model::explain() const {
  if (impl_->loaded) return impl_->loaded->explain();
  const std::string instead = without_one_trace();
  if (!impl_->op_by_op_because().empty()) return instead + "\n";
  return (instead.empty() ? "" : instead + "\n") + impl_->tracing().explain() +
         (impl_->endless() ? "calls on a tape run their ops one by one, for a loop has no bound\n" : "");
}

}  // namespace rill
