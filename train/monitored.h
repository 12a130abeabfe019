// Monitored: a session with hooks, for a loop of your own: it restores at the start, saves on the way and at the end,
// survives signals, and calls callbacks after each step. MonitoredTrainingSession's counterpart.
//
//   train::Monitored run({{"model", model}, {"adam", adam}, {"data", batches}},
//                        {.folder = "run", .callbacks = {train::stop_at_step(1000), train::log_every(100)}});
//   while (run.goes_on()) {
//     Tensor loss = step(*batches.next());
//     run.made_step({{"loss", loss}});
//   }
//
// Callbacks are those of train::Loop (callbacks.h) that concern steps: stop_at_step, log_every, time_limit,
// stop_on_nan({.explain = false}), tensorboard("logs", {.every_steps = 100}), checkpoint, debugger, each_step, yours. A
// callback that only acts after epochs is refused.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rill/train/callbacks.h"

#pragma GCC visibility push(default)

namespace rill::train {

struct MonitoredOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // Where it restores from, and saves: at the end, on SIGTERM or SIGINT, and as below. Empty: nowhere.
  std::string folder = "";
  int64_t save_steps = 0;    // so many steps, or
  double save_minutes = 10;  // so many minutes, whichever comes first; 0: neither
  int keep = 5;              // how many checkpoints are kept
  std::vector<Callback> callbacks = {};
};

class Monitored {
 public:
  // `parts`: what the loop changes (layers, optimizers, iterators of data, Variables), by name, as for a Checkpoint.
  // The random generator and the number of steps are saved too. Restores the latest checkpoint of the folder, if there
  // is one; throws if that does not fit the parts.
  Monitored(std::vector<std::pair<std::string, Trackable>> parts, MonitoredOptions options = {},
            Where where = Where::current());
  // finish(), except during an exception: the state is then not saved.
  ~Monitored();
  Monitored(const Monitored&) = delete;

  // Whether to make another step: callbacks see that it begins. False once one has stopped the run, or on SIGTERM or
  // SIGINT.
  bool goes_on(Where where = Where::current());
  // Reports a step, with these numbers, of which "loss" or else the first is Run::loss(). Callbacks see it, and it is
  // saved if that is due. Throws exceptions of callbacks.
  void made_step(const std::map<std::string, Tensor>& numbers = {}, Where where = Where::current());
  // Saves, and calls on_end() of the callbacks; once. If a signal has ended the run, ends the process by it.
  void finish(Where where = Where::current());

  int64_t step() const;                    // how many were made, over all runs
  bool resumed() const;                    // whether it continues a stopped run
  const std::string& why_stopped() const;  // a callback's reason; "" if none has stopped it
  Run& run();                              // as callbacks see it

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rill::train

#pragma GCC visibility pop
