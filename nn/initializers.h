// First values of parameters. An Initializer makes an f32 tensor of a shape; random ones draw from the global
// generator, so that random::seed() repeats them.
#pragma once
#include <concepts>
#include <optional>
#include <type_traits>

#include "rill/ops/creation.h"
#include "rill/tensor/callback.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// The number of inputs of each output of a layer with weights of this shape, and of outputs of each input. Weights are
// [in, out] or, for convolutions, [space..., in, out], where `in` is that of one group and `out` of all.
struct Fans {
  double in, out;
};
Fans fans_of(const Shape& weights, int64_t groups = 1);

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
  // For overloaded functions: the overload of shape and fans.
  Initializer(Tensor (*f)(const Shape&, const Fans&)) : f_(f) {}
  Initializer(std::nullptr_t) {}
  // zeros and ones.
  Initializer(Tensor (*f)(const Shape&, const TensorOptions&, Where)) {
    if (f) f_ = [f](const Shape& shape, const Fans&) { return f(shape, {.dtype = DType::f32}, Where()); };
  }
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

enum class FanMode : uint8_t { in, out, average };
enum class InitialDistribution : uint8_t { truncated_normal, normal, uniform };
struct VarianceScalingOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double scale = 1;
  FanMode mode = FanMode::in;
  InitialDistribution distribution = InitialDistribution::truncated_normal;  // at two deviations
};
// Variance scale / fan, which all those above are cases of: Keras's VarianceScaling. Throws where scale is not positive.
Initializer variance_scaling(const VarianceScalingOptions& options = {}, Where where = Where::current());

// Every element `value`; uniform in [low, high); Gaussian.
Initializer constant(double value);
Initializer uniform(double low, double high);
Initializer normal(double mean, double deviation);
// A Gaussian truncated at two deviations: Keras's TruncatedNormal. Its own deviation is 0.88 of that.
Initializer truncated_normal(double mean, double deviation);
// Rows or columns, whichever are fewer, of unit length and at right angles, times `gain`; axes before the last count as
// one (Saxe et al.: Exact solutions to the nonlinear dynamics of learning, 2014).
Initializer orthogonal(double gain = 1);
// gain at equal indices of the last two axes, else 0; for convolutions only at the window's centre, so that channels
// pass through. Throws for vectors.
Initializer identity(double gain = 1);
// An orthogonal matrix at the window's centre, else 0 (Xiao et al.: Dynamical isometry, 2018). Throws unless a kernel is
// [space..., in, out] and in <= out.
Initializer delta_orthogonal(double gain = 1);

}  // namespace rill::nn

#pragma GCC visibility pop
