// recompute: the function runs under a listener that records which values of the tape it reads. Its backward rule runs
// it again, under a tape of its own and with the values that its Variables had, so that both runs give the same bits.
// The values that a policy keeps are in kept_calls.h. In a trace the values are marked, and
// trace/graph/rematerialize.cpp computes them again.
#include "rill/autodiff/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_set>
#include <utility>

#include "rill/autodiff/forward_impl.h"
#include "rill/autodiff/kept_calls.h"
#include "rill/autodiff/tape_impl.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"

namespace rill::detail {

thread_local constinit TraceMarks trace_marks;

namespace {

// A value that the function reads from outside and that a tape watches: a tensor, or a variable.
struct Captured {
  Tensor tensor;
  Shared<VariableState> variable;
};

// Listens in place of the outer tape and notes which of its values the function reads.
class CaptureFinder final : public TapeListener {
 public:
  explicit CaptureFinder(std::span<TapeListener* const> outer) : outer_(outer) {}
  bool watches(const Tensor& t) const override {
    for (const TapeListener* tape : outer_)
      if (tape->watches(t)) return true;
    return false;
  }
  void record(const Op&, Operands in, std::span<Tensor>, AttrsView, const Where&) override { note(in); }
  void record_custom(Operands in, std::span<Tensor>, const CustomVjp&, const Where&) override {
    note(in);
    if (calls) calls->read(in);
  }
  void watch_variable(const Shared<VariableState>& v, Tensor& value) override {
    if (known_.count(v.get())) return;
    for (TapeListener* tape : outer_) tape->watch_variable(v, value);
    if (!watches(value)) return;
    known_.insert({v.get(), value.rep()});
    captured.push_back({value, v});
  }
  void note(Operands in) {
    for (const Tensor* t : in)
      if (watches(*t) && known_.insert(t->rep()).second) captured.push_back({*t, nullptr});
  }
  std::vector<Captured> captured;
  NoteCalls* calls = nullptr;

 private:
  std::unordered_set<const void*> known_;  // the tensors and variables in `captured`
  std::span<TapeListener* const> outer_;
};

// The values of Variables that the first run read. A run that starts from the same values and keeps its assignments to
// itself reads the same ones, eagerly, traced or for all rows at once, except for assignments by other threads.
struct Readings {
  struct Of {
    Shared<VariableState> variable;
    Tensor first = {};  // undefined: it was assigned before it was read
    size_t count = 0;   // of readings
    // By index of the reading, values that another thread had assigned.
    std::vector<std::pair<size_t, Tensor>> foreign = {};
    bool touched = false;
    Tensor now = {};  // the value of the next reading, unless another thread assigns
  };
  std::map<const VariableState*, Of> of;

  // Called after the last reading.
  void end() {
    for (auto& [v, each] : of) each.now = Tensor();
  }
  void append_to(std::vector<Tensor>& tensors) const {
    for (const auto& [v, each] : of) {
      if (each.first.defined()) tensors.push_back(each.first);
      for (const auto& [number, value] : each.foreign) tensors.push_back(value);
    }
  }
};

class NoteReadings final : public VariableNotes {
 public:
  NoteReadings(Readings& readings, VariableNotes* outer) : readings_(readings), outer_(outer) {}
  void was_read(const Shared<VariableState>& v, const Tensor& value) override {
    Readings::Of& of = known(v);
    if (!std::exchange(of.touched, true)) of.first = value;
    else if (!of.now.defined() || of.now.rep()->data != value.rep()->data) of.foreign.emplace_back(of.count, value);
    of.now = value;
    ++of.count;
    if (outer_) outer_->was_read(v, value);
  }
  void was_assigned(const Shared<VariableState>& v, const Tensor& value) override {
    Readings::Of& of = known(v);
    of.touched = true;
    of.now = value;
    if (outer_) outer_->was_assigned(v, value);
  }

 private:
  Readings::Of& known(const Shared<VariableState>& v) { return readings_.of.try_emplace(v.get(), v).first->second; }

  Readings& readings_;
  VariableNotes* const outer_;
};

class RepeatReadings final : public VariableAnswers {
 public:
  RepeatReadings(const Readings& readings, Listeners& outside, const Where& where)
      : readings_(readings), outside_(outside), where_(where) {}
  Tensor read(const Shared<VariableState>& v) override {
    const auto at = readings_.of.find(v.get());
    const Readings::Of* known = at == readings_.of.end() ? nullptr : &at->second;
    Now& now = now_[v.get()];
    const size_t number = now.readings++;
    if (v->id >= first_own_) now.value = now.value.defined() ? now.value : value_of(*v);
    else if (outside_.run_ops()) follow(*v, known, number, now);
    else if (known && !known->foreign.empty())
      fail("recompute",
           fmt::format("another thread assigned variable '{}' while the function ran first, and it runs again in a "
                       "traced function or for several rows, where its readings are not one by one. draw from a "
                       "random::Key, or let no other thread assign meanwhile",
                       v->name),
           where_);
    if (!now.value.defined()) now.value = known && known->first.defined() ? known->first : read_outside(v);
    return outside_.trace ? outside_.trace->as_reading(v, now.value) : now.value;
  }
  void assign(const Shared<VariableState>& v, const Tensor& value) override { now_[v.get()].value = value; }

 private:
  struct Now {
    Tensor value;
    size_t readings = 0;
  };
  // If ops run: reading by reading.
  void follow(const VariableState& v, const Readings::Of* known, size_t number, Now& now) const {
    if (!known || number >= known->count)
      fail("recompute",
           "the function reads variable '" + v.name +
               "' more often than when it ran first. it must do the same each time",
           where_);
    for (const auto& [k, value] : known->foreign)
      if (k == number) now.value = value;
  }
  // Values that the first run did not read, for they are in a branch that was not taken.
  Tensor read_outside(const Shared<VariableState>& v) const {
    const ListenersScope outside(&outside_);
    return Variable(v).value();
  }

  const Readings& readings_;
  Listeners& outside_;
  const Where where_;
  const uint64_t first_own_ = VariableState::next_id();  // later ids are of Variables that this run creates
  std::map<const VariableState*, Now> now_;
};

using Recomputed = Callback<std::vector<Tensor>(std::span<const Tensor>)>;

// The state of the backward rule.
struct Run {
  Recomputed f;
  std::vector<Tensor> arguments;
  std::vector<Captured> captured;
  Readings readings;
  Where where;
  std::vector<KnownCall> calls = {};  // if something is kept
  size_t results = 0;                 // the number of f's results
  std::vector<size_t> recorded = {};  // the results that the tape recorded here: not those that are operands
};

// The arguments and then the captured values, as the tape of the second run knows them.
std::vector<Tensor> watch_inputs(const Run& run, GradientTape& tape, std::span<const int32_t> first) {
  const size_t n = run.arguments.size();
  TapeListener& listener = *listeners().tapes.back();
  std::vector<Tensor> known;
  std::map<int32_t, Shared<VariableState>> variable_of;  // by the first of those that are one tensor
  for (const Tensor& t : run.arguments) known.push_back(known_as(t, t, run.where));
  for (size_t k = 0; k < run.captured.size(); ++k) {
    const Captured& c = run.captured[k];
    known.push_back(c.variable ? make_alias(c.tensor) : c.tensor);
    if (!c.variable) continue;
    tape.watch(Variable(c.variable));
    variable_of[first[n + k]] = c.variable;
  }
  for (size_t k = 0; k < known.size(); ++k) {
    if (!is_differentiable(known[k].dtype())) continue;
    const Tensor* pair[] = {&known[k], &known[size_t(first[k])]};
    if (auto v = variable_of.find(first[k]); v != variable_of.end()) listener.watch_variable(v->second, known[k]);
    else if (first[k] == int32_t(k)) tape.watch(known[k], run.where);
    else listener.record(known_as_op, pair, {&known[k], 1}, {}, run.where);
  }
  return known;
}

void run_again(const Run& run, std::span<const Tensor> cotangents, const CotangentSums& sums) {
  GradientTape tape;
  const std::vector<Tensor> known = watch_inputs(run, tape, sums.first);
  std::vector<Tensor> targets, seeds;
  std::vector<Source> sources;
  for (size_t k = 0; k < known.size(); ++k) {
    sources.emplace_back(known[k]);
    if (sums.of[k].defined()) targets.push_back(known[k]), seeds.push_back(sums.of[k]);
  }
  {
    Listeners& outside = listeners();
    RepeatReadings repeat(run.readings, outside, run.where);
    GiveCalls give(run.calls);
    Listeners again = outside;
    again.variables = &repeat, again.notes = nullptr, again.repeats = true;
    // To a tape outside a kept result would be a constant.
    if (!run.calls.empty()) again.calls = outside.run_ops() && outside.tapes.size() == 1 ? &give : nullptr;
    const ListenersScope scope(std::move(again));
    const std::vector<Tensor> results = run.f(std::span(known).first(run.arguments.size()));
    if (results.size() != run.results)
      fail(
          "recompute",
          fmt::format("the function gives {} tensors where it gave {} when it ran first. it must do the same each time",
                      results.size(), run.results),
          run.where);
    for (size_t k = 0; k < cotangents.size(); ++k) {
      const Tensor &seed = cotangents[k], &y = results[run.recorded[k]];
      if (!seed.defined()) continue;
      if (!y.defined() || y.dtype() != seed.dtype() || !(y.shape() == seed.shape()))
        fail("recompute",
             fmt::format(
                 "result {} of the function is {} where it was {} when it ran first. it must do the same each time",
                 run.recorded[k], y.defined() ? to_string(y.spec()) : "undefined", to_string(seed.spec())),
             run.where);
      targets.push_back(y), seeds.push_back(seed);
    }
  }
  CallerScope caller(run.where, "GradientTape.gradient");
  const std::vector<Tensor> g = GradientTape::Impl::partial_sums(tape, targets, sources, seeds);
  for (size_t k = 0; k < known.size(); ++k)
    if (sums.first[k] == int32_t(k)) sums.of[k] = g[k];
}

// A trace runs f once, and marks its nodes. Of nested regions the outermost counts.
std::vector<Tensor> run_marked(const Recomputed& f, std::span<const Tensor> in, const RecomputePolicy& policy) {
  if (trace_marks.backward || trace_marks.region) return f(in);
  const auto region = Shared<const RecomputeRegion>::make(RecomputeRegion{policy});
  const MarkScope scope({&region, false});
  return f(in);
}

}  // namespace

std::vector<Tensor> run_recompute(const Recomputed& f, std::vector<Tensor> in, const RecomputePolicy& policy,
                                  const Where& where) {
  for (size_t k = 0; k < in.size(); ++k) require_defined("recompute", in[k], "argument " + std::to_string(k), where);
  Listeners& outside = listeners();
  const BodyScope body;
  if (outside.trace) return run_marked(f, in, policy);
  if (outside.tapes.size() != 1) return f(in);
  if (dynamic_cast<const ForwardAccumulator::Impl*>(outside.tapes[0])) return f(in);  // which keeps nothing anyway
  auto run = Shared<Run>::make(Run{f, in, {}, {}, where});
  std::vector<Tensor> results, recorded;
  {
    CaptureFinder finder(outside.tapes);
    NoteReadings notes(run->readings, outside.notes);
    NoteCalls calls(policy);
    Listeners first = outside.without_tapes();
    first.tapes.push_back(&finder);
    first.notes = &notes;
    if (!policy.keeps_nothing()) first.calls = finder.calls = &calls;
    const ListenersScope scope(std::move(first));
    std::vector<Tensor> arguments;
    for (const Tensor& t : in) arguments.push_back(make_alias(t));  // not the tape's own: they are inputs below
    results = f(arguments);
    run->results = results.size();
    if (finder.calls) run->calls = calls.finish();
    run->readings.end();
    for (size_t i = 0; i < results.size(); ++i) {
      Tensor& out = results[i];
      require_defined("recompute", out, "the result", where);
      bool known = finder.watches(out) || !is_differentiable(out.dtype());
      for (size_t k = 0; k < in.size(); ++k)
        if (out.rep() == arguments[k].rep()) out = in[k], known = true;
      if (known) continue;
      run->recorded.push_back(i);
      recorded.push_back(make_alias(out));
    }
    run->captured = std::move(finder.captured);
  }
  if (recorded.empty()) return results;
  SmallVec<const Tensor*, 8> inputs;
  std::vector<Tensor> keeps = in;
  for (const Tensor& t : run->arguments) inputs.push_back(&t);
  for (const Captured& c : run->captured) inputs.push_back(&c.tensor), keeps.push_back(c.tensor);
  run->readings.append_to(keeps);
  for (const KnownCall& c : run->calls) keeps.insert(keeps.end(), c.kept.begin(), c.kept.end());
  auto vjp = [run](std::span<const Tensor> cotangents, uint64_t, const CotangentSums& sums) {
    run_again(*run, cotangents, sums);
  };
  outside.tapes[0]->record_custom({inputs.data(), inputs.size()}, recorded, {vjp, std::move(keeps)}, where);
  for (size_t k = 0; k < recorded.size(); ++k) results[run->recorded[k]] = recorded[k];
  return results;
}

std::vector<size_t> segment_ends(size_t layers, int64_t segments, const Where& where) {
  if (segments < 0 || size_t(segments) > std::max<size_t>(layers, 1))
    fail("recompute_chain",
         fmt::format("{} segments of {} layers. ask for 1 to {}, or for 0, which chooses", segments, layers,
                     std::max<size_t>(layers, 1)),
         where);
  if (layers == 0) return {};
  const size_t count = segments ? size_t(segments) : size_t(std::lround(std::sqrt(double(layers))));
  std::vector<size_t> ends;
  for (size_t k = 1; k <= count; ++k) ends.push_back(layers * k / count);
  return ends;
}

}  // namespace rill::detail
