// The progress of a run on stderr: a bar on a terminal, else a line for each epoch and one every half a minute.
#pragma once
#include <chrono>
#include <functional>
#include <string>

#include "rill/train/callbacks.h"

namespace rill::train {

class Progress {
 public:
  explicit Progress(bool on);
  // After a step; reads the running means at most ten times a second.
  void step(const Run& run);
  // After an epoch and its validation.
  void epoch(const Run& run);
  // After the last one: where the time went, of a run that took a second or more.
  void end(const RunTimes& times);

 private:
  using Clock = std::chrono::steady_clock;
  bool on_, terminal_;
  Clock::time_point shown_, began_;
  int64_t epoch_ = -1;
};

// "loss 0.123  accuracy 0.95": the loss first.
std::string to_line(const Logs& logs);
// "0:42", "1:03:10".
std::string to_time(double seconds);

}  // namespace rill::train
