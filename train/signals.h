// SIGTERM and SIGINT while a run can be saved: the first is noted, so that the run saves and ends; a second one ends the
// process at once.
#pragma once
#include <csignal>

namespace rill::train {

class SignalScope {
 public:
  explicit SignalScope(bool on);
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  // The signal that came, or 0.
  static int came();
  // Ends the process as that signal would have.
  [[noreturn]] void end();

 private:
  bool on_;
  struct sigaction term_ = {}, interrupt_ = {};
};

}  // namespace rill::train
