// Whether other programs, or other threads of this one, keep the cores busy that parallel regions count on. A region
// waits for all its threads, and a thread whose core is taken is milliseconds late: far longer than small work takes.
// Each region reports how late its last thread was; after stalls, small work stays on the calling thread for a while,
// and then parallel regions are tried again.
//
// Times are nanoseconds of any steady clock. Shared by all threads; a race loses at most one observation.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>

namespace rill {

class Crowding {
 public:
  // How many times its grain a piece of work must be to be divided even so.
  static constexpr int64_t factor = 32;

  bool now(int64_t time) const { return time < until_.load(std::memory_order_relaxed); }
  // Whether now() can be true at all: saves reading the clock.
  bool possible() const { return until_.load(std::memory_order_relaxed) != 0; }

  // A region's last thread started so long after the region did, or a woken thread waited so long for a core.
  // Negative: not known.
  void saw(int64_t time, int64_t late) {
    if (late < 0) return;
    if (late < least_stall) {
      if (possible() && !now(time)) relax(time);
      return;
    }
    // A single stall may be an interrupt; a taken core causes one after the other.
    const int64_t before = last_stall_.exchange(time, std::memory_order_relaxed);
    const int level = level_.load(std::memory_order_relaxed);
    if (level == 0 && (before == 0 || time - before > soon)) return;
    level_.store(std::min(level + 1, highest), std::memory_order_relaxed);
    until_.store(time + (shortest << level), std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t least_stall = 200'000, soon = 100'000'000;
  static constexpr int64_t shortest = 20'000'000;  // the duration of the first level, doubled at each
  // 0.3 s: a vain attempt costs a hundredth of that, but staying on one thread when the cores are free again may cost
  // half of the throughput.
  static constexpr int highest = 4;

  // No thread was late after the period was over: the next period is half as long, or there is none.
  void relax(int64_t time) {
    const int level = level_.load(std::memory_order_relaxed);
    level_.store(std::max(0, level - 1), std::memory_order_relaxed);
    until_.store(level <= 1 ? 0 : time, std::memory_order_relaxed);
  }

  std::atomic<int64_t> until_{0}, last_stall_{0};
  std::atomic<int> level_{0};
};

#pragma GCC visibility push(default)
Crowding& process_crowding();  // what this process's regions reported
// Whether other work keeps the cores busy now, so that work of this size, if at most `most`, should not wait for them.
bool crowded(int64_t work, int64_t most);
#pragma GCC visibility pop

}  // namespace rill
