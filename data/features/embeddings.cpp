// Numbers from ids: indicators, and tables of trained vectors.
#include <algorithm>
#include <cmath>

#include "rill/data/features/node.h"
#include "rill/ops/apply.h"
#include "rill/ops/random.h"

namespace rill::data::features {

Tensor counts_of(const Ids& ids, int64_t buckets) {
  if (ids.ids.shape()[1] == 1 && !ids.weights.defined())
    return reshape(one_hot(ids.ids, buckets), Shape{ids.ids.shape()[0], buckets});
  Tensor each = one_hot(ids.ids, buckets);
  if (ids.weights.defined()) each = rill::where(each != 0, expand_dims(ids.weights, -1), 0);
  return sum(each, 1);
}

Tensor combined(const Ids& ids, const Tensor& table, Combiner how, std::optional<double> max_norm, const Where& where) {
  const Tensor there = ids.ids >= 0;
  Tensor rows = take(table, rill::where(there, ids.ids, int64_t(0)), 0, where);  // [rows, n, width]
  if (max_norm) {
    const Tensor length = sqrt(sum(square(rows), -1, true));
    rows = rows * rill::where(length > *max_norm, *max_norm / maximum(length, *max_norm), 1.0);
  }
  Tensor weights = astype(there, rows.dtype());
  if (ids.weights.defined()) {
    weights = rill::where(there, ids.weights, 0);
    // As TensorFlow: a mean is of what counts positively.
    if (how != Combiner::sum) weights = maximum(weights, 0);
  }
  const Tensor total = sum(rows * expand_dims(weights, -1), 1);
  if (how == Combiner::sum || (ids.ids.shape()[1] == 1 && !ids.weights.defined())) return total;
  const Tensor by = how == Combiner::mean ? sum(weights, 1, true) : sqrt(sum(square(weights), 1, true));
  return total / rill::where(by > 0, by, 1);
}

Tensor Column::Node::dense(const Input& in) const { return counts_of(ids(in), buckets()); }

namespace {

struct Indicator final : Column::Node {
  Column source;
  Indicator(Column s, const Where& w) : Node(s.name() + "_indicator", w), source(std::move(s)) {}
  void add_raw(std::vector<RawSpec>& all) const override { source.node().add_raw(all); }
  int64_t width() const override { return source.node().buckets(); }
  Tensor dense(const Input& in) const override { return counts_of(source.node().ids(in), width()); }
  const Node* looked_up() const override { return &source.node(); }
};

struct Embedding final : Column::Node {
  Column source;
  Variable weights;
  EmbeddingOptions options;
  Embedding(std::string n, Column s, Variable v, EmbeddingOptions o, const Where& w)
      : Node(std::move(n), w), source(std::move(s)), weights(std::move(v)), options(std::move(o)) {}
  void add_raw(std::vector<RawSpec>& all) const override { source.node().add_raw(all); }
  int64_t width() const override { return weights.shape()[1]; }
  Tensor dense(const Input& in) const override {
    return combined(source.node().ids(in), weights, options.combiner, options.max_norm, in.where());
  }
  const Node* looked_up() const override { return nullptr; }
  const Variable* table() const override { return &weights; }
};

Variable make_table(const std::string& name, int64_t buckets, int64_t dimension, const EmbeddingOptions& options,
                    const Where& where) {
  if (dimension < 1) fail_column(name, fmt::format("the dimension is {} and must be at least 1", dimension), where);
  if (options.max_norm && !(*options.max_norm > 0))
    fail_column(name, fmt::format("max_norm is {} and must be positive", *options.max_norm), where);
  const EagerScope eager;
  const Shape shape{buckets, dimension};
  const Tensor first = options.initializer
                           ? options.initializer(shape)
                           : random::truncated_normal(shape, {.stddev = 1 / std::sqrt(double(dimension))});
  if (!first.defined() || first.shape() != shape)
    fail_column(name,
                fmt::format("the initializer gives {}, and must give {}",
                            first.defined() ? to_string(first.spec()) : "an undefined tensor", to_string(shape)),
                where);
  const NameScope scope(name);
  return Variable(first, {.name = "embedding_weights", .trainable = options.trainable}, where);
}

}  // namespace

Column indicator(const Column& ids, Where where) {
  require_ids("indicator", ids, where);
  return Column(std::make_shared<const Indicator>(ids, where));
}

Column embedding(const Column& ids, int64_t dimension, const EmbeddingOptions& options, Where where) {
  CallerScope caller(where);
  require_ids("embedding", ids, where);
  const std::string name = options.name.empty() ? ids.name() + "_embedding" : options.name;
  const Variable table = make_table(name, ids.buckets(), dimension, options, where);
  return Column(std::make_shared<const Embedding>(name, ids, table, options, where));
}

std::vector<Column> shared_embeddings(const std::vector<Column>& ids, int64_t dimension,
                                      const EmbeddingOptions& options, Where where) {
  CallerScope caller(where);
  if (ids.empty()) fail("data::features", "shared_embeddings takes one column or more", where);
  std::vector<std::string> names;
  for (const Column& c : ids) {
    require_ids("shared_embeddings", c, where);
    if (c.buckets() != ids[0].buckets())
      fail_column(c.name(),
                  fmt::format("it has {} buckets and '{}' has {}: they cannot share a table", c.buckets(),
                              ids[0].name(), ids[0].buckets()),
                  where);
    names.push_back(c.name());
  }
  std::ranges::sort(names);
  std::string all;
  for (const std::string& n : names) all += n + "_";
  const std::string scope = options.name.empty() ? all + "shared_embedding" : options.name;
  const Variable table = make_table(scope, ids[0].buckets(), dimension, options, where);
  std::vector<Column> out;
  for (const Column& c : ids)
    out.push_back(Column(std::make_shared<const Embedding>(c.name() + "_shared_embedding", c, table, options, where)));
  return out;
}

}  // namespace rill::data::features
