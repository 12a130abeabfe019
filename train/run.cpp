// A run of fit(): epochs, callbacks, checkpoints, and resuming. The loop itself is in core.cpp. Start at
// CoreRun::train.
#include "rill/train/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "rill/data/stage.h"
#include "rill/nn/sequential.h"
#include "rill/ops/apply.h"
#include "rill/ops/numerics.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/state/variable_state.h"
#include "rill/serialize/checkpoint_manager.h"
#include "rill/train/folders.h"
#include "rill/train/laps.h"
#include "rill/train/progress.h"
#include "rill/train/rank_calls.h"
#include "rill/train/signals.h"
#include "rill/train/snapshot.h"
#include "rill/train/texts.h"

namespace rill::train::impl {

namespace {
// The stages of a printed dataset that take a shard.
std::string shards_in(const std::string& stages) {
  std::string found;
  for (size_t at = stages.find("shard("); at != stages.npos; at = stages.find("shard(", at + 1))
    found += stages.substr(at, stages.find('\n', at) - at) + "\n";
  return found;
}
}  // namespace

class CoreRun final : public Run {
 public:
  CoreRun(Core& core, const FitData& data, const FitOptions& options, const Where& where)
      : core_(core),
        data_(data),
        options_(options),
        where_(where),
        ranks_(core.options_.distribute),
        folder_(options.resume.empty() || ranks_.part().empty() ? options.resume
                                                                : options.resume + "/" + ranks_.part()),
        progress_(options.progress && (!ranks_ || ranks_->rank(ranks_.everybody(), where) == 0)),
        position_(zeros({4}, {.dtype = i64}), VariableOptions{.name = "position", .trainable = false}),
        state_(tensor(std::string()), VariableOptions{.name = "state", .trainable = false}) {
    epochs = options.epochs;
    if (ranks_) rank = ranks_->rank(ranks_.everybody(), where), part = ranks_.part();
    epoch_steps = options.steps_per_epoch ? options.steps_per_epoch : data.train.size;
    if (!options.resume.empty()) manager_ = make_manager({});
  }

  History train() {
    SignalScope signals(manager_ != nullptr);
    signals_ = &signals;
    if (manager_) require_writable(folder_, "Loop.fit", where_);
    if (ranks_) check_alike();
    build_model();
    if (manager_) resume();
    // Throws where averages are swapped in, which the traced step would not see.
    if (nn::Optimizer* o = optimizer(); o && o->variables().size() > 1)
      o->build(nn::trainable(core_.variables().values()), where_);
    if (ranks_) begin_alike();
    try {
      for (const Callback& c : options_.callbacks) c.on_begin(*this);
      while (epoch < epochs && why_stopped().empty()) run_epoch();
    } catch (...) {
      end();
      throw;
    }
    end();
    history.set_stopped(why_stopped());
    times_.prefetches = data_.train.stages.find("prefetch(") != std::string::npos;
    history.set_times(times_);
    progress_.end(times_);
    return history;
  }

  const Tensor& loss() const override { return loss_; }
  Logs running() const override { return core_.read_metrics(false); }
  NamedVariables variables() const override { return core_.variables(); }
  nn::Optimizer* optimizer() const override { return core_.options_.optimizer.get(); }
  void keep_weights() override { keeps_weights_ = true; }
  Logs validate_now() override {
    return data_.validation.pass ? core_.evaluate(data_.validation, options_.validation_steps, where_) : Logs();
  }
  std::optional<Profile> profile_step(const ProfileOptions& options) override {
    return has_batch_ ? pass_->profile(options) : std::nullopt;
  }

  std::map<std::string, Tensor> gradients() override {
    if (!has_batch_) return {};
    const Snapshot now(changed_by_steps());
    std::map<std::string, Tensor> found;
    try {
      core_.show_gradients(&found);
      pass_->train_unchanged();
    } catch (...) {
      core_.show_gradients(nullptr);
      now.put_back();
      throw;
    }
    core_.show_gradients(nullptr);
    now.put_back();
    return found;
  }
  std::optional<Graph> step_graph() override { return has_batch_ ? pass_->graph() : std::nullopt; }

  Checkpoint checkpoint() override {
    std::vector<std::pair<std::string, Trackable>> parts{{"model", ModelOf{&core_}}};
    if (nn::Optimizer* o = optimizer()) parts.emplace_back("optimizer", OptimizerOf{o});
    parts.emplace_back("random", random::generator());
    parts.emplace_back("run", StateOf{this});
    return Checkpoint(std::move(parts), where_);
  }

  SaveCheckpointOptions written_together() override { return ranks_ ? written_by_all() : SaveCheckpointOptions(); }
  bool on_any(bool own) override {
    if (!ranks_) return own;
    return ranks_->all_reduce(tensor(int32_t(own)), distribute::Reduce::max, ranks_.everybody()).item<int32_t>();
  }

  std::string explain_step() override {
    if (!has_batch_ || before_.empty()) return "";
    before_.put_back();
    std::string first;
    try {
      const auto check = debug::check_numerics();
      pass_->train_unchanged();
    } catch (const Error& e) {
      first = e.what();
    }
    before_.put_back();
    return first;
  }

 private:
  struct ModelOf {
    Core* core;
    void name_variables(VariablePaths& paths) const { core->name_model_(paths); }
  };
  struct OptimizerOf {
    nn::Optimizer* optimizer;
    void name_variables(VariablePaths& paths) const { optimizer->name_variables(paths); }
  };
  // Written when a checkpoint is saved.
  struct StateOf {
    CoreRun* run;
    void name_variables(VariablePaths& paths) const { run->name_state(paths); }
  };

  std::unique_ptr<CheckpointManager> make_manager(const SaveCheckpointOptions& save) {
    return std::make_unique<CheckpointManager>(
        checkpoint(), folder_,
        CheckpointManagerOptions{.max_to_keep = kept(), .asynchronous = bool(ranks_), .prefix = "run", .save = save});
  }
  // Parts of a model are written one by one, so a kill may leave one of them up to two checkpoints behind.
  int kept() const { return ranks_.part().empty() ? options_.keep : std::max(options_.keep, 3); }
  // All ranks write: trained tensors are equal on them, and the rest is the first one's.
  SaveCheckpointOptions written_by_all() const {
    SaveCheckpointOptions save;
    save.part.first = {"random", "random/*", "run/*"};
    for (const auto& [path, v] : core_.variables())
      if (!v.trainable()) save.part.first.push_back("model/" + path);
    return ranks_->written_by_all(std::move(save), ranks_.sharers());
  }

  // Refuses runs that would train on a part of the data, or wait for files in another folder.
  void check_alike() {
    if (!ranks_->is_same(tensor(shards_in(data_.train.stages)), ranks_.sharers(), where_))
      fail(
          "Loop.fit",
          "each rank has a shard of the dataset, and the loop cuts the batches among them again, so that data are left "
          "out. give all ranks the whole dataset, without shard()",
          where_);
    if (!ranks_->is_same(tensor(options_.resume), ranks_.everybody(), where_))
      fail("Loop.fit",
           fmt::format(
               "ranks have different folders to resume from, and this one's is '{}'. give all of them one, which "
               "they all see",
               options_.resume),
           where_);
  }

  void begin_alike() {
    if (manager_) manager_ = make_manager(written_by_all());
    ranks_->broadcast(core_.variables(), ranks_.sharers());
    if (nn::Optimizer* o = optimizer()) {
      const NamedVariables model = core_.variables();
      if (!core_.own_step_) o->build(model);
      ranks_->broadcast(rill::variables(*o), ranks_.sharers());
    }
    ranks_->broadcast(rill::variables(random::generator()), ranks_.everybody());
    const bool goes_by_all = core_.options_.clip_norm > 0 || (optimizer() && optimizer()->goes_by_all_gradients());
    if (goes_by_all && !ranks_.part().empty()) require_parts_known();
  }
  // Parameters that no layer has declared as parts count once, so these must be equal.
  void require_parts_known() {
    NamedVariables alike;
    for (const auto& [path, v] : core_.variables())
      if (v.trainable() && !ranks_->is_part(v)) alike.add(path, v);
    if (!ranks_->are_same(alike, ranks_.everybody(), where_))
      fail("Loop.fit",
           "clip_norm, skip_not_finite and loss_scale go by the gradients of the whole model, and ranks have other "
           "values of a parameter of which no layer says that it is a part. say so where it is made: "
           "distribute::lies_on(parameter, group)",
           where_);
  }

  // Ranks end together: if one got a signal, or has stopped, the others end too.
  bool came_anywhere(bool signalled) {
    if (!ranks_) return signalled;
    const Tensor own = tensor({int32_t(signalled), int32_t(!why_stopped().empty())});
    const Tensor most = ranks_->all_reduce(own, distribute::Reduce::max, ranks_.everybody());
    const std::vector<int32_t> any = most.to_vector<int32_t>();
    if (any[1] != 0 && why_stopped().empty()) stop("another rank has stopped");
    return any[0] != 0;
  }

  void name_state(VariablePaths& paths) {
    if (executing_eagerly() && !restoring_) {
      position_.assign(tensor({epoch, step, epoch_step, pass_number_}));
      std::vector<std::string> texts{pass_ ? pass_->save() : "", history.json()};
      for (const Callback& c : options_.callbacks) texts.push_back(c.save());
      state_.assign(tensor(joined(texts)));
    }
    paths.add("position", position_);
    paths.add("state", state_);
    if (executing_eagerly() && !restoring_) {
      tensors_.clear();
      for (size_t i = 0; i < options_.callbacks.size(); ++i)
        for (const auto& [name, t] : options_.callbacks[i].save_tensors()) add_tensor(i, name, t);
    }
    for (const auto& [name, v] : tensors_) paths.add(name, v);
    VariablePaths::Scope scope(paths, "metrics");
    for (const metrics::Metric& m : core_.all_metrics()) {
      VariablePaths::Scope inner(paths, m.name());
      for (const Variable& v : m.variables()) paths.add(v.name().substr(v.name().find_last_of('/') + 1), v);
    }
  }

  // Further state of callbacks, as Variables of the checkpoint: "callbacks/0/dense/kernel".
  void add_tensor(size_t callback, const std::string& name, const Tensor& value) {
    tensors_.emplace(fmt::format("{}{}/{}", callbacks_name, callback, name),
                     Variable(value, VariableOptions{.name = "tensor", .trainable = false}));
  }
  // Creates what the checkpoint has and only its steps or callbacks would create.
  void find_in(const std::string& latest) {
    constexpr std::string_view metrics = "run/metrics/", end = "/sum0";
    const std::string in_callbacks = "run/" + std::string(callbacks_name);
    for (const auto& [name, spec] : checkpoint_entries(latest, where_)) {
      if (name.starts_with(in_callbacks))
        tensors_.emplace(name.substr(4), Variable(zeros(spec.shape, {.dtype = spec.dtype}),
                                                  VariableOptions{.name = "tensor", .trainable = false}));
      if (core_.own_step_ && name.starts_with(metrics) && name.ends_with(end))
        core_.own_mean(name.substr(metrics.size(), name.size() - metrics.size() - end.size()));
    }
  }
  void load_tensors(size_t callback) {
    const std::string prefix = fmt::format("{}{}/", callbacks_name, callback);
    std::map<std::string, Tensor> tensors;
    for (const auto& [name, v] : tensors_)
      if (name.starts_with(prefix)) tensors.emplace(name.substr(prefix.size()), v.value());
    options_.callbacks[callback].load_tensors(tensors);
  }

  // The last one that all parts of the model have.
  std::string last_of_all() {
    if (ranks_.part().empty()) return manager_->latest();
    const Tensor own = tensor({manager_->latest_step()});
    const int64_t last = ranks_->all_reduce(own, distribute::Reduce::min, ranks_.everybody()).item<int64_t>();
    const std::string name = fmt::format("/run-{}", last);
    for (const std::string& path : manager_->all())
      if (path.ends_with(name)) return path;
    if (last >= 0)
      fail("Loop.fit", fmt::format("{} has no checkpoint of step {}, the last one of another part", folder_, last),
           where_);
    return "";
  }

  void resume() {
    const std::string latest = last_of_all();
    if (latest.empty()) return;
    find_in(latest);
    restore(latest);
    resumed = true;
    const std::vector<int64_t> at = position_.to_vector<int64_t>();
    epoch = at[0], step = at[1], epoch_step = at[2], pass_number_ = at[3];
    const std::vector<std::string> texts = split(state_.value().item<std::string>(), "Loop.fit", where_);
    if (texts.size() < 2) fail("Loop.fit", "the state of the run to resume is damaged", where_);
    data_state_ = texts[0];
    history = History::from_json(texts[1], where_);
    if (texts.size() != 2 + options_.callbacks.size())
      fail("Loop.fit",
           fmt::format("the run in {} had {} callback{}, and now there {} {}. give the same ones, or another folder",
                       options_.resume, texts.size() - 2, texts.size() == 3 ? "" : "s",
                       options_.callbacks.size() == 1 ? "is" : "are", options_.callbacks.size()),
           where_);
    for (size_t i = 0; i < options_.callbacks.size(); ++i) {
      if (!texts[2 + i].empty()) options_.callbacks[i].load(texts[2 + i]);
      load_tensors(i);
    }
    tensors_.clear();
    check_optimizer();
  }

  // One that remembers nothing of the parameters leaves nothing in the file that would not fit another.
  void check_optimizer() {
    nn::Optimizer* o = optimizer();
    if (!o || core_.own_step_ || step == 0 || o->variables().size() > 1) return;
    o->build(nn::trainable(core_.variables().values()));
    if (o->variables().size() > 1)
      fail(
          "Loop.fit",
          fmt::format("the run in {} is one of another optimizer, which remembered nothing of the parameters. give the "
                      "one that it was begun with, or another folder",
                      options_.resume),
          where_);
  }

  void restore(const std::string& path) {
    restoring_ = true;
    try {
      checkpoint().restore(path);
    } catch (const Error& e) {
      const std::string_view text = e.what(), begin = "does not fit: ", end = ". nothing was restored";
      const size_t at = text.find(begin), to = text.find(end);
      if (at == text.npos || to == text.npos) throw;
      fail("Loop.fit",
           fmt::format("the run in {} is one of another model, optimizer or metrics: {}. give those that it was begun "
                       "with, or another folder",
                       options_.resume, text.substr(at + begin.size(), to - at - begin.size())),
           where_);
    }
    restoring_ = false;
  }

  // Parameters are created before the first step, so that their random draws come before those of steps, traced or not,
  // and before weights are restored into them.
  void build_model() {
    bool built = true;
    for (const auto& [path, v] : core_.variables()) built &= v.is_built();
    if (built || core_.own_step_) return;
    const std::unique_ptr<Pass> pass = data_.train.pass(0);
    if (pass->next()) pass->predict();
  }

  // The shuffle of a pass: its epoch or, if epochs are so many steps, the number of passes before.
  void new_pass() {
    pass_number_ = options_.steps_per_epoch ? pass_number_ + 1 : epoch;
    pass_ = data_.train.pass(uint64_t(pass_number_));
  }
  // The pass of this epoch, at its position; epochs of so many steps continue through one. Making one may draw from the
  // generator, which a resumed run has drawn already.
  void begin_pass() {
    if (pass_) return;
    if (data_state_.empty()) return new_pass();
    const Tensor generator = random::generator().value();
    pass_ = data_.train.pass(uint64_t(pass_number_));
    try {
      pass_->restore(data_state_);
    } catch (const Error& e) {
      fail("Loop.fit",
           fmt::format("the run in {} was in the midst of other data: {}. give the dataset that it was begun with, or "
                       "another folder",
                       options_.resume, e.what()),
           where_);
    }
    data_state_.clear();
    random::generator().assign(generator);
  }

  bool next_batch() {
    if (options_.steps_per_epoch && epoch_step >= *options_.steps_per_epoch) return false;
    if (pass_->next()) return has_batch_ = true;
    if (!options_.steps_per_epoch) return false;
    new_pass();  // a dataset that is shorter than an epoch begins again
    return has_batch_ = pass_->next();
  }

  void run_epoch() {
    const auto began = std::chrono::steady_clock::now();
    const bool goes_on = epoch_step > 0;
    Laps laps;
    begin_pass();
    if (!goes_on) core_.reset_metrics();
    while (next_batch()) {
      laps.end(times_.data);
      make_step(laps);
      save_if_due();
      if (manager_) laps.end(times_.saving);
      if (!why_stopped().empty()) break;
    }
    laps.end(times_.data);
    if (epoch_step == 0) fail("Loop.fit", "the dataset has no elements", where_);
    // Stopped within the epoch; a run that continues makes the rest of it, and its row.
    const bool midway = !why_stopped().empty();
    if (!goes_on && !midway) core_.tell_unseen_classes();
    if (midway && manager_) save();
    laps.end(times_.saving);
    logs = core_.read_metrics(true);
    laps.end(times_.step);  // which waits for the device
    validate();
    laps.end(times_.validation);
    end_if_signalled();  // amid the epoch; a run that continues begins with it
    logs["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    for (const Callback& c : options_.callbacks) c.on_epoch(*this);
    history.add(logs);
    progress_.epoch(*this);
    laps.end(times_.callbacks);
    if (midway) return;
    ++epoch;
    epoch_step = 0;
    if (!options_.steps_per_epoch) pass_.reset(), has_batch_ = false;
    if (manager_) save();
    laps.end(times_.saving);
    end_if_signalled();
  }

  void make_step(Laps& laps) {
    if (keeps_weights_) keep_now();
    for (const Callback& c : options_.callbacks) c.before_step(*this);
    for (const Callback& c : options_.callbacks) c.step_begins(*this);
    if (!options_.callbacks.empty()) laps.end(times_.callbacks);
    loss_ = pass_->train();
    ++step, ++epoch_step;
    laps.end(times_.step);
    for (const Callback& c : options_.callbacks) c.step_ends(*this);
    for (const Callback& c : options_.callbacks) c.on_step(*this);
    progress_.step(*this);
    laps.end(times_.callbacks);
  }

  void validate() {
    const bool last = epoch + 1 == epochs || !why_stopped().empty();
    skips_validation = data_.validation.pass && (epoch + 1) % options_.validation_every != 0 && !last;
    if (!data_.validation.pass || skips_validation) return;
    const auto until = manager_ && !ranks_ ? +[] { return SignalScope::came() != 0; } : nullptr;
    for (const auto& [name, value] : core_.evaluate(data_.validation, options_.validation_steps, where_, until))
      logs["val_" + name] = value;
  }

  void save_if_due() {
    const bool signalled = came_anywhere(manager_ && SignalScope::came() != 0);
    if (!manager_) return;
    if (!signalled && options_.save_every_steps > 0 && step % options_.save_every_steps == 0) save();
    if (signalled) end_signalled();
  }
  // Whether any rank got a signal. All ranks call it.
  void end_if_signalled() {
    const bool signalled = came_anywhere(manager_ && SignalScope::came() != 0);
    if (manager_ && signalled) end_signalled();
  }
  void end_signalled() {
    if (save() && tell_of_failure([&] { manager_->wait(); }) && rank == 0)
      std::fprintf(stderr, "rill: the run was saved to %s after step %lld, and ends\n", folder_.c_str(),
                   (long long)step);
    end();
    signals_->end();
  }
  // A full disk is reported, and training continues: the checkpoint before stays.
  bool save() {
    const bool waited = tell_of_failure([&] { manager_->wait(); });
    return tell_of_failure([&] { manager_->save(step); }) && waited;
  }
  template <class F>
  bool tell_of_failure(const F& write) {
    try {
      write();
      return true;
    } catch (const Error& e) {
      std::fprintf(stderr, "rill: the run could not be saved: %s\n", e.what());
      return false;
    }
  }
  void end() {
    for (const Callback& c : options_.callbacks) c.on_end(*this);
  }

  // The state that a step may change: the model, the optimizer, the generator, metrics. The first step creates the
  // optimizer's slots; later ones create no Variables.
  void keep_now() {
    if (changed_.empty() || epoch_step <= 1) changed_ = changed_by_steps();
    before_ = Snapshot(changed_);
  }
  std::vector<Variable> changed_by_steps() {
    restoring_ = true;  // the state of the run itself is not included
    const NamedVariables all = checkpoint().variables();
    restoring_ = false;
    std::vector<Variable> built;
    for (const auto& [path, v] : all)
      if (v.is_built()) built.push_back(v);
    return built;
  }

  Core& core_;
  const FitData& data_;
  const FitOptions& options_;
  const Where where_;
  const Ranks& ranks_;
  const std::string folder_;  // of the resumed run: of this rank's part of the model
  Progress progress_;
  SignalScope* signals_ = nullptr;
  Variable position_, state_;  // i64 {epoch, step, step of the epoch, pass}; texts of data, history, callbacks
  static constexpr std::string_view callbacks_name = "callbacks/";
  std::map<std::string, Variable> tensors_;  // of the callbacks
  std::unique_ptr<CheckpointManager> manager_;
  std::unique_ptr<Pass> pass_;
  bool has_batch_ = false;  // the pass has one, for uses after it
  int64_t pass_number_ = -1;
  std::string data_state_;  // to be restored into the next pass
  RunTimes times_;
  bool restoring_ = false, keeps_weights_ = false;
  std::vector<Variable> changed_;  // by a step
  Snapshot before_;                // the last one
  Tensor loss_;
};

History run_fit(Core& core, const FitData& data, const FitOptions& options, const Where& where) {
  check_fit(data, options, where);
  core.check_own_step(data, options, where);
  if (!executing_eagerly()) fail("Loop.fit", "a run cannot be traced. call it outside of the function", where);
  const Core::AtWork at_work(core, where);
  const CallerScope caller(where, "Loop.fit");
  CoreRun run(core, data, options, where);
  return run.train();
}

}  // namespace rill::train::impl
