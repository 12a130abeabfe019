// Tables of rows that are looked up.
#pragma once
#include <optional>
#include <string>

#include "rill/nn/layer.h"
#include "rill/nn/param.h"
#include "rill/ops/ragged.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct EmbeddingOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<int64_t> padding = {};  // the id of a row that is zeros to begin with, and has no gradient
  std::optional<double> max_norm = {};  // rows that are longer are scaled down to it
  Initializer initializer = uniform(-0.05, 0.05);
  std::string name = "embedding";
};
// Integers [...] in [0, count) to rows [..., size]. Throws if one is not, including -1. (max_norm scales the looked up
// rows; torch changes the table.)
class Embedding {
 public:
  // Throws where `padding` is not in [0, count), and unless max_norm is positive.
  Embedding(int64_t count, int64_t size, const EmbeddingOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& ids, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Embedding, table)
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::string name;
  Param table;  // [count, size]
  std::optional<int64_t> padding = {};
  std::optional<double> max_norm = {};
};

struct EmbeddingBagLayerOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  BagMode mode = BagMode::mean;
  std::optional<int64_t> padding = {};  // ids that do not count; their row is zeros to begin with
  Initializer initializer = uniform(-0.05, 0.05);
  std::string name = "embedding_bag";
};
// The rows of a bag of ids, reduced to one; see embedding_bag(). A bag is a row of ids [bags, n], a row of a Ragged, or
// the ids between two `offsets` of a vector of ids.
class EmbeddingBag {
 public:
  // Throws where `padding` is not in [0, count).
  EmbeddingBag(int64_t count, int64_t size, const EmbeddingBagLayerOptions& options = {},
               Where where = Where::current());
  Tensor operator()(const Tensor& ids, const Call& call = {}, Where where = Where::current()) const;
  // With offsets, of bags of several lengths, and with weights of ids' shape, which BagMode::sum takes; each where it
  // is there.
  Tensor operator()(const Tensor& ids, const std::optional<Tensor>& offsets, const std::optional<Tensor>& weights = {},
                    const Call& call = {}, Where where = Where::current()) const;
  Tensor operator()(const Ragged& ids, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(EmbeddingBag, table)
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::string name;
  Param table;  // [count, size]
  BagMode mode;
  std::optional<int64_t> padding;

 private:
  Tensor fold(const Tensor& ids, EmbeddingBagOptions options, const Call& call) const;
};

}  // namespace rill::nn

#pragma GCC visibility pop
