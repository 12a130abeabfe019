// Callbacks that look at how a run goes, without a part in it: the debugger, the profiler, memory, averages, lines on
// stderr.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>

#include "rill/devices/registry.h"
#include "rill/ops/option_checks.h"
#include "rill/train/callbacks.h"

namespace rill::train {

namespace {

// Steps by their numbers: the first is 1.
void require_steps(const std::vector<int64_t>& steps, std::string_view op, std::string_view option,
                   const Where& where) {
  for (const int64_t step : steps) require_option(step >= 1, op, option, step, "1 or more, the first step's", where);
}

struct Debugger {
  std::string folder;
  debug::DumpOptions options;
  Where where;
  debug::Dumper dumper;  // of the first rank
  std::shared_ptr<debug::DumpScope> scope = {};

  void on_begin(Run& run) {
    if (run.rank != 0) dumper = debug::Dumper(fmt::format("{}-rank-{}", folder, run.rank), options, where);
  }
  // Of the step alone, and not of what other callbacks compute beside it, wherever they are listed.
  void step_begins(Run& run) {
    close();  // of a step that a loop of one's own has left out
    // Numbered as it will be when it was made.
    if (dumper.wants(run.step + 1)) scope = std::make_shared<debug::DumpScope>(dumper, run.step + 1);
  }
  void step_ends(Run&) { close(); }
  void on_end(Run&) { close(); }  // of a step that threw
  void close() {
    if (!scope) return;
    const auto ended = std::move(scope);
    try {
      ended->close();
    } catch (const Error& e) {
      std::fprintf(stderr, "rill: the dump is not whole: %s\n", e.what());
    }
  }
};

struct Profiler {
  std::string folder;
  ProfilerOptions options;
  bool any = false;
  void on_step(Run& run) {
    if (std::find(options.steps.begin(), options.steps.end(), run.step) == options.steps.end()) return;
    const std::optional<Profile> profile = run.profile_step({.runs = options.runs});
    if (!profile) fail("profiler", "the step is not traced by the loop. profile a function of yours by profile(f, x)");
    any = true;
    if (run.rank != 0) return;  // all ranks run the step, and one writes
    const std::string path = fmt::format("{}/step-{}", folder, run.step);
    export_profile(*profile, path + ".json");
    std::ofstream table(path + ".txt", std::ios::binary);
    table << *profile;
    table.close();
    if (!table) std::fprintf(stderr, "rill: %s.txt cannot be written\n", path.c_str());
  }
  void on_end(Run& run) {
    if (!any && run.rank == 0)
      std::fprintf(stderr, "rill: no step was profiled: the run ended after step %lld\n", (long long)run.step);
  }
};

struct Averages {
  void on_epoch(Run& run) const {
    nn::Optimizer* optimizer = run.optimizer();
    if (!optimizer)
      fail("evaluate_averages",
           "the step is your own, and this knows no optimizer of it. call its swap_averages() in "
           "train::each_epoch(f)");
    // Before the first step of the optimizer, which may take several batches, the averages are the weights.
    const bool any = optimizer->iterations().value().item<int64_t>() > 0;
    if (any) optimizer->swap_averages();
    Logs logs;
    try {
      logs = run.validate_now();
    } catch (...) {
      if (any) optimizer->swap_averages();
      throw;
    }
    if (any) optimizer->swap_averages();
    if (logs.empty()) fail("evaluate_averages", "there is no data for validation. fit with {.validation = ...}");
    for (const auto& [name, value] : logs) run.logs["val_ema_" + name] = value;
  }
};

struct Memory {
  MemoryOptions options;
  size_t last = 0;
  int64_t grew = 0;
  bool told = false;

  Device device() const { return options.device.value_or(default_device()); }
  void on_begin(Run&) const { reset_peak_memory(device()); }
  void on_step(Run& run) const {
    if (options.limit == 0) return;
    if (const size_t now = memory_stats(device()).in_use; now > size_t(options.limit))
      run.stop(
          fmt::format("{:.1f} MB are in use, and the limit is {:.1f}", double(now) / 1e6, double(options.limit) / 1e6));
  }
  void on_epoch(Run& run) {
    const MemoryStats now = memory_stats(device());
    run.logs["memory_mb"] = double(now.in_use) / 1e6;
    run.logs["memory_peak_mb"] = double(now.peak) / 1e6;
    reset_peak_memory(device());
    grew = now.in_use > last ? grew + 1 : 0;
    last = now.in_use;
    if (grew <= options.growth || told) return;
    told = true;
    std::fputs(
        fmt::format("rill: the memory in use has grown in each of {} epochs, to {:.1f} MB. something keeps tensors\n",
                    grew, double(now.in_use) / 1e6)
            .c_str(),
        stderr);
  }
};

struct StopAtStep {
  int64_t step;
  void on_begin(Run& run) const { on_step(run); }
  void on_step(Run& run) const {
    if (run.step >= step) run.stop(fmt::format("{} steps were made", step));
  }
};

struct LogEvery {
  using Clock = std::chrono::steady_clock;
  int64_t steps;
  Clock::time_point last = {};
  int64_t last_step = 0;
  void on_begin(Run& run) { last = Clock::now(), last_step = run.step; }
  void on_step(Run& run) {
    if (run.step % steps != 0) return;
    const auto now = Clock::now();
    std::string text = fmt::format("step {}", run.step);
    for (const auto& [name, value] : run.running()) text += fmt::format("  {} {:.5g}", name, value);
    const double seconds = std::chrono::duration<double>(now - last).count();
    text += fmt::format("  ({:.4g} steps/s)", double(run.step - last_step) / std::max(seconds, 1e-9));
    if (run.rank == 0) std::fprintf(stderr, "%s\n", text.c_str());
    last = now, last_step = run.step;
  }
};

}  // namespace

Callback debugger(const std::string& folder, const debug::DumpOptions& options, Where where) {
  require_steps(options.steps, "debugger", "steps", where);
  return Debugger{folder, options, where, debug::Dumper(folder, options, where)};
}
Callback profiler(const std::string& folder, const ProfilerOptions& o, Where where) {
  require_option(o.runs >= 1, "profiler", "runs", o.runs, "1 or more", where);
  require_steps(o.steps, "profiler", "steps", where);
  return Profiler{folder, o};
}
Callback evaluate_averages() { return Averages{}; }
Callback memory_watch(const MemoryOptions& o, Where where) {
  require_option(o.limit >= 0, "memory_watch", "limit", o.limit, "0 or more", where);
  require_option(o.growth >= 1, "memory_watch", "growth", o.growth, "1 or more", where);
  return Memory{o};
}
Callback stop_at_step(int64_t step, Where where) {
  require_option(step >= 0, "stop_at_step", "step", step, "0 or more", where);
  return StopAtStep{step};
}
Callback log_every(int64_t steps, Where where) {
  require_option(steps >= 1, "log_every", "steps", steps, "1 or more", where);
  return LogEvery{steps};
}

}  // namespace rill::train
