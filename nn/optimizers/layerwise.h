// Rules for entire parameters: LARS and LAMB, whose rate is relative to its norm, and Muon. Sparse gradients are made
// dense.
#pragma once
#include "rill/nn/optimizers/optimizer.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct LARSOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.1;
  double momentum = 0.9;
  bool nesterov = false;
  double trust = 0.001;  // of a parameter's norm over that of its gradient
  double epsilon = 0;
  RILL_SHARED_OPTIONS(0, "lars")
};
// u = g + weight_decay w; v = momentum v + rate trust |w| / (|u| + epsilon) u; w -= v (You et al.: Large batch training of
// convolutional networks, 2017). Where a norm is 0, the ratio is 1.
class LARS : public Optimizer {
  RILL_RULE(LARS)
 protected:
  bool takes_rows() const override { return false; }
  bool takes_parts() const override { return true; }
  bool decays() const override { return true; }
};

struct LAMBOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.001;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-6;
  RILL_SHARED_OPTIONS(0, "lamb")
};
// u = Adam's update + weight_decay w; w -= rate |w| / |u| u (You et al.: Large batch optimization, 2020). Where a norm is
// 0, the ratio is 1.
class LAMB : public Optimizer {
  RILL_RULE(LAMB)
 protected:
  bool takes_rows() const override { return false; }
  bool takes_parts() const override { return true; }
  bool decays() const override { return true; }
  void begin_step(const Tensor& step, const Tensor& rate) override;

 private:
  Tensor correction1_, correction2_;
};

struct MuonOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.001;
  double momentum = 0.95;
  bool nesterov = true;
  int64_t iterations = 5;  // of Newton and Schulz
  double epsilon = 1e-7;
  double adam_rate = 0.3;  // for parameters that are not matrices, times the learning rate
  RILL_SHARED_OPTIONS(0.1, "muon")
};
// The momentum of a matrix, with its singular values made nearly 1, times sqrt(max(1, columns / rows)) (Jordan et al.:
// Muon, 2024). Kernels [..., in, out] are matrices of out columns. Parameters with fewer than two axes take a step of
// AdamW. Weight decay is decoupled, as AdamW's.
class Muon : public Optimizer {
  RILL_RULE(Muon)
 protected:
  void begin_step(const Tensor& step, const Tensor& rate) override;
  bool takes_rows() const override { return false; }
  bool decays() const override { return true; }
  Shape slot_shape(const Variable& variable, const std::string& name) const override;

 private:
  Tensor correction1_, correction2_;
};

}  // namespace rill::nn

#pragma GCC visibility pop
