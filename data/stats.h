// What the stages of a pass do, counted: which one is slow. iterator({.stats = true}).stats() gives it.
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
  int64_t elements = 0;         // that it gave
  double own_seconds = 0;       // in which somebody waited for this stage, and not for its inputs
  double function_seconds = 0;  // in functions of the user's, on all threads
};

struct PassStats {
  std::vector<StageStats> stages;  // the last stage first, each before its inputs
  double seconds = 0;              // since the iterator was made
  double waiting_seconds = 0;      // of these, in next()

  // Of the stage that takes longest for an element, where all run side by side: the index in `stages`.
  size_t slowest() const;
};
// A table, a line a stage, and what may help.
std::string to_string(const PassStats& stats);

}  // namespace rill::data

#pragma GCC visibility pop
