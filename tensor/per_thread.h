// PerThread: what each thread keeps for itself, as `thread_local constinit PerThread<T> x;`. Scratch is memory for it.
//
// A plain thread_local T is destroyed before the statics of the program and in some order among the thread's others, whose
// destructors may still run ops. This one is made when it is first used and lasts until all of those are gone; it is then
// freed, but for the main thread's, which end with the process. It takes one pointer of thread-local storage, which is
// scarce in a library that is opened late.
#pragma once
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace rill {

namespace detail {
// Calls end(of) when this thread has destroyed its thread_locals.
__attribute__((visibility("default"))) void at_thread_end(void (*end)(void*), void* of);
}  // namespace detail

template <class T>
class PerThread {
 public:
  constexpr PerThread() = default;
  PerThread(const PerThread&) = delete;
  T& operator*() { return value_ ? *value_ : make(); }
  T* operator->() { return &**this; }

 private:
  [[gnu::noinline, gnu::cold]] T& make() {
    auto made = std::make_unique<T>();
    detail::at_thread_end([](void* of) { delete std::exchange(static_cast<PerThread*>(of)->value_, nullptr); }, this);
    return *(value_ = made.release());
  }
  T* value_ = nullptr;
};

// Memory that is reused between calls and grows as they need more.
class Scratch {
 public:
  // At least so many bytes, aligned to 64. Where that is more than before, nothing is left of what they held.
  char* bytes(size_t size) {
    if (size_ < size) {
      size_ = 0, data_.reset();  // the allocation may throw
      data_.reset(static_cast<char*>(::operator new(size, alignment)));
      size_ = size;
    }
    return data_.get();
  }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Free {
    void operator()(char* p) const { ::operator delete(p, alignment); }
  };
  std::unique_ptr<char, Free> data_;
  size_t size_ = 0;
};

}  // namespace rill
