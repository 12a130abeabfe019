// The table of reductions, statistics, cumulative functions and sorting.
#include "cases.h"

namespace oracle {

using namespace rill;

static ReduceOptions reduce_options(const Call& c) { return {.axis = c.axes(), .keepdims = c.flag("keepdims")}; }
static SumOptions sum_options(const Call& c) {
  return {.axis = c.axes(), .keepdims = c.flag("keepdims"), .dtype = c.dtype()};
}
static VarianceOptions variance_options(const Call& c) {
  return {.axis = c.axes(), .keepdims = c.flag("keepdims"), .correction = c.number("correction", 0)};
}

#define RILL_FOLD(name) t[#name] = {[](const Call& c) -> Values { return {name(c[0], reduce_options(c))}; }};
#define RILL_SUM(name) t[#name] = {[](const Call& c) -> Values { return {name(c[0], sum_options(c))}; }};
#define RILL_SPREAD(name) t[#name] = {[](const Call& c) -> Values { return {name(c[0], variance_options(c))}; }};

static void add_folds(Table& t) {
  // clang-format off
  RILL_SUM(sum) RILL_SUM(prod) RILL_SUM(mean) RILL_FOLD(max) RILL_FOLD(min) RILL_FOLD(all) RILL_FOLD(any)
  RILL_FOLD(logsumexp) RILL_FOLD(count_nonzero) RILL_FOLD(ptp) RILL_FOLD(median) RILL_FOLD(nansum) RILL_FOLD(nanprod)
  RILL_FOLD(nanmean) RILL_FOLD(nanmax) RILL_FOLD(nanmin)
  RILL_SPREAD(var) RILL_SPREAD(stddev) RILL_SPREAD(nanvar) RILL_SPREAD(nanstd)
      // clang-format on
      t["sum_to"] = {[](const Call& c) -> Values { return {sum_to(c[0], c.dims("shape"))}; }};
  t["argmax"] = {[](const Call& c) -> Values { return {argmax(c[0], c.axis(), c.flag("keepdims"))}; }};
  t["argmin"] = {[](const Call& c) -> Values { return {argmin(c[0], c.axis(), c.flag("keepdims"))}; }};
}

QuantileOptions quantile_options(const Call& c) {
  static const std::map<std::string, QuantileMethod> methods = {
      {"linear", QuantileMethod::linear},
      {"lower", QuantileMethod::lower},
      {"higher", QuantileMethod::higher},
      {"midpoint", QuantileMethod::midpoint},
      {"nearest", QuantileMethod::nearest},
      {"inverted_cdf", QuantileMethod::inverted_cdf},
      {"averaged_inverted_cdf", QuantileMethod::averaged_inverted_cdf},
      {"closest_observation", QuantileMethod::closest_observation},
      {"interpolated_inverted_cdf", QuantileMethod::interpolated_inverted_cdf},
      {"hazen", QuantileMethod::hazen},
      {"weibull", QuantileMethod::weibull},
      {"median_unbiased", QuantileMethod::median_unbiased},
      {"normal_unbiased", QuantileMethod::normal_unbiased}};
  return {.axis = c.axes(), .keepdims = c.flag("keepdims"), .method = methods.at(c.text("method", "linear"))};
}

static HistogramOptions histogram_options(const Call& c) {
  HistogramOptions o{.bins = c.integer("bins", 10), .density = c.flag("density")};
  if (c.has("range")) o.range = {c.numbers("range").at(0), c.numbers("range").at(1)};
  if (c.in.size() > 1) (c.flag("given") ? o.edges : o.weights) = c[1];
  return o;
}

static void add_statistics(Table& t) {
  t["norm"] = {[](const Call& c) -> Values {
    return {norm(c[0], NormOptions{.ord = c.number("ord", 2), .axis = c.axes(), .keepdims = c.flag("keepdims")})};
  }};
  t["quantile"] = {[](const Call& c) -> Values { return {quantile(c[0], c[1], quantile_options(c))}; }};
  t["percentile"] = {[](const Call& c) -> Values {
    return {percentile(c[0], c[1], QuantileOptions{.axis = c.axes(), .keepdims = c.flag("keepdims")})};
  }};
  t["average"] = {[](const Call& c) -> Values { return {average(c[0], c[1], reduce_options(c))}; }};
  t["cov"] = {[](const Call& c) -> Values { return {cov(c[0], c.number("correction", 1))}; }};
  t["corrcoef"] = {[](const Call& c) -> Values { return {corrcoef(c[0])}; }};
  t["bincount"] = {[](const Call& c) -> Values {
                     BincountOptions o{.minlength = c.integer("minlength", 0), .length = c.axis("length")};
                     if (c.in.size() > 1) o.weights = c[1];
                     return {bincount(c[0], o)};
                   },
                   false};
  t["histogram"] = {[](const Call& c) -> Values {
                      auto [counts, edges] = histogram(c[0], histogram_options(c));
                      return {counts, edges};
                    },
                    false};
  t["histogram_bin_edges"] = {[](const Call& c) -> Values { return {histogram_bin_edges(c[0], histogram_options(c))}; },
                              false};
}

#define RILL_RUNNING(name)                                                                                           \
  t[#name] = {[](const Call& c) -> Values {                                                                          \
    return {name(                                                                                                    \
        c[0], CumulativeOptions{.axis = c.axis(), .exclusive = c.flag("exclusive"), .reverse = c.flag("reverse")})}; \
  }};

#define RILL_RUNNING_SUM(name)                                                                                       \
  t[#name] = {[](const Call& c) -> Values {                                                                          \
    return {name(                                                                                                    \
        c[0],                                                                                                        \
        RunningSumOptions{                                                                                           \
            .axis = c.axis(), .exclusive = c.flag("exclusive"), .reverse = c.flag("reverse"), .dtype = c.dtype()})}; \
  }};

static void add_order(Table& t) {
  // clang-format off
  RILL_RUNNING_SUM(cumsum) RILL_RUNNING_SUM(cumprod) RILL_RUNNING(cummax) RILL_RUNNING(cummin) RILL_RUNNING(cumlogsumexp)
      // clang-format on
      t["diff"] = {[](const Call& c) -> Values {
        if (c.in.size() == 1) return {diff(c[0], c.integer("n", 1), c.integer("axis", -1))};
        return {diff(c[0], {.n = c.integer("n", 1), .axis = c.integer("axis", -1), .prepend = c[1], .append = c[2]})};
      }};
  t["sort"] = {[](const Call& c) -> Values {
    return {sort(c[0], SortOptions{.axis = c.integer("axis", -1), .descending = c.flag("descending")})};
  }};
  t["argsort"] = {[](const Call& c) -> Values {
    return {argsort(c[0], SortOptions{.axis = c.integer("axis", -1), .descending = c.flag("descending")})};
  }};
  t["topk"] = {[](const Call& c) -> Values {
    TopK k =
        topk(c[0], c.integer("k", 1), TopKOptions{.axis = c.integer("axis", -1), .largest = c.flag("largest", true)});
    return {k.values, k.indices};
  }};
  t["searchsorted"] = {[](const Call& c) -> Values {
    if (c.in.size() > 2) return {searchsorted(c[0], c[1], {.right = c.flag("right"), .sorter = c[2]})};
    return {searchsorted(c[0], c[1], c.flag("right"))};
  }};
  t["digitize"] = {[](const Call& c) -> Values { return {digitize(c[0], c[1], c.flag("right"))}; }};
  t["unique"] = {[](const Call& c) -> Values {
                   Unique u = unique(c[0]);
                   return {u.values, u.indices, u.inverse, u.counts};
                 },
                 false};
}

void add_reductions(Table& t) {
  add_folds(t);
  add_statistics(t);
  add_order(t);
}

}  // namespace oracle
