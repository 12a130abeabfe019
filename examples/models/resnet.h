// ResNet (He et al.: Deep Residual Learning for Image Recognition, 2015). Parts have their names in torchvision.
#pragma once
#include <rill/nn.h>
#include <rill/rill.h>

namespace models {
using namespace rill;

inline nn::Conv2D resnet_conv(int64_t out, int64_t window, int64_t stride = 1) {
  return nn::Conv2D(
      out, window,
      {.strides = {stride}, .padding = int(window / 2), .use_bias = false, .kernel_initializer = nn::he_normal});
}
inline nn::BatchNorm resnet_norm() { return nn::BatchNorm({.momentum = 0.9, .epsilon = 1e-5}); }

// The shortcut of a block that changes the shape of x.
inline std::optional<nn::Sequential> resnet_shortcut(int64_t in, int64_t out, int64_t stride) {
  if (in == out && stride == 1) return {};
  return nn::Sequential(resnet_conv(out, 1, stride), resnet_norm());
}

// Figure 5, left.
struct BasicBlock {
  static constexpr int64_t expansion = 1;
  BasicBlock(int64_t in, int64_t width, int64_t stride)
      : conv1(resnet_conv(width, 3, stride)),
        conv2(resnet_conv(width, 3)),
        downsample(resnet_shortcut(in, width, stride)) {}
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    Tensor h = relu(bn1(conv1(x, call), call));
    h = bn2(conv2(h, call), call);
    return relu(h + (downsample ? (*downsample)(x, call) : x));
  }
  RILL_LAYER(BasicBlock, conv1, bn1, conv2, bn2, downsample)

  nn::Conv2D conv1, conv2;
  nn::BatchNorm bn1 = resnet_norm(), bn2 = resnet_norm();
  std::optional<nn::Sequential> downsample;
};

// Figure 5, right, with the stride in the 3x3 convolution.
struct Bottleneck {
  static constexpr int64_t expansion = 4;
  Bottleneck(int64_t in, int64_t width, int64_t stride)
      : conv1(resnet_conv(width, 1)),
        conv2(resnet_conv(width, 3, stride)),
        conv3(resnet_conv(4 * width, 1)),
        downsample(resnet_shortcut(in, 4 * width, stride)) {}
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    Tensor h = relu(bn1(conv1(x, call), call));
    h = relu(bn2(conv2(h, call), call));
    h = bn3(conv3(h, call), call);
    return relu(h + (downsample ? (*downsample)(x, call) : x));
  }
  RILL_LAYER(Bottleneck, conv1, bn1, conv2, bn2, conv3, bn3, downsample)

  nn::Conv2D conv1, conv2, conv3;
  nn::BatchNorm bn1 = resnet_norm(), bn2 = resnet_norm(), bn3 = resnet_norm();
  std::optional<nn::Sequential> downsample;
};

// Table 1: up to four layers with these numbers of blocks, of width 64, 128, ...: [batch, height, width, 3] to [batch,
// classes].
template <class Block>
struct ResNet {
  ResNet(const std::vector<int64_t>& blocks, int64_t classes, int64_t width = 64)
      : conv1(resnet_conv(width, 7, 2)), fc(classes) {
    int64_t in = width;
    for (size_t i = 0; i < blocks.size(); ++i)
      for (int64_t j = 0; j < blocks[i]; ++j) {
        (this->*layers[i]).push_back(Block(in, width << i, i > 0 && j == 0 ? 2 : 1));
        in = Block::expansion * (width << i);
      }
  }
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    Tensor h = pool(relu(bn1(conv1(x, call), call)), call);
    for (const auto layer : layers)
      for (const Block& block : this->*layer) h = block(h, call);
    return fc(mean(h, {1, 2}), call);
  }
  RILL_LAYER(ResNet, conv1, bn1, layer1, layer2, layer3, layer4, fc)

  nn::Conv2D conv1;
  nn::BatchNorm bn1 = resnet_norm();
  nn::MaxPool2D pool{{3}, {.strides = {2}, .padding = 1}};
  std::vector<Block> layer1, layer2, layer3, layer4;
  nn::Dense fc;

 private:
  static constexpr std::vector<Block> ResNet::* layers[] = {&ResNet::layer1, &ResNet::layer2, &ResNet::layer3,
                                                            &ResNet::layer4};
};

inline ResNet<BasicBlock> resnet18(int64_t classes) { return {{2, 2, 2, 2}, classes}; }
inline ResNet<Bottleneck> resnet50(int64_t classes) { return {{3, 4, 6, 3}, classes}; }

}  // namespace models
