// Metrics of sequences of tokens, on the host: edit distance, BLEU, ROUGE.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "rill/nn/metrics.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/option_checks.h"

namespace rill::metrics {

namespace {

using Words = std::vector<std::string>;

void require_eager(std::string_view op, const Where& where) {
  if (EnclosingTrace::now())
    fail(op, "it reads its inputs on the host, which a traced function cannot. call it outside of the function", where);
}

Words words(const std::string& text) {
  Words result;
  size_t i = 0;
  const auto blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (i < text.size()) {
    while (i < text.size() && blank(text[i])) ++i;
    const size_t start = i;
    while (i < text.size() && !blank(text[i])) ++i;
    if (i > start) result.push_back(text.substr(start, i - start));
  }
  return result;
}

// Row by row (Wagner, Fischer: The string-to-string correction problem, 1974).
template <class T>
int64_t distance(std::span<const T> a, std::span<const T> b) {
  std::vector<int64_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = int64_t(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int64_t diagonal = row[0];
    row[0] = int64_t(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({changed, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

// How many tokens of each of `rows` sequences of `size` count.
std::vector<int64_t> lengths_of(const std::optional<Tensor>& lengths, std::string_view what, size_t rows, int64_t size,
                                const Where& where) {
  if (!lengths) return std::vector<int64_t>(rows, size);
  const std::vector<int64_t> result = lengths->astype(i64).to_vector<int64_t>();
  if (result.size() != rows)
    fail("edit_distance", fmt::format("{} {} for {} sequences", result.size(), what, rows), where);
  for (int64_t n : result)
    require_option(n >= 0 && n <= size, "edit_distance", what, n, fmt::format("in [0, {}]", size), where);
  return result;
}

template <class T>
Tensor distances(const Tensor& prediction, const Tensor& labels, const EditDistanceOptions& o, const Where& where) {
  const auto a = prediction.to_vector<T>(), b = labels.to_vector<T>();
  const auto n = size_t(int64_t(prediction.dim(-1))), m = size_t(int64_t(labels.dim(-1)));
  Shape shape(prediction.shape());
  shape.pop_back();
  const auto rows = size_t(int64_t(shape.numel()));
  const auto an = lengths_of(o.prediction_lengths, "prediction lengths", rows, int64_t(n), where);
  const auto bn = lengths_of(o.label_lengths, "label lengths", rows, int64_t(m), where);
  std::vector<double> result;
  for (size_t i = 0; i < rows; ++i) {
    const auto d = double(distance(std::span<const T>(a.data() + i * n, size_t(an[i])),
                                   std::span<const T>(b.data() + i * m, size_t(bn[i]))));
    result.push_back(!o.normalize || d == 0 ? d : d / double(bn[i]));
  }
  return reshape(tensor(result), shape);
}

// Counts of the runs of `n` words.
std::map<Words, int64_t> runs(const Words& text, size_t n) {
  std::map<Words, int64_t> result;
  for (size_t i = 0; i + n <= text.size(); ++i) ++result[Words(text.begin() + long(i), text.begin() + long(i + n))];
  return result;
}

// The references of each text: strings [n] or [n, several], of which empty ones do not count.
struct Texts {
  std::vector<Words> predictions;
  std::vector<std::vector<Words>> references;
};
Texts texts(std::string_view op, const Tensor& prediction, const Tensor& references, const Where& where) {
  require_eager(op, where);
  require_defined(op, prediction, "the prediction", where);
  require_defined(op, references, "the references", where);
  if (prediction.dtype() != DType::string || references.dtype() != DType::string)
    fail(op,
         fmt::format("it takes strings, and is given {} and {}", to_string(prediction.spec()),
                     to_string(references.spec())),
         where);
  const Tensor p = reshape(prediction, {-1});
  if (references.ndim() > 2 || references.size() == 0 || references.ndim() == 0 || references.dim(0) != p.dim(0))
    fail(op,
         fmt::format("the references are {}, and must be [{}] or [{}, several]", to_string(references.spec()),
                     int64_t(p.dim(0)), int64_t(p.dim(0))),
         where);
  Texts result;
  for (const std::string& t : p.to_vector<std::string>()) result.predictions.push_back(words(t));
  const auto several = size_t(references.ndim() == 2 ? int64_t(references.dim(1)) : 1);
  const auto all = references.to_vector<std::string>();
  for (size_t i = 0; i < result.predictions.size(); ++i) {
    result.references.emplace_back();
    for (size_t k = 0; k < several; ++k)
      if (Words w = words(all[i * several + k]); !w.empty() || several == 1)
        result.references[i].push_back(std::move(w));
  }
  return result;
}

double f1_of(double both, double said, double is) { return both == 0 ? 0 : 2 * both / (said + is); }

// The mean over texts of the best score among the references.
template <class F>
double mean_best(const Texts& t, const F& score) {
  double sum = 0;
  for (size_t i = 0; i < t.predictions.size(); ++i) {
    double best = 0;
    for (const Words& reference : t.references[i]) best = std::max(best, score(t.predictions[i], reference));
    sum += best;
  }
  return t.predictions.empty() ? 0 : sum / double(t.predictions.size());
}

int64_t common_subsequence(const Words& a, const Words& b) {
  std::vector<int64_t> row(b.size() + 1);
  for (const std::string& word : a) {
    int64_t diagonal = 0;
    for (size_t j = 1; j <= b.size(); ++j) {
      const int64_t above = row[j];
      row[j] = word == b[j - 1] ? diagonal + 1 : std::max(above, row[j - 1]);
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

Tensor edit_distance(const Tensor& prediction, const Tensor& labels, const EditDistanceOptions& o, Where where) {
  require_eager("edit_distance", where);
  require_defined("edit_distance", prediction, "the prediction", where);
  require_defined("edit_distance", labels, "the labels", where);
  Shape a(prediction.shape()), b(labels.shape());
  if (a.empty() || b.empty()) fail("edit_distance", "sequences are along the last axis, and a number has none", where);
  a.pop_back();
  b.pop_back();
  if (a != b)
    fail("edit_distance",
         fmt::format("{} and {} have other leading axes", to_string(prediction.spec()), to_string(labels.spec())),
         where);
  const CallerScope caller(where);
  const bool strings = prediction.dtype() == DType::string;
  if (strings != (labels.dtype() == DType::string) ||
      (!strings && !(is_integer(prediction.dtype()) && is_integer(labels.dtype()))))
    fail("edit_distance",
         fmt::format("tokens are {} and {}, and must be integers or strings, both", name(prediction.dtype()),
                     name(labels.dtype())),
         where);
  if (strings) return distances<std::string>(prediction, labels, o, where);
  return distances<int64_t>(prediction.astype(i64), labels.astype(i64), o, where);
}

double bleu(const Tensor& prediction, const Tensor& references, int64_t order, bool smooth, Where where) {
  require_option(order >= 1, "bleu", "order", order, "1 or more", where);
  const Texts t = texts("bleu", prediction, references, where);
  std::vector<double> matched(size_t(order), 0), possible(size_t(order), 0);
  double said = 0, is = 0;
  for (size_t i = 0; i < t.predictions.size(); ++i) {
    const Words& p = t.predictions[i];
    said += double(p.size());
    // The reference of the closest length; of two, the shorter.
    size_t closest = 0;
    bool first = true;
    const auto off = [&](size_t n) { return n > p.size() ? n - p.size() : p.size() - n; };
    for (const Words& r : t.references[i])
      if (first || off(r.size()) < off(closest) || (off(r.size()) == off(closest) && r.size() < closest))
        closest = r.size(), first = false;
    is += double(closest);
    for (size_t n = 1; n <= size_t(order); ++n) {
      std::map<Words, int64_t> most;
      for (const Words& r : t.references[i])
        for (const auto& [run, count] : runs(r, n)) most[run] = std::max(most[run], count);
      for (const auto& [run, count] : runs(p, n)) {
        possible[n - 1] += double(count);
        if (const auto at = most.find(run); at != most.end()) matched[n - 1] += double(std::min(count, at->second));
      }
    }
  }
  double log_mean = 0;
  for (size_t n = 0; n < size_t(order); ++n) {
    const double more = smooth && n > 0 ? 1 : 0;
    if (matched[n] + more == 0 || possible[n] + more == 0) return 0;
    log_mean += std::log((matched[n] + more) / (possible[n] + more)) / double(order);
  }
  return (said >= is ? 1 : std::exp(1 - is / said)) * std::exp(log_mean);
}

double rouge_n(const Tensor& prediction, const Tensor& references, int64_t n, Where where) {
  require_option(n >= 1, "rouge_n", "n", n, "1 or more", where);
  return mean_best(texts("rouge_n", prediction, references, where), [&](const Words& p, const Words& r) {
    const auto said = runs(p, size_t(n)), is = runs(r, size_t(n));
    double both = 0, all_said = 0, all_is = 0;
    for (const auto& [run, count] : said) {
      all_said += double(count);
      if (const auto at = is.find(run); at != is.end()) both += double(std::min(count, at->second));
    }
    for (const auto& [run, count] : is) all_is += double(count);
    return f1_of(both, all_said, all_is);
  });
}

double rouge_l(const Tensor& prediction, const Tensor& references, Where where) {
  return mean_best(texts("rouge_l", prediction, references, where), [](const Words& p, const Words& r) {
    return f1_of(double(common_subsequence(p, r)), double(p.size()), double(r.size()));
  });
}

}  // namespace rill::metrics
