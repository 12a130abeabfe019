// Calls of the user's functions. What they draw follows from the pass's seed, its epoch and the element's number alone,
// so that threads and resuming change nothing; how long they take is counted where somebody wants to know.
#pragma once
#include <atomic>
#include <chrono>

#include "rill/data/engine/seeds.h"
#include "rill/data/stage.h"

namespace rill::data {

// What is counted of one stage, by all threads.
struct Counters {
  std::atomic<int64_t> elements = 0, own_ns = 0, function_ns = 0;
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
    if (counters_) counters_->function_ns.fetch_add(now_ns() - began_, std::memory_order_relaxed);
  }
  CallScope(const CallScope&) = delete;

 private:
  Counters* counters_;
  random::OwnGenerator own_;
  int64_t began_;
};

}  // namespace rill::data
