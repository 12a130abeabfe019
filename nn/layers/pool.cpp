// Pooling.
#include "rill/nn/layers/pool.h"

#include <fmt/format.h>

#include <cmath>

#include "rill/nn/layers/windows.h"

namespace rill::nn {
namespace impl {

PoolLayer::PoolLayer(int rank, const char* kind, const Dims& window, const PoolLayerOptions& options,
                     const Where& where)
    : window(checked_window(window, size_t(rank), fmt::format("{}{}D", kind, rank), where)),
      options(options),
      type_(fmt::format("{}{}D", kind, rank)) {
  checked_steps(options.strides, type_, "a stride", where);
  checked_steps(options.dilation, type_, "a dilation", where);
}

void PoolLayer::check(const Tensor& x, const Where& where) const {
  if (x.ndim(where) != int64_t(window.size()) + 2)
    fail(type_,
         fmt::format("the input must have {} axes, [batch, space..., channels], not {}. operands: {}",
                     window.size() + 2, x.ndim(), to_string(x.spec())),
         where);
}

PoolOptions PoolLayer::pooling() const {
  return {.strides = options.strides,
          .padding = options.padding,
          .count_include_pad = options.count_include_pad,
          .ceil_mode = options.ceil_mode,
          .dilation = options.dilation,
          .divisor = options.divisor};
}

}  // namespace impl

#define RILL_MAX_POOL(Type)                                                              \
  Tensor Type::operator()(const Tensor& x, const Call& call, Where where) const {        \
    const LayerRun run(this, options.name, where);                                       \
    check(x, where);                                                                     \
    return run.give(max_pool(call.in(x), window, pooling()));                            \
  }                                                                                      \
  IndexedPool Type::with_indices(const Tensor& x, const Call& call, Where where) const { \
    const CallerScope caller(where);                                                     \
    check(x, where);                                                                     \
    return max_pool_with_indices(call.in(x), window, pooling());                         \
  }
RILL_MAX_POOL(MaxPool1D)
RILL_MAX_POOL(MaxPool2D)
RILL_MAX_POOL(MaxPool3D)
#undef RILL_MAX_POOL

#define RILL_AVG_POOL(Type)                                                       \
  Tensor Type::operator()(const Tensor& x, const Call& call, Where where) const { \
    const LayerRun run(this, options.name, where);                                \
    check(x, where);                                                              \
    return run.give(avg_pool(call.in(x), window, pooling()));                     \
  }
RILL_AVG_POOL(AvgPool1D)
RILL_AVG_POOL(AvgPool2D)
RILL_AVG_POOL(AvgPool3D)
#undef RILL_AVG_POOL

#define RILL_LP_POOL(Type)                                                        \
  Tensor Type::operator()(const Tensor& x, const Call& call, Where where) const { \
    const LayerRun run(this, options.name, where);                                \
    check(x, where);                                                              \
    return run.give(lp_pool(call.in(x), window, p, pooling()));                   \
  }
RILL_LP_POOL(LpPool1D)
RILL_LP_POOL(LpPool2D)
RILL_LP_POOL(LpPool3D)
#undef RILL_LP_POOL

// --- All of space, or to given sizes ---------------------------------------------------------------------------------

Tensor GlobalMaxPool::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, options.name, where);
  return run.give(global_max_pool(call.in(x), Layout::nhwc, options.keepdims));
}
Tensor GlobalAvgPool::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, options.name, where);
  return run.give(global_avg_pool(call.in(x), Layout::nhwc, options.keepdims));
}
Tensor AdaptiveMaxPool::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  return run.give(adaptive_max_pool(call.in(x), out));
}
Tensor AdaptiveAvgPool::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  return run.give(adaptive_avg_pool(call.in(x), out));
}

FractionalMaxPool::FractionalMaxPool(const Window& window, const FractionalMaxPoolOptions& options, Where where)
    : window(window), options(options) {
  if (options.out.empty() == options.ratio.empty())
    fail("FractionalMaxPool", "give either the sizes of the result or the ratio by which space shrinks", where);
  for (double ratio : options.ratio)
    if (!(ratio > 0 && ratio < 1))
      fail("FractionalMaxPool", fmt::format("a ratio is {} and must be between 0 and 1", ratio), where);
}

Tensor FractionalMaxPool::operator()(const Tensor& x, const Call& call, Where where) const {
  const LayerRun run(this, options.name, where);
  const Tensor in = call.in(x);
  Dims out = options.out;
  if (out.empty())
    for (int64_t i = 1; i + 1 < in.ndim(); ++i) {
      const double ratio = options.ratio[options.ratio.size() == 1 ? 0 : size_t(i - 1) % options.ratio.size()];
      out.push_back(int64_t(std::floor(double(int64_t(in.dim(i))) * ratio)));
    }
  return run.give(fractional_max_pool(in, window, out));
}

Tensor MaxUnpool::operator()(const Tensor& x, const Tensor& indices, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  return run.give(max_unpool(call.in(x), indices, window, options));
}

}  // namespace rill::nn
