// Traces of a function: what happens when no cached trace fits a call. Start at FunctionCore::make; trace() runs the
// callable under a Tracer.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <utility>

#include "rill/autodiff/body_scope.h"
#include "rill/tensor/per_thread.h"
#include "rill/trace/call/function_state.h"
#include "rill/trace/graph/instantiate.h"
#include "rill/trace/graph/trace_observer.h"
#include "rill/trace/graph/tracer.h"
#include "rill/trace/passes.h"

namespace rill {

// --- Recursion -------------------------------------------------------------------------------------------------------

namespace {
thread_local constinit PerThread<std::vector<const FunctionCore*>> being_traced;
}

FunctionCore::Inline::Inline(FunctionCore& core, const Where& where) {
  if (std::find(being_traced->begin(), being_traced->end(), &core) != being_traced->end()) {
    std::string cycle;
    for (const FunctionCore* f : *being_traced) cycle += f->name() + " -> ";
    fail(core.name(),
         fmt::format(
             "the function calls itself while it is traced ({}{}), which never ends. use while_loop() or a C++ loop",
             cycle, core.name()),
         where);
  }
  being_traced->push_back(&core);
  ++detail::open_bodies;
}
FunctionCore::Inline::~Inline() {
  --detail::open_bodies;
  being_traced->pop_back();
}

// --- Tracing ---------------------------------------------------------------------------------------------------------

namespace {
// Replaces the arguments' tensors by symbolic ones.
class MakeArguments final : public LeafVisitor {
 public:
  MakeArguments(Tracer& tracer, const std::vector<std::string>& names, const OpenPattern& open,
                const std::vector<Dim>& sizes)
      : tracer_(tracer), names_(names), open_(open), sizes_(sizes) {}
  void tensor(Tensor& t) override {
    std::string name = next_ < names_.size() && !names_[next_].empty() ? names_[next_] : fmt::format("arg{}", next_);
    t = tracer_.add_argument(sizes_.empty() ? t.spec() : open_.with_sizes(t.spec(), next_, sizes_), std::move(name));
    ++next_;
  }
  void constant(const void*, size_t) override {}

 private:
  Tracer& tracer_;
  const std::vector<std::string>& names_;
  const OpenPattern& open_;
  const std::vector<Dim>& sizes_;
  size_t next_ = 0;
};

class AddOutputs final : public LeafVisitor {
 public:
  AddOutputs(Tracer& tracer, const Where& where) : tracer_(tracer), where_(where) {}
  void tensor(Tensor& t) override {
    tracer_.add_output(t, where_);
    t = Tensor();  // the prototype keeps no trace alive
  }
  void constant(const void*, size_t) override {}

 private:
  Tracer& tracer_;
  const Where& where_;
};

// While it lives, this thread's trace has the open sizes of `dims`, which may be null.
class OpenScope {
 public:
  explicit OpenScope(DimTable* dims) : dims_(dims), outer_(std::exchange(listeners().open_sizes, dims != nullptr)) {}
  ~OpenScope() { listeners().open_sizes = outer_; }
  OpenScope(const OpenScope&) = delete;

 private:
  OpenDims dims_;
  bool outer_;
};
}  // namespace

Graph FunctionCore::trace(Body& body, const std::vector<std::string>& names, const OpenPattern& open, DimTable* dims,
                          std::span<const int64_t> sizes, const Where& where) {
  Inline guard(*this, where);
  OpenScope scope(dims);
  Tracer tracer(name_);
  const std::vector<Dim> symbols = dims ? open.symbols(*dims, sizes, names) : std::vector<Dim>();
  MakeArguments make(tracer, names, open, symbols);
  body.walk_arguments(make);
  body.run();
  AddOutputs outputs(tracer, where);
  body.walk_prototype(outputs);
  return tracer.finish();
}

Graph FunctionCore::trace_graph(Body& body, std::vector<std::string> names, const Where& where) {
  OpenGraph traced = trace_open(body, std::move(names), where);
  Graph g = eliminate_dead_code(traced.graph);
  return traced.dims ? with_open_sizes(g) : g;
}

namespace {
// Candidate values of open sizes for a trace without a call. In order: all different; all equal, for callables that
// need equal sizes (a batch of images and its labels); the sizes of earlier calls; larger ones that a convolution's
// window fits in; numbers with many divisors; a small first size of each argument and larger others (a batch of images
// or sounds).
std::vector<OpenPattern::Sizes> likely_sizes(const OpenPattern& open, const std::vector<Tensor>& leaves,
                                             const std::vector<OpenPattern::Sizes>& called) {
  const size_t count = open.count();
  OpenPattern::Sizes different;
  for (size_t i = 0; i < count; ++i) different.push_back(8 + int64_t(i));
  std::vector<OpenPattern::Sizes> all{OpenPattern::Sizes(count, 8)};
  if (count > 1) all.insert(all.begin(), different);
  all.insert(all.end(), called.begin(), called.end());
  for (int64_t n : {16, 9, 10, 12, 14, 15, 11, 13, 64, 60, 256}) all.push_back(OpenPattern::Sizes(count, n));
  for (int64_t n : {64, 256, 640, 1000, 4096, 16384}) {
    OpenPattern::Sizes sizes;
    for (size_t i = 0; i < leaves.size(); ++i)
      for (size_t d = 0; d < leaves[i].shape().size(); ++d)
        if (leaves[i].shape()[d] == open_size) sizes.push_back(d == 0 ? 8 : n);
    all.push_back(std::move(sizes));
  }
  return all;
}
}  // namespace

FunctionCore::OpenGraph FunctionCore::trace_open(Body& body, std::vector<std::string> names, const Where& where) {
  FunctionKey key;
  ReadKey read(key);
  body.walk_arguments(read);
  check_signature(key.leaves, where);
  for (size_t i = 0; i < names.size() && i < options_.signature.size(); ++i)
    if (names[i].empty()) names[i] = options_.signature[i].name;
  const OpenPattern open = OpenPattern::of_open_sizes(key.leaves);
  auto trace_with = [&](Shared<DimTable> dims, const OpenPattern::Sizes& sizes) -> OpenGraph {
    PutBack put_back(key.leaves);
    body.walk_arguments(put_back);
    Graph g = trace(body, names, open, dims.get(), sizes, where);
    return {std::move(g), std::move(dims)};
  };
  if (open.empty()) return trace_with(nullptr, {});
  std::vector<OpenPattern::Sizes> called;
  {
    const std::lock_guard lock(state_->mutex);
    for (const Shared<Trace>& t : state_->traces)
      if (t->open.count() == open.count() && !t->instances.empty()) called.push_back(t->instances[0]->sizes);
  }
  std::exception_ptr of_equal;
  std::string before;
  OpenPattern::Sizes tried;
  for (const OpenPattern::Sizes& sizes : likely_sizes(open, key.leaves, called)) {
    try {
      return trace_with(Shared<DimTable>::make(), sizes);
    } catch (const Error& e) {
      const bool is_equal = std::all_of(sizes.begin(), sizes.end(), [&](int64_t n) { return n == sizes[0]; });
      if (!of_equal && is_equal) of_equal = std::current_exception();
      const bool is_other = std::ranges::mismatch(tried, sizes, std::not_equal_to<>()).in1 == tried.end();
      if (e.what() == std::exchange(before, e.what()) && is_other) break;  // the same again: sizes are not the cause
      tried = sizes;
    }
  }
  std::rethrow_exception(of_equal);
}

std::vector<std::string> FunctionCore::argument_names() const {
  std::vector<std::string> names;
  for (const ArgSpec& a : options_.signature) names.push_back(a.name);
  return names;
}

// --- Making what a call needs ----------------------------------------------------------------------------------------

namespace {
template <class Entry>
void drop_least_used(std::vector<Shared<Entry>>& entries, int most) {
  if (entries.size() > size_t(std::max(1, most)))
    entries.erase(
        std::min_element(entries.begin(), entries.end(), [](auto& a, auto& b) { return a->last_used < b->last_used; }));
}
}  // namespace

namespace {
// A trainable variable that the graph reads and that was made since `first` was the next id, or null.
// (Optimizers make others, which are not trainable.)
const VariableState* made_since(const Graph& g, uint64_t first) {
  for (const GraphInput& in : g.inputs)
    if (in.kind == GraphInput::Kind::variable && in.variable->id >= first && in.variable->trainable)
      return in.variable.get();
  return nullptr;
}
}  // namespace

// Makes a trace for this call and for all others that its pattern covers. The cache gets an entry only if all succeeds.
Shared<FunctionCore::Trace> FunctionCore::make_trace(Body& body, const FunctionKey& key, const OpenPattern& open,
                                                     const Where& where) {
  PutBack put_back(key.leaves), put_back_again(key.leaves);
  body.walk_arguments(put_back);
  auto t = Shared<Trace>::make();
  if (!open.empty()) t->dims = std::make_shared<DimTable>();
  t->freezes = freeze_count;
  uint64_t first = VariableState::next_id();
  auto trace_now = [&] { return trace(body, argument_names(), open, t->dims.get(), open.sizes_of(key.leaves), where); };
  Graph graph = trace_now();
  if (made_since(graph, first)) {
    // A first call may create Variables that later calls reuse. A second trace shows whether they do.
    first = VariableState::next_id();
    if (t->dims) t->dims = std::make_shared<DimTable>();
    body.walk_arguments(put_back_again);
    graph = trace_now();
    if (const VariableState* again = made_since(graph, first)) Tracer::fail_created_each_call(*again, name_, where);
  }
  t->prototype = body.take_prototype();
  const auto watch = [&](const Shared<VariableState>& v) {
    t->watched.push_back({v, v->trains(), v->spec.dtype, v->spec.device});
  };
  for (const GraphInput& in : graph.inputs)
    if (in.kind == GraphInput::Kind::variable) watch(in.variable);
  for (const GraphAssign& a : graph.assigns) watch(a.variable);
  t->traced_nodes = graph.nodes().size();
  t->key = key;
  for (size_t i = 0; i < key.leaves.size(); ++i) t->key.leaves[i] = make_stand_in(key.leaves[i].spec());
  t->open = open;
  t->traced = std::move(graph);
  return t;
}

Shared<FunctionCore::Instance> FunctionCore::make_instance(Trace& t, const FunctionKey& key) {
  auto instance = Shared<Instance>::make();
  if (t.open.empty()) {
    instance->graph = std::make_shared<GraphCall>(std::move(t.traced));
    t.traced = Graph();
  } else {
    t.serves(key, instance->sizes);
    instance->graph = std::make_shared<GraphCall>(instantiate(t.traced, *t.dims, instance->sizes));
  }
  instance->variables = VariableSet(instance->graph->graph());
  instance->prototype = t.prototype;
  return instance;
}

Shared<FunctionCore::Instance> FunctionCore::keep(const Shared<Trace>& t, Shared<Instance> instance,
                                                  const Where& where) {
  State& s = *state_;
  std::lock_guard lock(s.mutex);
  if (t->number == 0) {
    t->number = ++s.traced;
    if (t->reason.empty())
      t->reason = !s.latest                        ? std::string("first call")
                  : !s.latest->watches_as_before() ? std::string("a Variable was frozen, unfrozen, cast or moved")
                                                   : difference(t->key, s.latest->key, options_.signature);
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

// Its key has the open sizes already, so the first call of each size makes an instance.
void FunctionCore::Trace::adopt(FunctionCore& core, const Shared<Trace>& t, const Where& where) {
  if (t->open.empty()) {
    core.keep(t, core.make_instance(*t, t->key), where);
    return;
  }
  State& s = *core.state_;
  const std::lock_guard lock(s.mutex);
  t->number = ++s.traced;
  s.traces.push_back(t);
}

// Serves a call that no instance fits: instantiates an open trace for these sizes, or makes a new open trace, or a
// trace for these sizes alone.
Shared<FunctionCore::Instance> FunctionCore::make(Body& body, const FunctionKey& key, const Where& where) {
  State& s = *state_;
  std::lock_guard one_at_a_time(s.tracing);
  std::string reason;  // why these sizes need their own trace
  std::vector<Shared<Trace>> candidates;
  OpenPattern open;
  {
    std::lock_guard lock(s.mutex);
    if (auto hit = find(key)) return hit;  // another thread made it meanwhile
    OpenPattern::Sizes sizes;
    for (const auto& t : s.traces)
      if (!t->open.empty() && t->watches_as_before() && t->serves(key, sizes)) candidates.push_back(t);
    open = wanted_pattern(key);
    for (const auto& t : s.refused)
      if (!open.empty() && t->serves(key, sizes)) {
        reason = t->reason;
        open = OpenPattern();
      }
  }
  for (const auto& t : candidates) try {
      return keep(t, make_instance(*t, key), where);
    } catch (const NotOpen& e) {
      reason = e.what();
    }
  if (!reason.empty()) warn_about_guards(reason);
  auto kept = [&](const OpenPattern& pattern) {
    auto t = make_trace(body, key, pattern, where);
    auto instance = make_instance(*t, key);
    if (!reason.empty()) t->reason = "the sizes are others: " + reason;
    notify_traced(instance->graph->graph());
    return keep(t, std::move(instance), where);
  };
  if (!open.empty()) try {
      return kept(open);
    } catch (const NotOpen& e) {
      reason = e.what();
      refuse(key, open, reason);
    }
  return kept({});
}

// The sizes to leave open for a call with this key.
OpenPattern FunctionCore::wanted_pattern(const FunctionKey& key) {
  OpenPattern::Mask mask;
  if (!options_.signature.empty()) {
    for (const ArgSpec& a : options_.signature) {
      mask.emplace_back();
      for (int64_t d : a.spec.shape) mask.back().push_back(d == open_size);
    }
  } else if (options_.relax_shapes) {
    mask = sizes_that_change(state_->histories, key);
  }
  return OpenPattern(std::move(mask));
}

// The pattern fails even for the sizes of this call.
void FunctionCore::refuse(const FunctionKey& key, const OpenPattern& tried, const std::string& reason) {
  auto t = Shared<Trace>::make();
  t->key = key;
  for (Tensor& leaf : t->key.leaves) leaf = make_stand_in(leaf.spec());
  t->open = tried;
  t->reason = reason;
  {
    constexpr size_t most = 64;  // as in sizes_that_change
    std::lock_guard lock(state_->mutex);
    std::vector<Shared<Trace>>& refused = state_->refused;
    if (refused.size() == most) refused.erase(refused.begin());
    refused.push_back(std::move(t));
  }
  warn_about_guards(reason);
}

void FunctionCore::warn_about_guards(const std::string& reason) {
  {
    std::lock_guard lock(state_->mutex);
    if (std::exchange(state_->warned_refusal, true)) return;
  }
  std::fprintf(stderr, "rill: warning: function '%s' is traced again for other sizes: %s\n", name_.c_str(),
               reason.c_str());
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

}  // namespace rill
