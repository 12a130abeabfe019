// MobileNetV3-Small (Howard et al.: Searching for MobileNetV3, 2019).
#pragma once
#include <rill/nn.h>
#include <rill/rill.h>

#include <algorithm>

namespace models {
using namespace rill;

// The nearest multiple of 8, at least 8, and at least 9/10 of n.
inline int64_t mobilenet_width(double n) {
  const int64_t rounded = std::max<int64_t>(8, int64_t(n + 4) / 8 * 8);
  return double(rounded) < 0.9 * n ? rounded + 8 : rounded;
}

// A convolution without bias, a norm, an activation.
inline nn::Sequential mobilenet_conv(int64_t out, int64_t window, int64_t stride, const nn::Activation& activation) {
  nn::Sequential s(
      nn::Conv2D(out, window, {.strides = {stride}, .padding = int(window / 2), .use_bias = false, .name = "conv"}),
      nn::BatchNorm({.momentum = 0.99, .epsilon = 1e-3, .name = "norm"}));
  if (activation) s.add(nn::fn(activation));
  return s;
}
inline nn::Sequential mobilenet_depthwise(int64_t window, int64_t stride, const nn::Activation& activation) {
  return nn::Sequential(
      nn::DepthwiseConv2D({window},
                          {.strides = {stride}, .padding = int(window / 2), .use_bias = false, .name = "conv"}),
      nn::BatchNorm({.momentum = 0.99, .epsilon = 1e-3, .name = "norm"}), nn::fn(activation));
}

// Multiplies each channel by a number in [0, 1] that depends on the complete image.
struct SqueezeExcite {
  explicit SqueezeExcite(int64_t channels)
      : squeeze(mobilenet_width(double(channels) / 4), {.activation = relu}),
        excite(channels, {.activation = hard_sigmoid}) {}
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    return x * excite(squeeze(mean(x, {1, 2}, true), call), call);
  }
  RILL_LAYER(SqueezeExcite, squeeze, excite)

  nn::Dense squeeze, excite;
};

// A row of Table 2.
struct Bneck {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t window, expanded, out;
  bool squeezes;
  bool hard;  // h-swish instead of relu
  int64_t stride;
};

// Figure 4: wide in the middle, narrow at the ends.
struct InvertedResidual {
  InvertedResidual(int64_t in, const Bneck& b) : adds(b.stride == 1 && in == b.out) {
    const nn::Activation activation = b.hard ? nn::Activation(hard_swish) : nn::Activation(relu);
    if (b.expanded != in) expand = mobilenet_conv(b.expanded, 1, 1, activation);
    depthwise = mobilenet_depthwise(b.window, b.stride, activation);
    if (b.squeezes) squeeze_excite = SqueezeExcite(b.expanded);
    project = mobilenet_conv(b.out, 1, 1, nullptr);
  }
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    Tensor h = depthwise(expand ? (*expand)(x, call) : x, call);
    if (squeeze_excite) h = (*squeeze_excite)(h, call);
    h = project(h, call);
    return adds ? x + h : h;
  }
  RILL_LAYER(InvertedResidual, expand, depthwise, squeeze_excite, project)

  bool adds;
  std::optional<nn::Sequential> expand;
  nn::Sequential depthwise;
  std::optional<SqueezeExcite> squeeze_excite;
  nn::Sequential project;
};

// [batch, height, width, 3] to [batch, classes]. `rows` of Table 2: with fewer, the network is smaller.
struct MobileNetV3 {
  explicit MobileNetV3(int64_t classes, size_t rows = 11) : classifier(classes) {
    const Bneck table[] = {
        {.window = 3, .expanded = 16, .out = 16, .squeezes = true, .hard = false, .stride = 2},
        {.window = 3, .expanded = 72, .out = 24, .squeezes = false, .hard = false, .stride = 2},
        {.window = 3, .expanded = 88, .out = 24, .squeezes = false, .hard = false, .stride = 1},
        {.window = 5, .expanded = 96, .out = 40, .squeezes = true, .hard = true, .stride = 2},
        {.window = 5, .expanded = 240, .out = 40, .squeezes = true, .hard = true, .stride = 1},
        {.window = 5, .expanded = 240, .out = 40, .squeezes = true, .hard = true, .stride = 1},
        {.window = 5, .expanded = 120, .out = 48, .squeezes = true, .hard = true, .stride = 1},
        {.window = 5, .expanded = 144, .out = 48, .squeezes = true, .hard = true, .stride = 1},
        {.window = 5, .expanded = 288, .out = 96, .squeezes = true, .hard = true, .stride = 2},
        {.window = 5, .expanded = 576, .out = 96, .squeezes = true, .hard = true, .stride = 1},
        {.window = 5, .expanded = 576, .out = 96, .squeezes = true, .hard = true, .stride = 1},
    };
    int64_t in = 16;
    for (size_t i = 0; i < rows; ++i) {
      blocks.emplace_back(in, table[i]);
      in = table[i].out;
    }
    last = mobilenet_conv(6 * in, 1, 1, hard_swish);
  }
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    Tensor h = stem(x, call);
    for (const InvertedResidual& block : blocks) h = block(h, call);
    h = mean(last(h, call), {1, 2});
    return classifier(dropout(hidden(h, call), call), call);
  }
  RILL_LAYER(MobileNetV3, stem, blocks, last, hidden, classifier)

  nn::Sequential stem = mobilenet_conv(16, 3, 2, hard_swish);
  std::vector<InvertedResidual> blocks;
  nn::Sequential last;
  nn::Dense hidden{1024, {.activation = hard_swish}};
  nn::Dropout dropout{0.2};
  nn::Dense classifier;
};

}  // namespace models
