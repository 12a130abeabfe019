// Forward mode: derivatives in a direction, computed along with the values.
//
//   ForwardAccumulator along(x, direction);
//   Tensor y = f(x);
//   Tensor dy = along.jvp(y);   // J direction
//
// From its construction an accumulator computes, next to each op, the tangents of its results from those of its
// operands; nothing is kept for a walk back. It sees what runs while it lives, tapes within it included, so a gradient
// taken inside has a tangent too (a Hessian times a vector); a tape around it records the tangents. What an accumulator
// computes is seen by the tapes and accumulators outside of it alone.
//
// The tangent of an op follows, in this order, from
//   - `jvp` of its record (ops/op.h), where it has one;
//   - `linear_in`: the sum, over the operands that have tangents, of the op itself on the tangent in the operand's
//   place;
//   - for elementwise ops on reals `vjp`, whose cotangent may as well be a tangent, as the derivative is diagonal;
//   - else `vjp`, transposed: it is linear in its cotangent, and a tape around it gives the map from tangents. A rule
//   of
//     custom_gradient() is transposed in the same way.
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
  // Recording tangents from now on, starting from that of `x`, a tensor or a Variable (which has it at every reading).
  // Throws unless both have one shape, and x a floating or complex dtype, to which the tangent is converted.
  [[nodiscard]] ForwardAccumulator(const Source& x, const Tensor& tangent, Where where = Where::current());
  // Of several at once: the tangents of what is computed are those of the sum of all directions.
  [[nodiscard]] explicit ForwardAccumulator(const std::vector<std::pair<Source, Tensor>>& tangents,
                                            Where where = Where::current());
  // One that starts from nothing: see watch().
  [[nodiscard]] ForwardAccumulator();
  ~ForwardAccumulator();
  ForwardAccumulator(const ForwardAccumulator&) = delete;
  ForwardAccumulator& operator=(const ForwardAccumulator&) = delete;

  // One more tensor or Variable with a tangent.
  void watch(const Source& x, const Tensor& tangent, Where where = Where::current());
  // The tangent of `y`, of its shape and dtype. Where y does not depend on what has a tangent, what `unconnected` says.
  // Throws unless y is floating or complex.
  Tensor jvp(const Tensor& y, Unconnected unconnected = Unconnected::error, Where where = Where::current()) const;
  // Ends recording; jvp() may still be asked for.
  void stop();

  class Impl;

 private:
  Impl* const impl_;  // its own
};

namespace detail {
// f on `x`, whose tangents are `tangents`: what f gives, and its tangent.
std::pair<Tensor, Tensor> run_jvp(const Callback<Tensor(std::span<const Tensor>)>& f, std::span<const Tensor> x,
                                  std::span<const Tensor> tangents, const Where& where);
std::pair<Tensor, Callback<Tensor(const Tensor&)>> run_linearize(const Callback<Tensor(const Tensor&)>& f,
                                                                 const Tensor& x, const Where& where);
Tensor forward_jacobian(const Callback<Tensor(const Tensor&)>& f, const Tensor& x, const Where& where);
}  // namespace detail

// jvp(f, x, tangent) -> {f(x), the directional derivative J(x) tangent}, in one run of f. The tangent has x's shape.
template <class F>
std::pair<Tensor, Tensor> jvp(F&& f, const Tensor& x, const Tensor& tangent, Where where = Where::current()) {
  detail::require_callable("jvp", f, "the function", where);
  return detail::run_jvp([&](std::span<const Tensor> in) { return Tensor(detail::call_at(where, f, in[0])); }, {&x, 1},
                         {&tangent, 1}, where);
}
// jvp(f, {x, y}, {tx, ty}) -> {f(x, y), its derivative along all tangents together}.
template <class F, size_t n>
std::pair<Tensor, Tensor> jvp(F&& f, const Tensor (&x)[n], const Tensor (&tangents)[n],
                              Where where = Where::current()) {
  detail::require_callable("jvp", f, "the function", where);
  auto call = [&](std::span<const Tensor> in) {
    return [&]<size_t... i>(std::index_sequence<i...>) {
      return Tensor(detail::call_at(where, f, in[i]...));
    }(std::make_index_sequence<n>());
  };
  return detail::run_jvp(call, x, tangents, where);
}

// linearize(f, x) -> {f(x), a callable from a tangent of x to J(x) tangent}: f runs once, and each call of the map
// costs one walk over what it is linear in.
template <class F>
std::pair<Tensor, Callback<Tensor(const Tensor&)>> linearize(F&& f, const Tensor& x, Where where = Where::current()) {
  detail::require_callable("linearize", f, "the function", where);
  return detail::run_linearize([&](const Tensor& v) { return Tensor(detail::call_at(where, f, v)); }, x, where);
}

// jacfwd(f)(x) -> the Jacobian, of shape f(x).shape + x.shape, column by column; jacrev() has it row by row.
template <class F>
auto jacfwd(F f, Where where = Where::current()) {
  detail::require_callable("jacfwd", f, "the function", where);
  return detail::transform_of<F>([f = std::move(f), where](const Tensor& x, const auto&... rest) {
    return detail::forward_jacobian([&](const Tensor& v) { return Tensor(detail::call_at(where, f, v, rest...)); }, x,
                                    where);
  });
}

// hvp(f, x, v) -> the Hessian of f, which gives a scalar, times v: the derivative of its gradient along v, at a small
// multiple of the gradient's cost. The Hessian itself is never made.
template <class F>
Tensor hvp(F&& f, const Tensor& x, const Tensor& v, Where where = Where::current()) {
  detail::require_callable("hvp", f, "the function", where);
  auto call = [&](const Tensor& p) { return Tensor(detail::call_at(where, f, p)); };
  return jvp(grad(call, where), x, v, where).second;
}
// vhp(f, x, v) -> v times the Hessian of f: the gradient of its gradient's product with v. As the Hessian is symmetric
// it is hvp() to rounding, with two walks back instead of one forward.
template <class F>
Tensor vhp(F&& f, const Tensor& x, const Tensor& v, Where where = Where::current()) {
  detail::require_callable("vhp", f, "the function", where);
  auto call = [&](const Tensor& p) { return Tensor(detail::call_at(where, f, p)); };
  return vjp(grad(call, where), x, where).second(v);
}

}  // namespace rill

#pragma GCC visibility pop
