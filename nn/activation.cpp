// Activations that are public functions with a further parameter: its default counts.
#include "rill/nn/activation.h"

namespace rill::nn {

namespace {
[[noreturn]] void fail_unknown_activation(const Where& where) {
  fail("Activation", "the function takes more than a tensor. wrap it: [](const Tensor& x) { return f(x, ...); }",
       where);
}
}  // namespace

Activation::Activation(Tensor (*f)(const Tensor&, double, Where), Where where) {
  if (f == leaky_relu) f_ = [](const Tensor& x, Where where) { return leaky_relu(x, 0.01, where); };
  else if (f == elu) f_ = [](const Tensor& x, Where where) { return elu(x, 1, where); };
  else if (f == celu) f_ = [](const Tensor& x, Where where) { return celu(x, 1, where); };
  else fail_unknown_activation(where);
}
Activation::Activation(Tensor (*f)(const Tensor&, Axis, Where), Where where) {
  if (f != static_cast<decltype(f)>(softmax) && f != static_cast<decltype(f)>(log_softmax) &&
      f != static_cast<decltype(f)>(glu))
    fail_unknown_activation(where);
  f_ = [f](const Tensor& x, Where where) { return f(x, -1, where); };
}

}  // namespace rill::nn
