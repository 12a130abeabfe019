// Tables of rows that are looked up.
#pragma once
#include "rill/nn/layer.h"
#include "rill/nn/param.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct EmbeddingOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Initializer initializer = uniform(-0.05, 0.05);
  std::string name = "embedding";
};
// Integers [...] in [0, count) to rows [..., size]. Throws where one is not, -1 included.
class Embedding {
 public:
  Embedding(int64_t count, int64_t size, const EmbeddingOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& ids, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Embedding, table)
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::string name;
  Param table;  // [count, size]
};

}  // namespace rill::nn

#pragma GCC visibility pop
