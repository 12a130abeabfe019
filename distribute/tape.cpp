// See tape.h.
#include "rill/distribute/tape.h"

#include <fmt/format.h>

#include <bit>

#include "rill/ops/ops.h"

namespace rill::distribute {
namespace {

// Tensors of one dtype, as one.
class Bucket {
 public:
  void add(Tensor* t) { tensors_.push_back(t), bytes_ += int64_t(t->size()) * int64_t(size_of(t->dtype())); }
  int64_t bytes() const { return bytes_; }
  bool takes(const Tensor& t) const { return tensors_.empty() || tensors_[0]->dtype() == t.dtype(); }

  void reduce(const Group& group) {
    if (tensors_.size() == 1) *tensors_[0] = mean(*tensors_[0], group);
    if (tensors_.size() > 1) reduce_joined(group);
    tensors_.clear(), bytes_ = 0;
  }

 private:
  void reduce_joined(const Group& group) {
    std::vector<Tensor> flat;
    for (const Tensor* t : tensors_) flat.push_back(t->reshape({-1}));
    const Tensor all = mean(concat(flat), group);
    Dim at = 0;
    for (Tensor* t : tensors_) {
      const Dim n = t->size();
      *t = all(slice(at, at + n)).reshape(t->shape());
      at += n;
    }
  }
  std::vector<Tensor*> tensors_;
  int64_t bytes_ = 0;
};

// From the last to the first, which is the order in which a walk back finds them.
void reduce_in_buckets(std::span<Tensor> gradients, const TapeOptions& options) {
  Bucket bucket;
  for (size_t i = gradients.size(); i-- > 0;) {
    Tensor& g = gradients[i];
    if (!g.defined()) continue;
    if (!bucket.takes(g) || bucket.bytes() >= options.bucket_bytes) bucket.reduce(options.group);
    bucket.add(&g);
  }
  bucket.reduce(options.group);
}

Tensor joined(const Tensor& x, const Group& group) {
  Shape shape{Dim(-1)};
  for (size_t i = 1; i < x.shape().size(); ++i) shape.push_back(x.shape()[i]);
  return all_gather(x, group).reshape(shape);
}

void reduce(std::span<Tensor> gradients, std::vector<IndexedSlices>* slices, const TapeOptions& options) {
  for (size_t i = 0; slices && i < slices->size(); ++i) {
    IndexedSlices& s = (*slices)[i];
    if (!s.indices.defined()) continue;
    if (options.rows) {
      s.values = joined(s.values, options.group) / double(options.group.size());
      s.indices = joined(s.indices, options.group);
    } else {
      gradients[i] = s.to_dense(), s = {};
    }
  }
  reduce_in_buckets(gradients, options);
}

rill::TapeOptions plain(const TapeOptions& o, const Where& where) {
  if (o.bucket_bytes < 1)
    fail("distribute::GradientTape", fmt::format("bucket_bytes is {} and must be 1 or more", o.bucket_bytes), where);
  return {.persistent = o.persistent, .watch_variables = o.watch_variables};
}

}  // namespace

GradientHook::Change averaging(const TapeOptions& options, Where where) {
  plain(options, where);
  return [options](std::span<const Source>, std::span<Tensor> gradients, std::vector<IndexedSlices>* slices) {
    reduce(gradients, slices, options);
  };
}

GradientTape::GradientTape(const TapeOptions& options, Where where)
    : rill::GradientTape(plain(options, where)), hook_(*this, averaging(options, where)) {}

std::vector<Tensor> mean_of_gradients(const std::vector<Tensor>& gradients, const TapeOptions& options, Where where) {
  CallerScope caller(where);
  plain(options, where);
  std::vector<Tensor> out = gradients;
  reduce_in_buckets(out, options);
  return out;
}

// --- The same bits on any number of ranks ----------------------------------------------------------------------------

namespace {

using detail::Parts;

Parts added(Parts a, const Parts& b) {
  a.loss = a.loss + b.loss;
  for (size_t i = 0; i < a.gradients.size(); ++i) a.gradients[i] = a.gradients[i] + b.gradients[i];
  return a;
}

// A tree over `parts` parts, whose leaves are computed from left to right.
Parts tree(int64_t first, int64_t parts, int64_t rows, const Callback<Parts(int64_t, int64_t)>& part) {
  if (parts == 1) return part(first * rows, (first + 1) * rows);
  const int64_t left = int64_t(std::bit_floor(uint64_t(parts - 1)));
  Parts sum = tree(first, left, rows, part);
  return added(std::move(sum), tree(first + left, parts - left, rows, part));
}

}  // namespace

Parts detail::sum_of_parts(int64_t parts, const Callback<Parts(int64_t, int64_t)>& part, int64_t rows,
                           const Group& group, const Where& where) {
  constexpr std::string_view op = "gradients_of_parts";
  const int64_t n = group.size(where);
  if (parts < 1 || !std::has_single_bit(uint64_t(parts)))
    fail(op, fmt::format("{} parts: it must be a power of two", parts), where);
  if (parts % n != 0)
    fail(op, fmt::format("{} parts do not go among {} ranks. give a power of two that is a multiple", parts, n), where);
  const int64_t mine = parts / n;
  if (rows % mine != 0)
    fail(op, fmt::format("this rank has {} rows for its {} parts, which must be of one length", rows, mine), where);
  Parts sum = tree(0, mine, rows / mine, part);
  std::vector<Tensor> all = std::move(sum.gradients);
  all.push_back(sum.loss);
  for (Tensor& t : all) t = all_reduce(t, Reduce::sum, group) / double(parts);
  sum.loss = std::move(all.back()), all.pop_back();
  sum.gradients = std::move(all);
  return sum;
}

}  // namespace rill::distribute
