// DCGAN (Radford et al.: Unsupervised Representation Learning with Deep Convolutional Generative Adversarial Networks,
// 2015), for images of 64x64, or of 16x16 with two levels fewer.
#pragma once
#include <rill/nn.h>
#include <rill/rill.h>

namespace models {
using namespace rill;

// Noise [batch, 100] to images in [-1, 1].
inline nn::Sequential dcgan_generator(int64_t channels = 3, int64_t width = 64, int levels = 4) {
  const auto grow = [](int64_t out, int64_t stride, int padding) {
    return nn::ConvTranspose2D(
        out, 4,
        {.strides = {stride}, .padding = padding, .use_bias = false, .kernel_initializer = nn::normal(0, 0.02)});
  };
  nn::Sequential g(nn::fn([](const Tensor& z) { return expand_dims(z, {1, 2}); }));
  for (int i = 0; i < levels; ++i) {
    g.add(grow(width << (levels - 1 - i), i == 0 ? 1 : 2, i == 0 ? 0 : 1));
    g.add(nn::BatchNorm({.momentum = 0.9, .epsilon = 1e-5})).add(relu);
  }
  return g.add(grow(channels, 2, 1)).add(tanh);
}

// Images to logits [batch] of being real.
inline nn::Sequential dcgan_discriminator(int64_t width = 64, int levels = 4) {
  const auto shrink = [](int64_t out, int64_t stride, int padding) {
    return nn::Conv2D(
        out, 4,
        {.strides = {stride}, .padding = padding, .use_bias = false, .kernel_initializer = nn::normal(0, 0.02)});
  };
  nn::Sequential d;
  for (int i = 0; i < levels; ++i) {
    d.add(shrink(width << i, 2, 1));
    if (i > 0) d.add(nn::BatchNorm({.momentum = 0.9, .epsilon = 1e-5}));
    d.add([](const Tensor& x) { return leaky_relu(x, 0.2); });
  }
  return d.add(shrink(1, 1, 0)).add([](const Tensor& x) { return squeeze(x, {1, 2, 3}); });
}

}  // namespace models
