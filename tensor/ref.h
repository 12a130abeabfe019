// Ref<T>: a counted pointer to an object that carries its own atomic count `refs` and a static `destroy(T*)`.
#pragma once
#include <atomic>
#include <utility>

namespace rill {

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
    if (p) p->refs.fetch_add(1, std::memory_order_relaxed);
    return adopt(p);
  }
  Ref(const Ref& o) : p_(o.p_) {
    if (p_) p_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() { reset(); }
  void reset() {
    T* p = std::exchange(p_, nullptr);
    if (p && drop(p)) T::destroy(p);
  }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  // Whether nobody else holds the object.
  bool unique() const { return p_ && p_->refs.load(std::memory_order_acquire) == 1; }
  // How many hold it; another thread may change that at any time, unless they are known.
  auto holders() const { return p_->refs.load(std::memory_order_acquire); }
  friend bool operator==(const Ref& a, const Ref& b) { return a.p_ == b.p_; }

 private:
  // The sole owner needs no locked instruction: nobody else can raise a count that only it holds.
  static bool drop(T* p) {
    return p->refs.load(std::memory_order_acquire) == 1 || p->refs.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  T* p_ = nullptr;
};

}  // namespace rill
