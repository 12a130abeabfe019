// A text classifier: word vectors, a bidirectional GRU (Cho et al., 2014), and a layer on its two last states.
#pragma once
#include <rill/nn.h>
#include <rill/rill.h>

namespace models {
using namespace rill;

// ids [batch, words] and the number of valid ones, [batch], to logits [batch, classes].
struct GruText {
  GruText(int64_t vocabulary, int64_t classes, int64_t width = 64, int64_t units = 64)
      : words(vocabulary, width, {.padding = 0}),
        gru(units, {.bidirectional = true, .return_sequences = false}),
        head(classes) {}
  Tensor operator()(const Tensor& ids, const Tensor& lengths, const nn::Call& call = {}) const {
    return head(gru.run(words(ids, call), {.lengths = lengths}, call).output, call);
  }
  RILL_LAYER(GruText, words, gru, head)

  nn::Embedding words;
  nn::GRU gru;
  nn::Dense head;
};

}  // namespace models
