// Checks that work grows linearly with its input, not as its square: by running it for inputs that are four times
// larger. What is measured is this thread's heap allocations, in blocks and bytes, which are the same in
// every run; and its processor time, the least of several, for work that does not allocate. Time is
// only compared with itself, so that the machine and its load matter little. For a program that the
// work runs, the pages of memory and the time.
// Included by one source of a program, whose operator new it is.
#pragma once
#include <sys/resource.h>
#include <algorithm>

#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>

#include "catch.h"
#include "own_new.h"

namespace growth {

// LLVM takes minutes for programs of this size; waiting for kernels is not measured here.
inline const int without_compiler = setenv("RILL_JIT", "off", 1);

struct Work {
  double blocks = 0, bytes = 0, seconds = 0;
};
inline thread_local Work taken;

inline double thread_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// The work, after its preparation.
using Walk = std::function<void()>;
using MakeWalk = std::function<Walk(int size)>;

// What child processes have used so far: pages of memory, and processor time.
inline Work of_children() {
  rusage all{};
  getrusage(RUSAGE_CHILDREN, &all);
  const auto seconds = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
  return {0, 4096.0 * double(all.ru_minflt), seconds(all.ru_utime) + seconds(all.ru_stime)};
}

inline Work work_of(const MakeWalk& make, int size) {
  const Walk walk = make(size);
  const Work before = taken, others = of_children();
  const double start = thread_seconds();
  walk();
  const double seconds = thread_seconds() - start;
  const Work after = of_children();
  return {taken.blocks - before.blocks, taken.bytes - before.bytes + (after.bytes - others.bytes),
          seconds + (after.seconds - others.seconds)};
}

// From 1,000 to 4,000 and 16,000: for four times the input, n log n takes 4.8 times as much, and n n 16 times.
inline void is_linear(const std::string& name, const MakeWalk& make, int least = 1000) {
  INFO(name);
  constexpr double most = 7, most_time = 11;
  Work small = work_of(make, least), middle = work_of(make, 4 * least), large = work_of(make, 16 * least);
  const double some = 50.0 * least;  // a fixed allowance
  CHECK(large.blocks < most * std::max(middle.blocks, some));
  CHECK(large.bytes < most * std::max(middle.bytes, 100 * some));
  CHECK(middle.bytes < most * std::max(small.bytes, 25 * some));
  constexpr double too_short = 0.02;  // seconds: too short to be compared
  for (int again = 0; again < 4 && large.seconds > most_time * std::max(middle.seconds, too_short); ++again)
    large.seconds = std::min(large.seconds, work_of(make, 16 * least).seconds);
  INFO(middle.seconds << " seconds, then " << large.seconds);
  CHECK(large.seconds <= most_time * std::max(middle.seconds, too_short));
}

}  // namespace growth

static void* memory_for_new(size_t bytes) {
  ++growth::taken.blocks;
  growth::taken.bytes += double(bytes);
  return std::malloc(bytes ? bytes : 1);
}
