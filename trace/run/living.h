// The set of all live objects of a class, to free memory in each of them when it runs out.
#pragma once
#include <mutex>
#include <unordered_set>

#include "rill/tensor/fork_mutex.h"

namespace rill {

template <class T>
class Living {
 public:
  void add(T* object) {
    const std::lock_guard hold(mutex_);
    all_.insert(object);
  }
  void remove(T* object) {
    const std::lock_guard hold(mutex_);
    all_.erase(object);
  }
  // None of them is destroyed meanwhile.
  template <class F>
  void for_each(F&& f) {
    const std::lock_guard hold(mutex_);
    for (T* object : all_) f(*object);
  }

 private:
  ForkMutex mutex_;
  std::unordered_set<T*> all_;
};

// The live objects of type T. The set outlives every static object.
template <class T>
Living<T>& living() {
  static auto* all = new Living<T>;
  return *all;
}

}  // namespace rill
