// Operators that run on the host, because the sizes of their results depend on values, or their elements are text: the
// model is run op by op.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "rill/ops/strings.h"
#include "rill/serialize/model/boxes.h"
#include "rill/serialize/model/distinct.h"
#include "rill/serialize/onnx/in/interpreter.h"

namespace rill::onnx_import {
namespace {

// --- Unique ----------------------------------------------------------------------------------------------------------

Values unique_rule(const Call& c) {
  const Tensor x = c.known(0);
  const bool ascending = c.flag("sorted", true);
  Unique u;
  if (c.has_attribute("axis")) u = imported::distinct(x, axis_of(c, c.integer("axis", 0), x.ndim()), ascending);
  else u = imported::distinct(ravel(x), std::nullopt, ascending);
  return {u.values, u.indices, u.inverse, u.counts};
}

// --- NonMaxSuppression -----------------------------------------------------------------------------------------------

using imported::Box;

Box box_of(const double* v, bool centred) {
  if (centred) return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  return imported::box_of(v);
}
Values suppression_rule(const Call& c) {
  const Tensor boxes = c.known(0), scores = c.known(1);
  if (boxes.ndim() != 3 || boxes.dim(2) != 4 || scores.ndim() != 3 || scores.dim(2) != boxes.dim(1) ||
      scores.dim(0) != boxes.dim(0))
    c.reject("takes boxes [batch, n, 4] and scores [batch, classes, n]");
  const int64_t most = c.has(2) ? int64_t(c.dim(2)) : 0, batch = boxes.dim(0), classes = scores.dim(1),
                n = boxes.dim(1);
  const double limit = c.has(3) ? c.number(3) : 0, least = c.has(4) ? c.number(4) : -INFINITY;
  const bool centred = c.integer("center_point_box", 0) == 1;
  const std::vector<double> b = boxes.to_vector<double>(), s = scores.to_vector<double>();
  std::vector<int64_t> picked;
  for (int64_t i = 0; i < batch * classes; ++i) {
    std::vector<Box> own;
    for (int64_t j = 0; j < n; ++j) own.push_back(box_of(b.data() + (i / classes * n + j) * 4, centred));
    const auto both = [&](int64_t p, int64_t q) { return imported::overlap(own[size_t(p)], own[size_t(q)]); };
    for (int64_t j : imported::best_boxes(n, both, s.data() + i * n, most, limit, least))
      picked.insert(picked.end(), {i / classes, i % classes, j});
  }
  return {tensor(picked, Shape{int64_t(picked.size()) / 3, 3})};
}

// --- Text
// -------------------------------------------------------------------------------------------------------------

Values string_concat_rule(const Call& c) {
  const Tensor a = c.known(0), b = c.known(1);
  const Shape shape = broadcast_shapes(a.shape(), b.shape());
  std::vector<std::string> left = broadcast_to(a, shape).to_vector<std::string>();
  const std::vector<std::string> right = broadcast_to(b, shape).to_vector<std::string>();
  for (size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return {tensor(left, shape)};
}

// The parts of a text between `at`, or between runs of spaces if that is empty; at most `most` cuts unless -1.
std::vector<std::string> parts_of(const std::string& text, const std::string& at, int64_t most) {
  std::vector<std::string> parts;
  size_t from = 0;
  const bool spaces = at.empty();
  for (;;) {
    if (spaces) from = std::min(text.find_first_not_of(" \t\r\n", from), text.size());
    if (spaces && from == text.size()) break;
    const size_t end = most >= 0 && int64_t(parts.size()) >= most ? std::string::npos
                       : spaces                                   ? text.find_first_of(" \t\r\n", from)
                                                                  : text.find(at, from);
    std::string part = text.substr(from, end == std::string::npos ? end : end - from);
    if (spaces && end == std::string::npos) part.erase(part.find_last_not_of(" \t\r\n") + 1);
    parts.push_back(std::move(part));
    if (end == std::string::npos) break;
    from = end + (spaces ? 1 : at.size());
  }
  return parts;
}
Values string_split_rule(const Call& c) {
  const Tensor x = c.known(0);
  const std::string at = c.text("delimiter", "");
  std::vector<std::vector<std::string>> rows;
  std::vector<int64_t> counts;
  size_t widest = 0;
  for (const std::string& text : x.to_vector<std::string>()) {
    rows.push_back(parts_of(text, at, c.integer("maxsplit", -1)));
    counts.push_back(int64_t(rows.back().size()));
    widest = std::max(widest, rows.back().size());
  }
  std::vector<std::string> all;
  for (auto& row : rows) {
    row.resize(widest);
    all.insert(all.end(), row.begin(), row.end());
  }
  Shape shape = x.shape();
  shape.push_back(int64_t(widest));
  return {tensor(all, shape), tensor(counts, x.shape())};
}

std::string in_case(std::string text, const std::string& action) {
  for (char& ch : text)
    if (action == "LOWER" ? ch >= 'A' && ch <= 'Z' : action == "UPPER" && ch >= 'a' && ch <= 'z') ch = char(ch ^ 0x20);
  return text;
}
// Without the stop words, in another case; ASCII letters.
Values string_normalizer_rule(const Call& c) {
  const Tensor x = c.known(0);
  const bool exact = c.flag("is_case_sensitive");
  const std::string action = c.text("case_change_action", "NONE");
  std::set<std::string> stops;
  for (const std::string& s : c.strings("stopwords")) stops.insert(exact ? s : in_case(s, "LOWER"));
  std::vector<std::string> kept;
  for (const std::string& s : x.to_vector<std::string>())
    if (!stops.contains(exact ? s : in_case(s, "LOWER"))) kept.push_back(in_case(s, action));
  if (kept.empty()) kept.emplace_back();
  const int64_t n = int64_t(kept.size());
  return {tensor(kept, x.ndim() == 2 ? Shape{1, n} : Shape{n})};
}

// How often each n-gram of a pool occurs, with up to max_skip_count elements skipped between its own.
Values tf_idf_rule(const Call& c) {
  const Tensor x = c.known(0);
  const bool text = x.dtype() == string;
  const std::vector<std::string> words = c.strings("pool_strings");
  const Dims numbers = c.integers("pool_int64s"), starts = c.integers("ngram_counts"),
             places = c.integers("ngram_indexes");
  const int64_t shortest = c.integer("min_gram_length", 1), longest = c.integer("max_gram_length", 1);
  const std::string mode = c.text("mode", "TF");
  const size_t pool = text ? words.size() : numbers.size();
  int64_t width = 0;
  for (Dim p : places) {
    if (p < 0 || p > (1 << 28)) c.reject("an n-gram's index is out of range");
    width = std::max<int64_t>(width, p + 1);
  }
  std::map<std::vector<std::string>, size_t> grams;  // an n-gram, and its index
  size_t which = 0;
  for (int64_t n = 1; n <= int64_t(starts.size()); ++n) {
    const size_t end = size_t(n) < starts.size() ? size_t(int64_t(starts[size_t(n)])) : pool;
    for (size_t at = size_t(int64_t(starts[size_t(n) - 1])); at + size_t(n) <= std::min(end, pool); at += size_t(n)) {
      std::vector<std::string> gram;
      for (int64_t k = 0; k < n; ++k)
        gram.push_back(text ? words[at + size_t(k)] : std::to_string(int64_t(numbers[at + size_t(k)])));
      grams.emplace(std::move(gram), which++);
    }
  }
  if (which > places.size()) c.reject("its n-grams have no places");
  std::vector<std::string> elements;
  if (text) elements = x.to_vector<std::string>();
  else
    for (int64_t v : x.to_vector<int64_t>()) elements.push_back(std::to_string(v));
  const int64_t rows = x.ndim() == 2 ? int64_t(x.dim(0)) : 1, length = rows ? int64_t(elements.size()) / rows : 0;
  const std::vector<double> weights = c.reals("weights");
  std::vector<float> out(size_t(rows * width), 0.f);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t n = shortest; n <= longest; ++n)
      for (int64_t skip = 1; skip <= (n == 1 ? 1 : c.integer("max_skip_count", 0) + 1); ++skip)
        for (int64_t i = 0; i + (n - 1) * skip < length; ++i) {
          std::vector<std::string> gram;
          for (int64_t k = 0; k < n; ++k) gram.push_back(elements[size_t(r * length + i + k * skip)]);
          auto it = grams.find(gram);
          if (it == grams.end()) continue;
          out[size_t(r * width + int64_t(places[it->second]))] += 1;
        }
  for (size_t i = 0; mode != "TF" && i < places.size() && width; ++i)
    for (int64_t r = 0; r < rows; ++r) {
      float& v = out[size_t(r * width + int64_t(places[i]))];
      const double weight = weights.empty() || i >= weights.size() ? 1 : weights[i];
      v = float(mode == "IDF" ? (v > 0 ? weight : 0) : v * weight);
    }
  return {tensor(out, x.ndim() == 2 ? Shape{rows, width} : Shape{width})};
}

}  // namespace

const RuleTable& host_rules() {
  static const RuleTable table = {
      {"NonMaxSuppression", {suppression_rule, 0b11100}},
      {"RegexFullMatch",
       {[](const Call& c) -> Values { return {strings::regex_full_match(c.known(0), c.text("pattern", ""))}; }}},
      {"StringConcat", {string_concat_rule}},
      {"StringNormalizer", {string_normalizer_rule}},
      {"StringSplit", {string_split_rule}},
      {"TfIdfVectorizer", {tf_idf_rule}},
      {"Unique", {unique_rule}},
  };
  return table;
}

}  // namespace rill::onnx_import
