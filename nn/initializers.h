// First values of parameters. An Initializer makes an f32 tensor of a shape; random ones draw from the global
// generator, so that random::seed() repeats them.
#pragma once
#include <concepts>
#include <optional>
#include <type_traits>

#include "rill/tensor/callback.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// How many numbers go into an output of a layer with weights of this shape, and how many outputs a number goes into.
// Weights are [in, out] or, of convolutions, [space..., in, out].
struct Fans {
  double in, out;
};
Fans fans_of(const Shape& weights);

// Any callable of a shape, or of a shape and the Fans of the weights.
class Initializer {
 public:
  Initializer() = default;
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, Initializer> &&
             (std::is_invocable_r_v<Tensor, const F&, const Shape&> ||
              std::is_invocable_r_v<Tensor, const F&, const Shape&, const Fans&>))
  Initializer(F f) {
    if (detail::is_empty_callable(f)) return;
    if constexpr (std::is_invocable_r_v<Tensor, const F&, const Shape&, const Fans&>) f_ = std::move(f);
    else f_ = [f = std::move(f)](const Shape& shape, const Fans&) { return f(shape); };
  }
  // Overloaded functions: that of shape and fans.
  Initializer(Tensor (*f)(const Shape&, const Fans&)) : f_(f) {}
  Tensor operator()(const Shape& shape, std::optional<Fans> fans = {}) const {
    return f_(shape, fans ? *fans : fans_of(shape));
  }
  explicit operator bool() const { return bool(f_); }

 private:
  Callback<Tensor(const Shape&, const Fans&)> f_;
};

// Variance 2 / (in + out), as Keras' default (Glorot, Bengio: Understanding the difficulty of training deep feedforward
// neural networks, 2010): uniform in +-sqrt(6 / (in + out)), or normal.
Tensor glorot_uniform(const Shape& shape, const Fans& fans);
inline Tensor glorot_uniform(const Shape& shape) { return glorot_uniform(shape, fans_of(shape)); }
Tensor glorot_normal(const Shape& shape, const Fans& fans);
inline Tensor glorot_normal(const Shape& shape) { return glorot_normal(shape, fans_of(shape)); }
// Variance 2 / in, for layers before a relu (He et al.: Delving Deep into Rectifiers, 2015).
Tensor he_uniform(const Shape& shape, const Fans& fans);
inline Tensor he_uniform(const Shape& shape) { return he_uniform(shape, fans_of(shape)); }
Tensor he_normal(const Shape& shape, const Fans& fans);
inline Tensor he_normal(const Shape& shape) { return he_normal(shape, fans_of(shape)); }
// Variance 1 / in, for selu (LeCun et al.: Efficient BackProp, 1998).
Tensor lecun_uniform(const Shape& shape, const Fans& fans);
inline Tensor lecun_uniform(const Shape& shape) { return lecun_uniform(shape, fans_of(shape)); }
Tensor lecun_normal(const Shape& shape, const Fans& fans);
inline Tensor lecun_normal(const Shape& shape) { return lecun_normal(shape, fans_of(shape)); }

// Orthonormal rows or columns, whichever are fewer, of [..., in, out] as a matrix of its last axis (Saxe et al.: Exact
// solutions to the nonlinear dynamics of learning in deep linear neural networks, 2013): states keep their length over
// many steps. Throws for fewer than two axes.
Tensor orthogonal(const Shape& shape);

// Every element `value`; uniform in [low, high); Gaussian.
Initializer constant(double value);
Initializer uniform(double low, double high);
Initializer normal(double mean, double deviation);

}  // namespace rill::nn

#pragma GCC visibility pop
