// How limits.cpp and peers/libtorch.cpp time calls and answer requests for rows.
// They use the protocol of peers/common.py: a process that stays alive is asked for rows by name, one on each line of
// standard input or as arguments, and answers JSON lines {"row", "peer", "median_us"}; an empty line ends the row.
// Start at serve().
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace bench {

using Call = std::function<void(int)>;                      // does the work this many times
using Ways = std::vector<std::pair<std::string, Call>>;     // every way to do it, by the name in reports
using Rows = std::map<std::string, std::function<Ways()>>;  // prepared only on request
using Clock = std::chrono::steady_clock;

// Seconds of wall time or, if RILL_BENCH_CLOCK is `cpu`, of the processor time of this process: for one thread on a
// machine that is busy with other things too.
inline double now() {
  static const char* const clock = std::getenv("RILL_BENCH_CLOCK");
  if (!clock || std::string(clock) != "cpu")
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}
inline double seconds_of(const Call& call, int times) {
  const double start = now();
  call(times);
  return now() - start;
}

// The median over batches of at least a millisecond each. RILL_BENCH_SECONDS says for how long to measure.
inline double median_us(const Call& call) {
  const char* setting = std::getenv("RILL_BENCH_SECONDS");
  const double budget = setting ? std::atof(setting) : 0.4;
  call(1);
  int batch = 1;
  for (double spent; (spent = seconds_of(call, batch)) < 1e-3 && batch < 1 << 20;)
    batch = std::max(batch + 1, std::min(batch * 8, static_cast<int>(batch * 1.5e-3 / std::max(spent, 1e-7))));
  std::vector<double> samples;
  for (const double end = now() + budget; now() < end || samples.size() < 5;)
    samples.push_back(seconds_of(call, batch));
  std::nth_element(samples.begin(), samples.begin() + samples.size() / 2, samples.end());
  return samples[samples.size() / 2] / batch * 1e6;
}

inline void serve(const Rows& rows, int argc, char** argv) {
  std::string name;
  for (int i = 1; argc > 1 ? i < argc && (name = argv[i], true) : bool(std::getline(std::cin, name)); ++i) {
    if (auto row = rows.find(name); row != rows.end())
      for (auto& [peer, call] : row->second())
        std::printf("{\"row\": \"%s\", \"peer\": \"%s\", \"median_us\": %.6f}\n", name.c_str(), peer.c_str(),
                    median_us(call));
    std::printf("\n");
    std::fflush(stdout);
  }
}

// The monotonic clock, which the parent read before it started this process (row start).
inline double clock_us() { return std::chrono::duration<double, std::micro>(Clock::now().time_since_epoch()).count(); }

// The resident peak of this process (row peak_memory).
inline long peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("VmHWM:", 0) == 0) return std::atol(line.c_str() + 6) * 1024;
  return 0;
}

}  // namespace bench
