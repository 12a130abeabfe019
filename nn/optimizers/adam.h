// Adam and its variants: rules with a first and a second moment, and Lion, which only has the first.
#pragma once
#include "rill/nn/optimizers/optimizer.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct AdamOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.001;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  bool amsgrad = false;  // v is the largest there was (Reddi et al., 2018)
  RILL_SHARED_OPTIONS(0, "adam")
};
// Kingma, Ba: Adam, a method for stochastic optimization, 2015, Algorithm 1. See adam_update().
class Adam : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options = {}, Where where = Where::current());
  RILL_OPTIONS_ARE_NAMED(Adam)

 protected:
  Adam(const OptimizerOptions& shared, const AdamOptions& options, std::string_view op, const Where& where);
  void begin_step(const Tensor& step, const Tensor& rate) override;
  void update_rows(const Rows& rows, const Tensor& gradient) override;
  std::vector<std::string> slot_names() const override;

 private:
  AdamParams params_;
  bool amsgrad_;
  Tensor step_rate_, correction_, whole_rate_;
};

struct AdamWOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.001;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  bool amsgrad = false;
  RILL_SHARED_OPTIONS(0.01, "adamw")
};
// Adam whose weight decay, times the learning rate, is the fraction by which a parameter shrinks each step (Loshchilov,
// Hutter: Decoupled weight decay regularization, 2019).
class AdamW : public Adam {
 public:
  explicit AdamW(const AdamWOptions& options = {}, Where where = Where::current());
  RILL_OPTIONS_ARE_NAMED(AdamW)

 protected:
  bool decays() const override { return true; }
};

struct AdamaxOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.002;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  RILL_SHARED_OPTIONS(0, "adamax")
};
// u = max(beta2 u, |g| + epsilon); w -= rate / (1 - beta1^t) m / u (Kingma, Ba, 2015, Algorithm 2).
class Adamax : public Optimizer {
  RILL_RULE(Adamax)
 protected:
  void begin_step(const Tensor& step, const Tensor& rate) override;

 private:
  Tensor step_rate_;
};

struct NAdamOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.002;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double momentum_decay = 0.004;
  RILL_SHARED_OPTIONS(0, "nadam")
};
// Adam with Nesterov's momentum, which grows: mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2) (Dozat, 2016).
class NAdam : public Optimizer {
  RILL_RULE(NAdam)
 public:
  void name_variables(VariablePaths& paths) const override;

 protected:
  void begin_step(const Tensor& step, const Tensor& rate) override;

 private:
  Variable product_;  // of all mu so far
  Tensor gradient_rate_, moment_rate_, correction_;
};

struct RAdamOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.001;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  RILL_SHARED_OPTIONS(0, "radam")
};
// Adam whose second moment is used once its variance is known, rectified (Liu et al.: On the variance of the adaptive
// learning rate, 2020).
class RAdam : public Optimizer {
  RILL_RULE(RAdam)
 protected:
  void begin_step(const Tensor& step, const Tensor& rate) override;

 private:
  Tensor plain_rate_, rectified_rate_;
};

struct LionOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.0001;
  double beta1 = 0.9, beta2 = 0.99;
  RILL_SHARED_OPTIONS(0, "lion")
};
// w -= rate (sign(beta1 m + (1 - beta1) g) + weight_decay w); m = beta2 m + (1 - beta2) g (Chen et al.: Symbolic
// discovery of optimization algorithms, 2023).
class Lion : public Optimizer {
  RILL_RULE(Lion)
 protected:
  bool decays() const override { return true; }
};

}  // namespace rill::nn

#pragma GCC visibility pop
