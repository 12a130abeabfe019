// LossScale: f16 gradients below 6e-8 are 0, so the loss is scaled up and gradients down. The scale follows them:
// halved when they overflow, doubled after many steps without (Micikevicius et al.: Mixed precision training, 2018).
#pragma once
#include <vector>

#include "rill/autodiff/sparse.h"
#include "rill/ops/names.h"
#include "rill/ops/ops.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct LossScaleOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double initial = 65536;  // torch's GradScaler
  double growth = 2, backoff = 0.5;
  int64_t steps = 2000;  // without an overflow, after which it grows
};

// Its state is in Variables, so that a traced step keeps it. Copies share it. An optimizer can do all of this itself:
// nn::Adam({.loss_scale = nn::LossScale()}).
class LossScale {
 public:
  // Throws unless initial > 0, growth >= 1, 0 < backoff <= 1 and steps >= 1.
  explicit LossScale(const LossScaleOptions& options = {}, Where where = Where::current());
  // The loss in f32, times the scale.
  Tensor scale(const Tensor& loss, Where where = Where::current()) const;
  // Gradients of the scaled loss, in f32 at least, divided by the scale.
  std::vector<Tensor> unscale(const std::vector<Tensor>& gradients, Where where = Where::current()) const;
  Tensor unscale(const Tensor& gradient, Where where = Where::current()) const;
  // Call it after each step: `finite`, a bool scalar, says whether all its gradients were.
  void update(const Tensor& finite, Where where = Where::current()) const;
  // f32.
  Tensor value(Where where = Where::current()) const { return scale_.value(where); }
  void name_variables(VariablePaths& paths) const;

 private:
  LossScaleOptions options_;
  Variable scale_, good_;
};

// Whether all elements of all defined ones are finite: a bool scalar. Throws if there are none.
Tensor all_finite(const std::vector<Tensor>& gradients, Where where = Where::current());

}  // namespace rill::nn

#pragma GCC visibility pop
