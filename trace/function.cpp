// FunctionCore: the cache of traces. A call walks its arguments into a Key, finds the trace that was made for it (the
// last one used is tried first), gathers the graph's inputs and runs it.
#include "rill/trace/function.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "rill/devices/registry.h"
#include "rill/ops/ops.h"
#include "rill/ops/variable_state.h"
#include "rill/trace/graph_call.h"
#include "rill/trace/passes.h"
#include "rill/trace/trace_observer.h"
#include "rill/trace/tracer.h"

namespace rill {

// What makes two calls use one trace: the tensors' specs, the structure around them, the C++ values, and where
// new tensors go.
struct FunctionCore::Key {
  std::vector<Tensor> leaves;                          // this call's tensors; their specs are the key
  std::string constants;                               // C++ values and container sizes, as bytes
  std::vector<std::pair<size_t, size_t>> constant_at;  // where each value lies in `constants`
  Device device;

  bool matches(const Key& o) const {
    if (leaves.size() != o.leaves.size() || !(device == o.device) || constants != o.constants) return false;
    for (size_t i = 0; i < leaves.size(); ++i)
      if (!(leaves[i].spec() == o.leaves[i].spec())) return false;
    return true;
  }
};

struct FunctionCore::Trace {
  Key key;  // its leaves are stand-ins
  int number = 0;
  std::string reason;
  std::shared_ptr<GraphCall> graph;
  std::shared_ptr<void> prototype;
  size_t traced_nodes = 0;
  uint64_t last_used = 0;
};

struct FunctionCore::State {
  std::recursive_mutex mutex;
  std::vector<std::shared_ptr<Trace>> traces;
  std::shared_ptr<Trace> latest;
  int traced = 0;
  uint64_t clock = 0;
  bool warned = false;
};

namespace {

class ReadKey final : public LeafVisitor {
 public:
  ReadKey(std::vector<Tensor>& leaves, std::string& constants, std::vector<std::pair<size_t, size_t>>& at)
      : leaves_(leaves), constants_(constants), at_(at) {}
  void tensor(Tensor& t) override { leaves_.push_back(t); }
  void constant(const void* bytes, size_t n) override {
    at_.emplace_back(constants_.size(), n);
    constants_.append(static_cast<const char*>(bytes), n);
  }
  void structure(size_t n) override { constants_.append(reinterpret_cast<const char*>(&n), sizeof n); }

 private:
  std::vector<Tensor>& leaves_;
  std::string& constants_;
  std::vector<std::pair<size_t, size_t>>& at_;
};

// Puts symbolic tensors in the place of the arguments'.
class MakeArguments final : public LeafVisitor {
 public:
  MakeArguments(Tracer& tracer, const std::vector<ArgSpec>& signature) : tracer_(tracer), signature_(signature) {}
  void tensor(Tensor& t) override {
    std::string name = next_ < signature_.size() && !signature_[next_].name.empty() ? signature_[next_].name
                                                                                    : fmt::format("arg{}", next_);
    ++next_;
    t = tracer_.add_argument(t.spec(), std::move(name));
  }
  void constant(const void*, size_t) override {}
  void structure(size_t) override {}

 private:
  Tracer& tracer_;
  const std::vector<ArgSpec>& signature_;
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
  explicit AddOutputs(Tracer& tracer) : tracer_(tracer) {}
  void tensor(Tensor& t) override {
    tracer_.add_output(t);
    t = Tensor();  // the prototype keeps no trace alive
  }
  void constant(const void*, size_t) override {}
  void structure(size_t) override {}

 private:
  Tracer& tracer_;
};

thread_local std::vector<const FunctionCore*> being_traced;

std::string print_specs(const std::vector<Tensor>& leaves) {
  std::string s;
  for (const Tensor& t : leaves) s += (s.empty() ? "" : ", ") + to_string(t.spec());
  return "(" + s + ")";
}

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

Graph FunctionCore::trace(Body& body, const Where& where) const {
  Inline guard(const_cast<FunctionCore&>(*this), where);
  Tracer tracer(name_);
  MakeArguments make(tracer, options_.signature);
  body.walk_arguments(make);
  body.run();
  AddOutputs outputs(tracer);
  body.walk_prototype(outputs);
  return tracer.finish();
}

Graph FunctionCore::trace_graph(Body& body, const Where& where) { return eliminate_dead_code(trace(body, where)); }

namespace {

// Which leaf or value differs from the nearest earlier key, in words.
std::string difference(const std::vector<Tensor>& now, const std::vector<Tensor>& before, bool constants_differ) {
  if (now.size() != before.size()) return fmt::format("{} tensors instead of {}", now.size(), before.size());
  for (size_t i = 0; i < now.size(); ++i)
    if (!(now[i].spec() == before[i].spec())) {
      std::string weak = now[i].spec().weak != before[i].spec().weak ? " (one is a C++ scalar)" : "";
      return fmt::format("tensor argument {} was {} and is {}{}", i, to_string(before[i].spec()),
                         to_string(now[i].spec()), weak);
    }
  return constants_differ ? "a C++ argument has another value" : "the default device differs";
}

std::string print_constant(const char* bytes, size_t n) {
  if (n == sizeof(int)) {
    int v;
    std::memcpy(&v, bytes, n);
    return fmt::format("{}", v);
  }
  if (n == sizeof(double)) {
    double d;
    int64_t i;
    std::memcpy(&d, bytes, n);
    std::memcpy(&i, bytes, n);
    return std::abs(i) < (int64_t(1) << 48) ? fmt::format("{}", i) : fmt::format("{}", d);
  }
  if (n == 1) return fmt::format("{}", int(*bytes));
  return fmt::format("{} bytes", n);
}

}  // namespace

std::shared_ptr<FunctionCore::Trace> FunctionCore::make(Body& body, Key key, const Where& where) {
  auto t = std::make_shared<Trace>();
  Graph graph = trace(body, where);
  t->prototype = body.take_prototype();
  t->traced_nodes = graph.nodes().size();
  notify_traced(graph);
  t->graph = std::make_shared<GraphCall>(std::move(graph));
  State& s = *state_;
  t->number = ++s.traced;
  t->reason = "first call";
  if (s.latest) {
    t->reason = difference(key.leaves, s.latest->key.leaves, key.constants != s.latest->key.constants);
    if (key.constants.size() == s.latest->key.constants.size() && key.constant_at == s.latest->key.constant_at)
      for (size_t i = 0; i < key.constant_at.size(); ++i) {
        auto [at, n] = key.constant_at[i];
        if (std::memcmp(&key.constants[at], &s.latest->key.constants[at], n) == 0) continue;
        t->reason = fmt::format("C++ argument {} was {} and is {}", i, print_constant(&s.latest->key.constants[at], n),
                                print_constant(&key.constants[at], n));
        break;
      }
  }
  for (Tensor& leaf : key.leaves) leaf = make_stand_in(leaf.spec());
  t->key = std::move(key);
  t->last_used = ++s.clock;
  s.traces.push_back(t);
  if (s.traces.size() > size_t(std::max(1, options_.max_traces)))
    s.traces.erase(std::min_element(s.traces.begin(), s.traces.end(),
                                    [](auto& a, auto& b) { return a->last_used < b->last_used; }));
  warn_about_retracing(*t);
  return t;
}

void FunctionCore::warn_about_retracing(const Trace& latest) {
  constexpr int many = 8;
  if (state_->traced < many || state_->warned) return;
  state_->warned = true;
  std::fprintf(stderr,
               "rill: warning: function '%s' has been traced %d times; the last time because %s. Tracing is slow. Pass "
               "a changing C++ "
               "value as a tensor, and give a size that changes as `any` in a signature.\n",
               name_.c_str(), state_->traced, latest.reason.c_str());
}

std::shared_ptr<FunctionCore::Trace> FunctionCore::find(const Key& key) {
  State& s = *state_;
  if (s.latest && s.latest->key.matches(key)) return s.latest;
  for (const auto& t : s.traces)
    if (t->key.matches(key)) return t;
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
  Key key;
  ReadKey read(key.leaves, key.constants, key.constant_at);
  body.walk_arguments(read);
  key.device = default_device();
  check_signature(key.leaves, where);
  std::vector<Tensor> arguments = key.leaves;
  std::shared_ptr<Trace> t;
  {
    std::lock_guard lock(state_->mutex);
    t = find(key);
    if (!t) t = make(body, std::move(key), where);
    t->last_used = ++state_->clock;
    state_->latest = t;
  }
  prototype = t->prototype;
  const Graph& g = t->graph->graph();
  std::vector<Tensor> in;
  Updates updates(g, in);
  gather_inputs(g, arguments, updates, in);
  std::vector<Tensor> results = t->graph->call(in, where);
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
    text += fmt::format("    {} nodes traced, {} kept\n", t->traced_nodes, t->graph->graph().nodes().size());
    text += t->graph->tiers().describe("    ");
  }
  return text;
}

// --- verify ----------------------------------------------------------------------------------------------------------

namespace {
bool same_bits(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) return false;
  if (a.dtype() == DType::string) return a.to_vector<std::string>() == b.to_vector<std::string>();
  Tensor x = a.contiguous(), y = b.contiguous();
  return x.size() == 0 || std::memcmp(x.rep()->data, y.rep()->data, size_t(x.size()) * size_of(x.dtype())) == 0;
}

std::vector<std::pair<std::shared_ptr<VariableState>, Tensor>> variables_of(const Graph& g) {
  std::vector<std::pair<std::shared_ptr<VariableState>, Tensor>> all;
  for (const GraphInput& i : g.inputs)
    if (i.variable) all.emplace_back(i.variable, i.variable->value);
  for (const GraphAssign& a : g.assigns) all.emplace_back(a.variable, a.variable->value);
  return all;
}
}  // namespace

bool FunctionCore::verify(Body& body, const Where& where) {
  Key key;
  ReadKey read(key.leaves, key.constants, key.constant_at);
  body.walk_arguments(read);
  std::vector<Tensor> arguments = key.leaves;
  Graph g = trace(body, where);  // for its variables; leaves symbolic arguments behind
  auto before = variables_of(g);
  class PutBack final : public LeafVisitor {
   public:
    explicit PutBack(std::vector<Tensor>& from) : from_(from) {}
    void tensor(Tensor& t) override { t = from_[next_++]; }
    void constant(const void*, size_t) override {}
    void structure(size_t) override {}

   private:
    std::vector<Tensor>& from_;
    size_t next_ = 0;
  };
  auto put_back = [&] {
    PutBack p(arguments);
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
