// The network that mnist trains and export_digits exports, and its input.
#pragma once
#include <rill/nn.h>
#include <rill/rill.h>

// For images of height x width, one channel; logits of ten classes.
inline rill::nn::Sequential make_model(int64_t height, int64_t width) {
  using namespace rill;
  // Padded convolutions keep the size of an image, pools halve it.
  const int64_t pixels = (height / 4) * (width / 4);
  return nn::Sequential(nn::Conv2D(1, 32, {5}, {.padding = "SAME", .activation = relu, .name = "conv1"}),
                        nn::MaxPool2D({2}, {.name = "pool1"}),
                        nn::Conv2D(32, 64, {5}, {.padding = "SAME", .activation = relu, .name = "conv2"}),
                        nn::MaxPool2D({2}, {.name = "pool2"}), nn::Flatten(),
                        nn::Dense(pixels * 64, 1024, {.activation = relu, .name = "hidden"}), nn::Dropout(0.4),
                        nn::Dense(1024, 10, {.name = "logits"}));
}

// u8[n,height,width], 0 to 255, to f32[n,height,width,1], 0 to 1.
inline rill::Tensor to_input(const rill::Tensor& images) {
  return rill::expand_dims(images.astype(rill::f32) / 255, -1);
}
