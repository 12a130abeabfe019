// N-grams of adjacent strings, joined.
#include <fmt/format.h>

#include <algorithm>

#include "rill/ops/creation.h"
#include "rill/ops/shaping.h"
#include "rill/ops/strings/records.h"
#include "rill/ops/strings/string_maps.h"

namespace rill::strings {
namespace {

void check_ngrams(const std::vector<int64_t>& widths, const Where& where) {
  if (widths.empty()) fail("ngrams", "there are no widths. say {1, 2} for words and pairs of neighbours", where);
  for (int64_t w : widths)
    if (w < 1) fail("ngrams", fmt::format("a width is {} and must be at least 1", w), where);
}

// The number of pads at each end of a row for n-grams of `width`.
int64_t pads_of(const NgramOptions& o, int64_t width) {
  return o.padding < 0 ? width - 1 : std::min(o.padding, width - 1);
}

Tensor padded_rows(const Tensor& x, const NgramOptions& o, int64_t width) {
  const auto block = [&](const std::string& text) {
    Shape shape = x.shape();
    shape.back() = pads_of(o, width);
    return broadcast_to(tensor(text), shape);
  };
  std::vector<Tensor> parts;
  if (o.left) parts.push_back(block(*o.left));
  parts.push_back(x);
  if (o.right) parts.push_back(block(*o.right));
  return parts.size() == 1 ? x : concat(parts, -1);
}

std::string joined(const std::vector<std::string>& parts, size_t first, size_t count, std::string_view separator) {
  std::string all = parts[first];
  for (size_t k = 1; k < count; ++k) all.append(separator).append(parts[first + k]);
  return all;
}

}  // namespace

Tensor ngrams(const Tensor& x, const std::vector<int64_t>& widths, const NgramOptions& o, Where where) {
  CallerScope caller(where);
  check_ngrams(widths, where);
  require_defined("ngrams", x, "the operand", where);
  if (x.dtype() != DType::string || x.ndim() == 0)
    fail("ngrams", fmt::format("the operand is {} and must be of strings, with an axis", to_string(x.spec())), where);
  std::vector<Tensor> runs;
  for (int64_t width : widths) {
    const Tensor rows = padded_rows(x, o, width);
    const Dim count = rows.shape().back() - width + 1;
    if (count < 1) continue;
    std::vector<Tensor> parts;
    for (int64_t k = 0; k < width; ++k) parts.push_back(slice_axis(rows, -1, k, count + k));
    runs.push_back(join(parts, o.separator, where));
  }
  if (!runs.empty()) return concat(runs, -1);
  if (o.keep_short && x.shape().back() > 0) {
    const Tensor rows = o.padding > 0 ? padded_rows(x, o, o.padding + 1) : x;
    std::vector<Tensor> parts;
    for (int64_t k = 0, n = rows.shape().back(); k < n; ++k) parts.push_back(slice_axis(rows, -1, k, k + 1));
    return join(parts, o.separator, where);
  }
  return slice_axis(x, -1, 0, 0);
}

Ragged ngrams(const Ragged& x, const std::vector<int64_t>& widths, const NgramOptions& o, Where where) {
  CallerScope caller(where);
  check_ngrams(widths, where);
  require_texts("ngrams", x.values, where);
  if (x.row_splits.empty()) fail("ngrams", "the operand has no rows", where);
  const EagerScope eager;
  const std::vector<std::string> texts = x.values.to_vector<std::string>();
  const std::vector<int64_t> splits = x.row_splits.back().astype(i64).to_vector<int64_t>();
  std::vector<std::string> runs;
  std::vector<int64_t> ends{0};
  const auto padded = [&](auto begin, auto end, size_t pads) {
    std::vector<std::string> parts;
    if (o.left) parts.insert(parts.end(), pads, *o.left);
    parts.insert(parts.end(), begin, end);
    if (o.right) parts.insert(parts.end(), pads, *o.right);
    return parts;
  };
  for (size_t row = 0; row + 1 < splits.size(); ++row) {
    const auto begin = texts.begin() + splits[row], end = texts.begin() + splits[row + 1];
    const size_t before = runs.size();
    for (int64_t width : widths) {
      const std::vector<std::string> parts = padded(begin, end, size_t(pads_of(o, width)));
      for (size_t k = 0; k + size_t(width) <= parts.size(); ++k)
        runs.push_back(joined(parts, k, size_t(width), o.separator));
    }
    if (o.keep_short && runs.size() == before && begin != end) {
      const std::vector<std::string> parts = padded(begin, end, size_t(std::max<int64_t>(o.padding, 0)));
      runs.push_back(joined(parts, 0, parts.size(), o.separator));
    }
    ends.push_back(int64_t(runs.size()));
  }
  Ragged out{tensor(runs), x.row_splits};
  out.row_splits.back() = tensor(ends);
  return out;
}

}  // namespace rill::strings
