// Callback<R(A...)>: a type-erased callable, as std::function is, without <functional>, which would add a tenth of a
// second to the compile time of every file that includes rill.h. Copies share the callable. An empty one (made of a
// null pointer or an empty std::function, or moved from) throws rill::Error when it is called.
#pragma once
#include <type_traits>
#include <utility>

#include "rill/tensor/error.h"
#include "rill/tensor/shared.h"

#pragma GCC visibility push(default)

namespace rill {

namespace detail {
// Whether a callable is empty: a null pointer, an empty std::function or Callback.
template <class F>
bool is_empty_callable(const F& f) {
  if constexpr (std::is_function_v<F>) return false;
  else if constexpr (requires { static_cast<bool>(f == nullptr); }) return static_cast<bool>(f == nullptr);
  else return false;
}
[[noreturn]] void fail_empty_callable(std::string_view op, std::string_view what, const Where& where);
// Throws if `f`, which the caller knows as `what`, is empty.
template <class F>
void require_callable(std::string_view op, const F& f, std::string_view what, const Where& where) {
  if (is_empty_callable(f)) fail_empty_callable(op, what, where);
}
}  // namespace detail

template <class Signature>
class Callback;

template <class R, class... A>
class Callback<R(A...)> {
 public:
  Callback() = default;
  Callback(std::nullptr_t) {}
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, Callback> && std::is_invocable_r_v<R, std::decay_t<F>&, A...>)
  Callback(F&& f) {
    if (detail::is_empty_callable(f)) return;
    f_ = Shared<std::decay_t<F>>::make(std::forward<F>(f));
    call_ = &run<std::decay_t<F>>;
  }
  Callback(const Callback&) = default;
  Callback(Callback&& o) noexcept : call_(std::exchange(o.call_, &call_nothing)), f_(std::move(o.f_)) {}
  Callback& operator=(Callback o) noexcept {
    std::swap(call_, o.call_);
    std::swap(f_, o.f_);
    return *this;
  }

  R operator()(A... a) const { return call_(f_.get(), std::forward<A>(a)...); }
  explicit operator bool() const { return bool(f_); }
  // For a Callback only, not for what converts to one.
  template <class C>
    requires std::is_same_v<C, Callback>
  friend bool operator==(const C& c, std::nullptr_t) {
    return !c.f_;
  }

 private:
  template <class F>
  static R run(void* f, A&&... a) {
    return (*static_cast<F*>(f))(std::forward<A>(a)...);
  }
  static R call_nothing(void*, A&&...) { detail::fail_empty_callable("function", "the callable", Where()); }

  R (*call_)(void*, A&&...) = &call_nothing;
  Shared<void> f_;
};

}  // namespace rill

#pragma GCC visibility pop
