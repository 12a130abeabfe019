// Control-flow nodes: running them. Their gradients are in control_gradients.cpp.
#include "rill/trace/control/control_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "rill/devices/registry.h"
#include "rill/ops/ops.h"
#include "rill/trace/control/batched_control.h"
#include "rill/trace/control/control_gradients.h"
#include "rill/trace/control/control_tangents.h"
#include "rill/trace/control/kept_values.h"
#include "rill/trace/graph/tracer.h"

namespace rill {

namespace {
std::atomic<int64_t> next_number{1};
}

InnerGraph::InnerGraph(std::string r, Graph g) : role(std::move(r)), graph(std::move(g)), number(next_number++) {}

std::vector<Tensor> InnerGraph::run(std::span<const Tensor> in) const {
  std::vector<Tensor> results;
  run(in, results);
  return results;
}

namespace {
void run_ready(const Executable& ready, std::span<const Tensor> in, std::vector<Tensor>& results,
               const Executable::Packs* packs) {
  results.resize(ready.result_count());
  if (const Executable::Note* note = Executable::note_now()) ready.run_timed(in, results, *note, packs);
  else ready.run(in, results, packs);
}
}  // namespace

void InnerGraph::run(std::span<const Tensor> in, std::vector<Tensor>& results) const {
  run_ready(call().executable(), in, results, nullptr);
}

void InnerGraph::Steps::run(std::span<const Tensor> in, std::vector<Tensor>& results) {
  constexpr int worth_packing = 3;
  const Executable& ready = graph_.call().executable();
  if (steps_ < worth_packing) return ++steps_, run_ready(ready, in, results, nullptr);
  if (std::exchange(packed_for_, &ready) != &ready) packs_ = ready.packs_for(first_fixed_);
  run_ready(ready, in, results, packs_.empty() ? nullptr : &packs_);
}

const GraphCall& InnerGraph::call() const {
  if (const GraphCall* made = if_made()) return *made;
  const std::lock_guard hold(making_);
  if (!call_) call_ = std::make_shared<GraphCall>(graph);
  made_.store(call_.get(), std::memory_order_release);
  return *call_;
}

InnerGraph::Variant InnerGraph::variant(const std::string& key, const std::function<Variant()>& make) const {
  const std::lock_guard hold(mutex_);
  if (const auto at = variants_.find(key); at != variants_.end()) return at->second;
  return variants_[key] = make();
}

Spec row_spec(Spec stacked) {
  stacked.shape = Shape(stacked.shape.begin() + 1, stacked.shape.end());
  return stacked;
}
Spec stacked_spec(Spec row, Dim n) {
  row.shape.insert(0, n);
  return row;
}

std::string inner_name(const std::string& role) {
  const EnclosingTrace* outer = EnclosingTrace::now();
  return outer ? outer->name() + "/" + role : role;
}

std::string ControlAttrs::names() const {
  std::string text;
  for (const auto& g : graphs) text += fmt::format("{}{}#{}", text.empty() ? "" : ",", g->role, g->number);
  return text;
}

namespace {

std::vector<std::pair<std::string, const Graph*>> graphs_of(AttrsView attrs) {
  std::vector<std::pair<std::string, const Graph*>> all;
  for (const auto& g : attrs.as<ControlAttrs>().graphs) all.emplace_back(g->role, &g->graph);
  return all;
}

OutSpecs infer_recorded(const InferArgs& args) {
  const std::vector<Spec>& outputs = args.attrs.as<ControlAttrs>().outputs;
  return OutSpecs(outputs.begin(), outputs.end());
}

std::vector<Tensor> copies_of(Operands in) {
  std::vector<Tensor> all;
  for (const Tensor* t : in) all.push_back(*t);
  return all;
}

// --- Branches --------------------------------------------------------------------------------------------------------

Tensors call_branch(Operands in, AttrsView attrs, size_t branch) {
  std::vector<Tensor> out = attrs.as<ControlAttrs>().graphs[branch]->run(copies_of(in.subspan(1)));
  return Tensors(out.begin(), out.end());
}

Tensors call_cond(Operands in, AttrsView attrs) { return call_branch(in, attrs, in[0]->item<bool>() ? 0 : 1); }

// The last branch also serves every index that has none of its own.
Tensors call_switch(Operands in, AttrsView attrs) {
  size_t last = attrs.as<ControlAttrs>().graphs.size() - 1;
  int64_t index = in[0]->item<int64_t>();
  return call_branch(in, attrs, index < 0 || size_t(index) > last ? last : size_t(index));
}

// --- Loops -----------------------------------------------------------------------------------------------------------

// Row `i` of a tensor, an alias.
Tensor row(const Tensor& t, int64_t i) {
  Shape shape(t.shape().begin() + 1, t.shape().end());
  Strides strides(t.strides().begin() + 1, t.strides().end());
  return make_view(t, std::move(shape), std::move(strides), i * t.strides()[0]);
}

// Tensors stacked on a first axis, filled row by row.
class Rows {
 public:
  explicit Rows(std::span<const Spec> specs) {
    for (const Spec& s : specs) stacked_.push_back(empty_tensor(s));
  }
  // Row `i` of tensor `k`, for a step to compute it there. None where rows do not begin at cache lines, as kernels that
  // write past the caches want.
  Tensor place(int64_t i, size_t k) const {
    const Tensor& t = stacked_[k];
    const bool fits = t.dtype() != DType::string && t.size() / t.shape()[0] * int64_t(size_of(t.dtype())) % 64 == 0;
    return fits ? row(t, i) : Tensor();
  }
  // Copies what is not there already.
  void put(int64_t i, std::span<const Tensor> values) {
    for (size_t k = 0; k < stacked_.size(); ++k) {
      Tensor to = row(stacked_[k], i);
      if (values[k].rep()->data != to.rep()->data) copy_elements(values[k], to);
    }
  }
  bool holds(const Tensor& value) const {
    const auto shares = [&](const Tensor& t) { return t.rep()->buffer.get() == value.rep()->buffer.get(); };
    return std::any_of(stacked_.begin(), stacked_.end(), shares);
  }
  // Zeros in rows that no step has filled. No op makes them: a trace or a tape that is active here would take its call
  // for one of the program's.
  void clear(int64_t first, int64_t last) {
    for (Tensor& t : stacked_) {
      if (first >= last || t.size() == 0 || t.dtype() == DType::string) continue;
      Shape shape = t.shape();
      shape[0] = last - first;
      Tensor rows = make_view(t, shape, Strides(t.strides()), first * t.strides()[0]);
      Tensor zero = empty_tensor(Spec{{}, t.dtype(), false, Device()});
      std::memset(zero.mutable_rep()->data, 0, size_of(t.dtype()));
      copy_elements(make_view(zero, shape, Strides(shape.size(), 0), 0), rows);
    }
  }
  void append_to(Tensors& out) const {
    for (const Tensor& t : stacked_) out.push_back(t);
  }

 private:
  std::vector<Tensor> stacked_;
};

// Carried tensors move from a step's results to the next one's arguments; nothing is copied.
void take_carried(std::vector<Tensor>& arguments, std::vector<Tensor>& results, size_t first, size_t carried) {
  for (size_t k = 0; k < carried; ++k) arguments[k] = std::move(results[first + k]);
}

// Never the operands themselves, which a loop without a step would give: tapes must tell them apart. Nor rows of what
// is stacked, which would keep all of it.
Tensors carried_out(const std::vector<Tensor>& arguments, size_t carried, bool stepped,
                    std::initializer_list<const Rows*> stacks) {
  Tensors out;
  for (size_t k = 0; k < carried; ++k) {
    const Tensor& t = arguments[k];
    const bool is_row = std::any_of(stacks.begin(), stacks.end(), [&](const Rows* rows) { return rows->holds(t); });
    out.push_back(!stepped ? make_alias(t) : is_row ? empty_tensor(t.spec()) : t);
    if (stepped && is_row) copy_elements(t, out.back());
  }
  return out;
}

Tensors call_while(Operands in, AttrsView view) {
  const ControlAttrs& a = view.as<ControlAttrs>();
  size_t carried = size_t(a.carried);
  std::vector<Tensor> arguments = copies_of(in.subspan(1)), results;
  Rows saved(a.saves ? std::span(a.outputs).subspan(carried + 1) : std::span<const Spec>());
  bool go_on = in[0]->item<bool>();
  InnerGraph::Steps body(*a.graphs[0], carried);
  int64_t steps = 0;
  for (; go_on && steps != a.length; ++steps) {
    if (a.saves) saved.put(steps, arguments);
    results.assign(1 + carried, {});
    if (a.saves && steps + 1 < a.length)
      for (size_t k = 0; k < carried; ++k) results[1 + k] = saved.place(steps + 1, k);
    body.run(arguments, results);
    take_carried(arguments, results, 1, carried);
    go_on = results[0].item<bool>();
  }
  Tensors out = carried_out(arguments, carried, steps > 0, {&saved});
  if (!a.saves) return out;
  saved.clear(steps, a.length);
  out.push_back(tensor(steps, {.device = Device()}));
  saved.append_to(out);
  return out;
}

Tensors call_scan(Operands in, AttrsView view) {
  const ControlAttrs& a = view.as<ControlAttrs>();
  size_t carried = size_t(a.carried), scanned = size_t(a.scanned);
  int64_t steps = a.counted ? in[0]->item<int64_t>() : int64_t(a.length);
  if (steps < 0 || steps > a.length)
    fail("scan", fmt::format("{} steps over {} rows", steps, int64_t(a.length)), Where());
  Operands operands = in.subspan(a.counted ? 1 : 0);
  std::vector<Tensor> arguments = copies_of(operands), results;
  size_t ys = a.graphs[0]->graph.outputs.size() - carried;
  Rows stacked(std::span(a.outputs).subspan(carried, ys));
  Rows saved(std::span(a.outputs).subspan(carried + ys));
  InnerGraph::Steps body(*a.graphs[0], carried + scanned);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t i = a.reverse ? steps - 1 - step : step;
    for (size_t k = 0; k < scanned; ++k) arguments[carried + k] = row(*operands[carried + k], i);
    if (a.saves) saved.put(i, arguments);
    results.assign(carried + ys, {});
    for (size_t k = 0; k < ys; ++k) results[carried + k] = stacked.place(i, k);
    if (a.saves && step + 1 < steps)
      for (size_t k = 0; k < carried; ++k) results[k] = saved.place(a.reverse ? i - 1 : i + 1, k);
    body.run(arguments, results);
    stacked.put(i, std::span(results).subspan(carried));
    take_carried(arguments, results, 0, carried);
  }
  Tensors out = carried_out(arguments, carried, steps > 0, {&stacked, &saved});
  stacked.clear(steps, a.length);
  saved.clear(steps, a.length);
  stacked.append_to(out);
  saved.append_to(out);
  return out;
}

OpSpec control(std::string_view name, std::string_view doc, Tensors (*call)(Operands, AttrsView), Vjp vjp, Batch batch,
               std::string_view tensorflow) {
  return {.name = name,
          .doc = doc,
          .dtypes = every_set,
          .inputs = -1,
          .infer = infer_recorded,
          .vjp = vjp,
          .saves_in = save_all,
          .saves_out = save_all,
          .batch = batch,
          .call = call,
          .graphs = graphs_of,
          .exported = {"", tensorflow}};
}

}  // namespace

const Op cond_op(control("cond", "the results of the first graph where the first operand is true, else of the second",
                         call_cond, vjp_of_branches, batch_choice, "If"));
const Op switch_case_op(control("switch_case", "the results of the graph with that number, else of the last one",
                                call_switch, vjp_of_branches, batch_choice, "Case"));
const Op while_loop_op(control("while_loop", "runs a graph on what it gave before, while its first result is true",
                               call_while, vjp_of_while, batch_while, "While"));
const Op scan_op(control("scan", "runs a graph on what it gave before and on each row of xs; stacks what it gives",
                         call_scan, vjp_of_scan, batch_scan, ""));

// --- Applying --------------------------------------------------------------------------------------------------------

namespace {

// Further results: what the gradient of a scan reads of each step, and the carried tensors before each step.
void save_steps(const Op& op, Operands in, std::vector<bool> wanted, ControlAttrs& a) {
  a.saves = true;
  const size_t first = op.call == call_while || a.counted ? 1 : 0;
  const auto stacked = [&](const Spec& s) { a.outputs.push_back(stacked_spec(s, a.length)); };
  if (op.call == call_while) {
    a.outputs.push_back(Spec{{}, DType::i64, false, Device()});
  } else {
    wanted.erase(wanted.begin(), wanted.begin() + long(first));
    const size_t own = a.graphs[0]->graph.outputs.size();
    a.graphs = {keeping_values(a.graphs[0], wanted)};
    const Graph& g = a.graphs[0]->graph;
    for (size_t k = own; k < g.outputs.size(); ++k) stacked(g.spec(g.outputs[k]));
  }
  for (size_t k = 0; k < size_t(a.carried); ++k) stacked(in[first + k]->spec());
}

}  // namespace

int operand_of_input(const Op& op, const ControlAttrs& attrs, size_t graph, size_t input) {
  if (&op != &custom_gradient_op) return int(input) + (&op == &scan_op && !attrs.counted ? 0 : 1);
  const GraphInput& in = attrs.graphs[graph]->graph.inputs[input];
  const bool is_gradient = graph == 0;
  const int first_read = is_gradient ? 1 : attrs.carried;  // before it: the cotangent, or the arguments' tangents
  if (in.kind != GraphInput::Kind::argument || in.argument < first_read) return -1;
  return in.argument + (is_gradient ? attrs.carried : 1);
}

Tensors apply_control(const Op& op, Operands in, ControlAttrs attrs, const Where& where) {
  TapeListener* const innermost = innermost_watching(in);
  if (auto* along = dynamic_cast<ForwardAccumulator::Impl*>(innermost))
    return apply_with_tangents(op, in, attrs, *along, where);
  const bool loop = op.call == call_while || op.call == call_scan;
  if (loop && attrs.length >= 0 && !attrs.saves)
    if (std::vector<bool> wanted = watched(in); !wanted.empty()) save_steps(op, in, std::move(wanted), attrs);
  if (innermost && carried_outside(*innermost, in)) {
    // One node gives the tangents too; the tape has its entry as if there were none.
    Tensors out;
    {
      const ForwardAccumulator::Impl::Outside outside(*innermost);
      out = apply_control(op, in, attrs, where);
    }
    innermost->record(op, in, out, attrs, where);
    return out;
  }
  return apply(op, in, attrs, where);
}

Tensors apply_control(const Op& op, std::span<const Tensor> in, ControlAttrs attrs, const Where& where) {
  const auto operands = pointers(in);
  return apply_control(op, Operands(operands.data(), operands.size()), std::move(attrs), where);
}

}  // namespace rill
