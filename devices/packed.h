// Packed: a cache for an operand whose elements never change, such as weights, in the layout that a kernel prefers. An
// executable has one for each instruction with such an operand, and a loop has one while it runs for operands that
// are the same in every step; instructions that read the same elements share the repacked copy.
#pragma once
#include <memory>
#include <mutex>

#include "rill/tensor/fork_mutex.h"

#pragma GCC visibility push(default)

namespace rill {

struct Packed {
  ForkMutex mutex;
  std::shared_ptr<const void> made;  // of a type that only the kernel knows; null until its first run

  // The cached value, or else what make() returns. Any number of threads may call it.
  template <class Make>
  std::shared_ptr<const void> get(Make&& make) {
    std::lock_guard lock(mutex);
    if (!made) made = make();
    return made;
  }
  void clear() {
    std::lock_guard lock(mutex);
    made = nullptr;
  }
};

}  // namespace rill

#pragma GCC visibility pop
