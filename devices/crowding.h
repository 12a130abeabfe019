// Whether other programs, or other threads of this one, keep the cores busy that parallel regions count on. A region
// waits for all its threads, and one whose core is taken comes milliseconds late: far longer than small work takes.
// Each region tells how late its last thread came; after stalls, small work stays on the calling thread for a while,
// and then parallel regions are tried again.
//
// Times are nanoseconds of any steady clock. Shared by all threads; races lose no more than an observation.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>

namespace rill {

class Crowding {
 public:
  // How many times its grain a piece of work must be, to be divided all the same.
  static constexpr int64_t factor = 32;

  bool now(int64_t time) const { return time < until_.load(std::memory_order_relaxed); }
  // Whether now() can be true at all: spares asking the clock.
  bool possible() const { return until_.load(std::memory_order_relaxed) != 0; }

  // A region's last thread began so long after the region did, or one that was woken waited so long for a core.
  // Negative: nobody knows.
  void saw(int64_t time, int64_t late) {
    if (late < 0) return;
    if (late < least_stall) {
      if (possible() && !now(time)) relax(time);
      return;
    }
    // One alone may be an interrupt; those of a taken core come one after the other.
    const int64_t before = last_stall_.exchange(time, std::memory_order_relaxed);
    const int level = level_.load(std::memory_order_relaxed);
    if (level == 0 && (before == 0 || time - before > soon)) return;
    level_.store(std::min(level + 1, highest), std::memory_order_relaxed);
    until_.store(time + (shortest << level), std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t least_stall = 200'000, soon = 100'000'000;
  static constexpr int64_t shortest = 20'000'000;  // what a level stands for, doubled at each
  // 0.3 s: to try in vain costs a hundredth of that, and to stay on one thread where the cores are free again, a half of
  // all.
  static constexpr int highest = 4;

  // Nobody came late, after the time was over: half as long the next time, or not at all.
  void relax(int64_t time) {
    const int level = level_.load(std::memory_order_relaxed);
    level_.store(std::max(0, level - 1), std::memory_order_relaxed);
    until_.store(level <= 1 ? 0 : time, std::memory_order_relaxed);
  }

  std::atomic<int64_t> until_{0}, last_stall_{0};
  std::atomic<int> level_{0};
};

#pragma GCC visibility push(default)
Crowding& process_crowding();  // what this process's regions have told
// Whether others keep the cores busy now, and work of this size, of `most` or less, had better not wait for them.
bool crowded(int64_t work, int64_t most);
#pragma GCC visibility pop

}  // namespace rill
