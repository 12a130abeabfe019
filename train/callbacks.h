// Callbacks: actions at moments of a training run. A callback is any struct with some of
//
//   void on_begin(train::Run& run);     // before the first step, after a resumed run was restored
//   void before_step(train::Run& run);  // before each step, when its batch is there; run.step is how many were made
//   void step_begins(train::Run& run);  // when all callbacks' before_step() are over: of what looks at the step alone
//   void step_ends(train::Run& run);    // right after the step, ahead of any on_step()
//   void on_step(train::Run& run);      // after each step
//   void on_epoch(train::Run& run);     // after each epoch and its validation: run.logs has the numbers
//   void on_end(train::Run& run);       // after the last epoch, or where training stops, also by an exception
//   std::string save() const;           // what it remembers, for a run that is resumed,
//   void load(const std::string&);      // and takes back, before on_begin()
//   std::map<std::string, Tensor> save_tensors() const;  // tensors that it remembers, likewise
//   void load_tensors(const std::map<std::string, Tensor>&);
//
// The shipped ones use only that.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "rill/nn/optimizers.h"
#include "rill/ops/names.h"
#include "rill/serialize/checkpoint.h"
#include "rill/serialize/debugger.h"
#include "rill/summary.h"
#include "rill/trace/profile.h"
#include "rill/train/history.h"

#pragma GCC visibility push(default)

namespace rill::train {

// A run of training, as callbacks see it.
class Run {
 public:
  virtual ~Run() = default;

  int64_t rank = 0;        // this process's among those that train together; only the first writes what all know
  std::string part = {};   // this rank's part of a model that is distributed over several ranks: "model-1"
  int64_t epoch = 0;       // that runs, or has run, from 0
  int64_t epochs = 0;      // the total number of epochs
  int64_t step = 0;        // the number of steps made, over all epochs and the runs before a resumed one
  int64_t epoch_step = 0;  // and in this epoch
  std::optional<int64_t> epoch_steps = {};  // the number of steps in an epoch, if known
  bool resumed = false;                     // whether it continues a stopped run
  Logs logs = {};                           // of the last epoch, in on_epoch() and on_end(); a callback may add to them
  History history = {};                     // the epochs so far
  bool skips_validation = false;            // this epoch went without, by FitOptions::validation_every
  bool has_epochs = true;                   // false in a loop of the user's own: on_epoch() is never called

  // The loss of the last step: reading its number waits for the device.
  virtual const Tensor& loss() const = 0;
  // The running means of this epoch, read now: the loss and the metrics.
  virtual Logs running() const = 0;
  // The model's Variables, by path.
  virtual NamedVariables variables() const = 0;
  // Null where the step is the user's own.
  virtual nn::Optimizer* optimizer() const = 0;
  // The state that a run needs to continue: model, optimizer, random generator, and what fit() keeps itself.
  virtual Checkpoint checkpoint() = 0;
  // Options with which all ranks that have this part of the model write it as one checkpoint, if all ask for them at once.
  virtual SaveCheckpointOptions written_together() { return {}; }
  // Whether `own` holds on any rank that trains. All ask at once.
  virtual bool on_any(bool own) { return own; }
  // Computes the last step again, op by op with checked numbers, from the weights before it: the message of
  // debug::check_numerics() about the first op that makes a NaN or an infinity; empty if none does. For a run that
  // keeps those weights.
  virtual std::string explain_step() = 0;
  // From now on the weights before each step are kept, at the cost of a copy a step.
  virtual void keep_weights() = 0;
  // The numbers of validation, computed now; none where the run has no data for it.
  virtual Logs validate_now() { return {}; }
  // The profile of the step's traced function on the last batch, which changes nothing; none where it is not traced, or
  // is not the loop's.
  virtual std::optional<Profile> profile_step(const ProfileOptions&) { return {}; }
  // The gradients of the loss on the last batch by the model's trainable Variables as they are now, by path, as from
  // the tape, before they are clipped. Computed op by op, which changes nothing. None if the step is the user's own.
  virtual std::map<std::string, Tensor> gradients() { return {}; }
  // The graph of the step's traced function; none where it is not traced, or is not the loop's.
  virtual std::optional<Graph> step_graph() { return {}; }
  // Training ends after this step (in on_step()) or epoch. The history has the reason.
  void stop(std::string why) { why_ = why.empty() ? "stopped" : std::move(why); }
  const std::string& why_stopped() const { return why_; }

 private:
  std::string why_;
};

// Any callback. Copies share it.
class Callback {
 public:
  template <class C>
    requires(!std::same_as<std::remove_cvref_t<C>, Callback>)
  Callback(C callback) : held_(std::make_shared<Held<C>>(std::move(callback))) {
    static_assert(
        requires(C& c, Run& r) { c.on_begin(r); } || requires(C& c, Run& r) { c.before_step(r); } ||
            requires(C& c, Run& r) { c.step_begins(r); } || requires(C& c, Run& r) { c.step_ends(r); } ||
            requires(C& c, Run& r) { c.on_step(r); } || requires(C& c, Run& r) { c.on_epoch(r); } ||
            requires(C& c, Run& r) { c.on_end(r); },
        "a callback has one of on_begin(train::Run&), before_step, step_begins, step_ends, on_step, on_epoch, on_end; "
        "of a lambda write train::each_step(f) or train::each_epoch(f)");
  }
  // A move is a copy, so that what was moved from can be called.
  Callback(const Callback&) = default;
  Callback& operator=(const Callback&) = default;
  void on_begin(Run& run) const { held_->on_begin(run); }
  void before_step(Run& run) const { held_->before_step(run); }
  void step_begins(Run& run) const { held_->step_begins(run); }
  void step_ends(Run& run) const { held_->step_ends(run); }
  void on_step(Run& run) const { held_->on_step(run); }
  void on_epoch(Run& run) const { held_->on_epoch(run); }
  void on_end(Run& run) const { held_->on_end(run); }
  std::string save() const { return held_->save(); }
  void load(const std::string& state) const { held_->load(state); }
  std::map<std::string, Tensor> save_tensors() const { return held_->save_tensors(); }
  void load_tensors(const std::map<std::string, Tensor>& tensors) const { held_->load_tensors(tensors); }
  // Whether it is never called where there are no epochs, but at the beginning and the end.
  bool is_of_epochs() const { return held_->is_of_epochs(); }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual void on_begin(Run&) {}
    virtual void before_step(Run&) {}
    virtual void step_begins(Run&) {}
    virtual void step_ends(Run&) {}
    virtual void on_step(Run&) {}
    virtual void on_epoch(Run&) {}
    virtual void on_end(Run&) {}
    virtual bool is_of_epochs() const { return false; }
    virtual std::string save() const { return ""; }
    virtual void load(const std::string&) {}
    virtual std::map<std::string, Tensor> save_tensors() const { return {}; }
    virtual void load_tensors(const std::map<std::string, Tensor>&) {}
  };
  template <class C>
  struct Held final : Base {
    explicit Held(C c) : callback(std::move(c)) {}
#define RILL_MOMENT(name)                                                    \
  void name([[maybe_unused]] Run& run) override {                            \
    if constexpr (requires(C& c, Run& r) { c.name(r); }) callback.name(run); \
  }
    RILL_MOMENT(on_begin)
    RILL_MOMENT(before_step)
    RILL_MOMENT(step_begins)
    RILL_MOMENT(step_ends)
    RILL_MOMENT(on_step)
    RILL_MOMENT(on_epoch)
    RILL_MOMENT(on_end)
#undef RILL_MOMENT
    bool is_of_epochs() const override {
      return requires(C& c, Run& r) { c.on_epoch(r); } && !requires(C& c, Run& r) { c.on_step(r); } &&
             !requires(C& c, Run& r) { c.before_step(r); } && !requires(C& c, Run& r) { c.step_begins(r); } &&
             !requires(C& c, Run& r) { c.step_ends(r); };
    }
    std::string save() const override {
      if constexpr (requires(const C& c) { c.save(); }) return callback.save();
      else return "";
    }
    void load([[maybe_unused]] const std::string& state) override {
      if constexpr (requires(C& c) { c.load(state); }) callback.load(state);
    }
    std::map<std::string, Tensor> save_tensors() const override {
      if constexpr (requires(const C& c) { c.save_tensors(); }) return callback.save_tensors();
      else return {};
    }
    void load_tensors([[maybe_unused]] const std::map<std::string, Tensor>& tensors) override {
      if constexpr (requires(C& c) { c.load_tensors(tensors); }) callback.load_tensors(tensors);
    }
    C callback;
  };
  std::shared_ptr<Base> held_;
};

// The direction in which a number improves: down for losses and errors, up for all else, unless stated.
enum class Better : uint8_t { by_name, lower, higher };

struct EarlyStoppingOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::string monitor = "val_loss";
  int64_t patience = 0;  // the number of epochs without an improvement before it stops
  double min_delta = 0;  // by less than this it is no better
  Better better = Better::by_name;
  std::optional<double> baseline = {};  // no number is better unless it beats this
  bool restore_best = true;             // at the end the weights are those of the best epoch
};
// Stops when a number no longer improves. Throws at the first epoch that has no such number; those without validation,
// by .validation_every, do not count. Each fit() begins anew, unless it resumes a run: then it knows the best weights,
// and that the run was stopped, from there.
Callback early_stopping(const EarlyStoppingOptions& options = {}, Where where = Where::current());

struct CheckpointOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int keep = 5;             // how many of the last ones are kept; 0: all
  int64_t every_steps = 0;  // of both 0: after each epoch
  double every_minutes = 0;
  std::string best_by = "";  // a number by which the best one is kept in addition, as "best-STEP"
  Better better = Better::by_name;
  bool asynchronous = false;
};
// Writes checkpoints of a run's full state into a folder; if the model is distributed over several ranks, each part
// into a folder of its own below it ("ckpt/model-1"), at the same steps. All ranks write, each its portion. A full disk
// is reported on stderr, and training continues.
Callback checkpoint(const std::string& folder, const CheckpointOptions& options = {}, Where where = Where::current());

struct TensorBoardOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t every_steps = 0;       // the loss after so many steps in addition; 0: only after epochs
  int64_t histograms_every = 0;  // of the weights, after so many epochs; 0: none
  bool gradients = false;        // and, with these, of the gradients on the last batch: "gradients/dense/kernel"
  bool graph = false;            // of the traced step
  // Pictures by tag, [n,h,w,c], made after so many epochs: {{"digits", [&](train::Run&) { return ...; }}}.
  std::map<std::string, std::function<Tensor(Run&)>> images = {};
  int64_t images_every = 1;
  std::map<std::string, summary::HParamValue> hparams = {};  // of this run, for the table of HParams
  std::vector<int64_t> profile_steps = {};                   // after which the step is profiled, numbered from 1
};
// Writes the numbers of each epoch for TensorBoard: FOLDER/train and FOLDER/validation.
Callback tensorboard(const std::string& folder, const TensorBoardOptions& options = {}, Where where = Where::current());

struct StopOnNanOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t every_steps = 1;  // how often the loss is read, which waits for the device
  bool explain = true;      // names the first op that makes a NaN, at the cost of a copy of the weights a step
};
// Throws if the loss is NaN or infinite, naming the step, and the op that produced it.
Callback stop_on_nan(const StopOnNanOptions& options = {}, Where where = Where::current());

struct PlateauOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::string monitor = "val_loss";
  double factor = 0.1;  // of the learning rate
  int64_t patience = 10;
  double min_delta = 1e-4, min_rate = 0;
  int64_t cooldown = 0;  // epochs after a reduction that do not count
  Better better = Better::by_name;
};
// Multiplies the learning rate, a number, where another number gets no better. The rate is logged as "learning_rate".
Callback reduce_on_plateau(const PlateauOptions& options = {}, Where where = Where::current());

// Stops after so many minutes of this process, at the end of a step.
Callback time_limit(double minutes, Where where = Where::current());
// A row for each epoch, appended as soon as it is known; a resumed run continues the same file.
Callback csv_log(const std::string& path);
// Stops once so many steps were made, over all runs.
Callback stop_at_step(int64_t step, Where where = Where::current());
// A line on stderr after so many steps: the step, the numbers of Run::running(), steps a second.
Callback log_every(int64_t steps, Where where = Where::current());

// Dumps the steps that `options.steps` names, numbered from 1 as in stop_on_nan(), or all, for `rill debug FOLDER` and
// TensorBoard (rill/serialize/debugger.h). With {.when = debug::has_inf_or_nan} those with such values. Errors of the
// disk are reported on stderr, and training continues. Other ranks dump into FOLDER-rank-1 and so on.
Callback debugger(const std::string& folder, const debug::DumpOptions& options = {}, Where where = Where::current());

struct ProfilerOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::vector<int64_t> steps = {10};  // after which the step is profiled, numbered from 1
  int runs = 10;                      // of each
};
// Profiles steps: after chosen steps the traced step runs some more times on the same batch, with a timer around each
// kernel, and changes nothing. Writes FOLDER/step-N.txt, a table, and step-N.json for ui.perfetto.dev.
Callback profiler(const std::string& folder, const ProfilerOptions& options = {}, Where where = Where::current());

// Validates once more after each epoch, with the averages that the optimizer keeps (its option `ema`) instead of the
// weights: "val_ema_loss" and so on. Afterwards the weights are restored. Throws if there is no data for validation.
Callback evaluate_averages();

struct MemoryOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  MaybeDevice device = {};  // whose memory; none: the default device's
  int64_t limit = 0;        // bytes in use after a step above which training stops; 0: none
  int64_t growth = 5;       // reports on stderr when memory in use has grown for so many epochs in a row
};
// Logs "memory_mb" and "memory_peak_mb" of each epoch: what tensors hold at its end, and held at most.
Callback memory_watch(const MemoryOptions& options = {}, Where where = Where::current());

// Calls of yours.
Callback each_step(std::function<void(Run&)> f, Where where = Where::current());
Callback each_epoch(std::function<void(Run&)> f, Where where = Where::current());

}  // namespace rill::train

#pragma GCC visibility pop
