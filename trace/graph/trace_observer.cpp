// The list behind trace_observer.h.
#include "rill/trace/graph/trace_observer.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>

#include "rill/tensor/fork_mutex.h"

namespace rill {
namespace {

struct Observers {
  ForkMutex mutex;
  std::map<int, std::shared_ptr<TraceObserver>> by_number;
  int next = 1;
  std::atomic<bool> any{false};
};

// Never destroyed: a thread may still trace while the process ends.
Observers& observers() {
  static Observers* all = new Observers;
  return *all;
}

}  // namespace

int add_trace_observer(TraceObserver observer) {
  Observers& o = observers();
  std::lock_guard lock(o.mutex);
  o.by_number[o.next] = std::make_shared<TraceObserver>(std::move(observer));
  o.any.store(true, std::memory_order_relaxed);
  return o.next++;
}

void remove_trace_observer(int number) {
  Observers& o = observers();
  std::lock_guard lock(o.mutex);
  o.by_number.erase(number);
  o.any.store(!o.by_number.empty(), std::memory_order_relaxed);
}

void notify_traced(const Graph& g) {
  Observers& o = observers();
  if (!o.any.load(std::memory_order_relaxed)) return;
  std::vector<std::shared_ptr<TraceObserver>> now;  // run outside the lock: an observer may add or remove others
  {
    std::lock_guard lock(o.mutex);
    for (const auto& [number, observer] : o.by_number) now.push_back(observer);
  }
  for (const auto& observer : now) (*observer)(g);
}

}  // namespace rill
