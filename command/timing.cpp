// See timing.h.
#include "timing.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "terminal.h"

namespace command {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double timed(const std::function<void()>& call) {
  const auto start = Clock::now();
  call();
  return seconds_since(start);
}

}  // namespace

std::vector<double> time_calls(const std::function<void()>& call, int64_t count) {
  std::vector<double> seconds;
  Progress progress("running", count);
  for (int64_t i = 0; i < count; ++i) {
    seconds.push_back(timed(call));
    progress.show(i + 1);
  }
  return seconds;
}

std::vector<double> time_for(const std::function<void()>& call, double seconds) {
  std::vector<double> all;
  Progress progress("calls", 0);
  const auto start = Clock::now();
  while (all.size() < 3 || seconds_since(start) < seconds) {
    all.push_back(timed(call));
    progress.show(int64_t(all.size()));
  }
  return all;
}

double median_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

std::string summary_of(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return fmt::format("median {}, fastest {}, 90 % within {}, {} calls", seconds_text(seconds[seconds.size() / 2]),
                     seconds_text(seconds[0]), seconds_text(seconds[size_t(double(seconds.size() - 1) * 0.9)]),
                     count_text(int64_t(seconds.size())));
}

}  // namespace command
