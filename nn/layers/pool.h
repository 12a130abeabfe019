// Pooling of [batch, space..., channels].
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "rill/nn/layer.h"
#include "rill/nn/layers/windows.h"
#include "rill/ops/images.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct PoolLayerOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Dims strides = {};  // empty: the window's
  SpacePadding padding = "VALID";
  bool ceil_mode = false;               // one more window where elements are left over; see PoolOptions
  Dims dilation = {};                   // of max pools: steps between a window's elements; empty: 1
  bool count_include_pad = false;       // of average pools: padding counts as elements
  std::optional<int64_t> divisor = {};  // of average pools: what sums are divided by
  std::string name = "pool";
};
using Pool1DOptions = PoolLayerOptions;
using Pool2DOptions = PoolLayerOptions;
using Pool3DOptions = PoolLayerOptions;

namespace impl {
class PoolLayer {
 public:
  Dims window;
  PoolLayerOptions options;

 protected:
  PoolLayer(int rank, const char* kind, const Dims& window, const PoolLayerOptions& options, const Where& where);
  // Throws where x has other axes.
  void check(const Tensor& x, const Where& where) const;
  PoolOptions pooling() const;

 private:
  std::string type_;  // "MaxPool2D"
};
struct MaxKind {
  static constexpr const char* name = "MaxPool";
};
struct AvgKind {
  static constexpr const char* name = "AvgPool";
};
template <class PoolKind, int rank>
class PoolOf : public PoolLayer {
 public:
  // `window` has a size for each axis of space, or one for all, 2 or {2}. Throws unless they are 1 or more.
  explicit PoolOf(const Window& window, const PoolLayerOptions& options = {}, Where where = Where::current())
      : PoolLayer(rank, PoolKind::name, window, options, where) {}
  template <is_axis I, size_t n>
  explicit PoolOf(const I (&window)[n], const PoolLayerOptions& options = {}, Where where = Where::current())
      : PoolOf(window_of(window), options, where) {}
};
template <int rank>
class LpPoolOf : public PoolLayer {
 public:
  // The norm's power, more than 0; `window` as of the other pools.
  LpPoolOf(double p, const Window& window, const PoolLayerOptions& options = {}, Where where = Where::current())
      : PoolLayer(rank, "LpPool", window, options, where), p(p) {}

  double p;
};
}  // namespace impl

// The largest element of each window; see max_pool().
class MaxPool1D : public impl::PoolOf<impl::MaxKind, 1> {
 public:
  using PoolOf::PoolOf;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  // And the indices of the maxima, for MaxUnpool.
  IndexedPool with_indices(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(MaxPool1D)
};
// The same of images,
class MaxPool2D : public impl::PoolOf<impl::MaxKind, 2> {
 public:
  using PoolOf::PoolOf;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  // And the indices of the maxima, for MaxUnpool.
  IndexedPool with_indices(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(MaxPool2D)
};
// and of volumes.
class MaxPool3D : public impl::PoolOf<impl::MaxKind, 3> {
 public:
  using PoolOf::PoolOf;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  // And the indices of the maxima, for MaxUnpool.
  IndexedPool with_indices(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(MaxPool3D)
};

// The mean of each window; see avg_pool().
class AvgPool1D : public impl::PoolOf<impl::AvgKind, 1> {
 public:
  using PoolOf::PoolOf;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(AvgPool1D)
};
// The same of images,
class AvgPool2D : public impl::PoolOf<impl::AvgKind, 2> {
 public:
  using PoolOf::PoolOf;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(AvgPool2D)
};
// and of volumes.
class AvgPool3D : public impl::PoolOf<impl::AvgKind, 3> {
 public:
  using PoolOf::PoolOf;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(AvgPool3D)
};

// The p-norm of each window; see lp_pool().
class LpPool1D : public impl::LpPoolOf<1> {
 public:
  using LpPoolOf::LpPoolOf;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(LpPool1D)
};
// The same of images,
class LpPool2D : public impl::LpPoolOf<2> {
 public:
  using LpPoolOf::LpPoolOf;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(LpPool2D)
};
// and of volumes.
class LpPool3D : public impl::LpPoolOf<3> {
 public:
  using LpPoolOf::LpPoolOf;
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(LpPool3D)
};

struct GlobalPoolOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool keepdims = false;  // space stays, with axes of size 1
  std::string name = "global_pool";
};
// The largest element of each channel over all of space, of one to three axes: [batch, channels].
class GlobalMaxPool {
 public:
  explicit GlobalMaxPool(const GlobalPoolOptions& options = {}) : options(options) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(GlobalMaxPool)

  GlobalPoolOptions options;
};
// The mean of each channel over all of space.
class GlobalAvgPool {
 public:
  explicit GlobalAvgPool(const GlobalPoolOptions& options = {}) : options(options) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(GlobalAvgPool)

  GlobalPoolOptions options;
};

// Windows that make space of the sizes `out`, one for each axis or one for all, whatever it was; see
// adaptive_max_pool().
class AdaptiveMaxPool {
 public:
  explicit AdaptiveMaxPool(const Window& out, std::string name = "adaptive_pool") : out(out), name(std::move(name)) {}
  template <is_axis I, size_t n>
  explicit AdaptiveMaxPool(const I (&out)[n], std::string name = "adaptive_pool")
      : AdaptiveMaxPool(window_of(out), std::move(name)) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(AdaptiveMaxPool)

  Dims out;
  std::string name;
};
// The mean of such windows.
class AdaptiveAvgPool {
 public:
  explicit AdaptiveAvgPool(const Window& out, std::string name = "adaptive_pool") : out(out), name(std::move(name)) {}
  template <is_axis I, size_t n>
  explicit AdaptiveAvgPool(const I (&out)[n], std::string name = "adaptive_pool")
      : AdaptiveAvgPool(window_of(out), std::move(name)) {}
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(AdaptiveAvgPool)

  Dims out;
  std::string name;
};

struct FractionalMaxPoolOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Dims out = {};  // the sizes of space; or
  std::vector<double> ratio =
      {};  // by which space shrinks, to floor(in * ratio): in (0, 1), one an axis or one for all
  std::string name = "fractional_pool";
};
// The largest element of windows at distances that are drawn, at inference too; see fractional_max_pool(). Throws unless
// exactly one of out and ratio is given.
class FractionalMaxPool {
 public:
  FractionalMaxPool(const Window& window, const FractionalMaxPoolOptions& options, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(FractionalMaxPool)

  Dims window;
  FractionalMaxPoolOptions options;
};

// Puts the results of MaxPool2D(...).with_indices() back at their indices, among zeros; see max_unpool().
class MaxUnpool {
 public:
  explicit MaxUnpool(const Window& window, const UnpoolOptions& options = {}, std::string name = "unpool")
      : window(window), options(options), name(std::move(name)) {}
  template <is_axis I, size_t n>
  explicit MaxUnpool(const I (&window)[n], const UnpoolOptions& options = {}, std::string name = "unpool")
      : MaxUnpool(window_of(window), options, std::move(name)) {}
  Tensor operator()(const Tensor& x, const Tensor& indices, const Call& call = {},
                    Where where = Where::current()) const;
  RILL_LAYER(MaxUnpool)

  Dims window;
  UnpoolOptions options;
  std::string name;
};

}  // namespace rill::nn

#pragma GCC visibility pop
