// Callback<R(A...)>: any callable of that signature behind one type. What std::function does, without <functional>,
// which alone would take a tenth of a second of every file that includes rill.h. Copies share the callable.
#pragma once
#include <atomic>
#include <type_traits>
#include <utility>

#include "rill/tensor/ref.h"

namespace rill {

template <class Signature>
class Callback;

template <class R, class... A>
class Callback<R(A...)> {
 public:
  Callback() = default;
  Callback(std::nullptr_t) {}
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Callback> && std::is_invocable_r_v<R, std::decay_t<F>&, A...>)
  Callback(F&& f) : held_(Ref<Held>::adopt(new Holder<std::decay_t<F>>(std::forward<F>(f)))) {}

  R operator()(A... a) const { return held_->call(held_.get(), std::forward<A>(a)...); }
  explicit operator bool() const { return bool(held_); }

 private:
  struct Held {
    R (*call)(Held*, A&&...);
    void (*drop)(Held*);
    std::atomic<uint32_t> refs{1};
    static void destroy(Held* h) { h->drop(h); }
  };
  template <class F>
  struct Holder : Held {
    explicit Holder(F g) : Held{&run, &free}, f(std::move(g)) {}
    static R run(Held* h, A&&... a) { return static_cast<Holder*>(h)->f(std::forward<A>(a)...); }
    static void free(Held* h) { delete static_cast<Holder*>(h); }
    F f;
  };
  Ref<Held> held_;
};

}  // namespace rill
