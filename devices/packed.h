// Packed: room for what a kernel makes once of an operand whose elements never change, such as weights in the layout
// that a library wants. An executable keeps one beside each instruction that has such an operand; what it points to may
// be shared with others that read the same elements.
#pragma once
#include <memory>
#include <mutex>

namespace rill {

struct Packed {
  std::mutex mutex;
  std::shared_ptr<const void> made;  // only the kernel knows what; null until its first run

  // What is there, or else what make() gives. Any number of threads may ask.
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
