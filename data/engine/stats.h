// Collects the statistics of one pass: see rill/data/stats.h, which users read.
#pragma once
#include <deque>
#include <unordered_map>

#include "rill/data/engine/calls.h"
#include "rill/data/stats.h"

namespace rill::data {

class Stats {
 public:
  Stats(const Stage& last, bool with_spans);
  // Null of a stage that is not of the tree.
  Counters* of(const Stage& stage);
  // Time in which the user waited.
  void waited(int64_t ns) { waiting_ns_ += ns; }
  PassStats read() const;

 private:
  struct Row {
    const Stage* stage;
    int depth;
    Counters counters;
  };
  void add(const Stage& stage, int depth);
  std::deque<Row> rows_;
  Spans spans_;
  bool with_spans_;
  std::unordered_map<const Stage*, Row*> by_stage_;
  int64_t began_ns_, waiting_ns_ = 0;
};

// The cursor, counted where the pass counts its stage.
CursorPtr counted_in(const Pass& pass, const Stage& stage, CursorPtr cursor);

}  // namespace rill::data
