// FunctionCore: the cache of traces. A call walks its arguments into a FunctionKey, finds what was made for it (the
// last one used is tried first), gathers the graph's inputs and runs it. Where nothing is found, make() says what
// happens.
#include "rill/trace/function.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "rill/devices/registry.h"
#include "rill/ops/ops.h"
#include "rill/ops/variable_state.h"
#include "rill/trace/function_key.h"
#include "rill/trace/graph_call.h"
#include "rill/trace/instantiate.h"
#include "rill/trace/open_pattern.h"
#include "rill/trace/passes.h"
#include "rill/trace/trace_observer.h"
#include "rill/trace/tracer.h"

namespace rill {

// One traced graph made ready to run, for the sizes that its trace leaves open (none in most traces).
struct FunctionCore::Instance {
  SmallVec<int64_t, 4> sizes;  // of each stand-in
  std::shared_ptr<GraphCall> graph;
  std::shared_ptr<void> prototype;
  uint64_t last_used = 0;
};

struct FunctionCore::Trace {
  FunctionKey key;  // its leaves are stand-ins
  int number = 0;
  std::string reason;
  size_t traced_nodes = 0;
  uint64_t last_used = 0;
  std::vector<std::shared_ptr<Instance>> instances;  // one, where no size is open
  // Where sizes are open:
  OpenPattern open;
  Graph traced;  // with stand-ins
  std::shared_ptr<void> prototype;

  // Whether a call with such arguments can use this trace; `sizes` are then those of the open ones.
  bool serves(const FunctionKey& k, SmallVec<int64_t, 4>& sizes) const {
    if (open.empty()) return key.matches(k);
    return key.matches_but_sizes(k) && open.fits(key.leaves, k.leaves, sizes);
  }
};

struct FunctionCore::State {
  std::mutex mutex;              // guards what follows; never held while a callable or a pass runs
  std::recursive_mutex tracing;  // one thread traces at a time; those whose trace is there do not wait for it
  std::vector<std::shared_ptr<Trace>> traces;
  std::shared_ptr<Trace> latest;
  std::vector<OpenHistory> histories;           // which sizes have changed, where relax_shapes asks
  std::vector<std::shared_ptr<Trace>> refused;  // open patterns that could not be traced; `reason` says why
  int traced = 0;
  uint64_t clock = 0;
  bool warned = false, warned_refusal = false;
};

namespace {

// Puts symbolic tensors in the place of the arguments'.
class MakeArguments final : public LeafVisitor {
 public:
  MakeArguments(Tracer& tracer, const std::vector<std::string>& names, const OpenPattern& open)
      : tracer_(tracer), names_(names), open_(open) {}
  void tensor(Tensor& t) override {
    std::string name = next_ < names_.size() && !names_[next_].empty() ? names_[next_] : fmt::format("arg{}", next_);
    t = tracer_.add_argument(open_.with_stand_ins(t.spec(), next_), std::move(name));
    ++next_;
  }
  void constant(const void*, size_t) override {}
  void structure(size_t) override {}

 private:
  Tracer& tracer_;
  const std::vector<std::string>& names_;
  const OpenPattern& open_;
  size_t next_ = 0;
};

class PutBack final : public LeafVisitor {
 public:
  explicit PutBack(const std::vector<Tensor>& from) : from_(from) {}
  void tensor(Tensor& t) override { t = from_[next_++]; }
  void constant(const void*, size_t) override {}
  void structure(size_t) override {}

 private:
  const std::vector<Tensor>& from_;
  size_t next_ = 0;
};

class CollectTensors final : public LeafVisitor {
 public:
  void tensor(Tensor& t) override { tensors.push_back(t); }
  void constant(const void*, size_t) override {}
  void structure(size_t) override {}
  std::vector<Tensor> tensors;
};

class AddOutputs final : public LeafVisitor {
 public:
  AddOutputs(Tracer& tracer, const OpenPattern& open) : tracer_(tracer), stand_ins_(open.stand_ins()) {}
  void tensor(Tensor& t) override {
    tracer_.add_output(t);
    t = Tensor();  // the prototype keeps no trace alive
  }
  void constant(const void* bytes, size_t n) override {
    int64_t value = 0;
    if (stand_ins_.empty() || (n != 4 && n != 8)) return;
    std::memcpy(&value, bytes, n);
    if (is_made_from(value, stand_ins_))
      fail("return", "a C++ number made from an open size is given back. read it from the shape of a tensor instead");
  }
  void structure(size_t) override {}

 private:
  Tracer& tracer_;
  std::vector<int64_t> stand_ins_;
};

thread_local std::vector<const FunctionCore*> being_traced;

}  // namespace

FunctionCore::FunctionCore(std::string name, FunctionOptions options)
    : name_(std::move(name)), options_(std::move(options)), state_(std::make_unique<State>()) {}
FunctionCore::~FunctionCore() = default;

// --- Recursion -------------------------------------------------------------------------------------------------------

FunctionCore::Inline::Inline(FunctionCore& core, const Where& where) {
  if (std::find(being_traced.begin(), being_traced.end(), &core) != being_traced.end()) {
    std::string cycle;
    for (const FunctionCore* f : being_traced) cycle += f->name() + " -> ";
    fail(core.name(),
         fmt::format(
             "the function calls itself while it is traced ({}{}), which never ends. use while_loop() or a C++ loop",
             cycle, core.name()),
         where);
  }
  being_traced.push_back(&core);
}
FunctionCore::Inline::~Inline() { being_traced.pop_back(); }

// --- Tracing ---------------------------------------------------------------------------------------------------------

namespace {
// The trace of this thread has open sizes, or has none, while this lives.
class OpenScope {
 public:
  explicit OpenScope(bool open) : outer_(std::exchange(thread_state().open_sizes, open)) {}
  ~OpenScope() { thread_state().open_sizes = outer_; }
  OpenScope(const OpenScope&) = delete;

 private:
  bool outer_;
};
}  // namespace

Graph FunctionCore::trace(Body& body, const std::vector<std::string>& names, const OpenPattern& open,
                          const Where& where) {
  Inline guard(*this, where);
  OpenScope scope(!open.empty());
  Tracer tracer(name_);
  MakeArguments make(tracer, names, open);
  body.walk_arguments(make);
  body.run();
  AddOutputs outputs(tracer, open);
  body.walk_prototype(outputs);
  return tracer.finish();
}

Graph FunctionCore::trace_graph(Body& body, std::vector<std::string> names, const Where& where) {
  FunctionKey key;
  ReadKey read(key);
  body.walk_arguments(read);
  for (size_t i = 0; i < names.size() && i < options_.signature.size(); ++i)
    if (names[i].empty()) names[i] = options_.signature[i].name;
  OpenPattern open = OpenPattern::of_open_sizes(key.leaves);
  Graph g = eliminate_dead_code(trace(body, names, open, where));
  return open.empty() ? g : with_open_sizes(g, open.stand_ins());
}

std::vector<std::string> FunctionCore::argument_names() const {
  std::vector<std::string> names;
  for (const ArgSpec& a : options_.signature) names.push_back(a.name);
  return names;
}

// --- The cache -------------------------------------------------------------------------------------------------------

// Called with the mutex held.
std::shared_ptr<FunctionCore::Instance> FunctionCore::find(const FunctionKey& key) {
  State& s = *state_;
  SmallVec<int64_t, 4> sizes;
  auto look = [&](const std::shared_ptr<Trace>& t) -> std::shared_ptr<Instance> {
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

namespace {
template <class Entry>
void drop_least_used(std::vector<std::shared_ptr<Entry>>& entries, int most) {
  if (entries.size() > size_t(std::max(1, most)))
    entries.erase(
        std::min_element(entries.begin(), entries.end(), [](auto& a, auto& b) { return a->last_used < b->last_used; }));
}
}  // namespace

// A trace for this call and all that its pattern covers. An entry is made only after everything has succeeded.
std::shared_ptr<FunctionCore::Trace> FunctionCore::make_trace(Body& body, const FunctionKey& key, OpenPattern open,
                                                              const Where& where) {
  PutBack put_back(key.leaves);
  body.walk_arguments(put_back);
  auto t = std::make_shared<Trace>();
  Graph graph = trace(body, argument_names(), open, where);
  t->prototype = body.take_prototype();
  t->traced_nodes = graph.nodes().size();
  t->key = key;
  for (size_t i = 0; i < key.leaves.size(); ++i) t->key.leaves[i] = make_stand_in(key.leaves[i].spec());
  t->open = std::move(open);
  t->traced = std::move(graph);
  return t;
}

std::shared_ptr<FunctionCore::Instance> FunctionCore::make_instance(Trace& t, const FunctionKey& key) {
  auto instance = std::make_shared<Instance>();
  if (t.open.empty()) {
    instance->graph = std::make_shared<GraphCall>(std::move(t.traced));
    t.traced = Graph();
  } else {
    t.serves(key, instance->sizes);
    std::vector<int64_t> stand_ins = t.open.stand_ins();
    std::vector<OpenSize> sizes;
    for (size_t i = 0; i < stand_ins.size(); ++i) sizes.push_back({stand_ins[i], instance->sizes[i]});
    instance->graph = std::make_shared<GraphCall>(instantiate(t.traced, sizes));
  }
  instance->prototype = t.prototype;
  return instance;
}

std::shared_ptr<FunctionCore::Instance> FunctionCore::keep(const std::shared_ptr<Trace>& t,
                                                           std::shared_ptr<Instance> instance, const Where& where) {
  State& s = *state_;
  std::lock_guard lock(s.mutex);
  if (t->instances.empty()) {
    t->number = ++s.traced;
    if (t->reason.empty())
      t->reason = s.latest ? difference(t->key, s.latest->key, options_.signature) : std::string("first call");
    s.traces.push_back(t);
    if (!t->open.empty())
      for (size_t i = 0; i < t->key.leaves.size(); ++i)
        t->key.leaves[i] = make_stand_in(t->open.with_open_sizes(t->key.leaves[i].spec(), i));
  }
  instance->last_used = t->last_used = ++s.clock;
  t->instances.push_back(instance);
  drop_least_used(t->instances, options_.max_traces);
  drop_least_used(s.traces, options_.max_traces);
  s.latest = t;
  warn_about_retracing(*t, where);
  return instance;
}

// The way of a call that finds nothing: an open trace made ready for these sizes, a new open trace, or a trace of these
// sizes alone.
std::shared_ptr<FunctionCore::Instance> FunctionCore::make(Body& body, const FunctionKey& key, const Where& where) {
  State& s = *state_;
  std::lock_guard one_at_a_time(s.tracing);
  std::string reason;  // why these sizes need a trace of their own
  std::vector<std::shared_ptr<Trace>> candidates;
  std::vector<OpenPattern> patterns;
  {
    std::lock_guard lock(s.mutex);
    if (auto hit = find(key)) return hit;  // another thread made it meanwhile
    SmallVec<int64_t, 4> sizes;
    for (const auto& t : s.traces)
      if (!t->open.empty() && t->serves(key, sizes)) candidates.push_back(t);
    patterns = wanted_patterns(key);
    for (const auto& t : s.refused)
      if (!patterns.empty() && t->serves(key, sizes)) {
        reason = t->reason;
        patterns.clear();
      }
  }
  for (const auto& t : candidates) try {
      return keep(t, make_instance(*t, key), where);
    } catch (const NotOpen& e) {
      reason = e.what();
      patterns.clear();
    }
  for (OpenPattern& open : patterns) try {
      auto t = make_trace(body, key, open, where);
      auto instance = make_instance(*t, key);
      notify_traced(instance->graph->graph());
      return keep(t, std::move(instance), where);
    } catch (const std::exception& e) {  // what the callable itself throws, it throws again below
      reason = e.what();
    }
  auto t = make_trace(body, key, {}, where);
  auto instance = make_instance(*t, key);
  if (!reason.empty()) refuse(key, patterns, *t, reason);
  notify_traced(instance->graph->graph());
  return keep(t, std::move(instance), where);
}

// Which sizes to leave open for such a call, the most likely way first; none where nothing says so.
std::vector<OpenPattern> FunctionCore::wanted_patterns(const FunctionKey& key) {
  std::vector<OpenPattern> patterns;
  OpenPattern::Mask mask;
  if (!options_.signature.empty()) {
    for (const ArgSpec& a : options_.signature) {
      mask.emplace_back();
      for (int64_t d : a.spec.shape) mask.back().push_back(d == open_size);
    }
  } else if (options_.relax_shapes) {
    mask = sizes_that_change(state_->histories, key);
  }
  for (auto merge : {OpenPattern::Merge::across_arguments, OpenPattern::Merge::all}) {
    OpenPattern p(mask, key.leaves, merge);
    if (!p.empty() && (patterns.empty() || !(p == patterns.back()))) patterns.push_back(std::move(p));
  }
  return patterns;
}

void FunctionCore::refuse(const FunctionKey& key, const std::vector<OpenPattern>& tried, Trace& own,
                          const std::string& reason) {
  State& s = *state_;
  std::lock_guard lock(s.mutex);
  own.reason = "its sizes could not stay open: " + reason;
  for (const OpenPattern& open : tried) {
    auto t = std::make_shared<Trace>();
    t->key = key;
    for (Tensor& leaf : t->key.leaves) leaf = make_stand_in(leaf.spec());
    t->open = open;
    t->reason = reason;
    s.refused.push_back(std::move(t));
  }
  if (s.warned_refusal) return;
  s.warned_refusal = true;
  std::fprintf(stderr, "rill: warning: function '%s' cannot keep its sizes open, and is traced for each: %s\n",
               name_.c_str(), reason.c_str());
}

void FunctionCore::warn_about_retracing(const Trace& latest, const Where& where) {
  constexpr int many = 8;
  if (state_->traced < many || state_->warned || latest.number != state_->traced) return;
  state_->warned = true;
  std::fprintf(stderr,
               "rill: warning: %s: function '%s' has been traced %d times; the last time because %s. Tracing is slow. "
               "Pass a C++ value that changes as a tensor; leave a size that changes open, with `any` in a signature "
               "or with {.relax_shapes = true}.\n",
               to_string(caller_or(where)).c_str(), name_.c_str(), state_->traced, latest.reason.c_str());
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
Tensor read_variable(const std::shared_ptr<VariableState>& v) {
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

// The tensors that the graph runs on, in its order: arguments, captured tensors, variables as they are now.
void gather_inputs(const Graph& g, const std::vector<Tensor>& arguments, Updates& updates, std::vector<Tensor>& in) {
  in.reserve(g.inputs.size());
  for (const GraphInput& i : g.inputs) {
    switch (i.kind) {
      case GraphInput::Kind::argument: in.push_back(arguments[size_t(i.argument)]); break;
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

std::vector<Tensor> FunctionCore::call(Body& body, std::shared_ptr<const void>& prototype, const Where& where) {
  FunctionKey key;
  ReadKey read(key);
  body.walk_arguments(read);
  key.device = default_device();
  check_signature(key.leaves, where);
  std::shared_ptr<Instance> hit;
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
  in.clear();  // so that a variable's old value has no holder left
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
std::vector<std::pair<std::shared_ptr<VariableState>, Tensor>> variables_of(const Graph& g) {
  std::vector<std::pair<std::shared_ptr<VariableState>, Tensor>> all;
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
  Graph g = trace(body, argument_names(), {}, where);  // for its variables; leaves symbolic arguments behind
  auto before = variables_of(g);
  auto put_back = [&] {
    PutBack p(key.leaves);
    body.walk_arguments(p);
  };
  put_back();
  body.run();
  CollectTensors eager;
  body.walk_prototype(eager);
  std::vector<Tensor> eager_variables;
  for (auto& [v, value] : before) eager_variables.push_back(v->value);
  for (auto& [v, value] : before) v->value = value;
  std::shared_ptr<const void> prototype;
  put_back();
  std::vector<Tensor> traced = call(body, prototype, where);
  bool equal = traced.size() == eager.tensors.size();
  for (size_t i = 0; equal && i < traced.size(); ++i) equal = same_bits(traced[i], eager.tensors[i]);
  for (size_t i = 0; equal && i < before.size(); ++i) equal = same_bits(before[i].first->value, eager_variables[i]);
  return equal;
}

}  // namespace rill
