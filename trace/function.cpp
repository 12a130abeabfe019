// FunctionCore: a call of a traced function. It walks its arguments into a FunctionKey, finds what was made for it (the
// last one used is tried first), gathers the graph's inputs and runs it. Where nothing is found, make() says what
// happens (function_traces.cpp).
#include "rill/trace/function.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/devices/registry.h"
#include "rill/ops/ops.h"
#include "rill/ops/variable_state.h"
#include "rill/trace/function_state.h"

namespace rill {

FunctionCore::FunctionCore(std::string name, FunctionOptions options)
    : name_(std::move(name)), options_(std::move(options)), state_(new State) {}
FunctionCore::~FunctionCore() { delete state_; }

// --- The cache -------------------------------------------------------------------------------------------------------

// Called with the mutex held.
Shared<FunctionCore::Instance> FunctionCore::find(const FunctionKey& key) {
  State& s = *state_;
  SmallVec<int64_t, 4> sizes;
  auto look = [&](const Shared<Trace>& t) -> Shared<Instance> {
    if (!t->serves(key, sizes)) return nullptr;
    for (const auto& i : t->instances)
      if (i->sizes == sizes) {
        i->last_used = t->last_used = ++s.clock;
        return i;
      }
    return nullptr;
  };
  if (s.latest)
    if (auto hit = look(s.latest)) return hit;
  for (const auto& t : s.traces)
    if (auto hit = look(t)) {
      s.latest = t;
      return hit;
    }
  return nullptr;
}

void FunctionCore::check_signature(const std::vector<Tensor>& leaves, const Where& where) const {
  if (options_.signature.empty()) return;
  std::string wanted;
  for (const ArgSpec& a : options_.signature) wanted += (wanted.empty() ? "" : ", ") + to_string(a.spec);
  bool fits = leaves.size() == options_.signature.size();
  for (size_t i = 0; fits && i < leaves.size(); ++i) {
    const Spec &want = options_.signature[i].spec, &have = leaves[i].spec();
    fits = want.dtype == have.dtype && want.shape.size() == have.shape.size();
    for (size_t d = 0; fits && d < want.shape.size(); ++d)
      fits = want.shape[d] == open_size || want.shape[d] == have.shape[d];
  }
  if (!fits)
    fail(name_,
         fmt::format("the arguments {} do not fit the signature ({}). convert them, or leave sizes open with `any`",
                     print_specs(leaves), wanted),
         where);
}

// --- Calling ---------------------------------------------------------------------------------------------------------

namespace {

// The variables that a call reads and assigns, locked for as long as it runs: their values move into the call's inputs,
// so that new ones can be written in place, and back where the call throws.
class Updates {
 public:
  Updates(const Graph& g, std::vector<Tensor>& inputs) : inputs_(inputs) {
    if (!thread_state().tapes.empty()) return;  // a tape keeps the old values
    for (const GraphAssign& a : g.assigns) held_.push_back({a.variable.get()});
    std::sort(held_.begin(), held_.end(), [](auto& a, auto& b) { return a.state < b.state; });  // as all threads do
    for (Held& h : held_) h.state->mutex.lock();
  }
  ~Updates() {
    for (Held& h : held_) {
      if (h.input >= 0) h.state->value = std::move(inputs_[size_t(h.input)]);
      h.state->mutex.unlock();
    }
  }
  Updates(const Updates&) = delete;

  bool holds(const VariableState& v) const { return find(v) != held_.size(); }
  // The variable's value, for the call's next input.
  Tensor take(VariableState& v) {
    held_[find(v)].input = int(inputs_.size());
    return std::move(v.value);
  }
  void set(VariableState& v, Tensor value) {
    held_[find(v)].input = -1;
    v.value = std::move(value);
  }

 private:
  struct Held {
    VariableState* state;
    int input = -1;  // where its value is, while it is not in the variable
  };
  size_t find(const VariableState& v) const {
    size_t i = 0;
    while (i < held_.size() && held_[i].state != &v) ++i;
    return i;
  }
  std::vector<Held> held_;
  std::vector<Tensor>& inputs_;
};

// The value of a variable as a call reads it now, known to the tapes.
Tensor read_variable(const Shared<VariableState>& v) {
  std::unique_lock lock(v->mutex);
  Tensor value = v->value;
  lock.unlock();
  auto& tapes = thread_state().tapes;
  if (tapes.empty()) return value;
  value = make_alias(value);
  if (v->trainable)
    for (TapeListener* tape : tapes) tape->watch_variable(v, value);
  return value;
}

// The tensors that the graph runs on, in its order: arguments, captured tensors, variables as they are now. Arguments
// move, each being one input: what the caller has given up has no other holder then.
void gather_inputs(const Graph& g, std::vector<Tensor>& arguments, Updates& updates, std::vector<Tensor>& in) {
  in.reserve(g.inputs.size());
  for (const GraphInput& i : g.inputs) {
    switch (i.kind) {
      case GraphInput::Kind::argument: in.push_back(std::move(arguments[size_t(i.argument)])); break;
      case GraphInput::Kind::captured: in.push_back(i.captured); break;
      case GraphInput::Kind::variable:
        in.push_back(updates.holds(*i.variable) ? updates.take(*i.variable) : read_variable(i.variable));
    }
  }
}

void assign_variables(const Graph& g, std::vector<Tensor>& results, Updates& updates) {
  for (size_t k = 0; k < g.assigns.size(); ++k) {
    VariableState& v = *g.assigns[k].variable;
    Tensor value = make_alias(results[g.outputs.size() + k].contiguous());
    if (updates.holds(v)) {
      updates.set(v, std::move(value));
    } else {
      std::lock_guard lock(v.mutex);
      v.value = std::move(value);
    }
  }
  results.resize(g.outputs.size());
}

}  // namespace

std::vector<Tensor> FunctionCore::call(Body& body, Shared<const void>& prototype, const Where& where) {
  FunctionKey key;
  ReadKey read(key);
  body.walk_arguments(read);
  key.device = default_device();
  check_signature(key.leaves, where);
  Shared<Instance> hit;
  {
    std::lock_guard lock(state_->mutex);
    hit = find(key);
  }
  if (!hit) hit = make(body, key, where);
  prototype = hit->prototype;
  const Graph& g = hit->graph->graph();
  std::vector<Tensor> in;
  Updates updates(g, in);
  gather_inputs(g, key.leaves, updates, in);
  std::vector<Tensor> results = hit->graph->call(in, where);
  in.clear();  // so that what results were written over has no other holder left
  assign_variables(g, results, updates);
  return results;
}

int FunctionCore::trace_count() const {
  std::lock_guard lock(state_->mutex);
  return state_->traced;
}

std::string FunctionCore::explain() const {
  std::lock_guard lock(state_->mutex);
  std::string text = fmt::format("function '{}': {} trace{}\n", name_, state_->traced, state_->traced == 1 ? "" : "s");
  for (const auto& t : state_->traces) {
    text += fmt::format("  trace {} for {}: {}\n", t->number, print_specs(t->key.leaves), t->reason);
    for (const auto& i : t->instances) {
      if (!t->open.empty()) {
        std::vector<Tensor> leaves;
        for (size_t k = 0; k < t->key.leaves.size(); ++k)
          leaves.push_back(make_stand_in(t->open.with_sizes(t->key.leaves[k].spec(), k, i->sizes)));
        text += fmt::format("   sizes {}:\n", print_specs(leaves));
      }
      text += fmt::format("    {} nodes traced, {} kept\n", t->traced_nodes, i->graph->graph().nodes().size());
      text += i->graph->tiers().describe("    ");
    }
  }
  return text;
}

// --- verify ----------------------------------------------------------------------------------------------------------

namespace {
class CollectTensors final : public LeafVisitor {
 public:
  void tensor(Tensor& t) override { tensors.push_back(t); }
  void constant(const void*, size_t) override {}
  void structure(size_t) override {}
  std::vector<Tensor> tensors;
};

std::vector<std::pair<Shared<VariableState>, Tensor>> variables_of(const Graph& g) {
  std::vector<std::pair<Shared<VariableState>, Tensor>> all;
  for (const GraphInput& i : g.inputs)
    if (i.variable) all.emplace_back(i.variable, i.variable->value);
  for (const GraphAssign& a : g.assigns) all.emplace_back(a.variable, a.variable->value);
  return all;
}
}  // namespace

bool FunctionCore::verify(Body& body, const Where& where) {
  FunctionKey key;
  ReadKey read(key);
  body.walk_arguments(read);
  auto put_back = [&] {
    PutBack p(key.leaves);
    body.walk_arguments(p);
  };
  put_back();
  Graph g = trace(body, argument_names(), {}, where);  // for its variables; leaves symbolic arguments behind
  auto before = variables_of(g);
  put_back();
  body.run();
  CollectTensors eager;
  body.walk_prototype(eager);
  std::vector<Tensor> eager_variables;
  for (auto& [v, value] : before) eager_variables.push_back(v->value);
  for (auto& [v, value] : before) v->value = value;
  Shared<const void> prototype;
  put_back();
  std::vector<Tensor> traced = call(body, prototype, where);
  bool equal = traced.size() == eager.tensors.size();
  for (size_t i = 0; equal && i < traced.size(); ++i) equal = same_bits(traced[i], eager.tensors[i]);
  for (size_t i = 0; equal && i < before.size(); ++i) equal = same_bits(before[i].first->value, eager_variables[i]);
  return equal;
}

}  // namespace rill
