// See core_waits.h.
#include "rill/devices/core_waits.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace rill::detail {

namespace {
constinit std::atomic<bool> waits_are_known{false};
}

// "Nanoseconds on a core, nanoseconds ready without one, slices": Documentation/scheduler/sched-stats.rst of Linux.
CoreWaits::CoreWaits() : file_(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {
  waits_are_known = nanoseconds() >= 0;
}
CoreWaits::~CoreWaits() {
  if (file_ >= 0) close(file_);
}
int64_t CoreWaits::nanoseconds() const {
  char text[96];
  const ssize_t n = file_ < 0 ? -1 : pread(file_, text, sizeof text - 1, 0);
  if (n <= 0) return -1;
  text[n] = 0;
  const char* const second = std::strchr(text, ' ');
  return second ? int64_t(std::strtoll(second, nullptr, 10)) : -1;
}
bool CoreWaits::are_known() { return waits_are_known.load(std::memory_order_relaxed); }

int64_t switches_of_core() {
#ifdef RUSAGE_THREAD
  rusage used;
  if (getrusage(RUSAGE_THREAD, &used) == 0) return int64_t(used.ru_nivcsw);
#endif
  return 0;
}

}  // namespace rill::detail
