#include "rill/train/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace rill::train {

namespace {
double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}
// "epoch 3/10", or "epoch 3" for a run without a fixed number.
std::string name_of_epoch(const Run& run) {
  return fmt::format("epoch {}", run.epoch + 1) + (run.epochs == INT64_MAX ? "" : fmt::format("/{}", run.epochs));
}
std::string rate(double seconds_a_step) {
  return seconds_a_step < 1e-3 ? fmt::format("{:.0f} us", seconds_a_step * 1e6)
         : seconds_a_step < 1  ? fmt::format("{:.3g} ms", seconds_a_step * 1e3)
                               : fmt::format("{:.3g} s", seconds_a_step);
}
}  // namespace

std::string to_line(const Logs& logs) {
  History one;
  one.add(logs);
  std::string line;
  for (const std::string& name : one.names())
    if (name != "seconds") line += fmt::format("{}{} {:.4g}", line.empty() ? "" : "  ", name, logs.at(name));
  return line;
}

std::string to_time(double seconds) {
  const auto s = int64_t(std::clamp(seconds, 0., 1e9));
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

Progress::Progress(bool on) : on_(on) {
  const char* term = std::getenv("TERM");
  terminal_ = isatty(STDERR_FILENO) && !(term && std::string_view(term) == "dumb");
  shown_ = began_ = Clock::now();
}

void Progress::step(const Run& run) {
  if (!on_) return;
  if (epoch_ != run.epoch) epoch_ = run.epoch, began_ = shown_ = Clock::now();
  if (seconds_since(shown_) < (terminal_ ? 0.1 : 30)) return;
  shown_ = Clock::now();
  const double each = seconds_since(began_) / double(std::max<int64_t>(run.epoch_step, 1));
  std::string text = name_of_epoch(run);
  if (run.epoch_steps && *run.epoch_steps > 0) {
    const double part = std::min(1., double(run.epoch_step) / double(*run.epoch_steps));
    if (terminal_) {
      const auto filled = size_t(part * 24);
      text += " [" + std::string(filled, '=') + std::string(24 - filled, ' ') + "]";
    }
    text += fmt::format(" {}/{}", run.epoch_step, *run.epoch_steps);
    text += fmt::format("  {} left", to_time(each * double(*run.epoch_steps - run.epoch_step)));
  } else {
    text += fmt::format(" step {}", run.epoch_step);
  }
  text += fmt::format("  {} a step  {}", rate(each), to_line(run.running()));
  if (terminal_) std::fprintf(stderr, "\r\033[K%s", text.c_str());
  else std::fprintf(stderr, "%s\n", text.c_str());
  std::fflush(stderr);
}

void Progress::end(const RunTimes& times) {
  if (on_ && times.total() >= 1) std::fprintf(stderr, "%s\n", to_string(times).c_str());
}

void Progress::epoch(const Run& run) {
  if (!on_) return;
  const auto at = run.logs.find("seconds");
  std::fprintf(stderr, "%s%s  %s  %s\n", terminal_ ? "\r\033[K" : "", name_of_epoch(run).c_str(),
               to_time(at == run.logs.end() ? 0 : at->second).c_str(), to_line(run.logs).c_str());
}

}  // namespace rill::train
