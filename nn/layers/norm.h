// Normalisation: means and variances of a batch, of an example or of a group of channels.
#pragma once
#include "rill/nn/layer.h"
#include "rill/nn/param.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct BatchNormOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axis axis = -1;
  double momentum = 0.99;  // of the moving statistics: the fraction of the old ones, in [0, 1]
  double epsilon = 1e-3;
  std::string name = "batch_norm";
};
// Training: normalises with the batch's statistics and moves its own towards them. Inference, and training while its
// scale is frozen: normalises with its own, which stay as they are.
class BatchNorm {
 public:
  // Without `channels`, they are found at the first call.
  explicit BatchNorm(const BatchNormOptions& options = {}, Where where = Where::current());
  explicit BatchNorm(int64_t channels, const BatchNormOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(BatchNorm, scale, offset, mean, variance)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  BatchNormOptions options;
  Param scale, offset;   // [channels]
  Param mean, variance;  // [channels], not trainable
};

struct LayerNormOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double epsilon = 1e-5;
  std::string name = "layer_norm";
};
// Over the trailing axes, whose sizes are `shape`; without a shape, over the last axis.
class LayerNorm {
 public:
  explicit LayerNorm(const LayerNormOptions& options = {}, Where where = Where::current());
  explicit LayerNorm(const Shape& shape, const LayerNormOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(LayerNorm, scale, offset)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  LayerNormOptions options;
  Param scale, offset;
};

struct GroupNormOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axis axis = -1;  // of channels
  double epsilon = 1e-5;
  std::string name = "group_norm";
};
// Each group of channels of each example by itself; see group_norm(). As many groups as channels: instance_norm().
class GroupNorm {
 public:
  // Throws where the groups do not divide the channels; without `channels`, at the first call.
  explicit GroupNorm(int64_t groups, const GroupNormOptions& options = {}, Where where = Where::current());
  GroupNorm(int64_t channels, int64_t groups, const GroupNormOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(GroupNorm, scale, offset)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  int64_t groups;
  GroupNormOptions options;
  Param scale, offset;  // [channels]
};

struct RMSNormOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double epsilon = 1e-5;
  std::string name = "rms_norm";
};
// Without a mean, over the trailing axes, whose sizes are `shape`, or over the last one; see rms_norm().
class RMSNorm {
 public:
  explicit RMSNorm(const RMSNormOptions& options = {}, Where where = Where::current());
  explicit RMSNorm(const Shape& shape, const RMSNormOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(RMSNorm, scale)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  RMSNormOptions options;
  Param scale;
};

}  // namespace rill::nn

#pragma GCC visibility pop
