// Callback<R(A...)>: any callable of that signature behind one type. What std::function does, without <functional>,
// which alone would take a tenth of a second of every file that includes rill.h. Copies share the callable.
#pragma once
#include <type_traits>
#include <utility>

#include "rill/tensor/shared.h"

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
  Callback(F&& f) : call_(&run<std::decay_t<F>>), f_(Shared<std::decay_t<F>>::make(std::forward<F>(f))) {}

  R operator()(A... a) const { return call_(f_.get(), std::forward<A>(a)...); }
  explicit operator bool() const { return bool(f_); }

 private:
  template <class F>
  static R run(void* f, A&&... a) {
    return (*static_cast<F*>(f))(std::forward<A>(a)...);
  }
  R (*call_)(void*, A&&...) = nullptr;
  Shared<void> f_;
};

}  // namespace rill
