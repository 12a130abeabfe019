// See joiners.h.
#include "rill/data/joiners.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "rill/data/engine/placed_rows.h"
#include "rill/devices/driver.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"
#include "rill/ops/listeners.h"
#include "rill/ops/ops.h"

namespace rill::data {

namespace detail {

// --- Joining ---------------------------------------------------------------------------------------------------------

void fail_lengths(size_t one, size_t other) {
  fail("data::batch", fmt::format("an element holds {} values where another holds {}: vectors of one batch must have "
                                  "one length. map() to tensors, which padded_batch() pads",
                                  one, other));
}

void fail_names(const std::vector<std::string>& one, const std::vector<std::string>& other) {
  fail("data::batch", fmt::format("the elements of a batch have the names {} and {}: they must be the same",
                                  fmt::join(one, ", "), fmt::join(other, ", ")));
}

Tensor vector_of(const void* numbers, int64_t n, DType dtype) {
  Tensor t = empty_tensor(Spec{Shape{n}, dtype, false, Device()});
  std::memcpy(t.rep()->data, numbers, size_t(n) * size_of(dtype));
  const Device d = default_device();
  return d == Device() ? t : t.to(d);
}

namespace {

std::string told(const Tensor& t) { return to_string(t.spec()); }

void require_same_dtypes(const char* op, const std::vector<Tensor>& rows) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].defined()) fail(op, fmt::format("element {} of the batch holds an undefined tensor", i));
    if (rows[i].dtype() != rows[0].dtype())
      fail(op, fmt::format("element {} of the batch holds {} and element 0 {}: convert them to one dtype with map()", i,
                           told(rows[i]), told(rows[0])));
  }
}

class Stacking final : public Joiner {
 public:
  Tensor join(std::vector<Tensor> rows) const override {
    require_same_dtypes("data::batch", rows);
    for (size_t i = 1; i < rows.size(); ++i)
      if (rows[i].shape() != rows[0].shape())
        fail("data::batch",
             fmt::format("element {} of the batch holds {} and element 0 {}: tensors of one batch must have one shape. "
                         "padded_batch() pads them, bucket_by_length() puts those of like length together",
                         i, told(rows[i]), told(rows[0])));
    if (Tensor batch = PlacedRows::whole(rows); batch.defined()) return batch;
    // One thread copies as fast as memory allows, and others that wait for it would take time from map()'s threads.
    const rill::detail::ForceOneThread one;
    return stack(rows);
  }
};

class Padded final : public Joiner {
 public:
  explicit Padded(const PaddedBatchOptions& o) : options_(o) {}
  Tensor join(std::vector<Tensor> rows) const override {
    require_same_dtypes("data::padded_batch", rows);
    require_value(rows[0].dtype());
    const int64_t ndim = rows[0].ndim();
    if (!options_.sizes.empty() && int64_t(options_.sizes.size()) != ndim)
      fail("data::padded_batch", fmt::format("{} sizes are given for tensors of {} axes", options_.sizes.size(), ndim));
    Dims sizes(size_t(ndim), 0);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].ndim() != ndim)
        fail("data::padded_batch",
             fmt::format("element {} of the batch holds {} and element 0 {}: all must have the same number of axes", i,
                         told(rows[i]), told(rows[0])));
      for (size_t a = 0; a < sizes.size(); ++a) sizes[a] = larger(sizes[a], rows[i].shape()[a]);
    }
    for (size_t a = 0; a < sizes.size(); ++a) sizes[a] = size_for(a, sizes[a], ndim);
    for (Tensor& t : rows) t = padded(t, sizes);
    const rill::detail::ForceOneThread one;
    return stack(rows);
  }

 private:
  // 0.5 among integers would be 0, and -1 among u8 255.
  void require_value(DType d) const {
    if (!(is_integer(d) || is_bool(d)) || full({}, options_.value, d).item<double>() == options_.value) return;
    fail("data::padded_batch",
         fmt::format("the value {} cannot be padded with: the tensors are {}", options_.value, name(d)));
  }
  Dim size_for(size_t axis, Dim longest, int64_t ndim) const {
    const Dim asked = options_.sizes.empty() ? Dim(-1) : options_.sizes[axis];
    if (asked != -1) {
      if (longest > asked)
        fail("data::padded_batch",
             fmt::format(
                 "a tensor has {} elements along axis {} of {}, and is to be padded to {}. cut it with map() first",
                 int64_t(longest), axis, ndim, int64_t(asked)));
      return asked;
    }
    const int64_t m = options_.multiple_of;
    return (longest + (m - 1)) / m * m;
  }
  Tensor padded(const Tensor& t, const Dims& sizes) const {
    std::vector<Padding> widths;
    bool any = false;
    for (size_t a = 0; a < sizes.size(); ++a) {
      const Dim more = sizes[a] - t.shape()[a];
      widths.push_back({0, more});
      any |= more != 0;
    }
    if (!any) return t;
    if (t.dtype() == DType::string) return pad(t, widths, tensor(std::string()));
    return pad(t, widths, full({}, options_.value, t.dtype()));
  }
  PaddedBatchOptions options_;
};

}  // namespace

std::shared_ptr<const Joiner> stacking() {
  static const auto only = std::make_shared<const Stacking>();
  return only;
}
std::shared_ptr<const Joiner> padding(const PaddedBatchOptions& o, const Where& where) {
  if (o.multiple_of < 1)
    fail("data::padded_batch", fmt::format("multiple_of is {} and must be 1 or more", o.multiple_of), where);
  for (Dim d : o.sizes)
    if (d < -1)
      fail("data::padded_batch", fmt::format("a size is {}: give a size, or -1 for that of the longest", int64_t(d)),
           where);
  return std::make_shared<const Padded>(o);
}

Ragged ragged_of(const std::vector<Tensor>& rows) {
  const char* const op = "data::ragged_batch";
  require_same_dtypes(op, rows);
  const int64_t ndim = rows[0].ndim();
  if (ndim == 0)
    fail(op, "a tensor of the element is a scalar and has no rows: map() it to a number, which becomes a tensor");
  std::vector<std::vector<int64_t>> splits(size_t(ndim), {0});
  std::vector<Tensor> values;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].ndim() != ndim)
      fail(op, fmt::format("element {} of the batch holds {} and element 0 {}: all must have the same number of axes",
                           i, told(rows[i]), told(rows[0])));
    // Axis 0 splits the batch into rows; each further axis splits the groups counted by the one before it.
    int64_t pieces = 1;
    for (size_t a = 0; a < size_t(ndim); ++a) {
      const int64_t n = int64_t(rows[i].shape()[a]);
      for (int64_t p = 0; p < pieces; ++p) splits[a].push_back(splits[a].back() + n);
      pieces *= n;
    }
    values.push_back(rows[i].reshape({-1}));
  }
  Ragged r;
  r.values = concat(values);
  for (const auto& s : splits) r.row_splits.push_back(vector_of(s.data(), int64_t(s.size()), DType::i64));
  return r;
}

void check_buckets(const BucketOptions& o, const Where& where) {
  const char* const op = "data::bucket_by_length";
  if (!std::ranges::is_sorted(o.bounds, std::ranges::less_equal()) && o.bounds.size() > 1)
    fail(op, "the bounds must grow, from one to the next", where);
  if (o.batches.size() != 1 && o.batches.size() != o.bounds.size() + 1)
    fail(op,
         fmt::format(
             "{} bounds make {} buckets, and {} sizes of batches are given: give one for each bucket, or one for all",
             o.bounds.size(), o.bounds.size() + 1, o.batches.size()),
         where);
  for (const int64_t n : o.batches)
    if (n < 1) fail(op, fmt::format("a batch of {} elements: it must have 1 or more", n), where);
  if (o.multiple_of < 1) fail(op, fmt::format("multiple_of is {} and must be 1 or more", o.multiple_of), where);
}
int64_t bucket_of(int64_t length, const std::vector<int64_t>& bounds) {
  return std::ranges::upper_bound(bounds, length) - bounds.begin();
}

int64_t rows_of(const std::vector<Tensor>& tensors, const char* op) {
  if (tensors.empty()) fail(op, "there is no tensor in the value, and so nothing to cut into rows");
  int64_t rows = -1;
  for (const Tensor& t : tensors) {
    if (!t.defined()) fail(op, "one of the tensors is undefined");
    if (t.ndim() == 0) fail(op, "a scalar has no rows: all tensors are cut along their first axes");
    if (rows >= 0 && t.dim(0) != rows)
      fail(op, fmt::format("the tensors have {} and {} rows, and must have one number of them: {} and {}", rows,
                           int64_t(t.dim(0)), told(tensors[0]), told(t)));
    rows = int64_t(t.dim(0));
  }
  return rows;
}
Tensor row_of(const Tensor& t, int64_t i) { return t(i); }

void cut_rows(std::vector<Tensor>& tensors, int64_t count, int64_t index) {
  const int64_t rows = rows_of(tensors, "data::shard");
  if (rows < count)
    fail("data::shard", fmt::format("a batch has {} rows for {} workers. give each one or more: batch(n, {{.partial = "
                                    "false}}) drops what is left over at the end",
                                    rows, count));
  for (Tensor& t : tensors) t = t(slice(rows * index / count, rows * (index + 1) / count));
}

std::vector<Tensor> rows_at(const std::vector<Tensor>& tensors, const std::vector<int64_t>& indices) {
  const bool in_a_row =
      indices.back() - indices.front() + 1 == int64_t(indices.size()) &&
      std::ranges::adjacent_find(indices, [](int64_t a, int64_t b) { return b != a + 1; }) == indices.end();
  const Tensor at = in_a_row ? Tensor() : vector_of(indices.data(), int64_t(indices.size()), DType::i64);
  std::vector<Tensor> rows;
  for (const Tensor& t : tensors)
    rows.push_back(in_a_row ? slice_axis(t, 0, indices.front(), indices.back() + 1).contiguous() : take(t, at, 0));
  return rows;
}

void require_end(const Stage& stage, const char* what, const Where& where) {
  if (stage.size() == endless)
    fail(fmt::format("Dataset.{}", what),
         "the dataset has no end: repeat() without a number, or a range without one. take(n) first", where);
}

}  // namespace detail
}  // namespace rill::data
