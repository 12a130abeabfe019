// FunctionCore: a call of a traced function. It walks its arguments into a FunctionKey, looks up the instance for it
// (the last one used is tried first), collects the graph's inputs and runs it. When there is none, make() is called
// (function_traces.cpp).
#include "rill/trace/function.h"

#include <fmt/format.h>

#include <optional>

#include "rill/devices/registry.h"
#include "rill/ops/call_replay.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/ops.h"
#include "rill/ops/run_watch.h"
#include "rill/tensor/limits.h"
#include "rill/tensor/text.h"
#include "rill/trace/call/function_state.h"

namespace rill {

namespace {
void require_sound(std::string_view op, const Spec& s, const Where& where) {
  require_dtype(op, s.dtype, where);
  for (Dim size : s.shape)
    if (size < 0 && size != open_size)
      fail(op, fmt::format("a size of {} makes no sense. give 0 or more, or `any` for a size that is left open", size),
           where);
}

FunctionOptions checked(const std::string& name, FunctionOptions options, const Where& where) {
  if (options.max_traces < 1)
    fail(name, fmt::format("max_traces is {}. it must be 1 or more", options.max_traces), where);
  for (const ArgSpec& a : options.signature) require_sound(name, a.spec, where);
  return options;
}
}  // namespace

ArgSpec spec(DType dtype, const Shape& shape, std::string name, MaybeDevice device, Where where) {
  ArgSpec made{Spec{shape, dtype, false, device.value_or(default_device())}, std::move(name)};
  require_sound("spec", made.spec, where);
  return made;
}

FunctionCore::FunctionCore(std::string name, FunctionOptions options, const Where& where)
    : name_(std::move(name)),
      options_(checked(name_, std::move(options), where)),
      made_(caller_or(where)),
      state_(new State) {}
FunctionCore::~FunctionCore() { delete state_; }

bool FunctionCore::runs_now() {
  const EnclosingTrace* now = EnclosingTrace::now();
  return !now || now->runs_now();
}

Where FunctionCore::place(const Where& where) const { return to_string(where).empty() ? made_ : where; }

// --- The cache -------------------------------------------------------------------------------------------------------

// Called with the mutex held.
Shared<FunctionCore::Instance> FunctionCore::find(const FunctionKey& key) {
  State& s = *state_;
  OpenPattern::Sizes sizes;
  auto look = [&](const Shared<Trace>& t) -> Shared<Instance> {
    if (!t->watches_as_before() || !t->serves(key, sizes)) return nullptr;
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
  if (leaves.size() != options_.signature.size())
    fail(name_,
         fmt::format("the arguments hold {}, and the signature has {} ({}). give it one for each tensor",
                     counted(int64_t(leaves.size()), "tensor"), counted(int64_t(options_.signature.size()), "spec"),
                     wanted),
         place(where));
  bool fits = true;
  for (const Tensor& t : leaves) require_defined(name_, t, "an argument", place(where));
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
         place(where));
}

void detail::fail_moved_function(const Where& where) {
  fail("function",
       "the function holds no callable: it was moved from, or made without one. assign what function(...) gives, or a "
       "copy, which shares the traces",
       where);
}

void detail::require_unwritten(const std::string& before, const std::string& after) {
  if (before == after) return;
  fail("function",
       "the callable writes to an argument that it takes by reference, which no later call would do. take it by value "
       "or by const reference, and return what is new; keep what changes from call to call in a Variable");
}

// --- Calling ---------------------------------------------------------------------------------------------------------

namespace {

// Whether it is undefined, or belongs to a trace that is not this thread's.
const Tensor* first_unusable(const std::vector<Tensor>& leaves) {
  const EnclosingTrace* now = EnclosingTrace::now();
  for (const Tensor& t : leaves)
    if (!t.rep() || (t.rep()->trace && !(now && now->sees(t)) && !compute_delayed(t))) [[unlikely]]
      return &t;
  return nullptr;
}

// Under vmap, Variables are read and assigned as by single ops.
std::vector<Tensor> call_on_rows(GraphCall& call, std::vector<Tensor> in, const Where& where) {
  const Graph& g = call.graph();
  for (size_t k = 0; k < in.size(); ++k)
    if (g.inputs[k].kind == GraphInput::Kind::variable) in[k] = Variable(g.inputs[k].variable).value();
  const std::vector<Tensor> results = call.call(in, where);
  for (size_t k = 0; k < g.assigns.size(); ++k) Variable(g.assigns[k].variable).assign(results[g.outputs.size() + k]);
  return {results.begin(), results.begin() + long(g.outputs.size())};
}

}  // namespace

std::vector<Tensor> gather_inputs(const Graph& g, std::vector<Tensor>& arguments) {
  std::vector<Tensor> in(g.inputs.size());
  for (size_t k = 0; k < in.size(); ++k) {
    const GraphInput& i = g.inputs[k];
    if (i.kind == GraphInput::Kind::argument) in[k] = std::move(arguments[size_t(i.argument)]);
    else if (i.kind == GraphInput::Kind::captured) in[k] = i.captured;
    if (i.kind == GraphInput::Kind::captured && in[k].is_symbolic() && executing_eagerly() && !compute_delayed(in[k]))
        [[unlikely]]
      fail_foreign(g.name, "a captured tensor", in[k], Where());
  }
  return in;
}

std::vector<Tensor> FunctionCore::call(Body& body, Shared<const void>& prototype, const Where& where) {
  FunctionKey key;
  ReadKey read(key);
  body.walk_arguments(read);
  key.device = default_device();
  if (const Tensor* wrong = first_unusable(key.leaves)) [[unlikely]] {
    require_defined(name_, *wrong, "an argument", place(where));
    fail_foreign(name_, "an argument", *wrong, place(where));
  }
  check_signature(key.leaves, where);
  Shared<Instance> hit;
  {
    std::lock_guard lock(state_->mutex);
    hit = find(key);
  }
  if (!hit) hit = make(body, key, where);
  prototype = hit->prototype;
  const Graph& g = hit->graph->graph();
  std::vector<Tensor> in = gather_inputs(g, key.leaves);
  if (!executing_eagerly()) return call_on_rows(*hit->graph, std::move(in), where);
  VariableCall variables(hit->variables, in);
  variables.read();
  std::vector<Tensor> results;
  std::optional<WatchedCall> called;
  if (runs_are_watched()) [[unlikely]]
    called.emplace(name_, place(where));
  try {
    results = hit->graph->call(in, where);
  } catch (const Error& e) {
    if (*e.what() != '[') throw;
    fail_placed(e.what(), place(where));
  }
  variables.assign(std::span(results).subspan(g.outputs.size()));
  results.resize(g.outputs.size());
  return results;
}

int FunctionCore::trace_count() const {
  std::lock_guard lock(state_->mutex);
  return state_->traced;
}

std::string FunctionCore::explain() const {
  std::lock_guard lock(state_->mutex);
  std::string text = fmt::format("function '{}': {}\n", name_, counted(state_->traced, "trace"));
  for (const auto& t : state_->traces) {
    text += fmt::format("  trace {} for {}: {}\n", t->number, print_specs(t->key.leaves), t->reason);
    if (t->dims)
      for (const DimTable::Guard& g : t->dims->guards()) text += "   only where " + t->dims->text(g) + "\n";
    for (const auto& i : t->instances) {
      if (!t->open.empty()) {
        std::vector<Tensor> leaves;
        for (size_t k = 0; k < t->key.leaves.size(); ++k)
          leaves.push_back(
              make_stand_in(t->open.with_sizes(t->key.leaves[k].spec(), k, Dims(i->sizes.begin(), i->sizes.end()))));
        text += fmt::format("   sizes {}:\n", print_specs(leaves));
      }
      text += fmt::format("    {} traced, {} kept\n", counted(int64_t(t->traced_nodes), "node"),
                          i->graph->graph().nodes().size());
      text += i->graph->tiers().describe("    ");
    }
  }
  return text;
}

}  // namespace rill
