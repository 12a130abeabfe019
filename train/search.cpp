// Searches: points of a space, trials, their results. Start at run_trial().
#include "rill/train/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>

#include "rill/ops/option_checks.h"
#include "rill/ops/values/next_key.h"
#include "rill/serialize/summary.h"
#include "rill/train/folders.h"
#include "rill/train/texts.h"

namespace rill::train {

// --- Ranges ----------------------------------------------------------------------------------------------------------

namespace {
Range range(Range::Kind kind, double low, double high, std::string_view op, const Where& where) {
  if (!(low <= high) || !std::isfinite(low) || !std::isfinite(high))
    fail(op, fmt::format("{} to {} is no range", low, high), where);
  return {kind, low, high, {}};
}
}  // namespace

Range uniform(double low, double high, Where where) { return range(Range::Kind::uniform, low, high, "uniform", where); }
Range log_uniform(double low, double high, Where where) {
  require_option(low > 0, "log_uniform", "low", low, "above 0", where);
  return range(Range::Kind::log_uniform, low, high, "log_uniform", where);
}
Range integers(int64_t low, int64_t high, Where where) {
  return range(Range::Kind::integers, double(low), double(high), "integers", where);
}
Range choice(std::vector<double> values, Where where) {
  if (values.empty()) fail("choice", "there is nothing to choose from", where);
  return {Range::Kind::choice, 0, 0, std::move(values)};
}

double Range::at(double u) const {
  switch (kind) {
    case Kind::uniform: return low + u * (high - low);
    case Kind::log_uniform: return low * std::pow(high / low, u);
    case Kind::integers: return std::min(high, low + std::floor(u * (high - low + 1)));
    case Kind::choice: break;
  }
  return values[std::min(values.size() - 1, size_t(u * double(values.size())))];
}

std::vector<double> Range::grid(int64_t n) const {
  if (kind == Kind::choice) return values;
  std::vector<double> result;
  for (int64_t i = 0; i < n; ++i) {
    const double u = n > 1 ? double(i) / double(n - 1) : 0.5;
    const double x = kind == Kind::integers ? std::round(low + u * (high - low)) : at(u);
    if (result.empty() || x != result.back()) result.push_back(x);
  }
  return result;
}

// --- Trials ----------------------------------------------------------------------------------------------------------

double Trial::at(const std::string& name, Where where) const {
  const auto at = values.find(name);
  if (at != values.end()) return at->second;
  std::string all;
  for (const auto& [n, v] : values) all += (all.empty() ? "" : ", ") + n;
  fail("Trial", fmt::format("there is no setting '{}'. there are: {}", name, all), where);
}
int64_t Trial::integer(const std::string& name, Where where) const { return int64_t(std::llround(at(name, where))); }

namespace {
bool better(const Study& s, double a, double b) { return s.maximize ? a > b : a < b; }

// The results, the best first; those that failed last.
std::vector<const Study::Result*> ranked(const Study& s) {
  std::vector<const Study::Result*> all;
  for (const Study::Result& r : s.results) all.push_back(&r);
  std::stable_sort(all.begin(), all.end(), [&](auto* a, auto* b) {
    if (std::isnan(a->score) || std::isnan(b->score)) return !std::isnan(a->score) && std::isnan(b->score);
    if (a->trial.budget != b->trial.budget) return a->trial.budget > b->trial.budget;
    return better(s, a->score, b->score);
  });
  return all;
}
}  // namespace

const Study::Result& Study::best(Where where) const {
  const auto all = ranked(*this);
  if (all.empty()) fail("Study", "no trial was made", where);
  if (std::isnan(all[0]->score))
    fail("Study",
         fmt::format("no trial came through. the last one: {}",
                     results.back().error.empty() ? "its score is NaN" : results.back().error),
         where);
  return *all[0];
}

std::string Study::csv() const {
  std::string text = "trial,score,budget";
  if (!results.empty())
    for (const auto& [name, value] : results[0].trial.values) text += "," + csv_field(name);
  text += "\n";
  for (const Result& r : results) {
    text += fmt::format("{},{},{}", r.trial.number, r.score, r.trial.budget);
    for (const auto& [name, value] : r.trial.values) text += fmt::format(",{}", value);
    text += "\n";
  }
  return text;
}

std::string to_string(const Study& s) {
  std::string text = "     score";
  if (!s.results.empty())
    for (const auto& [name, value] : s.results[0].trial.values) text += fmt::format("  {:>12}", name);
  text += "\n";
  for (const Study::Result* r : ranked(s)) {
    text += fmt::format("{:>10.5g}", r->score);
    for (const auto& [name, value] : r->trial.values) text += fmt::format("  {:>12.5g}", value);
    if (r->trial.budget != 1) text += fmt::format("  budget {:.3g}", r->trial.budget);
    if (!r->error.empty()) text += "  " + r->error;
    text += "\n";
  }
  return text;
}
std::ostream& operator<<(std::ostream& out, const Study& study) { return out << to_string(study); }

// --- Searches --------------------------------------------------------------------------------------------------------

namespace impl {

namespace {

// A point by its number: the same for a seed, whichever trials were made before.
std::map<std::string, double> point(const Space& space, uint64_t seed, int64_t number) {
  std::map<std::string, double> values;
  uint64_t h = random::mixed(seed + random::mixed(uint64_t(number)));
  for (const auto& [name, range] : space) {
    h = random::mixed(h + 1);
    values[name] = range.at(double(h >> 11) * 0x1p-53);
  }
  return values;
}

// A search that runs trials and keeps their results: a line of JSON each in FOLDER/trials.jsonl.
class Search {
 public:
  Search(const Space& space, const TrialFunction& f, const SearchOptions& o, const Where& where)
      : f_(f), options_(o), where_(where) {
    if (space.empty()) fail("search", "the space has no ranges", where);
    if (!f) fail("search", "the trial is empty", where);
    study.maximize = o.maximize;
    if (!o.folder.empty()) {
      require_writable(o.folder, "search", where);
      read();
    }
  }

  double run(Trial trial) {
    trial.number = int64_t(study.results.size());
    if (const auto known = known_.find(key(trial)); known != known_.end()) {
      study.results.push_back({trial, known->second, ""});
      return known->second;
    }
    Study::Result result{trial, std::numeric_limits<double>::quiet_NaN(), ""};
    try {
      result.score = f_(trial);
    } catch (const std::exception& e) {
      result.error = e.what();
    }
    keep(result);
    study.results.push_back(result);
    tell(result);
    return result.score;
  }

  Study study;

 private:
  static std::string key(const Trial& t) {
    nlohmann::json j = t.values;
    j["(budget)"] = t.budget;
    return j.dump();
  }
  std::string file() const { return options_.folder + "/trials.jsonl"; }
  void read() {
    std::ifstream in(file());
    for (std::string line; std::getline(in, line);) {
      const auto j = nlohmann::json::parse(line, nullptr, false);  // a line that a kill cut off is no trial
      if (j.is_object() && j.contains("key") && j.contains("score") && j["score"].is_number())
        known_[j["key"].get<std::string>()] = j["score"].get<double>();
    }
  }
  void keep(const Study::Result& r) {
    if (options_.folder.empty() || !r.error.empty() || !std::isfinite(r.score)) return;
    std::ofstream out(file(), std::ios::app);
    out << nlohmann::json{{"key", key(r.trial)}, {"score", r.score}}.dump() << "\n";
    out.close();
    if (!out) fail("search", fmt::format("{} cannot be written", file()), where_);
    summary::Writer writer(fmt::format("{}/trial-{}", options_.folder, r.trial.number));
    std::map<std::string, summary::HParamValue> values;
    for (const auto& [name, value] : r.trial.values) values.emplace(name, value);
    writer.hparams(values);
    writer.scalar("score", tensor(r.score), 0);
    writer.hparams_end();
  }
  void tell(const Study::Result& r) const {
    if (!options_.progress) return;
    std::string text;
    for (const auto& [name, value] : r.trial.values) text += fmt::format("  {} {:.4g}", name, value);
    fmt::print(stderr, "trial {}  score {:.5g}{}{}{}\n", r.trial.number, r.score, text,
               r.error.empty() ? "" : "  failed: ", r.error);
  }

  const TrialFunction& f_;
  const SearchOptions& options_;
  const Where& where_;
  std::map<std::string, double> known_;
};

}  // namespace

Study run_random(const Space& space, int64_t trials, const TrialFunction& f, const SearchOptions& o,
                 const Where& where) {
  require_option(trials >= 1, "random_search", "trials", trials, "1 or more", where);
  Search search(space, f, o, where);
  for (int64_t i = 0; i < trials; ++i) search.run({0, point(space, o.seed, i)});
  return std::move(search.study);
}

Study run_grid(const Space& space, int64_t each, const TrialFunction& f, const SearchOptions& o, const Where& where) {
  require_option(each >= 1, "grid_search", "each", each, "1 or more", where);
  std::vector<std::map<std::string, double>> points{{}};
  for (const auto& [name, range] : space) {
    std::vector<std::map<std::string, double>> more;
    const std::vector<double> values = range.grid(each);
    if (points.size() * values.size() > 1000000)
      fail("grid_search", "the grid has more than a million points. take fewer values, or random_search()", where);
    for (const auto& p : points)
      for (double value : values) more.push_back(p), more.back()[name] = value;
    points = std::move(more);
  }
  Search search(space, f, o, where);
  for (const auto& p : points) search.run({0, p});
  return std::move(search.study);
}

Study run_hyperband(const Space& space, int64_t largest, int64_t eta, const TrialFunction& f, const SearchOptions& o,
                    const Where& where) {
  require_option(largest >= 1, "hyperband", "largest", largest, "1 or more", where);
  require_option(eta >= 2, "hyperband", "eta", eta, "2 or more", where);
  Search search(space, f, o, where);
  int64_t brackets = 0;
  for (int64_t r = largest; r >= eta; r /= eta) ++brackets;
  int64_t drawn = 0;
  for (int64_t s = brackets; s >= 0; --s) {
    const auto n = int64_t(std::ceil(double(brackets + 1) / double(s + 1) * std::pow(double(eta), double(s))));
    std::vector<std::map<std::string, double>> points;
    for (int64_t i = 0; i < n; ++i) points.push_back(point(space, o.seed, drawn++));
    for (int64_t i = 0; i <= s; ++i) {
      const double budget = std::max(1., double(largest) * std::pow(double(eta), double(i - s))) / double(largest);
      std::vector<std::pair<double, size_t>> scores;
      for (size_t k = 0; k < points.size(); ++k) {
        const double score = search.run({0, points[k], budget});
        const double worst = std::numeric_limits<double>::infinity();
        scores.emplace_back(std::isnan(score) ? worst : o.maximize ? -score : score, k);
      }
      std::stable_sort(scores.begin(), scores.end());
      std::vector<std::map<std::string, double>> next;
      for (size_t k = 0; k < std::max<size_t>(1, points.size() / size_t(eta)); ++k)
        next.push_back(points[scores[k].second]);
      points = std::move(next);
    }
  }
  return std::move(search.study);
}

}  // namespace impl

// --- Learning rates --------------------------------------------------------------------------------------------------

std::string to_string(const RateTest& t) {
  std::string text;
  for (size_t i = 0; i < t.rates.size(); i += std::max<size_t>(1, t.rates.size() / 20))
    text += fmt::format("{:>10.3g}  {:>10.4g}\n", t.rates[i], t.losses[i]);
  return "      rate        loss\n" + text +
         (t.suggested > 0 ? fmt::format("suggested: {:.3g}\n", t.suggested)
                          : "suggested: none, for the loss never fell\n");
}
std::ostream& operator<<(std::ostream& out, const RateTest& test) { return out << to_string(test); }

}  // namespace rill::train
