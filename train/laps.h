// A stopwatch for the parts of a run.
#pragma once
#include <chrono>

namespace rill::train {

class Laps {
 public:
  // Adds the seconds since the last lap, or since this was made.
  void end(double& seconds) {
    const auto now = Clock::now();
    seconds += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
};

}  // namespace rill::train
