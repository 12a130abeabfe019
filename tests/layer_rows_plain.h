// Rows of the table of layers: weighted sums, windows, normalisation, noise, shapes, activations.
#pragma once
#include "layer_table.h"

namespace layers {

using namespace rill;
using Paths = std::vector<std::string>;

inline LayerFamily sums() {
  return {"Weighted sums and tables",
          {{"Dense",
            "activation(x kernel + bias)",
            "[..., in] to [..., out]",
            "Dense",
            "Linear",
            "torch's weight is [out, in], and its first values differ: here glorot_uniform and 0",
            {{"", [] { return nn::Dense(3); }, numbers({2, 4}), {"kernel", "bias"}},
             {"without bias", [] { return nn::Dense(3, {.activation = tanh, .use_bias = false}); }, numbers({2, 5, 4}),
              {"kernel"}}}},
           {"Embedding",
            "the rows of a table",
            "ids [...] to [..., size]",
            "Embedding",
            "Embedding",
            "-1 is no row",
            {{"", [] { return nn::Embedding(5, 3); }, tensor({{0, 4}, {2, 2}}), {"table"}}}}}};
}

inline LayerFamily windows() {
  const Tensor image = numbers({2, 5, 6, 4});
  return {"Windows",
          {{"Conv2D",
            "activation(conv2d(x, kernel) + bias)",
            "[batch, h, w, in] to [batch, h', w', out]",
            "Conv2D",
            "Conv2d",
            "torch's weight is [out, in / groups, h, w], and its first values differ",
            {{"", [] { return nn::Conv2D(3, 3); }, image, {"kernel", "bias"}},
             {"grouped", [] { return nn::Conv2D(4, {2, 3}, {.padding = "SAME", .groups = 2, .activation = tanh}); },
              image, {"kernel", "bias"}}}},
           {"MaxPool2D",
            "the largest element of each window",
            "[batch, h, w, c] to [batch, h', w', c]",
            "MaxPooling2D",
            "MaxPool2d",
            "",
            {{"", [] { return nn::MaxPool2D({2}); }, image}}},
           {"AvgPool2D",
            "the mean of each window",
            "[batch, h, w, c] to [batch, h', w', c]",
            "AveragePooling2D",
            "AvgPool2d",
            "padding is not counted by default, as in Keras; torch counts it",
            {{"", [] { return nn::AvgPool2D({2}, {.padding = "SAME"}); }, image}}}}};
}

inline LayerFamily norms() {
  const Tensor image = numbers({2, 5, 6, 4}), rows = numbers({3, 4});
  return {"Normalisation",
          {{"BatchNorm",
            "(x - mean) / sqrt(variance + epsilon) * scale + offset, of each channel over the batch",
            "any",
            "BatchNormalization",
            "BatchNorm1d",
            "momentum is the part of the old statistics that stays, as in Keras; torch's is the part of the new, whose "
            "variance is the unbiased one. Frozen, its statistics stop as well",
            {{"", [] { return nn::BatchNorm(); }, image, {"scale", "offset", "mean", "variance"}}}},
           {"LayerNorm",
            "the same, of each example over its last axes",
            "any",
            "LayerNormalization",
            "LayerNorm",
            "epsilon is 1e-5, as in torch; Keras has 1e-3",
            {{"", [] { return nn::LayerNorm(); }, rows, {"scale", "offset"}}}},
           {"GroupNorm",
            "the same, of each group of channels of each example",
            "[batch, ..., c]",
            "GroupNormalization",
            "GroupNorm",
            "epsilon is 1e-5, as in torch; Keras has 1e-3",
            {{"", [] { return nn::GroupNorm(2); }, image, {"scale", "offset"}}}},
           {"RMSNorm",
            "x / sqrt(mean(x^2) + epsilon) * scale, over the last axes",
            "any",
            "RMSNormalization",
            "RMSNorm",
            "epsilon is 1e-5; torch has that of the dtype",
            {{"", [] { return nn::RMSNorm(); }, rows, {"scale"}}}}}};
}

inline LayerFamily noise() {
  return {"Noise while training",
          {{"Dropout",
            "0 for a fraction of the elements, 1 / (1 - rate) times the others",
            "any",
            "Dropout",
            "Dropout",
            "",
            {{"", [] { return nn::Dropout(0.4); }, numbers({3, 5})}}}}};
}

inline LayerFamily shapes() {
  return {"Shapes",
          {{"Flatten",
            "all axes but the first as one",
            "[batch, ...] to [batch, n]",
            "Flatten",
            "Flatten",
            "",
            {{"", [] { return nn::Flatten(); }, numbers({2, 3, 4})}}}}};
}

inline LayerFamily activations() {
  return {"Activations with parameters",
          {{"PReLU",
            "x where x > 0, else slope * x",
            "any",
            "PReLU",
            "PReLU",
            "one slope for all, or one for each channel, the last axis; Keras has one for each element by default",
            {{"", [] { return nn::PReLU(4); }, numbers({3, 4}), {"slope"}}}}}};
}

inline LayerFamily attentions() {
  return {"Attention",
          {{"MultiHeadAttention",
            "projections around softmax(q k / sqrt(width of a head)) v",
            "[..., tokens, width] to the same",
            "MultiHeadAttention",
            "MultiheadAttention",
            "queries, keys and values in one projection",
            {{"", [] { return nn::MultiHeadAttention(4, 2); }, numbers({2, 3, 4}),
              {"qkv/kernel", "qkv/bias", "output/kernel", "output/bias"}}}}}};
}

inline std::vector<LayerFamily> plain_families() {
  return {sums(), windows(), norms(), noise(), shapes(), activations(), attentions()};
}

}  // namespace layers
