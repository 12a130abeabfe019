// Vision Transformer (Dosovitskiy et al.: An Image is Worth 16x16 Words, 2020).
#pragma once
#include <rill/nn.h>
#include <rill/rill.h>

#include "exact_gelu.h"

namespace models {
using namespace rill;

struct ViTOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t image = 224, patch = 16;
  int64_t width = 192, layers = 12, heads = 3;  // ViT-Ti (Touvron et al.: DeiT, 2021)
  int64_t classes = 1000;
  double dropout = 0;
};

// [batch, image, image, 3] to [batch, classes].
struct ViT {
  explicit ViT(const ViTOptions& o = {})
      : options(o), patches(o.width, o.patch, {.strides = {o.patch}}), head(o.classes) {
    for (int64_t i = 0; i < o.layers; ++i)
      blocks.emplace_back(
          o.width, o.heads,
          nn::TransformerOptions{.epsilon = 1e-6, .dropout = o.dropout, .feed_forward = {.activation = exact_gelu}});
  }
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    const Dim batch = x.dim(0), width = options.width;
    const int64_t side = options.image / options.patch, tokens = side * side;
    Tensor h = reshape(patches(x, call), {batch, tokens, width});
    const Tensor first = broadcast_to(class_token({1, 1, width}, call), {batch, 1, width});
    h = concat({first, h}, 1) + positions({1 + tokens, width}, call);
    for (const nn::TransformerEncoderLayer& block : blocks) h = block(h, call);
    return head(norm(h, call)(all, 0), call);
  }
  RILL_LAYER(ViT, patches, class_token, positions, blocks, norm, head)

  ViTOptions options;
  nn::Conv2D patches;
  nn::Param class_token{"class_token", nn::constant(0)};
  nn::Param positions{"positions", nn::truncated_normal(0, 0.02)};
  std::vector<nn::TransformerEncoderLayer> blocks;
  nn::LayerNorm norm{{.epsilon = 1e-6}};
  nn::Dense head;
};

}  // namespace models
