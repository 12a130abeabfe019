// Rows of the table of layers: recurrent layers, transformers, experts.
#pragma once
#include "layer_table.h"

namespace layers {

// Of the table's x: the memory is x itself.
struct DecoderOfItself {
  rill::nn::TransformerDecoderLayer layer{4, 2, {.hidden = 6}};
  rill::Tensor operator()(const rill::Tensor& x, const rill::nn::Call& call = {}) const { return layer(x, x, call); }
};

struct StackOfItself {
  rill::nn::TransformerDecoder layer{4, 2, 2, {.hidden = 6}};
  rill::Tensor operator()(const rill::Tensor& x, const rill::nn::Call& call = {}) const { return layer(x, x, call); }
};
inline const std::vector<std::string> encoder_paths = {
    "attention/qkv/kernel",   "attention/qkv/bias",   "attention/output/kernel",
    "attention/output/bias",  "norm_1/scale",         "norm_1/offset",
    "feed_forward/up/kernel", "feed_forward/up/bias", "feed_forward/down/kernel",
    "feed_forward/down/bias", "norm_2/scale",         "norm_2/offset"};
inline const std::vector<std::string> decoder_paths = {"attention/qkv/kernel",
                                                       "attention/qkv/bias",
                                                       "attention/output/kernel",
                                                       "attention/output/bias",
                                                       "norm_1/scale",
                                                       "norm_1/offset",
                                                       "cross_attention/query/kernel",
                                                       "cross_attention/query/bias",
                                                       "cross_attention/key/kernel",
                                                       "cross_attention/key/bias",
                                                       "cross_attention/value/kernel",
                                                       "cross_attention/value/bias",
                                                       "cross_attention/output/kernel",
                                                       "cross_attention/output/bias",
                                                       "norm_2/scale",
                                                       "norm_2/offset",
                                                       "feed_forward/up/kernel",
                                                       "feed_forward/up/bias",
                                                       "feed_forward/down/kernel",
                                                       "feed_forward/down/bias",
                                                       "norm_3/scale",
                                                       "norm_3/offset"};
// The paths of parts of one kind, prefixed by the parts' own paths.
inline std::vector<std::string> paths_in(const std::vector<std::string>& parts, const std::vector<std::string>& paths,
                                         const std::vector<std::string>& last = {}) {
  std::vector<std::string> all;
  for (const std::string& part : parts)
    for (const std::string& path : paths) all.push_back(part + path);
  all.insert(all.end(), last.begin(), last.end());
  return all;
}

inline LayerFamily recurrences() {
  namespace nn = rill::nn;
  const rill::Tensor x = numbers({2, 4, 3}), video = numbers({1, 2, 4, 4, 2});
  const std::string shapes = "[batch, steps, in] to [batch, steps, units]";
  return {"Recurrent layers",
          {{"RNN",
            "h' = activation(x kernel + h recurrent_kernel + bias)",
            shapes,
            "SimpleRNN",
            "RNN",
            "gives all steps, as torch; torch has two biases, whose sum is one here",
            {{"",
              [] { return nn::RNN(3); },
              x,
              {"cells/rnn_cell/kernel", "cells/rnn_cell/recurrent_kernel", "cells/rnn_cell/bias"}},
             {"relu",
              [] { return nn::RNN(3, {.cell = {.activation = rill::relu}}); },
              x,
              {"cells/rnn_cell/kernel", "cells/rnn_cell/recurrent_kernel", "cells/rnn_cell/bias"}}}},
           {"LSTM",
            "c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c')",
            shapes,
            "LSTM",
            "LSTM",
            "gates i, f, g, o as both; the forget gate's bias begins as 1, as Keras's",
            {{"",
              [] { return nn::LSTM(3); },
              x,
              {"cells/lstm_cell/kernel", "cells/lstm_cell/recurrent_kernel", "cells/lstm_cell/bias"}},
             {"both directions",
              [] { return nn::LSTM(3, {.layers = 2, .bidirectional = true}); },
              x,
              {"cells/lstm_cell/kernel", "cells/lstm_cell/recurrent_kernel", "cells/lstm_cell/bias",
               "cells/lstm_cell_1/kernel", "cells/lstm_cell_1/recurrent_kernel", "cells/lstm_cell_1/bias",
               "cells/lstm_cell_2/kernel", "cells/lstm_cell_2/recurrent_kernel", "cells/lstm_cell_2/bias",
               "cells/lstm_cell_3/kernel", "cells/lstm_cell_3/recurrent_kernel", "cells/lstm_cell_3/bias"}},
             {"projected",
              [] { return nn::LSTM(4, {.cell = {.projection = 2}}); },
              x,
              {"cells/lstm_cell/kernel", "cells/lstm_cell/recurrent_kernel", "cells/lstm_cell/bias",
               "cells/lstm_cell/projection"}}}},
           {"GRU",
            "h' = z h + (1 - z) n",
            shapes,
            "GRU",
            "GRU",
            "gates z, r, n as Keras; torch's are r, z, n",
            {{"",
              [] { return nn::GRU(3); },
              x,
              {"cells/gru_cell/kernel", "cells/gru_cell/recurrent_kernel", "cells/gru_cell/bias",
               "cells/gru_cell/recurrent_bias"}},
             {"reset before",
              [] { return nn::GRU(3, {.return_sequences = false, .cell = {.reset_after = false}}); },
              x,
              {"cells/gru_cell/kernel", "cells/gru_cell/recurrent_kernel", "cells/gru_cell/bias"}}}},
           {"Recurrent",
            "a cell over all steps",
            shapes,
            "RNN",
            "",
            "",
            {{"",
              [] { return nn::Recurrent(nn::GRUCell(3)); },
              x,
              {"cell/kernel", "cell/recurrent_kernel", "cell/bias", "cell/recurrent_bias"}}}},
           {"ConvLSTM2D",
            "an LSTM whose products are convolutions",
            "[batch, steps, height, width, in] to [batch, steps, height', width', filters]",
            "ConvLSTM2D",
            "",
            "",
            {{"",
              [] { return nn::ConvLSTM2D(2, {2, 2}); },
              video,
              {"cell/kernel", "cell/recurrent_kernel", "cell/bias"}}}}}};
}

inline LayerFamily transformers() {
  namespace nn = rill::nn;
  const rill::Tensor x = numbers({2, 5, 4});
  const std::string shapes = "[..., tokens, width] to the same";
  return {"Transformers and experts",
          {{"FeedForward",
            "down(activation(up(x)))",
            "[..., width] to the same",
            "",
            "",
            "",
            {{"", [] { return nn::FeedForward(4, 6); }, x, {"up/kernel", "up/bias", "down/kernel", "down/bias"}},
             {"gated",
              [] { return nn::FeedForward(4, 6, {.activation = rill::silu, .gated = true}); },
              x,
              {"gate/kernel", "gate/bias", "up/kernel", "up/bias", "down/kernel", "down/bias"}}}},
           {"TransformerEncoderLayer",
            "x + attention(norm(x)), then y + feed_forward(norm(y))",
            shapes,
            "",
            "TransformerEncoderLayer",
            "norms stand before, as norm_first=True",
            {{"",
              [] { return nn::TransformerEncoderLayer(4, 2, {.hidden = 6}); },
              x,
              {"attention/qkv/kernel", "attention/qkv/bias", "attention/output/kernel", "attention/output/bias",
               "norm_1/scale", "norm_1/offset", "feed_forward/up/kernel", "feed_forward/up/bias",
               "feed_forward/down/kernel", "feed_forward/down/bias", "norm_2/scale", "norm_2/offset"}},
             {"norms behind",
              [] { return nn::TransformerEncoderLayer(4, 2, {.hidden = 6, .norm_first = false}); },
              x,
              {"attention/qkv/kernel", "attention/qkv/bias", "attention/output/kernel", "attention/output/bias",
               "norm_1/scale", "norm_1/offset", "feed_forward/up/kernel", "feed_forward/up/bias",
               "feed_forward/down/kernel", "feed_forward/down/bias", "norm_2/scale", "norm_2/offset"}}}},
           {"TransformerDecoderLayer",
            "the same, with attention to a memory between",
            shapes,
            "",
            "TransformerDecoderLayer",
            "its self-attention is causal; norms stand before",
            {{"", [] { return DecoderOfItself(); }, x, paths_in({"layer/"}, decoder_paths)}}},
           {"TransformerEncoder",
            "encoder layers in a row, then a norm",
            shapes,
            "",
            "TransformerEncoder",
            "no last norm where norms stand behind",
            {{"", [] { return nn::TransformerEncoder(4, 2, 2, {.hidden = 6}); }, x,
              paths_in({"layers/transformer_layer/", "layers/transformer_layer_1/"}, encoder_paths,
                       {"norm/scale", "norm/offset"})}}},
           {"TransformerDecoder",
            "decoder layers in a row, which attend to one memory, then a norm",
            shapes,
            "",
            "TransformerDecoder",
            "",
            {{"", [] { return StackOfItself(); }, x,
              paths_in({"layer/layers/transformer_layer/", "layer/layers/transformer_layer_1/"}, decoder_paths,
                       {"layer/norm/scale", "layer/norm/offset"})}}},
           {"SinusoidalPositions",
            "x + sines and cosines of the tokens' positions",
            shapes,
            "",
            "",
            "keras_hub's SinePositionEncoding gives what is added",
            {{"", [] { return nn::SinusoidalPositions(); }, x}}},
           {"LearnedPositions",
            "x + rows of a table",
            shapes,
            "",
            "",
            "keras_hub's PositionEmbedding gives what is added",
            {{"", [] { return nn::LearnedPositions(7); }, x, {"table"}}}},
           {"MixtureOfExperts",
            "the sum of the best experts of each token, by their probabilities",
            "[..., width] to the same",
            "",
            "",
            "all experts compute all tokens, or where `sparse` theirs alone",
            {{"", [] { return nn::MixtureOfExperts(3, 6); }, x, {"router", "up", "up_bias", "down", "down_bias"}},
             {"sparse",
              [] { return nn::MixtureOfExperts(3, 6, {.sparse = true}); },
              x,
              {"router", "up", "up_bias", "down", "down_bias"}}}}}};
}

}  // namespace layers
