// Calls of the user's functions. Their random draws depend only on the pass's seed, its epoch and the element's number,
// so threads and resuming change nothing; their time is measured if statistics are requested.
#pragma once
#include <atomic>
#include <chrono>

#include "rill/data/engine/seeds.h"
#include "rill/data/stage.h"
#include "rill/data/stats.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::data {

// When something was at work, as it goes into PassStats::spans.
class Spans {
 public:
  void add(size_t stage, bool is_function, int64_t began_ns, int64_t ended_ns);
  std::vector<StageSpan> read(int64_t zero_ns) const;

 private:
  mutable ForkMutex mutex_;
  std::vector<StageSpan> all_;
};

// The counters of one stage, shared by all threads.
struct Counters {
  std::atomic<int64_t> elements = 0, own_ns = 0, function_ns = 0;
  size_t stage = 0;        // the how manieth of PassStats::stages
  Spans* spans = nullptr;  // if a time line is requested
};
// The counters of `stage`, or null.
Counters* counters_of(const Stage& stage, const Pass& pass);
inline int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// Of one stage in one pass.
struct Calls {
  Calls(const Stage& stage, const Pass& pass, std::optional<uint64_t> seed = {})
      : seed(mixed(seed.value_or(pass.seed) + mixed(pass.epoch))), counters(counters_of(stage, pass)) {}
  uint64_t seed;
  Counters* counters;
};

class CallScope {
 public:
  CallScope(const Calls& calls, int64_t number)
      : counters_(calls.counters), own_(mixed(calls.seed + uint64_t(number))), began_(counters_ ? now_ns() : 0) {}
  ~CallScope() {
    if (!counters_) return;
    const int64_t now = now_ns();
    counters_->function_ns.fetch_add(now - began_, std::memory_order_relaxed);
    if (counters_->spans) counters_->spans->add(counters_->stage, true, began_, now);
  }
  CallScope(const CallScope&) = delete;

 private:
  Counters* counters_;
  random::OwnGenerator own_;
  int64_t began_;
};

}  // namespace rill::data
