// Forward mode: derivatives in a direction, computed along with the values.
//
//   ForwardAccumulator along(x, direction);
//   Tensor y = f(x);
//   Tensor dy = along.jvp(y);   // J direction
//
// From its construction an accumulator computes, next to each op, the tangents of its results from those of its
// operands; nothing is kept for a walk back. It sees everything that runs while it lives, including tapes within it, so
// a gradient taken inside has a tangent too (a Hessian times a vector); a tape around it records the tangents. What an
// accumulator computes is only seen by the tapes and accumulators outside of it.
//
// The tangent of an op follows, in this order, from
//   - `jvp` of its record (ops/op.h), if it has one;
//   - `linear_in`: the sum, over the operands that have tangents, of the op itself with the tangent as that operand;
//   - for elementwise ops on reals `vjp`, with the tangent as the cotangent, as the derivative is diagonal;
//   - else `vjp`, transposed: it is linear in its cotangent, and a tape around it gives the map from tangents. The same
//     holds for a rule of custom_gradient().
// Control flow and calls of traced functions run graphs that compute values and tangents together.
//
// Start at jvp(). The rules are in tangents.cpp.
#pragma once
#include <utility>
#include <vector>

#include "rill/autodiff/transforms.h"

#pragma GCC visibility push(default)

namespace rill {

class ForwardAccumulator {
 public:
  // Starts recording tangents, with that of `x`, a tensor or a Variable (which has it at every reading). Throws unless
  // both have the same shape, and x a floating or complex dtype, to which the tangent is converted.
  [[nodiscard]] ForwardAccumulator(const Source& x, const Tensor& tangent, Where where = Where::current());
  // Of several at once: the tangents of results are those along the sum of all directions.
  [[nodiscard]] explicit ForwardAccumulator(const std::vector<std::pair<Source, Tensor>>& tangents,
                                            Where where = Where::current());
  // Starts without any: see watch().
  [[nodiscard]] ForwardAccumulator();
  ~ForwardAccumulator();
  ForwardAccumulator(const ForwardAccumulator&) = delete;
  ForwardAccumulator& operator=(const ForwardAccumulator&) = delete;

  // Adds a tensor or Variable with a tangent.
  void watch(const Source& x, const Tensor& tangent, Where where = Where::current());
  // The tangent of `y`, of its shape and dtype. If y does not depend on anything with a tangent, `unconnected` decides.
  // Throws unless y is floating or complex.
  Tensor jvp(const Tensor& y, Unconnected unconnected = Unconnected::error, Where where = Where::current()) const;
  // Ends recording; jvp() may still be called.
  void stop();

  class Impl;

 private:
  Impl* const impl_;  // its own
};

namespace detail {

// The tangent type of an X in jvp and similar functions: a structure like it, with a Tensor for each Variable.
template <class X>
using TangentOf = Argument<GradientOf<X>>;

// Replaces the tensors of a copy of a value by new ones, and gives them, and its Variables, their tangents. An
// undefined tangent is zero; values without derivatives (integer tensors) have none.
class CarryLeaves final : public LeafVisitor {
 public:
  CarryLeaves(ForwardAccumulator& along, std::span<Tensor* const> tangents, std::string_view op, const Where& where)
      : along_(along), tangents_(tangents), op_(op), where_(where) {}
  void tensor(Tensor& t) override;
  void variable(const Variable& v) override;
  void constant(const void*, size_t) override {}
  void argument(Tensor& t);  // a single argument, which must have a derivative
  void finish() const;       // throws if there are more tangents than leaves

 private:
  const Tensor& next();
  ForwardAccumulator& along_;
  std::span<Tensor* const> tangents_;
  const std::string_view op_;
  const Where where_;
  size_t taken_ = 0;
};

// Replaces the tensors of a function's results by their tangents; a tensor without one becomes undefined.
void take_tangents(const ForwardAccumulator& along, std::span<Tensor* const> results, const Where& where);

// {call(x), its tangent along `tangent`}, for a call that takes all of x.
template <class Call, class X>
auto run_jvp(std::string_view op, const Call& call, const X& x, TangentOf<X> tangent, const Where& where) {
  Argument<X> value = as_argument(x);
  ForwardAccumulator along;
  const std::vector<Tensor*> tangents = tensors_in(tangent);
  CarryLeaves carry(along, tangents, op, where);
  if constexpr (std::is_same_v<Argument<X>, Tensor>) carry.argument(value);
  else walk(value, carry);
  carry.finish();
  auto y = as_argument(call(std::as_const(value)));
  auto dy = y;
  take_tangents(along, tensors_in(dy, TensorsIn::with_tangents), where);
  return std::pair(std::move(y), std::move(dy));
}

// The map of linearize(): from tangents of the sources to those of the results.
using LinearMap = Callback<std::vector<Tensor>(const std::vector<Tensor>& tangents)>;
LinearMap linear_map(GradientTape& tape, std::span<Tensor* const> results, const std::vector<Source>& sources,
                     const Where& where);
Tensor run_custom_jvp(const Callback<std::pair<Tensor, Callback<Tensor(std::span<const Tensor>)>>()>& f,
                      std::span<const Tensor* const> in, const Where& where);

}  // namespace detail

// jvp(f, x, tangent) -> {f(x), the directional derivative J(x) tangent}, in one run of f. x and f(x) may be structures
// of tensors (ops/tree.h); the tangents are structures like them. For several arguments, jvp(f, std::tuple(x, y),
// std::tuple(tx, ty)), the derivative along all tangents together.
template <class F, class X>
auto jvp(F&& f, const X& x, const detail::TangentOf<X>& tangent, Where where = Where::current()) {
  detail::require_callable("jvp", f, "the function", where);
  return detail::run_jvp("jvp", [&](const auto& v) { return detail::call_spread(where, f, v); }, x, tangent, where);
}
// jvp(f, {x, y}, {tx, ty}) -> the same for several tensors.
template <class F, size_t n>
auto jvp(F&& f, const Tensor (&x)[n], const Tensor (&tangents)[n], Where where = Where::current()) {
  return [&]<size_t... i>(std::index_sequence<i...>) {
    return jvp(f, std::tuple(x[i]...), std::tuple(tangents[i]...), where);
  }(std::make_index_sequence<n>());
}

// linearize(f, x) -> {f(x), a callable from a tangent of x to J(x) tangent}: f runs once, and each call of the map
// costs one walk over its linear part. x, f(x) and their tangents as in jvp().
template <class F, class X>
auto linearize(F&& f, const X& x, Where where = Where::current()) {
  detail::require_callable("linearize", f, "the function", where);
  GradientTape tape({.watch_variables = false});
  auto arguments = detail::watch_arguments("linearize", tape, where, std::index_sequence<0>(), x);
  auto y = detail::as_argument(detail::call_spread(where, f, std::get<0>(arguments.values)));
  const std::vector<Tensor*> results = detail::tensors_in(y, detail::TensorsIn::with_tangents);
  detail::LinearMap map = detail::linear_map(tape, results, arguments.sources, where);
  auto push = [map = std::move(map), y, where](const detail::TangentOf<X>& tangent) {
    auto t = tangent;
    std::vector<Tensor> tangents;
    for (const Tensor* each : detail::tensors_in(t)) tangents.push_back(*each);
    const std::vector<Tensor> given = map(tangents);
    auto dy = y;
    const std::vector<Tensor*> places = detail::tensors_in(dy, detail::TensorsIn::with_tangents);
    for (size_t k = 0; k < places.size(); ++k) *places[k] = given[k];
    return dy;
  };
  return std::pair(std::move(y), std::move(push));
}

// A function with a rule of its own for tangents: f(x...) gives {value, rule}, where rule(tx...), linear in the
// tangents of the arguments, gives the tangent of the value, of its shape. Arguments may be structures of tensors, and
// their tangents are structures alike; the value is a Tensor. The tangent of an argument that has none is zeros; that
// of an integer one is undefined. Gradients follow the rule too, which is then transposed, so its ops must be
// differentiable. Derivatives of higher order differentiate the rule: by the tangents, by what it captured, and by the
// values that f computed for it. While tracing, the rule is called once or twice, to see its ops.
template <class F>
auto custom_jvp(F f, Where where = Where::current()) {
  detail::require_callable("custom_jvp", f, "the function", where);
  return detail::transform_of<F>([f = std::move(f), where](const auto&... x) {
    detail::Arguments<decltype(x)...> arguments{detail::as_argument(x)...};
    const std::vector<Tensor*> in = detail::tensors_in(arguments);
    auto run = [&]() -> std::pair<Tensor, Callback<Tensor(std::span<const Tensor>)>> {
      auto [value, rule] = std::apply(f, std::as_const(arguments));
      detail::require_callable("custom_jvp", rule, "the rule", where);
      return {value, [rule = std::move(rule), arguments](std::span<const Tensor> tangents) {
                auto moved = arguments;
                const std::vector<Tensor*> places = detail::tensors_in(moved);
                for (size_t k = 0; k < places.size(); ++k) *places[k] = tangents[k];
                return Tensor(std::apply(rule, std::as_const(moved)));
              }};
    };
    return detail::run_custom_jvp(run, {in.data(), in.size()}, where);
  });
}

// hvp(f, x, v) -> the Hessian of f, which gives a scalar, times v: the derivative of its gradient along v, at a small
// multiple of the gradient's cost. The Hessian itself is never made. x, v and the result are structures alike.
template <class F, class X>
auto hvp(F&& f, const X& x, const detail::TangentOf<X>& v, Where where = Where::current()) {
  detail::require_callable("hvp", f, "the function", where);
  auto loss = [&](const auto& p) { return Tensor(detail::call_spread(where, f, p)); };
  auto gradient = [&](const auto& p) { return grad(loss, where)(p); };
  return detail::run_jvp("hvp", gradient, x, v, where).second;
}
// vhp(f, x, v) -> v times the Hessian of f: the gradient of its gradient's product with v. As the Hessian is symmetric
// it is hvp() to rounding, with two walks back instead of one forward.
template <class F, class X>
auto vhp(F&& f, const X& x, const detail::TangentOf<X>& v, Where where = Where::current()) {
  detail::require_callable("vhp", f, "the function", where);
  auto loss = [&](const auto& p) { return Tensor(detail::call_spread(where, f, p)); };
  return vjp([&](const detail::Argument<X>& p) { return grad(loss, where)(p); }, x, where).second(v);
}

}  // namespace rill

#pragma GCC visibility pop
