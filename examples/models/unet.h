// U-Net (Ronneberger et al.: Convolutional Networks for Biomedical Image Segmentation, 2015), with padded convolutions, so
// that a mask has its image's size.
#pragma once
#include <rill/nn.h>
#include <rill/rill.h>

namespace models {
using namespace rill;

struct DoubleConv {
  explicit DoubleConv(int64_t out)
      : first(out, {3}, {.padding = "same", .activation = relu, .kernel_initializer = nn::he_normal}),
        second(out, {3}, {.padding = "same", .activation = relu, .kernel_initializer = nn::he_normal}) {}
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const { return second(first(x, call), call); }
  RILL_LAYER(DoubleConv, first, second)

  nn::Conv2D first, second;
};

// Figure 1, from [batch, height, width, channels] to logits [batch, height, width, classes]. Height and width are
// multiples of 2^depth.
struct UNet {
  explicit UNet(int64_t classes, int64_t width = 64, int64_t depth = 4) : bottom(width << depth), head(classes, {1}) {
    for (int64_t i = 0; i < depth; ++i) {
      down.emplace_back(width << i);
      grow.emplace_back(width << i, Dims{2}, nn::ConvTransposeLayerOptions{.strides = {2}});
      up.emplace_back(width << i);
    }
  }
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    std::vector<Tensor> skips;
    Tensor h = x;
    for (const DoubleConv& level : down) {
      skips.push_back(level(h, call));
      h = max_pool(skips.back(), {2, 2});
    }
    h = bottom(h, call);
    for (size_t i = up.size(); i-- > 0;) h = up[i](concat({skips[i], grow[i](h, call)}, -1), call);
    return head(h, call);
  }
  RILL_LAYER(UNet, down, bottom, grow, up, head)

  std::vector<DoubleConv> down, up;
  std::vector<nn::ConvTranspose2D> grow;
  DoubleConv bottom;
  nn::Conv2D head;
};

}  // namespace models
