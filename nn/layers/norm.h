// Normalisation: means and variances of a batch, of an example or of a group of channels.
#pragma once
#include <concepts>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "rill/nn/layer.h"
#include "rill/nn/param.h"

#pragma GCC visibility push(default)

namespace rill::nn {

namespace impl {
template <class S>
concept IsShape = std::same_as<S, Shape>;
// Not a bool: g++ 12 takes LayerNorm({.scale = false}) for a list of bools.
template <class I>
concept IsSize = !std::same_as<I, bool> && std::convertible_to<I, Dim>;
template <class I>
Shape shape_of(std::initializer_list<I> sizes) {
  Shape shape;
  for (const I& size : sizes) shape.push_back(Dim(size));
  return shape;
}
}  // namespace impl

struct BatchNormOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axis axis = -1;
  double momentum = 0.99;  // of the moving statistics: the fraction of the old ones, in [0, 1]
  double epsilon = 1e-3;
  bool scale = true, offset = true;  // whether it has them
  std::string name = "batch_norm";
};
// Training: normalises with the batch's statistics and moves its own towards them. Inference, and training while it is
// frozen: normalises with its own, which stay as they are.
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
  bool scale = true, offset = true;
  std::string name = "layer_norm";
};
// Over the trailing axes, whose sizes are `shape`; without a shape, over the last axis.
class LayerNorm {
 public:
  explicit LayerNorm(const LayerNormOptions& options = {}, Where where = Where::current());
  template <impl::IsShape S>
  explicit LayerNorm(const S& shape, const LayerNormOptions& options = {}, Where where = Where::current())
      : LayerNorm(options, where) {
    make(Shape(shape), where);
  }
  template <impl::IsSize I>
  explicit LayerNorm(std::initializer_list<I> shape, const LayerNormOptions& options = {},
                     Where where = Where::current())
      : LayerNorm(options, where) {
    make(impl::shape_of(shape), where);
  }
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(LayerNorm, scale, offset)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  LayerNormOptions options;
  Param scale, offset;

 private:
  void make(const Shape& shape, const Where& where);
  std::optional<Shape> shape_;  // of the axes, where it was given
};

struct GroupNormOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axis axis = -1;  // of channels
  double epsilon = 1e-5;
  bool scale = true, offset = true;
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
  bool scale = true;
  std::string name = "rms_norm";
};
// Without a mean, over the trailing axes, whose sizes are `shape`, or over the last one; see rms_norm().
class RMSNorm {
 public:
  explicit RMSNorm(const RMSNormOptions& options = {}, Where where = Where::current());
  template <impl::IsShape S>
  explicit RMSNorm(const S& shape, const RMSNormOptions& options = {}, Where where = Where::current())
      : RMSNorm(options, where) {
    make(Shape(shape), where);
  }
  template <impl::IsSize I>
  explicit RMSNorm(std::initializer_list<I> shape, const RMSNormOptions& options = {}, Where where = Where::current())
      : RMSNorm(options, where) {
    make(impl::shape_of(shape), where);
  }
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(RMSNorm, scale)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  RMSNormOptions options;
  Param scale;

 private:
  void make(const Shape& shape, const Where& where);
  std::optional<Shape> shape_;
};

struct InstanceNormOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double epsilon = 1e-5;
  bool scale = true, offset = true;
  bool statistics = false;  // keeps means over the training batches, with which inference normalises
  double momentum = 0.9;    // of these: the fraction of the old ones, in [0, 1]
  std::string name = "instance_norm";
};
// Each channel, the last axis, of each example over space by itself; see instance_norm().
class InstanceNorm {
 public:
  explicit InstanceNorm(const InstanceNormOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(InstanceNorm, scale, offset, mean, variance)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  InstanceNormOptions options;
  Param scale, offset;   // [channels]
  Param mean, variance;  // [channels], not trainable
};

// x by the sum of squares of the channels around each; see local_response_norm().
class LocalResponseNorm {
 public:
  explicit LocalResponseNorm(const LocalResponseNormOptions& options = {}, std::string name = "local_response_norm")
      : options(options), name(std::move(name)) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(LocalResponseNorm)

  LocalResponseNormOptions options;
  std::string name;
};

// x of length 1 along an axis; see l2_normalize().
class UnitNorm {
 public:
  explicit UnitNorm(Axis axis = -1, std::string name = "unit_norm") : axis(axis), name(std::move(name)) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(UnitNorm)

  Axis axis;
  std::string name;
};

}  // namespace rill::nn

#pragma GCC visibility pop
