// What attention is told of positions: tokens are turned, scores biased, or numbers added. Included by rill.h.
#pragma once
#include <optional>

#include "rill/ops/creation.h"

#pragma GCC visibility push(default)

namespace rill {

// Rotary position embeddings (Su et al.: RoFormer, 2021): pairs of numbers of each query and key are turned by position
// times base^(-2 i / size).
struct RotaryOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double base = 10000;
  std::optional<int64_t> size = {};  // of each head that is turned, an even number; all where not given
  bool interleaved = false;          // pairs are neighbours, as in the paper; else i and i + size / 2, as in Llama
};
// x [..., tokens, d] turned by its positions, integers or floats [tokens] or what broadcasts to [..., tokens]. Angles
// are computed in f64. Throws where the size is odd or more than d.
Tensor rotary(const Tensor& x, const Tensor& positions, const RotaryOptions& options = {},
              Where where = Where::current());
// f32 [heads, 1, keys]: slope 2^(-8 h / heads) of head h = 1, 2, ... times the key's position, which is ALiBi's bias
// but for a constant of each query that softmax takes away (Press et al.: Train Short, Test Long, 2022). Where `heads`
// is no power of two, slopes are those of the paper's code.
Tensor alibi_bias(int64_t heads, Dim keys, Where where = Where::current());
// The bucket, i64, of key position minus query position (Raffel et al.: T5, 2020): near ones by themselves, far ones by
// the logarithm up to max_distance. Integers of any shape. Throws where there are too few buckets.
Tensor relative_buckets(const Tensor& distance, int64_t buckets = 32, int64_t max_distance = 128,
                        bool bidirectional = true, Where where = Where::current());

struct SinusoidOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double base = 10000;
  bool interleaved = true;  // sines at even indices and cosines at odd ones, as in the paper; else sines, then cosines
  DType dtype = f32;        // angles are computed in f64
};
// Sines and cosines of positions [...] times base^(-2 i / width): [..., width] (Vaswani et al.: Attention is all you
// need, 2017). Of an odd width there is one sine more.
Tensor sinusoids(const Tensor& positions, int64_t width, const SinusoidOptions& options = {},
                 Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
