#include "rill/train/monitored.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>

#include "rill/ops/apply.h"
#include "rill/ops/creation.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/random.h"
#include "rill/serialize/checkpoint_manager.h"
#include "rill/train/json_numbers.h"
#include "rill/train/signals.h"

namespace rill::train {

struct Monitored::Impl final : Run {
  Impl(std::vector<std::pair<std::string, Trackable>> p, MonitoredOptions o, const Where& w)
      : parts(std::move(p)),
        options(std::move(o)),
        where(w),
        position(zeros({}, {.dtype = i64}), VariableOptions{.name = "step", .trainable = false}),
        state(tensor(std::string()), VariableOptions{.name = "state", .trainable = false}) {
    epochs = 1;
    if (!options.folder.empty())
      manager = std::make_unique<CheckpointManager>(checkpoint(), options.folder,
                                                    CheckpointManagerOptions{.max_to_keep = options.keep,
                                                                             .every_steps = options.save_steps,
                                                                             .every_minutes = options.save_minutes,
                                                                             .prefix = "run"},
                                                    where);
  }

  // Written when a checkpoint is saved.
  struct StateOf {
    Impl* run;
    void name_variables(VariablePaths& paths) const {
      if (!run->restoring) run->take_state();
      paths.add("step", run->position);
      paths.add("callbacks", run->state);
    }
  };
  void take_state() {
    position.assign(tensor(step));
    nlohmann::json all = nlohmann::json::array();
    for (const Callback& c : options.callbacks) all.push_back(c.save());
    state.assign(tensor(all.dump()));
  }

  const Tensor& loss() const override {
    if (!last.defined()) fail("Monitored", "the step gave no numbers: made_step({{\"loss\", loss}})", where);
    return last;
  }
  Logs running() const override {
    Logs logs;
    for (const auto& [name, value] : numbers) logs[name] = mean(value.astype(f64)).item<double>();
    return logs;
  }
  NamedVariables variables() const override {
    restoring = true;  // the state of the run itself is not asked for
    NamedVariables all = const_cast<Impl*>(this)->checkpoint().variables();
    restoring = false;
    return all;
  }
  nn::Optimizer* optimizer() const override { return nullptr; }
  Checkpoint checkpoint() override {
    std::vector<std::pair<std::string, Trackable>> all = parts;
    all.emplace_back("random", random::generator());
    all.emplace_back("run", StateOf{this});
    return Checkpoint(std::move(all), where);
  }
  std::string explain_step() override { return ""; }
  void keep_weights() override {}

  void restore() {
    if (!manager || manager->latest(where).empty()) return;
    restoring = true;
    manager->restore({}, where);
    restoring = false;
    resumed = true;
    step = position.value().item<int64_t>();
    const auto all = nlohmann::json::parse(state.value().item<std::string>(), nullptr, false);
    if (!all.is_array() || all.size() != options.callbacks.size())
      fail("Monitored",
           fmt::format("the run in {} had other callbacks. give the same ones, or another folder", options.folder),
           where);
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i].is_string() && !all[i].empty() && !all[i].get<std::string>().empty())
        options.callbacks[i].load(all[i].get<std::string>());
  }

  // A disk that is full is told, and training goes on: the checkpoint before stands.
  template <class F>
  void tell(const F& save) {
    try {
      save();
    } catch (const Error& e) {
      std::fprintf(stderr, "rill: the run could not be saved: %s\n", e.what());
    }
  }
  void save_if_due() {
    if (!manager || step == saved || (options.save_steps == 0 && options.save_minutes == 0)) return;
    tell([&] {
      if (manager->save_if_due(step, where)) saved = step;
    });
  }

  void finish(bool save) {
    if (finished) return;
    finished = true;
    if (save && manager && step != saved) tell([&] { manager->save(step, where); });
    for (const Callback& c : options.callbacks) c.on_end(*this);
    if (!signals) return;
    const bool signalled = SignalScope::came() != 0;
    if (signalled)
      std::fprintf(stderr, "rill: the run was saved to %s after step %lld, and ends\n", options.folder.c_str(),
                   (long long)step);
    if (signalled && save) signals->end();
    signals.reset();
  }

  std::vector<std::pair<std::string, Trackable>> parts;
  MonitoredOptions options;
  Where where;
  Variable position, state;
  std::unique_ptr<CheckpointManager> manager;
  std::optional<SignalScope> signals;
  std::map<std::string, Tensor> numbers;
  Tensor last;
  int64_t saved = -1;
  mutable bool restoring = false;
  bool begun = false, finished = false;
  int exceptions = std::uncaught_exceptions();
};

Monitored::Monitored(std::vector<std::pair<std::string, Trackable>> parts, MonitoredOptions options, Where where) {
  require_option(options.save_steps >= 0, "Monitored", "save_steps", options.save_steps, "0 or more", where);
  require_option(options.save_minutes >= 0, "Monitored", "save_minutes", options.save_minutes, "0 or more", where);
  if (!executing_eagerly()) fail("Monitored", "a run cannot be traced. make it outside of the function", where);
  impl_ = std::make_unique<Impl>(std::move(parts), std::move(options), caller_or(where));
  impl_->restore();
  if (impl_->manager) impl_->signals.emplace(true);
}

Monitored::~Monitored() {
  try {
    impl_->finish(std::uncaught_exceptions() == impl_->exceptions);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rill: the end of the run: %s\n", e.what());
  }
}

bool Monitored::goes_on(Where where) {
  Impl& i = *impl_;
  if (i.finished) fail("Monitored", "the run was finished. make another one", where);
  if (!i.begun) {
    i.begun = true;
    for (const Callback& c : i.options.callbacks) c.on_begin(i);
  }
  if (i.signals && SignalScope::came() != 0) i.stop("a signal came");
  if (!i.why_stopped().empty()) return false;
  for (const Callback& c : i.options.callbacks) c.before_step(i);
  return true;
}

void Monitored::made_step(const std::map<std::string, Tensor>& numbers, Where where) {
  Impl& i = *impl_;
  if (i.finished) fail("Monitored", "the run was finished. make another one", where);
  i.numbers = numbers;
  const auto at = numbers.find("loss");
  i.last = at != numbers.end() ? at->second : numbers.empty() ? Tensor() : numbers.begin()->second;
  ++i.step, ++i.epoch_step;
  for (const Callback& c : i.options.callbacks) c.on_step(i);
  i.save_if_due();
}

void Monitored::finish(Where) { impl_->finish(true); }
int64_t Monitored::step() const { return impl_->step; }
bool Monitored::resumed() const { return impl_->resumed; }
const std::string& Monitored::why_stopped() const { return impl_->why_stopped(); }
Run& Monitored::run() { return *impl_; }

}  // namespace rill::train
