// Activation: a function of a tensor that a layer ends with, as an option: {.activation = relu}.
#pragma once
#include <concepts>

#include "rill/ops/names.h"
#include "rill/ops/ops.h"
#include "rill/tensor/callback.h"
#include "rill/tensor/user_scope.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// grad(f), recompute(f) and similar would take a Call, or a Where, for an argument of f.
template <class F>
concept Transformed = requires { typename F::TransformOf; };
template <class F>
concept TakesPlace = !Transformed<F> && std::is_invocable_r_v<Tensor, const F&, const Tensor&, Where>;
template <class F>
concept TensorFunction = TakesPlace<F> || std::is_invocable_r_v<Tensor, const F&, const Tensor&>;

// A text, for constructors that reject it with a message; but not the placeholder for a field when a struct is
// decomposed (ops/tree.h), which converts to everything.
template <class S>
concept TextLike = !std::same_as<S, detail::AnyField> && std::convertible_to<S, std::string_view>;

// relu, tanh, leaky_relu, softmax, a lambda, a traced function. Further parameters of public functions have their
// defaults.
class Activation {
 public:
  Activation() = default;
  Activation(std::nullptr_t) {}
  Activation(Tensor (*f)(const Tensor&, Where)) {
    if (f) f_ = f;
  }
  Activation(Tensor (*f)(const Tensor&, double, Where), Where where = Where::current());  // leaky_relu, elu, celu
  Activation(Tensor (*f)(const Tensor&, Axis, Where), Where where = Where::current());    // softmax, log_softmax, glu
  template <TextLike S>
  Activation(const S&) {
    static_assert(!sizeof(S), "an activation is a function and not its name: {.activation = relu}");
  }
  template <class F>
    requires(TensorFunction<F> && std::is_class_v<F> && !std::same_as<F, Activation>)
  Activation(F f) {
    static_assert(!detail::VisitsParts<F> && !detail::NamesVariables<F> && !detail::ListsVariables<const F>,
                  "a layer as an activation, or in nn::fn(), would lose its Variables: let it follow as a layer of its "
                  "own, nn::Sequential(nn::Dense(8), nn::PReLU())");
    if (detail::is_empty_callable(f)) return;
    f_ = [f = std::move(f)](const Tensor& x, [[maybe_unused]] Where where) -> Tensor {
      const UserScope user;
      if constexpr (TakesPlace<F>) return f(x, where);
      else return f(x);
    };
  }

  Tensor operator()(const Tensor& x, Where where = Where::current()) const { return f_(x, where); }
  explicit operator bool() const { return bool(f_); }

 private:
  Callback<Tensor(const Tensor&, Where)> f_;
};

}  // namespace rill::nn

namespace rill {
template <>
inline constexpr bool holds_no_variables<nn::Activation> = true;
}

#pragma GCC visibility pop
