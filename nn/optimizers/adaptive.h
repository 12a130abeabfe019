// Rules that divide a gradient by what its squares have been: RMSprop, Adagrad, Adadelta, FTRL, Adafactor.
#pragma once
#include "rill/nn/optimizers/optimizer.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct RMSpropOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.001;
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-8;
  bool centred = false;  // s is the variance of g: less the square of its mean
  RILL_SHARED_OPTIONS(0, "rmsprop")
};
// s = rho s + (1 - rho) g^2; w -= rate g / (sqrt(s) + epsilon) (Hinton's lecture 6e, 2012).
class RMSprop : public Optimizer {
  RILL_RULE(RMSprop)
};

struct AdagradOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.01;
  double initial = 0;  // of s
  double epsilon = 1e-10;
  RILL_SHARED_OPTIONS(0, "adagrad")
};
// s += g^2; w -= rate g / (sqrt(s) + epsilon) (Duchi et al.: Adaptive subgradient methods, 2011).
class Adagrad : public Optimizer {
  RILL_RULE(Adagrad)
};

struct AdadeltaOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 1.0;
  double rho = 0.9;
  double epsilon = 1e-6;
  RILL_SHARED_OPTIONS(0, "adadelta")
};
// d = g sqrt(a + epsilon) / sqrt(s + epsilon); w -= rate d, where s and a are means of g^2 and d^2 (Zeiler, 2012).
class Adadelta : public Optimizer {
  RILL_RULE(Adadelta)
};

struct FTRLOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.001;
  double initial = 0.1;     // of the sum of squares
  double l1 = 0, l2 = 0;    // penalties
  double l2_shrinkage = 0;  // the same, added to the gradients
  double beta = 0;
  RILL_SHARED_OPTIONS(0, "ftrl")
};
// Follow the regularized leader: w is 0 where |z| <= l1 (McMahan et al.: Ad click prediction, 2013). As Keras's Ftrl with
// the learning rate's power -1/2.
class FTRL : public Optimizer {
  RILL_RULE(FTRL)
};

struct AdafactorOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.01;
  double power = -0.8;        // 1 - beta2 = t^power
  double epsilon1 = 0;        // the least estimate is its square; 0: the dtype's epsilon
  double epsilon2 = 1e-3;     // the least size of a parameter that the rate is relative to
  double clip_threshold = 1;  // of the root mean square of an update
  RILL_SHARED_OPTIONS(0, "adafactor")
};
// The second moment of a matrix as a row and a column (Shazeer, Stern: Adafactor, 2018), as in torch: no momentum, the
// rate is multiplied by the parameter's root mean square and is at most 1 / sqrt(t). Weight decay is decoupled, as
// AdamW's.
class Adafactor : public Optimizer {
  RILL_RULE(Adafactor)
 protected:
  void begin_step(const Tensor& step, const Tensor& rate) override;
  bool takes_rows() const override { return false; }
  bool decays() const override { return true; }
  Shape slot_shape(const Variable& variable, const std::string& name) const override;

 private:
  Tensor share_, relative_rate_;
};

}  // namespace rill::nn

#pragma GCC visibility pop
