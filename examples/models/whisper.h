// An encoder of sound and a decoder of text, like Whisper (Radford et al.: Robust Speech Recognition via Large-Scale
// Weak Supervision, 2022), except for the biases of its keys, which Whisper omits and which softmax cancels.
#pragma once
#include <rill/nn.h>
#include <rill/rill.h>

#include <cmath>

#include "exact_gelu.h"

namespace models {
using namespace rill;

struct WhisperOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t vocabulary = 51865, mels = 80, longest = 448;
  int64_t width = 384, layers = 4, heads = 6;  // "tiny"
};

// f32 [tokens, width]: sines, then cosines, of wavelengths from 2 pi to 10000 times that (Vaswani et al., 2017).
inline Tensor sinusoids(Dim tokens, int64_t width) {
  const int64_t half = width / 2;
  const Tensor rates = exp(iota({half}).astype(f32) * (-std::log(10000.0) / double(half - 1)));
  const Tensor angles = expand_dims(iota({tokens}).astype(f32), 1) * rates;
  return concat({sin(angles), cos(angles)}, -1);
}

struct AudioEncoder {
  explicit AudioEncoder(const WhisperOptions& o)
      : conv1(o.width, {3}, {.padding = 1, .activation = exact_gelu}),
        conv2(o.width, {3}, {.strides = {2}, .padding = 1, .activation = exact_gelu}) {
    for (int64_t i = 0; i < o.layers; ++i)
      blocks.emplace_back(o.width, o.heads, nn::TransformerOptions{.feed_forward = {.activation = exact_gelu}});
  }
  // A log-mel spectrogram [batch, frames, mels] to [batch, frames / 2, width].
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    Tensor h = conv2(conv1(x, call), call);
    h = h + sinusoids(h.dim(1), conv2.out).astype(h.dtype());
    for (const nn::TransformerEncoderLayer& block : blocks) h = block(h, call);
    return norm(h, call);
  }
  RILL_LAYER(AudioEncoder, conv1, conv2, blocks, norm)

  nn::Conv1D conv1, conv2;
  std::vector<nn::TransformerEncoderLayer> blocks;
  nn::LayerNorm norm;
};

struct TextDecoder {
  explicit TextDecoder(const WhisperOptions& o)
      : words(o.vocabulary, o.width, {.initializer = nn::normal(0, 0.02)}),
        positions(o.longest, o.width, {.initializer = nn::normal(0, 0.01)}) {
    for (int64_t i = 0; i < o.layers; ++i)
      blocks.emplace_back(o.width, o.heads, nn::TransformerOptions{.feed_forward = {.activation = exact_gelu}});
  }
  // Logits of the next tokens, [batch, tokens, vocabulary], for tokens and the sound that they transcribe.
  Tensor operator()(const Tensor& ids, const Tensor& sound, const nn::Call& call = {}) const {
    Tensor h = words(ids, call) + positions(iota({ids.dim(1)}), call);
    for (const nn::TransformerDecoderLayer& block : blocks) h = block(h, sound, call);
    return matmul(norm(h, call), words.table(words.table.shape(), call).T());
  }
  RILL_LAYER(TextDecoder, words, positions, blocks, norm)

  nn::Embedding words, positions;
  std::vector<nn::TransformerDecoderLayer> blocks;
  nn::LayerNorm norm;
};

struct Whisper {
  explicit Whisper(const WhisperOptions& o = {}) : encoder(o), decoder(o) {}
  Tensor operator()(const Tensor& mels, const Tensor& ids, const nn::Call& call = {}) const {
    return decoder(ids, encoder(mels, call), call);
  }
  RILL_LAYER(Whisper, encoder, decoder)

  AudioEncoder encoder;
  TextDecoder decoder;
};

}  // namespace models
