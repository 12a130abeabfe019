// Shared<T>: a reference-counted pointer to an object of any type, complete or not, or to void. It does what
// std::shared_ptr does without <memory> and <atomic>, which would take a tenth of the time to compile a small program
// that includes rill.h.
#pragma once
#include <type_traits>
#include <utility>

#include "rill/tensor/ref.h"

#pragma GCC visibility push(default)

namespace rill {

namespace detail {
struct Held {
  explicit Held(void (*d)(Held*)) : drop(d) {}
  Count refs;
  void (*drop)(Held*);
  static void destroy(Held* h) { h->drop(h); }
};
template <class T>
struct Holder : Held {
  template <class... A>
  explicit Holder(A&&... a) : Held(&free), value(std::forward<A>(a)...) {}
  static void free(Held* h) { delete static_cast<Holder*>(h); }
  T value;
};
}  // namespace detail

template <class T>
class Shared {
 public:
  Shared() = default;
  Shared(std::nullptr_t) {}
  Shared(const Shared&) = default;
  Shared(Shared&& o) noexcept : p_(std::exchange(o.p_, nullptr)), held_(std::move(o.held_)) {}
  Shared& operator=(Shared o) noexcept {
    p_ = o.p_;
    held_ = std::move(o.held_);
    return *this;
  }
  template <class... A>
  static Shared make(A&&... a) {
    auto* holder = new detail::Holder<std::remove_const_t<T>>(std::forward<A>(a)...);
    Shared s;
    s.p_ = &holder->value;
    s.held_ = Ref<detail::Held>::adopt(holder);
    return s;
  }
  template <class U>
    requires(!std::is_same_v<U, T> && std::is_convertible_v<U*, T*>)
  Shared(Shared<U> o) : p_(o.p_), held_(std::move(o.held_)) {}

  T* get() const { return p_; }
  T* operator->() const { return p_; }
  std::add_lvalue_reference_t<T> operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  // Whether this is the only reference.
  uint32_t holders() const { return held_.holders(); }
  friend bool operator==(const Shared& a, const Shared& b) { return a.p_ == b.p_; }

 private:
  template <class U>
  friend class Shared;
  T* p_ = nullptr;
  Ref<detail::Held> held_;
};

}  // namespace rill

#pragma GCC visibility pop
