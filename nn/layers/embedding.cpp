// Tables of rows that are looked up.
#include "rill/nn/layers/embedding.h"

#include "rill/nn/layers/common.h"
#include "rill/ops/index/from_front.h"
#include "rill/ops/option_checks.h"

namespace rill::nn {

Embedding::Embedding(int64_t count, int64_t size, const EmbeddingOptions& o, Where where)
    : name(o.name), table(param(name, "table", o.initializer, where)) {
  CallerScope caller(where);
  table.make({count, size});
}

Tensor Embedding::operator()(const Tensor& ids, const Call& call, Where where) const {
  const LayerRun run(this, name, where);
  require_operand("Embedding", ids, where);
  return run.give(call.in(embedding_lookup(table, is_integer(ids.dtype()) ? from_front(ids) : ids)));
}

}  // namespace rill::nn
