// Functions of functions: grad, value_and_grad, vjp, jacrev, hessian, vmap, custom_gradient, recompute; jvp
// and jacfwd are in forward.h.
// Each takes a C++ callable from Tensors to a Tensor and gives a callable; they compose: vmap(grad(f)), hessian(f).
// Derivatives are with respect to the first argument.
#pragma once
#include <type_traits>
#include <utility>

#include "rill/autodiff/tape.h"

#pragma GCC visibility push(default)

namespace rill {

namespace detail {
// f(x...), with the user's line where f is a function that takes one: a traced or a public one. (What takes anything,
// such as a generic lambda, is not asked.)
template <class F>
inline constexpr bool takes_place = requires {
  typename std::remove_cvref_t<F>::TakesPlace;
} || (std::is_pointer_v<std::decay_t<F>> && std::is_function_v<std::remove_pointer_t<std::decay_t<F>>>);
template <class F, class... A>
decltype(auto) call_at(const Where& where, F&& f, A&&... x) {
  if constexpr (takes_place<F>) {
    if constexpr (std::is_invocable_v<F&, A..., Where>) return f(std::forward<A>(x)..., where);
    else return f(std::forward<A>(x)...);
  } else {
    return f(std::forward<A>(x)...);
  }
}
// `x` as a new tensor, so that what the callable captured of it stays a constant.
Tensor fresh(const Tensor& x, const Where& where);
Tensor stack_rows(std::vector<Tensor> rows, const Tensor& x, const Where& where);
void require_same_rows(const Tensor& x, const Tensor& more, const Where& where);
void require_scalar(std::string_view op, const Tensor& y, const Where& where);
// What a transform gives: a callable that takes what F takes.
template <class F, class Call>
struct Transform : Call {
  using TransformOf = F;
  using Call::operator();
};
template <class F, class Call>
Transform<F, Call> transform_of(Call call) {
  return {std::move(call)};
}
using GradientRule = Callback<Tensors(const Tensor& cotangent)>;
Tensor run_custom(const Callback<std::pair<Tensor, GradientRule>()>& f, std::initializer_list<const Tensor*> in,
                  const Where& where);
inline Tensors as_list(Tensor t) { return Tensors{std::move(t)}; }
inline Tensors as_list(Tensors t) { return t; }
Tensor run_recompute(const Callback<Tensor(std::span<const Tensor>)>& f, std::vector<Tensor> in, const Where& where);
}  // namespace detail

// value_and_grad(f)(x, rest...) -> {f(x, rest...), its gradient by x}. f must give a scalar.
template <class F>
auto value_and_grad(F f, Where where = Where::current()) {
  detail::require_callable("grad", f, "the function", where);
  return detail::transform_of<F>([f = std::move(f), where](const Tensor& x, const auto&... rest) {
    GradientTape tape({.watch_variables = false});
    Tensor v = detail::fresh(x, where);
    tape.watch(v, where);
    Tensor y = detail::call_at(where, f, v, rest...);
    detail::require_scalar("grad", y, where);
    return std::pair<Tensor, Tensor>(y, tape.gradient(y, v, {.unconnected = Unconnected::zero}, where));
  });
}

// grad(f)(x, rest...) -> the gradient by x. f must give a scalar.
template <class F>
auto grad(F f, Where where = Where::current()) {
  return detail::transform_of<F>(
      [g = value_and_grad(std::move(f), where)](const Tensor& x, const auto&... rest) { return g(x, rest...).second; });
}

// vjp(f, x) -> {f(x), a callable from a cotangent of f(x) to one of x, which may be called many times}.
template <class F>
auto vjp(F&& f, const Tensor& x, Where where = Where::current()) {
  detail::require_callable("vjp", f, "the function", where);
  auto tape = Shared<GradientTape>::make(TapeOptions{.persistent = true, .watch_variables = false});
  Tensor v = detail::fresh(x, where);
  tape->watch(v, where);
  Tensor y = detail::call_at(where, f, v);
  tape->stop();
  return std::pair(y, Callback<Tensor(const Tensor&)>([tape, y, v, where](const Tensor& cotangent) {
                     require_defined("vjp", cotangent, "the cotangent", where);
                     return tape->gradient(y, v, {.unconnected = Unconnected::zero, .output_gradient = cotangent},
                                           where);
                   }));
}

// jacrev(f)(x) -> the Jacobian, of shape f(x).shape + x.shape, row by row. jacfwd(f)(x) has it column by column: choose
// the one with fewer. They agree up to rounding.
template <class F>
auto jacrev(F f, Where where = Where::current()) {
  detail::require_callable("jacrev", f, "the function", where);
  return detail::transform_of<F>([f = std::move(f), where](const Tensor& x, const auto&... rest) {
    GradientTape tape({.watch_variables = false});
    Tensor v = detail::fresh(x, where);
    tape.watch(v, where);
    Tensor y = detail::call_at(where, f, v, rest...);
    return tape.jacobian(y, v, {.unconnected = Unconnected::zero}, where);
  });
}
// hessian(f)(x) -> second derivatives of a scalar function, of shape x.shape + x.shape.
template <class F>
auto hessian(F f, Where where = Where::current()) {
  return jacrev(grad(std::move(f), where), where);
}

// vmap(f)(x, more...) -> f of each row x(i), more(i)..., stacked: a loop over the first axis.
// Throws where the arguments' first axes differ.
template <class F>
auto vmap(F f, Where where = Where::current()) {
  detail::require_callable("vmap", f, "the function", where);
  return detail::transform_of<F>([f = std::move(f), where](const Tensor& x, const auto&... more) {
    std::vector<Tensor> rows;
    detail::require_same_rows(x, x, where);
    (detail::require_same_rows(x, static_cast<const Tensor&>(more), where), ...);
    for (int64_t i = 0; i < x.dim(0, where); ++i) rows.push_back(detail::call_at(where, f, x(i), more(i)...));
    return detail::stack_rows(std::move(rows), x, where);
  });
}

// A function with a gradient of its own: f(x...) gives {value, rule}, where rule(cotangent) gives the cotangent of x,
// or Tensors with one an argument (an undefined one: no gradient). A first derivative sees nothing of what f does. A
// second one differentiates the rule: by the cotangent, by what it captured from outside, and by the values that f
// computed for it, each as the op that it is. While tracing, the rule is called once, to see its ops.
template <class F>
auto custom_gradient(F f, Where where = Where::current()) {
  detail::require_callable("custom_gradient", f, "the function", where);
  return detail::transform_of<F>([f = std::move(f), where](const auto&... x) {
    auto run = [&]() -> std::pair<Tensor, detail::GradientRule> {
      auto [value, rule] = f(static_cast<const Tensor&>(x)...);
      detail::require_callable("custom_gradient", rule, "the rule", where);
      return {value, [rule = std::move(rule)](const Tensor& g) { return detail::as_list(rule(g)); }};
    };
    return detail::run_custom(run, {&static_cast<const Tensor&>(x)...}, where);
  });
}

// The same function, keeping nothing for the backward walk but its arguments and the variables and watched tensors it
// reads: it runs again when its gradient is asked for. Time for memory. The second run reads what the first one read,
// the state of the random generator included, and assigns, prints and asserts nothing. Inside `function`, where the
// graph's plan says what is kept, and where several tapes record, it is f itself.
template <class F>
auto recompute(F f, Where where = Where::current()) {
  detail::require_callable("recompute", f, "the function", where);
  return detail::transform_of<F>([f = std::move(f), where](const auto&... x) {
    auto call = [f, where](std::span<const Tensor> in) {
      return [&]<size_t... i>(std::index_sequence<i...>) {
        return Tensor(detail::call_at(where, f, in[i]...));
      }(std::make_index_sequence<sizeof...(x)>());
    };
    return detail::run_recompute(call, {static_cast<const Tensor&>(x)...}, where);
  });
}

}  // namespace rill

#pragma GCC visibility pop
