// Statistics of the stages of a pass: which one is slow. iterator({.stats = true}).stats() returns them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "rill/tensor/error.h"

#pragma GCC visibility push(default)

namespace rill::data {

// Of one stage.
struct StageStats {
  std::string name;             // "map"
  Where where;                  // the line that made it
  int depth = 0;                // 0: the last stage; its inputs: 1
  int threads = 1;              // that it may use
  int64_t elements = 0;         // that it returned
  double own_seconds = 0;       // spent waiting for this stage, and not for its inputs
  double function_seconds = 0;  // in functions of the user's, on all threads
};

// A time span in which a stage and those before it were waited for, or in which one of its functions ran.
struct StageSpan {
  size_t stage = 0;  // the how manieth of PassStats::stages
  bool is_function = false;
  int thread = 0;
  double start = 0, seconds = 0;  // since the iterator was made
};

struct PassStats {
  std::vector<StageStats> stages;  // the last stage first, each before its inputs
  std::vector<StageSpan> spans;    // of iterator({.spans = true}), as they ended; not more than 200 000
  double seconds = 0;              // since the iterator was made
  double waiting_seconds = 0;      // of these, in next()

  // The index in `stages` of the stage that takes longest for an element, if all run in parallel.
  size_t slowest() const;
};
// A table, a line a stage, and what may help.
std::string to_string(const PassStats& stats);
// Writes the spans as Chrome's trace events to a .json file, for ui.perfetto.dev: a track a stage, and one for each thread
// that calls functions of the user's. Throws rill::Error where nothing was kept.
void export_profile(const PassStats& stats, const std::string& path, Where where = Where::current());

}  // namespace rill::data

#pragma GCC visibility pop
