// Writing dumps. A DumpScope is the RunWatcher of its thread: it sees the calls, and the values inside them, and passes
// events to the DumpFiles of its folder. Start at DumpScope::Impl::has.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>

#include "rill/ops/apply.h"
#include "rill/ops/names.h"
#include "rill/ops/op.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/run_watch.h"
#include "rill/serialize/debugger.h"
#include "rill/serialize/debugger/dump_files.h"
#include "rill/serialize/save.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/tensor/per_thread.h"
#include "rill/trace/graph/graph_names.h"

namespace rill::debug {

namespace {

bool fits_any(std::string_view text, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return true;
  for (const std::string& p : patterns)
    if (path_matches(text, p)) return true;
  return false;
}

// The open dumps of this thread. Each sees everything that runs, and they end in any order: two debuggers of a run are
// notified one after the other that a step has ended.
class OpenDumps final : public RunWatcher {
 public:
  static OpenDumps& here() {
    static thread_local constinit PerThread<OpenDumps> dumps;
    return *dumps;
  }
  void add(RunWatcher& dump) {
    all_.push_back(&dump);
    if (!watch_) watch_.emplace(*this);
  }
  void remove(const RunWatcher& dump) {
    std::erase(all_, &dump);
    if (all_.empty()) watch_.reset();
  }

  void ran(const Op& op, Operands in, std::span<const Tensor> out, const Where& where) override {
    each([&](RunWatcher& d) { d.ran(op, in, out, where); });
  }
  void begins(const Graph& g, std::span<const Tensor> inputs) override {
    each([&](RunWatcher& d) { d.begins(g, inputs); });
  }
  void begins_node(const Graph& g, int32_t node) override {
    each([&](RunWatcher& d) { d.begins_node(g, node); });
  }
  void has(const Graph& g, int32_t node, std::span<const Tensor* const> out) override {
    each([&](RunWatcher& d) { d.has(g, node, out); });
  }
  void ends(const Graph& g, std::span<const Tensor> results) override {
    each([&](RunWatcher& d) { d.ends(g, results); });
  }

 private:
  template <class F>
  void each(const F& f) {
    for (size_t i = 0; i < all_.size(); ++i) f(*all_[i]);  // a condition may open one
  }
  std::vector<RunWatcher*> all_;
  std::optional<WatchScope> watch_;
};

}  // namespace

struct Dumper::Impl {
  Impl(std::string f, DumpOptions o, Where w) : folder(std::move(f)), options(std::move(o)), where(w) {}
  std::string folder;
  DumpOptions options;
  Where where;
  ForkMutex mutex;
  std::optional<DumpFiles> files;
  int64_t next_step = 0;

  DumpFiles& opened() {
    if (!files) files.emplace(folder, options.sources, where);
    return *files;
  }
};

Dumper::Dumper(std::string folder, DumpOptions options, Where where) {
  require_option(options.largest >= 0, "debug::dump", "largest", options.largest, "0 or more", where);
  if (folder.empty()) fail("debug::dump", "the name of the folder is empty", where);
  impl_ = std::make_shared<Impl>(std::move(folder), std::move(options), caller_or(where));
}
bool Dumper::wants(int64_t step) const {
  const std::vector<int64_t>& steps = impl_->options.steps;
  return steps.empty() || std::find(steps.begin(), steps.end(), step) != steps.end();
}
const std::string& Dumper::folder() const& { return impl_->folder; }

// --- A step ----------------------------------------------------------------------------------------------------------

struct DumpScope::Impl final : RunWatcher {
  Impl(std::shared_ptr<Dumper::Impl> d, int64_t s) : dumper(std::move(d)), options(dumper->options), step(s) {}
  ~Impl() { OpenDumps::here().remove(*this); }

  // A graph that runs, inside the one before it in the list.
  struct Running {
    const KnownGraph* known;  // null: it is not dumped
    int32_t node = -1;
    int64_t call = 0;
    std::vector<int64_t> inputs = {};
  };

  void ran(const Op& op, Operands in, std::span<const Tensor> out, const Where& where) override {
    if (!options.functions.empty() || (!running.empty() && !running.back().known)) return;
    const UnwatchedScope unwatched;
    const std::lock_guard lock(dumper->mutex);
    DumpFiles& files = dumper->opened();
    proto::Execution e;
    e.set_op_type(std::string(op.name));
    e.set_num_outputs(int32_t(out.size()));
    for (const Tensor* t : in) e.add_input_tensor_ids(int64_t(t->rep()->id));
    const int64_t call = files.next_call();
    if (!add_outputs(files, e, out, op.name)) return;
    *e.mutable_code_location() = files.place(place_of(where), called_function(), where);
    write(DumpFiles::execution, files.event(step, call, std::move(e)));
  }

  void begins(const Graph& g, std::span<const Tensor> inputs) override {
    const bool inner = !running.empty();
    Running r{nullptr};
    const bool wanted = inner ? running.back().known != nullptr : fits_any(g.name, options.functions);
    if (!wanted) return running.push_back(r);
    const UnwatchedScope unwatched;
    const std::lock_guard lock(dumper->mutex);
    DumpFiles& files = dumper->opened();
    r.known = &files.known(g, inner ? running.back().known : nullptr, inner ? running.back().node : -1);
    r.call = inner ? running.back().call : files.next_call();
    for (size_t k = 0; k < g.inputs.size(); ++k) {
      if (g.inputs[k].kind == GraphInput::Kind::argument) r.inputs.push_back(int64_t(inputs[k].rep()->id));
      add_trace(files, g, r, g.inputs[k].node, 0, inputs[k]);
    }
    running.push_back(std::move(r));
  }

  // Graphs that ran before the scope began are unknown: a callback in one opened the scope.
  void begins_node(const Graph&, int32_t node) override {
    if (!running.empty()) running.back().node = node;
  }

  void has(const Graph& g, int32_t node, std::span<const Tensor* const> out) override {
    if (running.empty() || !running.back().known) return;
    const Running& r = running.back();
    const UnwatchedScope unwatched;
    const std::lock_guard lock(dumper->mutex);
    for (size_t k = 0; k < out.size(); ++k)
      if (out[k]->defined()) add_trace(dumper->opened(), g, r, node, int(k), *out[k]);
  }

  void ends(const Graph& g, std::span<const Tensor> results) override try {
    if (running.empty()) return;
    const Running r = std::move(running.back());
    running.pop_back();
    const bool by_error = results.size() < g.outputs.size() + g.assigns.size();
    if (!r.known || !running.empty() || by_error) return;
    const UnwatchedScope unwatched;
    const std::lock_guard lock(dumper->mutex);
    DumpFiles& files = dumper->opened();
    proto::Execution e;
    e.set_op_type(g.name);
    e.set_graph_id(r.known->id);
    for (const int64_t id : r.inputs) e.add_input_tensor_ids(id);
    const size_t count = g.outputs.size();
    e.set_num_outputs(int32_t(count));
    e.set_tensor_debug_mode(proto::NO_TENSOR);  // its values are those of nodes
    for (size_t k = 0; k < count; ++k) e.add_output_tensor_ids(int64_t(results[k].rep()->id));
    const WatchedCall* call = WatchedCall::now();
    const Where where = call ? call->where : dumper->where;
    *e.mutable_code_location() = files.place(to_string(where), g.name, where);
    write(DumpFiles::execution, files.event(step, r.call, std::move(e)));
  } catch (...) {
    if (!failed) failed = std::current_exception();
  }

  // Whether the patterns and the condition select a value.
  bool is_selected(const DumpedTensor& t) {
    if (!fits_any(t.op, options.ops) || !fits_any(t.scope, options.scopes) || !fits_any(t.node, options.nodes))
      return false;
    if (!options.when) return true;
    const bool meets = options.when(t);
    matched |= meets;
    return meets || !options.matching_only;
  }

  void add_trace(DumpFiles& files, const Graph& g, const Running& r, int32_t node, int output, const Tensor& value) {
    const NodeName& name = r.known->names[size_t(node)];
    if (value.is_symbolic()) return;  // of a trace that is being made
    const Health health = health_of(value);
    const Node& n = g.nodes()[size_t(node)];
    if (!is_selected({name.id, n.op_name(), name.scope, output, step, value, health})) return;
    proto::GraphExecutionTrace t;
    t.set_tfdbg_context_id(r.known->id);
    t.set_op_name(name.id);
    t.set_output_slot(output);
    t.set_device_name(to_string(value.device()));
    const int64_t id = r.known->ids[size_t(node)] + output;
    t.set_tensor_debug_mode(fill(files, *t.mutable_tensor_proto(), *t.mutable_health(), value, health, id));
    write(DumpFiles::traces, files.event(step, r.call, std::move(t)));
  }

  // Adds all of them if one is selected, for an Execution does not index its outputs.
  bool add_outputs(DumpFiles& files, proto::Execution& e, std::span<const Tensor> out, std::string_view op) {
    std::vector<Health> health;
    bool any = out.empty();
    for (size_t k = 0; k < out.size(); ++k) {
      if (out[k].is_symbolic()) return false;
      health.push_back(health_of(out[k]));
      any |= is_selected({op, op, current_scope(), int(k), step, out[k], health[k]});
    }
    for (size_t k = 0; any && k < out.size(); ++k) {
      const auto id = int64_t(out[k].rep()->id);
      e.add_output_tensor_ids(id);
      e.add_output_tensor_device_ids(files.device(out[k].device()));
      e.set_tensor_debug_mode(fill(files, *e.add_tensor_protos(), *e.add_health(), out[k], health[k], id));
    }
    return any;
  }

  // Elements are in a field of ours, not a FULL_TENSOR: TensorBoard's monitor for NaNs then takes a lock that it
  // already holds, in TensorFlow 2.21, and the page never shows anything.
  proto::TensorDebugMode fill(DumpFiles& files, proto::TensorProto& p, proto::RillHealth& more, const Tensor& value,
                              const Health& health, int64_t id) {
    fill_health(more, value, health);
    if (options.tensors && value.size() * int64_t(size_of(value.dtype())) <= options.largest) {
      *more.mutable_elements() = to_proto(value);
    } else if (options.tensors) {
      more.set_file(files.write_tensor(value));
      beside.push_back(more.file());
    }
    return fill_summary(p, value, health, id, files.device(value.device()));
  }

  void write(DumpFiles::Kind kind, proto::DebugEvent event) {
    std::string bytes = bytes_of(event, "debug::dump", dumper->where);
    if (options.when) waiting.emplace_back(kind, std::move(bytes));
    else dumper->opened().write(kind, bytes);
  }

  bool end() {
    if (ended) return kept;
    ended = true;
    const std::lock_guard lock(dumper->mutex);
    kept = !options.when || matched;
    if (!dumper->files) return kept;
    for (const auto& [kind, bytes] : waiting)
      if (kept) dumper->files->write(kind, bytes);
    std::error_code ignored;
    for (const std::string& file : beside)
      if (!kept) std::filesystem::remove(std::filesystem::path(dumper->folder) / file, ignored);
    waiting.clear();
    dumper->files->flush();
    if (failed) std::rethrow_exception(failed);
    return kept;
  }

  const std::shared_ptr<Dumper::Impl> dumper;
  const DumpOptions& options;
  const int64_t step;
  std::vector<Running> running;
  std::vector<std::pair<DumpFiles::Kind, std::string>> waiting;  // until the condition is met
  std::vector<std::string> beside;                               // files that were written meanwhile
  bool matched = false, kept = false, ended = false;
  std::exception_ptr failed;
};

DumpScope::DumpScope(const Dumper& dumper, std::optional<int64_t> step, Where where) {
  if (!executing_eagerly())
    fail("debug::dump", "a function that is being traced computes nothing that could be dumped. dump its calls", where);
  const std::lock_guard lock(dumper.impl_->mutex);
  if (!step) step = dumper.impl_->next_step++;
  impl_ = std::make_unique<Impl>(dumper.impl_, *step);
  dumper.impl_->opened();
  if (dumper.wants(*step)) OpenDumps::here().add(*impl_);
}
DumpScope::~DumpScope() {
  if (!impl_) return;
  try {
    close();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rill: the dump is not whole: %s\n", e.what());
  }
}
bool DumpScope::close(Where) {
  OpenDumps::here().remove(*impl_);
  return impl_->end();
}

}  // namespace rill::debug
