#include "rill/train/monitored.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>

#include "rill/ops/apply.h"
#include "rill/ops/creation.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/random.h"
#include "rill/serialize/checkpoint.h"
#include "rill/serialize/checkpoint_manager.h"
#include "rill/train/signals.h"
#include "rill/train/texts.h"

namespace rill::train {

struct Monitored::Impl final : Run {
  Impl(std::vector<std::pair<std::string, Trackable>> p, MonitoredOptions o, const Where& w)
      : parts(std::move(p)),
        options(std::move(o)),
        where(w),
        position(zeros({}, {.dtype = i64}), VariableOptions{.name = "step", .trainable = false}),
        state(tensor(std::string()), VariableOptions{.name = "state", .trainable = false}) {
    epochs = 1, has_epochs = false;
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
      for (const auto& [name, v] : run->tensors) paths.add(name, v);
    }
  };
  void take_state() {
    position.assign(tensor(step));
    std::vector<std::string> texts;
    for (const Callback& c : options.callbacks) texts.push_back(c.save());
    state.assign(tensor(joined(texts)));
    tensors.clear();
    for (size_t i = 0; i < options.callbacks.size(); ++i)
      for (const auto& [name, t] : options.callbacks[i].save_tensors()) add_tensor(tensors_of(i) + name, t);
  }
  // Further state of callbacks, as Variables of the checkpoint: "tensors/0/best".
  static std::string tensors_of(size_t callback) { return fmt::format("tensors/{}/", callback); }
  void add_tensor(const std::string& name, const Tensor& value) {
    tensors.emplace(name, Variable(value, VariableOptions{.name = "tensor", .trainable = false}));
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
    restoring = true;  // the state of the run itself is not included
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
    const std::string latest = manager ? manager->latest(where) : "";
    if (latest.empty()) return;
    for (const auto& [name, spec] : checkpoint_entries(latest, where))
      if (name.starts_with("run/tensors/")) add_tensor(name.substr(4), zeros(spec.shape, {.dtype = spec.dtype}));
    restoring = true;
    manager->restore({}, where);
    restoring = false;
    resumed = true;
    step = position.value().item<int64_t>();
    const std::vector<std::string> texts = split(state.value().item<std::string>(), "Monitored", where);
    if (texts.size() != options.callbacks.size())
      fail("Monitored",
           fmt::format("the run in {} had other callbacks. give the same ones, or another folder", options.folder),
           where);
    for (size_t i = 0; i < texts.size(); ++i) load(i, texts[i]);
    tensors.clear();
  }
  void load(size_t callback, const std::string& text) {
    const std::string prefix = tensors_of(callback);
    std::map<std::string, Tensor> own;
    for (const auto& [name, v] : tensors)
      if (name.starts_with(prefix)) own.emplace(name.substr(prefix.size()), v.value());
    if (!text.empty()) options.callbacks[callback].load(text);
    options.callbacks[callback].load_tensors(own);
  }

  // A full disk is reported, and training continues: the checkpoint before stays.
  template <class F>
  bool tell(const F& save) {
    try {
      save();
      return true;
    } catch (const Error& e) {
      std::fprintf(stderr, "rill: the run could not be saved: %s\n", e.what());
      return false;
    }
  }
  void save_if_due() {
    if (!manager || step == saved || (options.save_steps == 0 && options.save_minutes == 0)) return;
    tell([&] {
      if (manager->save_if_due(step, where)) saved = step;
    });
  }

  void begin() {
    if (std::exchange(begun, true)) return;
    for (const Callback& c : options.callbacks) c.on_begin(*this);
  }

  void finish(bool save) {
    if (finished) return;
    finished = true;
    const bool is_saved = save && manager && (step == saved || tell([&] { manager->save(step, where); }));
    if (begun)
      for (const Callback& c : options.callbacks) c.on_end(*this);
    if (!signals) return;
    const bool signalled = SignalScope::came() != 0;
    if (signalled && is_saved)
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
  std::map<std::string, Variable> tensors;  // of the callbacks
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
  for (size_t i = 0; i < options.callbacks.size(); ++i)
    if (options.callbacks[i].is_of_epochs())
      fail("Monitored",
           fmt::format("callback {} is called after epochs, which a loop of your own has not. take one of steps, or "
                       "train::Loop",
                       i + 1),
           where);
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
  const CallerScope caller(where, "Monitored");
  Impl& i = *impl_;
  if (i.finished) fail("Monitored", "the run was finished. make another one", where);
  i.begin();
  if (i.signals && SignalScope::came() != 0) i.stop("a signal came");
  if (!i.why_stopped().empty()) return false;
  for (const Callback& c : i.options.callbacks) c.before_step(i);
  for (const Callback& c : i.options.callbacks) c.step_begins(i);
  return true;
}

void Monitored::made_step(const std::map<std::string, Tensor>& numbers, Where where) {
  const CallerScope caller(where, "Monitored");
  Impl& i = *impl_;
  if (i.finished) fail("Monitored", "the run was finished. make another one", where);
  if (!executing_eagerly()) fail("Monitored", "steps are counted outside of traced functions", where);
  for (const auto& [name, value] : numbers)
    if (!value.defined()) fail("Monitored", fmt::format("the number '{}' is an undefined tensor", name), where);
  i.begin();  // of a loop that does not ask goes_on()
  i.numbers = numbers;
  const auto at = numbers.find("loss");
  i.last = at != numbers.end() ? at->second : numbers.empty() ? Tensor() : numbers.begin()->second;
  if (i.last.defined() && i.last.ndim() > 0) i.last = mean(i.last);  // one an example
  ++i.step, ++i.epoch_step;
  for (const Callback& c : i.options.callbacks) c.step_ends(i);
  for (const Callback& c : i.options.callbacks) c.on_step(i);
  i.save_if_due();
}

void Monitored::finish(Where where) {
  const CallerScope caller(where, "Monitored");
  impl_->finish(true);
}
int64_t Monitored::step() const { return impl_->step; }
bool Monitored::resumed() const { return impl_->resumed; }
const std::string& Monitored::why_stopped() const { return impl_->why_stopped(); }
Run& Monitored::run() { return *impl_; }

}  // namespace rill::train
