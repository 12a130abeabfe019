// Sorting strings.
#include <algorithm>
#include <numeric>
#include <vector>

#include "rill/ops/creation.h"
#include "rill/ops/index/runs.h"
#include "rill/ops/indexing.h"
#include "rill/ops/strings.h"
#include "rill/ops/strings/string_maps.h"

namespace rill::strings {
namespace {

// The indices along the last axis that sort the rows of `x`, which is dense.
Tensor sorting_indices(const Tensor& x, bool descending) {
  const int64_t n = x.shape().back();
  const Texts texts(x, x.shape());
  Tensor out = empty_tensor(Spec{x.shape(), DType::i64, false, Device()});
  int64_t* order = reinterpret_cast<int64_t*>(out.mutable_rep()->data);
  parallel_for(n > 0 ? x.size() / n : 0, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t* const first = order + row * n;
      std::iota(first, first + n, int64_t(0));
      std::stable_sort(first, first + n, [&](int64_t a, int64_t b) {
        const std::string &s = texts[row * n + a], &t = texts[row * n + b];
        return descending ? t < s : s < t;
      });
    }
  });
  return out;
}

}  // namespace

Tensor argsort(const Tensor& x, Axis axis, bool descending, Where where) {
  CallerScope caller(where);
  require_texts("argsort", x, where);
  const int64_t along = normal_axis(axis, x, "argsort", where);
  EagerScope eager;
  return moveaxis(sorting_indices(moveaxis(x, along, -1).contiguous(), descending), -1, along);
}

Tensor sort(const Tensor& x, Axis axis, bool descending, Where where) {
  CallerScope caller(where);
  const Tensor order = argsort(x, axis, descending);
  EagerScope eager;
  return take_along_axis(x, order, axis);
}

Unique unique(const Tensor& x, Where where) {
  CallerScope caller(where);
  require_texts("unique", x, where);
  EagerScope eager;
  const Tensor flat = ravel(x);
  const std::vector<int64_t> order = sorting_indices(flat, false).to_vector<int64_t>();
  const Texts texts(flat, flat.shape());
  std::vector<int64_t> firsts, counts, inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || texts[order[i]] != texts[order[i - 1]]) firsts.push_back(order[i]), counts.push_back(0);
    ++counts.back();
    inverse[size_t(order[i])] = int64_t(firsts.size()) - 1;
  }
  const TensorOptions here{.device = Device()};  // the device of strings
  const Tensor indices = tensor(firsts, here);
  return {take(flat, indices, 0), indices, tensor(inverse, x.shape(), here), tensor(counts, here)};
}

Unique unique(const Tensor& x, Axis axis, Where where) {
  CallerScope caller(where);
  require_texts("unique", x, where);
  const int64_t along = normal_axis(axis, x, "unique", where);
  EagerScope eager;
  return unique_slices(x, along, strings::unique(x).inverse);
}

}  // namespace rill::strings
