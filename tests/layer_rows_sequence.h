// Rows of the table of layers: recurrent layers, transformers, experts.
#pragma once
#include "layer_table.h"

namespace layers {

// Of the table's x: the memory is x itself.
struct DecoderOfItself {
  rill::nn::TransformerDecoderLayer layer{4, 2, {.hidden = 6}};
  rill::Tensor operator()(const rill::Tensor& x, const rill::nn::Call& call = {}) const { return layer(x, x, call); }
};

inline LayerFamily recurrences() {
  namespace nn = rill::nn;
  const rill::Tensor x = numbers({2, 4, 3}), video = numbers({1, 2, 4, 4, 2});
  const std::string shapes = "[batch, steps, in] to [batch, steps, units]";
  return {
      "Recurrent layers",
      {{"RNN",
        "h' = activation(x kernel + h recurrent_kernel + bias)",
        shapes,
        "SimpleRNN",
        "RNN",
        "gives all steps, as torch; torch has two biases, whose sum is one here",
        {{"", [] { return nn::RNN(3); }, x},
         {"relu", [] { return nn::RNN(3, {.cell = {.activation = rill::relu}}); }, x}}},
       {"LSTM",
        "c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c')",
        shapes,
        "LSTM",
        "LSTM",
        "gates i, f, g, o as both; the forget gate's bias begins as 1, as Keras's",
        {{"", [] { return nn::LSTM(3); }, x},
         {"both directions", [] { return nn::LSTM(3, {.layers = 2, .bidirectional = true}); }, x},
         {"projected", [] { return nn::LSTM(4, {.cell = {.projection = 2}}); }, x}}},
       {"GRU",
        "h' = z h + (1 - z) n",
        shapes,
        "GRU",
        "GRU",
        "gates z, r, n as Keras; torch's are r, z, n",
        {{"", [] { return nn::GRU(3); }, x},
         {"reset before", [] { return nn::GRU(3, {.return_sequences = false, .cell = {.reset_after = false}}); }, x}}},
       {"Recurrent",
        "a cell over all steps",
        shapes,
        "RNN",
        "",
        "",
        {{"", [] { return nn::Recurrent(nn::GRUCell(3)); }, x}}},
       {"ConvLSTM2D",
        "an LSTM whose products are convolutions",
        "[batch, steps, height, width, in] to [batch, steps, height', width', filters]",
        "ConvLSTM2D",
        "",
        "",
        {{"", [] { return nn::ConvLSTM2D(2, {2, 2}); }, video}}}}};
}

inline LayerFamily transformers() {
  namespace nn = rill::nn;
  const rill::Tensor x = numbers({2, 5, 4});
  const std::string shapes = "[..., tokens, width] to the same";
  return {
      "Transformers and experts",
      {{"FeedForward",
        "down(activation(up(x)))",
        "[..., width] to the same",
        "",
        "",
        "",
        {{"", [] { return nn::FeedForward(4, 6); }, x},
         {"gated", [] { return nn::FeedForward(4, 6, {.activation = rill::silu, .gated = true}); }, x}}},
       {"TransformerEncoderLayer",
        "x + attention(norm(x)), then y + feed_forward(norm(y))",
        shapes,
        "",
        "TransformerEncoderLayer",
        "norms stand before, as norm_first=True",
        {{"", [] { return nn::TransformerEncoderLayer(4, 2, {.hidden = 6}); }, x},
         {"norms behind", [] { return nn::TransformerEncoderLayer(4, 2, {.hidden = 6, .norm_first = false}); }, x}}},
       {"TransformerDecoderLayer",
        "the same, with attention to a memory between",
        shapes,
        "",
        "TransformerDecoderLayer",
        "its self-attention is causal; norms stand before",
        {{"", [] { return DecoderOfItself(); }, x}}},
       {"MixtureOfExperts",
        "the sum of the best experts of each token, by their probabilities",
        "[..., width] to the same",
        "",
        "",
        "all experts compute all tokens",
        {{"", [] { return nn::MixtureOfExperts(3, 6); }, x}}}}};
}

inline std::vector<LayerFamily> sequence_families() { return {recurrences(), transformers()}; }

}  // namespace layers
