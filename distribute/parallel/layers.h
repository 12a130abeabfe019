// Layers that compute with other ranks: normalisation over the full batch, and Dense layers whose weights are
// distributed over several ranks. Two of these in sequence are a block without communication between them:
//
//   distribute::ColumnParallelDense up{256, {.group = mesh.group("model"), .activation = gelu}};
//   distribute::RowParallelDense down{64, {.group = mesh.group("model")}};
//   y = down(up(x));   // one sum over ranks, and one on the way back
//
// Their gradients are those of one rank's loss, which all ranks of the group compute equally from the same x: no
// further sum over ranks is needed (as in Megatron-LM; Shoeybi et al., 2019). It combines with a GradientTape that
// averages over data: distribute::GradientTape tape({.group = mesh.group("data")}).
#pragma once
#include <optional>

#include "rill/distribute/collectives.h"
#include "rill/nn/layers/dense.h"
#include "rill/nn/layers/norm.h"

#pragma GCC visibility push(default)

namespace rill::distribute {

// x, the same on all ranks of the group, as the input of different computations on each: the gradient is the sum over
// their gradients.
Tensor fan_out(const Tensor& x, const Group& group = {}, Where where = Where::current());
// The sum of the ranks' parts, used equally on all: each part gets the gradient, once.
Tensor fan_in(const Tensor& part, const Group& group = {}, Where where = Where::current());

struct ParallelDenseOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  Group group = {};  // the ranks over which the layer is distributed
  // The axis of tokens of which each rank has a part: a ColumnParallelDense gathers those of this rank and others, a
  // RowParallelDense returns this rank's. Layers between two such blocks (norms, dropout) process this rank's tokens,
  // and the gradients of their parameters, and of the biases after the rows, still have to be summed over the ranks.
  std::optional<int64_t> tokens = {};
  nn::Activation activation = {};
  bool use_bias = true;
  nn::Initializer kernel_initializer = nn::glorot_uniform;  // for the full kernel, of which each rank takes its part
  nn::Initializer bias_initializer = nn::constant(0);
  std::string name = "dense";
};

// nn::Dense, of whose outputs each rank computes its part, in order: [..., in] to [..., out / n]. With equal seeds on
// all ranks, the weights are those of nn::Dense(out) on one.
class ColumnParallelDense {
 public:
  // Throws where `out` is no multiple of the number of ranks.
  explicit ColumnParallelDense(int64_t out, const ParallelDenseOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const nn::Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(ColumnParallelDense, kernel, bias)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  ParallelDenseOptions options;
  int64_t out;
  nn::Param kernel;  // [in, out / n]
  nn::Param bias;    // [out / n]
};

// nn::Dense, of whose inputs each rank has its part, as from ColumnParallelDense: [..., in / n] to [..., out], the same
// on all ranks. The bias and the activation are applied after the sum over ranks.
class RowParallelDense {
 public:
  explicit RowParallelDense(int64_t out, const ParallelDenseOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const nn::Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(RowParallelDense, kernel, bias)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  ParallelDenseOptions options;
  int64_t out;
  nn::Param kernel;  // [in / n, out]
  nn::Param bias;    // [out], the same on all ranks
};

struct VocabularyParallelEmbeddingOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  Group group = {};                                        // the ranks over which the table is distributed
  nn::Initializer initializer = nn::uniform(-0.05, 0.05);  // for the full table, of which each rank takes its rows
  std::string name = "embedding";
};

// nn::Embedding, with a part of the table's rows on each rank, in order. All ranks of the group look up the same ids,
// and get the same rows. With equal seeds on all ranks, the table is that of nn::Embedding(count, size) on one.
class VocabularyParallelEmbedding {
 public:
  // Throws where `count` is no multiple of the number of ranks.
  VocabularyParallelEmbedding(int64_t count, int64_t size, const VocabularyParallelEmbeddingOptions& options = {},
                              Where where = Where::current());
  Tensor operator()(const Tensor& ids, const nn::Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(VocabularyParallelEmbedding, table)
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }

  VocabularyParallelEmbeddingOptions options;
  int64_t count;
  nn::Param table;  // [count / n, size]
};

// rill::sparse_softmax_cross_entropy() of logits [..., classes] of which each rank has its part, [..., classes / n], as
// from ColumnParallelDense; labels [...] are the same on all ranks, and so is the result. No rank has the full logits.
Tensor sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const Group& group = {},
                                    Where where = Where::current());

// nn::BatchNorm with the statistics, in training, of the ranks' batches together, weighted equally. All of them have to
// call it, in training and in inference.
class SyncBatchNorm : public nn::BatchNorm {
 public:
  explicit SyncBatchNorm(const nn::BatchNormOptions& options = {}, const Group& group = {},
                         Where where = Where::current());
  Tensor operator()(const Tensor& x, const nn::Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(SyncBatchNorm, scale, offset, mean, variance)

  Group group;
};

}  // namespace rill::distribute

#pragma GCC visibility pop
