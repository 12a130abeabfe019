// Timeline: when ranks wait and data moves between them, as a file for Perfetto (ui.perfetto.dev) or chrome://tracing.
//
//   distribute::Timeline timeline("steps.json");  // on all ranks
//   for (...) step(x, y);
//
// Each rank is a process with a track "waits", whose gaps are computation, and tracks "moves" of sums that overlap with
// it: how much communication is hidden is seen at a glance.
#pragma once
#include <string>

#include "rill/distribute/session.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

class Timeline {
 public:
  // All ranks make it at once, and all end it; then the first writes the file. One at a time.
  explicit Timeline(std::string path, Where where = Where::current());
  ~Timeline();
  Timeline(const Timeline&) = delete;

 private:
  std::string path_;
  double begun_ = 0;
};

}  // namespace rill::distribute

#pragma GCC visibility pop
