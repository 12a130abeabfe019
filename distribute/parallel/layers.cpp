// See layers.h.
#include "rill/distribute/parallel/layers.h"

#include <fmt/format.h>

#include "rill/autodiff/transforms.h"
#include "rill/distribute/parallel/part_norms.h"
#include "rill/distribute/parallel/parts.h"
#include "rill/distribute/parallel/ring.h"
#include "rill/nn/layer.h"
#include "rill/nn/layers/common.h"
#include "rill/ops/index/from_front.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"

namespace rill::distribute {

Tensor fan_out(const Tensor& x, const Group& group, Where where) {
  CallerScope caller(where);
  return custom_gradient([group](const Tensor& v) {
    return std::pair(identity(v), [group](const Tensor& g) { return all_reduce(g, Reduce::sum, group); });
  })(x);
}

Tensor fan_in(const Tensor& part, const Group& group, Where where) {
  CallerScope caller(where);
  return custom_gradient([group](const Tensor& v) {
    return std::pair(all_reduce(v, Reduce::sum, group), [](const Tensor& g) { return g; });
  })(part);
}

// --- Dense -----------------------------------------------------------------------------------------------------------

namespace {

// Draws the full parameter, whose axis is `n` times as long, and returns this rank's part.
nn::Initializer part_of(const nn::Initializer& whole, size_t axis, const Group& group) {
  return [whole, axis, group](const Shape& part) {
    Shape shape = part;
    shape[axis] = shape[axis] * group.size();
    return own_part(whole(shape), axis, group, Where());
  };
}

int64_t checked_out(std::string_view op, int64_t out, int64_t n, const Where& where) {
  if (out < 1 || out % n != 0)
    fail(op, fmt::format("out is {}, and must be a multiple of {}, the ranks that the layer lies on", out, n), where);
  return out;
}

}  // namespace

ColumnParallelDense::ColumnParallelDense(int64_t out, const ParallelDenseOptions& o, Where where)
    : options(o),
      out(checked_out("ColumnParallelDense", out, o.group.size(where), where)),
      kernel(nn::param(o.name, "kernel", part_of(o.kernel_initializer, 1, o.group), where)),
      bias(nn::param(o.name, "bias", part_of(o.bias_initializer, 0, o.group), where, nn::Kind::weight, o.use_bias)) {
  lies_on(kernel, o.group);
  if (bias) lies_on(bias, o.group);
}

Tensor ColumnParallelDense::operator()(const Tensor& x, const nn::Call& call, Where where) const {
  const nn::LayerRun run(this, options.name, where);
  const Tensor in = options.tokens ? gather_tokens(call.in(x), *options.tokens, options.group, where)
                                   : fan_out(call.in(x), options.group);
  const int64_t size = nn::size_for(kernel, 0, 1, in, -1, "ColumnParallelDense", where);
  return run.give(
      nn::finish(matmul(in, kernel({size, out / options.group.size()}, call)), bias, options.activation, call, where));
}

RowParallelDense::RowParallelDense(int64_t out, const ParallelDenseOptions& o, Where where)
    : options(o),
      out(checked_out("RowParallelDense", out, 1, where)),
      kernel(nn::param(o.name, "kernel", part_of(o.kernel_initializer, 0, o.group), where)),
      bias(nn::param(o.name, "bias", o.bias_initializer, where, nn::Kind::weight, o.use_bias)) {
  lies_on(kernel, o.group);
}

Tensor RowParallelDense::operator()(const Tensor& x, const nn::Call& call, Where where) const {
  const nn::LayerRun run(this, options.name, where);
  const Tensor in = call.in(x);
  const int64_t size = nn::size_for(kernel, 0, 1, in, -1, "RowParallelDense", where);
  const Tensor part = matmul(in, kernel({size, out}, call));
  const Tensor sum =
      options.tokens ? scatter_tokens(part, *options.tokens, options.group, where) : fan_in(part, options.group);
  return run.give(nn::finish(sum, bias, options.activation, call, where));
}

// --- Vocabularies ----------------------------------------------------------------------------------------------------

namespace {

// Ids within this rank's rows: 0 for another rank's, and unchanged for invalid ones, which the lookup rejects.
struct OwnIds {
  Tensor is_mine, local;
  OwnIds(std::string_view op, const Tensor& ids, int64_t part, const Group& group, const Where& where) {
    if (!is_integer(ids.dtype()))
      fail(op, fmt::format("ids are {} and must be integers", to_string(ids.spec())), where);
    const Tensor wide = ids.astype(i64);
    const int64_t first = part * group.rank(where), count = part * group.size(where);
    is_mine = logical_and(wide >= first, wide < first + part);
    const Tensor is_any = logical_and(wide >= 0, wide < count);
    local = from_front(rill::where(is_mine, wide - first, rill::where(is_any, 0, wide)));
  }
};

int64_t checked_count(int64_t count, int64_t n, const Where& where) {
  if (count < 1 || count % n != 0)
    fail("VocabularyParallelEmbedding",
         fmt::format("count is {}, and must be a multiple of {}, the ranks that the table lies on", count, n), where);
  return count;
}

}  // namespace

VocabularyParallelEmbedding::VocabularyParallelEmbedding(int64_t count, int64_t size,
                                                         const VocabularyParallelEmbeddingOptions& o, Where where)
    : options(o),
      count(checked_count(count, o.group.size(where), where)),
      table(nn::param(o.name, "table", part_of(o.initializer, 0, o.group), where)) {
  CallerScope caller(where);
  table.make({count / o.group.size(where), size});
  lies_on(table, o.group);
}

Tensor VocabularyParallelEmbedding::operator()(const Tensor& ids, const nn::Call& call, Where where) const {
  const nn::LayerRun run(this, options.name, where);
  const OwnIds own("VocabularyParallelEmbedding", ids, count / options.group.size(where), options.group, where);
  const Tensor rows = embedding_lookup(table, own.local);
  return run.give(call.in(fan_in(rill::where(expand_dims(own.is_mine, -1), rows, 0), options.group, where)));
}

Tensor sparse_softmax_cross_entropy(const Tensor& logits, const Tensor& labels, const Group& group, Where where) {
  CallerScope caller(where);
  const DType wide = is_half(logits.dtype()) ? f32 : logits.dtype();
  const OwnIds own("sparse_softmax_cross_entropy", labels, int64_t(logits.dim(-1)), group, where);
  const Tensor x = logits.astype(wide);
  const Tensor largest = all_reduce(stop_gradient(max(x, {-1}, true)), Reduce::max, group, where);
  const Tensor shifted = x - largest;
  const Tensor total = fan_in(sum(exp(shifted), {-1}), group, where);
  const Tensor picked = squeeze(take_along_axis(shifted, expand_dims(own.local, -1), -1), {-1});
  const Tensor of_label = fan_in(rill::where(own.is_mine, picked, 0), group, where);
  return (log(total) - of_label).astype(logits.dtype());
}

// --- BatchNorm -------------------------------------------------------------------------------------------------------

namespace {

Axes all_but(int64_t axis, int ndim) {
  Axes axes;
  for (int64_t i = 0; i < ndim; ++i)
    if (i != axis) axes.push_back(Dim(i));
  return axes;
}

// Where no rank has examples there is no statistic to move towards.
void move_towards(const nn::Param& statistic, const Tensor& now, double momentum, const Tensor& count) {
  Variable v = statistic;
  const Tensor change = (1 - momentum) * (stop_gradient(now).astype(v.dtype()).reshape(v.shape()) - v);
  v.assign_add(rill::where(count > 0, change, 0));
}

}  // namespace

SyncBatchNorm::SyncBatchNorm(const nn::BatchNormOptions& options, const Group& group, Where where)
    : nn::BatchNorm(options, where), group(group) {}

Tensor SyncBatchNorm::operator()(const Tensor& x, const nn::Call& call, Where where) const {
  const nn::Param& whole = scale ? scale : offset ? offset : mean;
  if (!call.training() || whole.state().frozen) return nn::BatchNorm::operator()(x, call, where);
  const nn::LayerRun run(this, options.name, where);
  const Tensor in = call.in(x);
  const int64_t axis = int64_t(options.axis) < 0 ? int64_t(options.axis) + in.ndim() : int64_t(options.axis);
  const Shape channels{nn::size_for(mean, 0, 1, in, options.axis, "SyncBatchNorm", where)};
  for (const nn::Param* p : {&scale, &offset, &mean, &variance})
    if (*p) p->make(channels);
  const DType wide = in.dtype() == f64 ? f64 : f32;
  const Tensor v = in.astype(wide);
  const Axes axes = all_but(axis, in.ndim());
  // Sums and counts, for a rank may have fewer examples than others, or none.
  Shape each = in.shape();
  each.erase(size_t(axis));
  const Tensor own = zeros({}, {wide, in.device()}) + each.numel();
  const Tensor total = all_reduce(own, Reduce::sum, group, where);
  const auto mean_of = [&](const Tensor& t) {
    return all_reduce(sum(t, axes, true), Reduce::sum, group, where) / maximum(total, 1);
  };
  const Tensor center = mean_of(v), spread = mean_of(square(v - center));
  move_towards(mean, center, options.momentum, total);
  move_towards(variance, spread, options.momentum, total);
  Tensor y = (v - center) * rsqrt(spread + options.epsilon);
  const auto along = [&](const nn::Param& p) { return p(channels, {}).astype(wide).reshape(center.shape()); };
  if (scale) y = y * along(scale);
  if (offset) y = y + along(offset);
  return run.give(y.astype(in.dtype()));
}

}  // namespace rill::distribute
