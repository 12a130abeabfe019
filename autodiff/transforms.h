// Functions of functions: grad, value_and_grad, vjp, custom_gradient; jvp is in forward.h, jacobian and hessian in
// jacobians.h, vmap in vmap.h, recompute in recompute.h. Each takes a C++ callable of Tensors, or of structures of them
// (ops/tree.h), and gives a callable; they compose: vmap(grad(f)), hessian(f). Derivatives are with respect to the
// first argument unless told otherwise.
#pragma once
#include <optional>
#include <type_traits>
#include <utility>

#include "rill/autodiff/structures.h"

#pragma GCC visibility push(default)

namespace rill {

namespace detail {
// The result of a transform: a callable that takes what F takes.
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
Tensor run_custom(const Callback<std::pair<Tensor, GradientRule>()>& f, std::span<const Tensor* const> in,
                  const Where& where);
// The tensors of a structure, as one vector that holds all their elements in the widest of their dtypes, and back.
Tensor packed(std::string_view op, std::span<Tensor* const> tensors, const Where& where);
void unpack(const Tensor& all, std::span<Tensor* const> places, const std::vector<Spec>& specs);
template <class T>
Tensors as_list(T back) {
  if constexpr (std::is_same_v<T, Tensors>) {
    return back;
  } else if constexpr (std::is_convertible_v<const T&, Tensor>) {
    return Tensors{Tensor(std::move(back))};
  } else {
    Tensors list;
    for (Tensor* t : tensors_in(back)) list.push_back(std::move(*t));
    return list;
  }
}
// The result of custom_gradient's function, as one Tensor and a rule for its cotangent; `specs` are those of the
// tensors in a structure.
template <class Value, class Rule>
std::pair<Tensor, GradientRule> as_one(const Value& value, Rule rule, std::vector<Spec>& specs, const Where& where) {
  if constexpr (std::is_convertible_v<const Value&, Tensor>) {
    return {Tensor(value), [rule = std::move(rule)](const Tensor& g) { return as_list(rule(g)); }};
  } else {
    Value like = value;
    const std::vector<Tensor*> tensors = tensors_in(like);
    const Tensor all = packed("custom_gradient", tensors, where);
    for (const Tensor* t : tensors) specs.push_back(t->spec());
    return {all, [rule = std::move(rule), like = std::move(like), specs](const Tensor& g) {
              Value cotangent = like;
              unpack(g, tensors_in(cotangent), specs);
              return as_list(rule(cotangent));
            }};
  }
}

// value_and_grad and grad, where `op` is the function that the user called.
template <size_t... argument, class F>
auto value_and_grad_of(std::string_view op, F f, const GradientOptions& options, const Where& where) {
  require_callable(op, f, "the function", where);
  return transform_of<F>([op, f = std::move(f), options, where](const auto&... x) {
    if constexpr (sizeof...(argument) == 0) return value_and_gradients<0>(op, f, options, where, x...);
    else return value_and_gradients<argument...>(op, f, options, where, x...);
  });
}
template <size_t... argument, class F>
auto grad_of(std::string_view op, F f, const GradientOptions& options, const Where& where) {
  return transform_of<F>([g = value_and_grad_of<argument...>(op, std::move(f), options, where)](const auto&... x) {
    auto [value, gradient] = g(x...);
    if constexpr (std::is_same_v<decltype(value), Tensor>) return gradient;
    else return std::pair(std::move(gradient), std::move(value.second));
  });
}
}  // namespace detail

// Of grad and value_and_grad: what the gradient is where the function does not depend on an argument.
struct GradOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Unconnected unconnected = Unconnected::zero;
};

// value_and_grad(f)(x, rest...) -> {f(x, rest...), the gradient by x}. f gives one number, or a pair of it and whatever
// else it computed, which is handed through. x and the others may be structures of tensors (ops/tree.h); the gradient
// is one like it, as GradientTape::gradient gives it. value_and_grad<0, 2>(f) gives the gradients by these arguments,
// as a tuple. Where f does not depend on an argument, the gradient is zeros, unless the options say otherwise.
template <size_t... argument, class F>
auto value_and_grad(F f, GradOptions options, Where where = Where::current()) {
  return detail::value_and_grad_of<argument...>("value_and_grad", std::move(f), {.unconnected = options.unconnected},
                                                where);
}
template <size_t... argument, class F>
auto value_and_grad(F f, Where where = Where::current()) {
  return value_and_grad<argument...>(std::move(f), GradOptions(), where);
}

// grad(f)(x, rest...) -> the gradient by x, or where f gives a pair, {the gradient, the pair's second}. grad<0, 2>(f)
// as above.
template <size_t... argument, class F>
auto grad(F f, GradOptions options, Where where = Where::current()) {
  return detail::grad_of<argument...>("grad", std::move(f), {.unconnected = options.unconnected}, where);
}
template <size_t... argument, class F>
auto grad(F f, Where where = Where::current()) {
  return grad<argument...>(std::move(f), GradOptions(), where);
}

// vjp(f, x) -> {f(x), a callable from a cotangent of f(x) to one of x, which may be called many times}. x and f(x) may
// be structures of tensors: the cotangents are structures like them. Of several arguments, vjp(f, std::tuple(x, y)),
// the cotangents are a tuple.
template <class F, class X>
auto vjp(F&& f, const X& x, Where where = Where::current()) {
  detail::require_callable("vjp", f, "the function", where);
  auto tape = Shared<GradientTape>::make(TapeOptions{.persistent = true, .watch_variables = false});
  auto arguments = detail::watch_arguments("vjp", *tape, where, std::index_sequence<0>(), x);
  const auto y = detail::as_argument(detail::call_spread(where, f, std::get<0>(arguments.values)));
  tape->stop();
  auto pull = [tape, y, arguments = std::move(arguments), where](const std::remove_const_t<decltype(y)>& cotangent) {
    return detail::pull_back(*tape, y, arguments, cotangent, where);
  };
  return std::pair(y, std::move(pull));
}

// A function with a gradient of its own: f(x...) gives {value, rule}, where rule(cotangent) gives the cotangent of x: a
// Tensor, or Tensors with one an argument (an undefined one: no gradient), or, where arguments are structures, one like
// the argument, or a tuple of such. The value is a Tensor, or a structure of floating or complex ones; then the
// cotangent is a structure like it, with zeros for what nothing depends on. A first derivative sees nothing of what f
// does. A second one differentiates the rule: by the cotangent, by what it captured from outside, and by the values
// that f computed for it, each as the op that it is. While tracing, the rule is called once, to see its ops.
template <class F>
auto custom_gradient(F f, Where where = Where::current()) {
  detail::require_callable("custom_gradient", f, "the function", where);
  return detail::transform_of<F>([f = std::move(f), where](const auto&... x) {
    detail::Arguments<decltype(x)...> arguments{detail::as_argument(x)...};
    const std::vector<Tensor*> in = detail::tensors_in(arguments);
    using Value = std::remove_cvref_t<decltype(std::apply(f, std::as_const(arguments)).first)>;
    std::optional<Value> given;
    std::vector<Spec> specs;
    auto run = [&] {
      auto [value, rule] = std::apply(f, std::as_const(arguments));
      detail::require_callable("custom_gradient", rule, "the rule", where);
      given.emplace(std::move(value));
      return detail::as_one(*given, std::move(rule), specs, where);
    };
    const Tensor result = detail::run_custom(run, {in.data(), in.size()}, where);
    if constexpr (std::is_convertible_v<const Value&, Tensor>) return result;
    else return detail::unpack(result, detail::tensors_in(*given), specs), std::move(*given);
  });
}

}  // namespace rill

#pragma GCC visibility pop
