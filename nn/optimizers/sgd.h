// Rules that follow the gradient itself: SGD, ASGD, Rprop.
#pragma once
#include "rill/nn/optimizers/optimizer.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct SGDOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;  // throws without momentum
  RILL_SHARED_OPTIONS(0, "sgd")
};
// v = momentum v + g; w -= rate v, or rate (g + momentum v) with Nesterov's momentum (Sutskever et al., 2013).
class SGD : public Optimizer {
  RILL_RULE(SGD)
};

struct ASGDOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.01;
  double decay = 1e-4;  // lambda: shrinks parameters, and the rate
  double power = 0.75;  // of the rate's decay
  double start = 1e6;   // the first step that is averaged
  RILL_SHARED_OPTIONS(0, "asgd")
};
// w -= eta (decay w + g), eta = rate / (1 + decay rate step)^power; the slot "mean" has the mean of w from `start` on, and
// w itself before (Polyak, Juditsky: Acceleration of stochastic approximation by averaging, 1992).
class ASGD : public Optimizer {
  RILL_RULE(ASGD)
 protected:
  bool begins_as_parameter(const std::string& name) const override {
    return name == "mean" || Optimizer::begins_as_parameter(name);
  }
  void begin_step(const Tensor& step, const Tensor& rate) override;

 private:
  Tensor eta_, share_;
};

struct RpropOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.01;
  double shrink = 0.5, grow = 1.2;       // for a step whose gradient has changed its sign, or has not
  double shortest = 1e-6, longest = 50;  // step
  RILL_SHARED_OPTIONS(0, "rprop")
};
// Each element has a step length of its own, the learning rate at first: w -= sign(g) length, and nothing where the sign
// has changed (Riedmiller, Braun, 1993). For gradients of all data, not of batches.
class Rprop : public Optimizer {
  RILL_RULE(Rprop)
};

}  // namespace rill::nn

#pragma GCC visibility pop
