// Pooling of [batch, space..., channels].
#pragma once
#include "rill/nn/layer.h"
#include "rill/ops/conv.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct Pool2DOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Dims strides = {};  // empty: the window's
  SpacePadding padding = "VALID";
  std::string name = "pool";
};
// The largest element of each window; see max_pool().
class MaxPool2D {
 public:
  explicit MaxPool2D(const Dims& window, const Pool2DOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(MaxPool2D)

  Dims window;
  Pool2DOptions options;
};
// The mean of each window; see avg_pool().
class AvgPool2D {
 public:
  explicit AvgPool2D(const Dims& window, const Pool2DOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(AvgPool2D)

  Dims window;
  Pool2DOptions options;
};

}  // namespace rill::nn

#pragma GCC visibility pop
