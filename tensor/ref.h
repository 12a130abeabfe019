// Ref<T>: an intrusive reference-counted pointer; T has a member `Count refs` and a static `destroy(T*)`.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>

#pragma GCC visibility push(default)

namespace rill {

// An atomic reference count, which starts at one. (std::atomic<uint32_t> without <atomic>, which every file
// that includes rill.h would pay for.)
class Count {
 public:
  void up() { __atomic_fetch_add(&n_, 1, __ATOMIC_RELAXED); }
  // Returns whether that was the last reference. The sole owner needs no locked instruction: no one else can raise the
  // count of an object that only it refers to.
  bool down() { return now() == 1 || __atomic_fetch_sub(&n_, 1, __ATOMIC_ACQ_REL) == 1; }
  uint32_t now() const { return __atomic_load_n(&n_, __ATOMIC_ACQUIRE); }

 private:
  uint32_t n_ = 1;
};

template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  // Takes over the one reference that a freshly made object starts with.
  static Ref adopt(T* p) {
    Ref r;
    r.p_ = p;
    return r;
  }
  static Ref share(T* p) {
    if (p) p->refs.up();
    return adopt(p);
  }
  Ref(const Ref& o) : p_(o.p_) {
    if (p_) p_->refs.up();
  }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() { reset(); }
  void reset() {
    T* p = std::exchange(p_, nullptr);
    if (p && p->refs.down()) T::destroy(p);
  }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  // Whether this is the only reference.
  bool unique() const { return p_ && p_->refs.now() == 1; }
  // The number of references. Another thread may change it at any time.
  uint32_t holders() const { return p_->refs.now(); }
  friend bool operator==(const Ref& a, const Ref& b) { return a.p_ == b.p_; }

 private:
  T* p_ = nullptr;
};

}  // namespace rill

#pragma GCC visibility pop
