// The U-Net of diffusion (Ho et al.: Denoising Diffusion Probabilistic Models, 2020, appendix B), which predicts the
// noise in an image.
#pragma once
#include <rill/nn.h>
#include <rill/rill.h>

#include <cmath>

namespace models {
using namespace rill;

struct DiffusionOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t channels = 3, width = 128, groups = 32;  // for CIFAR10
  std::vector<int64_t> widths = {1, 2, 2, 2};  // of each level, times `width`; each has half the size of the one before
  std::vector<size_t> attention = {1};         // levels that have it
  int64_t blocks = 2;                          // for each level
  double dropout = 0.1;
};

inline nn::Conv2D diffusion_conv(int64_t out, int64_t stride = 1) {
  return nn::Conv2D(out, 3, {.strides = {stride}, .padding = "same"});
}

// Sines and cosines of a step [batch]: [batch, width].
inline Tensor step_features(const Tensor& step, int64_t width) {
  const int64_t half = width / 2;
  const Tensor rates = exp(iota({half}).astype(f32) * (-std::log(10000.0) / double(half - 1)));
  const Tensor angles = expand_dims(step.astype(f32), 1) * rates;
  return concat({sin(angles), cos(angles)}, -1);
}

// Two convolutions, between which the step's features are added, and a residual.
struct DiffusionBlock {
  DiffusionBlock(int64_t in, int64_t out, const DiffusionOptions& o)
      : norm1(o.groups),
        norm2(o.groups),
        conv1(diffusion_conv(out)),
        conv2(diffusion_conv(out)),
        step(out),
        drop(o.dropout) {
    if (in != out) shortcut = nn::Dense(out);
  }
  Tensor operator()(const Tensor& x, const Tensor& features, const nn::Call& call = {}) const {
    Tensor h = conv1(silu(norm1(x, call)), call);
    h = h + expand_dims(step(silu(features), call), {1, 2});
    h = conv2(drop(silu(norm2(h, call)), call), call);
    return h + (shortcut ? (*shortcut)(x, call) : x);
  }
  RILL_LAYER(DiffusionBlock, norm1, conv1, step, norm2, conv2, shortcut)

  nn::GroupNorm norm1, norm2;
  nn::Conv2D conv1, conv2;
  nn::Dense step;
  nn::Dropout drop;
  std::optional<nn::Dense> shortcut;
};

// Each pixel of an image attends to all others.
struct DiffusionAttention {
  DiffusionAttention(int64_t width, const DiffusionOptions& o) : norm(o.groups), attention(width, 1) {}
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    const Tensor tokens = reshape(norm(x, call), {x.dim(0), x.dim(1) * x.dim(2), x.dim(3)});
    return x + reshape(attention(tokens, call), x.shape());
  }
  RILL_LAYER(DiffusionAttention, norm, attention)

  nn::GroupNorm norm;
  nn::MultiHeadAttention attention;
};

// A block, optionally with attention after it, and a layer that changes the size after that.
struct DiffusionStage {
  Tensor operator()(const Tensor& x, const Tensor& features, const nn::Call& call = {}) const {
    const Tensor h = block(x, features, call);
    return attention ? (*attention)(h, call) : h;
  }
  DiffusionBlock block;
  std::optional<DiffusionAttention> attention;
};

// Noisy images [batch, height, width, channels] and steps [batch], integers, to the noise in them. Height and width are
// multiples of 2^(levels - 1).
struct DiffusionUNet {
  explicit DiffusionUNet(const DiffusionOptions& o = {})
      : options(o),
        step1(4 * o.width),
        step2(4 * o.width),
        first(diffusion_conv(o.width)),
        norm(o.groups),
        last(diffusion_conv(o.channels)) {
    std::vector<int64_t> skips = {o.width};
    int64_t in = o.width;
    const size_t levels = o.widths.size();
    for (size_t i = 0; i < levels; ++i) {
      for (int64_t j = 0; j < o.blocks; ++j) {
        down.push_back(stage(in, o.width * o.widths[i], i));
        skips.push_back(in = o.width * o.widths[i]);
      }
      if (i + 1 < levels) shrink.push_back(diffusion_conv(in, 2)), skips.push_back(in);
    }
    middle = {stage(in, in, levels), stage(in, in, levels)};
    middle[0].attention = DiffusionAttention(in, o);
    for (size_t i = levels; i-- > 0;) {
      for (int64_t j = 0; j <= o.blocks; ++j) {
        up.push_back(stage(in + skips.back(), o.width * o.widths[i], i));
        skips.pop_back(), in = o.width * o.widths[i];
      }
      if (i > 0) grow.push_back(diffusion_conv(in));
    }
  }
  Tensor operator()(const Tensor& x, const Tensor& step, const nn::Call& call = {}) const {
    const Tensor features = step2(silu(step1(call.in(step_features(step, options.width)), call)), call);
    std::vector<Tensor> skips = {first(x, call)};
    const size_t levels = options.widths.size(), blocks = size_t(options.blocks);
    for (size_t i = 0, next = 0; i < levels; ++i) {
      for (size_t j = 0; j < blocks; ++j) skips.push_back(down[next++](skips.back(), features, call));
      if (i + 1 < levels) skips.push_back(shrink[i](skips.back(), call));
    }
    Tensor h = middle[1](middle[0](skips.back(), features, call), features, call);
    for (size_t i = 0, next = 0; i < levels; ++i) {
      for (size_t j = 0; j <= blocks; ++j) {
        h = up[next++](concat({h, skips.back()}, -1), features, call);
        skips.pop_back();
      }
      if (i + 1 < levels) h = grow[i](interpolate(h, {.scale = {2}}), call);
    }
    return last(silu(norm(h, call)), call);
  }
  RILL_LAYER(DiffusionUNet, step1, step2, first, down, shrink, middle, up, grow, norm, last)

  DiffusionOptions options;
  nn::Dense step1, step2;
  nn::Conv2D first;
  std::vector<DiffusionStage> down, middle, up;
  std::vector<nn::Conv2D> shrink, grow;
  nn::GroupNorm norm;
  nn::Conv2D last;

 private:
  DiffusionStage stage(int64_t in, int64_t out, size_t level) const {
    DiffusionStage s{DiffusionBlock(in, out, options), {}};
    for (size_t i : options.attention)
      if (i == level) s.attention = DiffusionAttention(out, options);
    return s;
  }
};

// x with noise of step t mixed in, of 1000 steps with betas from 1e-4 to 0.02: section 4.
inline Tensor noisy(const Tensor& x, const Tensor& noise, const Tensor& step) {
  const Tensor alphas = cumprod(1 - linspace(1e-4, 0.02, 1000), 0);
  const Tensor alpha = reshape(take(alphas, step, 0), {step.dim(0), 1, 1, 1}).astype(x.dtype());
  return sqrt(alpha) * x + sqrt(1 - alpha) * noise;
}

}  // namespace models
