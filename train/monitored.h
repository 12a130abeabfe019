// Monitored: for a loop of your own, what a session with hooks is: it restores at the start, saves on the way and at the
// end, survives signals, and calls callbacks after each step. MonitoredTrainingSession's counterpart.
//
//   train::Monitored run({{"model", model}, {"adam", adam}, {"data", batches}},
//                        {.folder = "run", .callbacks = {train::stop_at_step(1000), train::log_every(100)}});
//   while (run.goes_on()) {
//     Tensor loss = step(*batches.next());
//     run.made_step({{"loss", loss}});
//   }
//
// Callbacks are those of train::Loop (callbacks.h), as far as steps concern them: stop_at_step, log_every, time_limit,
// stop_on_nan({.explain = false}), tensorboard("logs", {.every_steps = 100}), checkpoint, debugger, each_step, yours. One
// that is called after epochs alone is refused.
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
  // Where it goes on from, and saves: at the end, when SIGTERM or SIGINT comes, and as below. Empty: nowhere.
  std::string folder = "";
  int64_t save_steps = 0;    // so many steps, or
  double save_minutes = 10;  // so many minutes, whichever comes first; 0: neither
  int keep = 5;              // so many checkpoints
  std::vector<Callback> callbacks = {};
};

class Monitored {
 public:
  // `parts`: what the loop changes (layers, optimizers, iterators of data, Variables), by name, as for a Checkpoint. The
  // random generator and the number of steps are saved besides. Restores the latest checkpoint of the folder, where
  // there is one; throws where that does not fit the parts.
  Monitored(std::vector<std::pair<std::string, Trackable>> parts, MonitoredOptions options = {},
            Where where = Where::current());
  // finish(), unless an exception is on its way: what it leaves behind is not saved.
  ~Monitored();
  Monitored(const Monitored&) = delete;

  // Whether to make another step: callbacks see that it begins. False once one has stopped the run, or SIGTERM or SIGINT
  // came.
  bool goes_on(Where where = Where::current());
  // A step was made, with these numbers, of which "loss" or else the first is Run::loss(). Callbacks see it, it is saved
  // where that is due. Throws what callbacks throw.
  void made_step(const std::map<std::string, Tensor>& numbers = {}, Where where = Where::current());
  // Saves, and calls on_end() of the callbacks; once. Where a signal has ended the run, ends the process as it would have.
  void finish(Where where = Where::current());

  int64_t step() const;                    // how many were made, over all runs
  bool resumed() const;                    // whether it goes on where another was stopped
  const std::string& why_stopped() const;  // what a callback said; "" where none has stopped it
  Run& run();                              // as callbacks see it

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rill::train

#pragma GCC visibility pop
