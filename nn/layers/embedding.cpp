// Tables of rows that are looked up.
#include "rill/nn/layers/embedding.h"

#include <fmt/format.h>

#include "rill/nn/layers/common.h"
#include "rill/ops/index/from_front.h"
#include "rill/ops/option_checks.h"

namespace rill::nn {

namespace {
// First values, with zeros in the row `padding`.
Initializer with_padding(std::string_view type, int64_t count, const Initializer& first, std::optional<int64_t> padding,
                         const Where& where) {
  if (!padding) return first;
  require_option(*padding >= 0 && *padding < count, type, "padding", *padding, fmt::format("in [0, {})", count), where);
  return [first, row = *padding](const Shape& shape, const Fans& fans) {
    const Tensor is_row = reshape(arange(shape[0]) == row, {shape[0], 1});
    return rill::where(is_row, 0, first(shape, fans));
  };
}
}  // namespace

Embedding::Embedding(int64_t count, int64_t size, const EmbeddingOptions& o, Where where)
    : name(o.name),
      table(param(name, "table", with_padding("Embedding", count, o.initializer, o.padding, where), where)),
      padding(o.padding),
      max_norm(o.max_norm) {
  if (max_norm) require_option(*max_norm > 0, "Embedding", "max_norm", *max_norm, "more than 0", where);
  CallerScope caller(where);
  table.make({count, size});
}

Tensor Embedding::operator()(const Tensor& ids, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, name), where);
  require_operand("Embedding", ids, where);
  Tensor rows = embedding_lookup(table, is_integer(ids.dtype()) ? from_front(ids) : ids);
  if (padding) rows = rill::where(expand_dims(ids == *padding, -1), stop_gradient(rows), rows);
  if (max_norm) {
    const Tensor norm = sqrt(sum(square(rows), {-1}, true)), is_long = norm > *max_norm;
    rows = rill::where(is_long, rows * (*max_norm / rill::where(is_long, norm, 1)), rows);
  }
  return run.give(call.in(rows));
}

// --- Bags ------------------------------------------------------------------------------------------------------------

EmbeddingBag::EmbeddingBag(int64_t count, int64_t size, const EmbeddingBagLayerOptions& o, Where where)
    : name(o.name),
      table(param(name, "table", with_padding("EmbeddingBag", count, o.initializer, o.padding, where), where)),
      mode(o.mode),
      padding(o.padding) {
  CallerScope caller(where);
  table.make({count, size});
}

Tensor EmbeddingBag::fold(const Tensor& ids, EmbeddingBagOptions options, const Call& call) const {
  options.mode = mode;
  options.padding = padding;
  return embedding_bag(table(table.shape(), call), ids, options);
}

Tensor EmbeddingBag::operator()(const Tensor& ids, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, name), where);
  return run.give(fold(ids, {}, call));
}

Tensor EmbeddingBag::operator()(const Tensor& ids, const std::optional<Tensor>& offsets,
                                const std::optional<Tensor>& weights, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, name), where);
  EmbeddingBagOptions options;
  options.offsets = offsets;
  if (weights) options.weights = call.in(*weights);
  return run.give(fold(ids, options, call));
}

Tensor EmbeddingBag::operator()(const Ragged& ids, const Call& call, Where where) const {
  const LayerRun run(this, scope_of(*this, name), where);
  if (ids.row_splits.size() != 1)
    fail("EmbeddingBag", fmt::format("bags are rows of ids, and these have {} levels", ids.row_splits.size()), where);
  EmbeddingBagOptions options;
  options.offsets = ids.row_splits[0](slice(0, -1));
  return run.give(fold(ids.values, options, call));
}

}  // namespace rill::nn
