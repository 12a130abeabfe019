// Search: finds the settings that train best. The space is a struct whose fields are ranges; a trial is a function of a
// point in it that returns the number to minimise (or maximise).
//
//   struct Space {
//     train::Range rate = train::log_uniform(1e-4, 1e-1), width = train::integers(8, 128), decay = train::choice({0, 0.01});
//   };
//   train::Study study = train::random_search(Space(), 30, [&](const train::Trial& t) {
//     ... nn::Dense(t.integer("width")) ... {.learning_rate = t["rate"]} ...
//     return loop.evaluate(test).at("loss");
//   }, {.folder = "search"});
//   std::cout << study;                       // a table, the best first
//
// With a folder, finished trials are kept in it, and a stopped search continues; TensorBoard's HParams shows them.
#pragma once
#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "rill/ops/names.h"
#include "rill/train/history.h"

#pragma GCC visibility push(default)

namespace rill::train {

// The values that a setting may have.
struct Range {
  enum class Kind : uint8_t { uniform, log_uniform, integers, choice };
  Kind kind = Kind::uniform;
  double low = 0, high = 1;
  std::vector<double> values = {};  // of a choice
  // The value at u in [0, 1), and, for a grid, all values.
  double at(double u) const;
  std::vector<double> grid(int64_t n) const;
};
// Any number in [low, high); any, evenly in its logarithm; an integer from low to high, both included; one of these.
Range uniform(double low, double high, Where where = Where::current());
Range log_uniform(double low, double high, Where where = Where::current());
Range integers(int64_t low, int64_t high, Where where = Where::current());
Range choice(std::vector<double> values, Where where = Where::current());

// A point of the space, by the names of the struct's fields.
class Trial {
  // operator[] takes no defaulted parameter, so its name brings the caller's line.
  struct Name {
    std::string text;
    Where where;
    template <std::convertible_to<std::string> S>
    Name(const S& text, Where where = Where::current()) : text(text), where(where) {}
  };

 public:
  int64_t number = 0;  // from 0
  std::map<std::string, double> values = {};
  double budget = 1;  // hyperband: the fraction of the full training that this trial may have
  // A setting. Throws, listing the names, if there is none.
  double at(const std::string& name, Where where = Where::current()) const;
  int64_t integer(const std::string& name, Where where = Where::current()) const;
  double operator[](const Name& name) const { return at(name.text, name.where); }
};

struct Study {
  struct Result {
    Trial trial;
    double score = 0;
    std::string error = "";  // the exception of the trial; then the score is NaN
  };
  std::vector<Result> results = {};  // in the order of the trials
  bool maximize = false;
  // The best; with several budgets, among those with the largest. Throws if no trial succeeded.
  const Result& best(Where where = Where::current()) const;
  std::string csv() const;
};
// A table, the best first.
std::string to_string(const Study& study);
std::ostream& operator<<(std::ostream& out, const Study& study);

struct SearchOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool maximize = false;    // the score is an accuracy, say
  uint64_t seed = 0;        // of the points; a trial's draws follow its own random::seed()
  std::string folder = "";  // results, and event files for TensorBoard; empty: none
  bool progress = true;     // a line a trial on stderr
};

namespace impl {
using Space = std::vector<std::pair<std::string, Range>>;
using TrialFunction = std::function<double(const Trial&)>;
// The fields of a struct of ranges.
template <class S>
Space space_of(S space) {
  Space result;
  const std::vector<std::string_view> names = rill::detail::names_of_fields<S>();
  size_t i = 0;
  const auto add = [&]<class R>(const R& r) {
    static_assert(
        std::is_same_v<R, Range>,
        "a space is a struct of ranges: struct Space { train::Range rate = train::log_uniform(1e-4, 1e-1); };");
    if constexpr (std::is_same_v<R, Range>) result.emplace_back(std::string(names.at(i++)), r);
  };
  std::apply([&](const auto&... range) { (add(range), ...); }, rill::detail::fields_of(space));
  return result;
}
Study run_random(const Space& space, int64_t trials, const TrialFunction& f, const SearchOptions& o,
                 const Where& where);
Study run_grid(const Space& space, int64_t each, const TrialFunction& f, const SearchOptions& o, const Where& where);
Study run_hyperband(const Space& space, int64_t largest, int64_t eta, const TrialFunction& f, const SearchOptions& o,
                    const Where& where);
}  // namespace impl

// `trials` points, drawn one by one.
template <class Space>
Study random_search(const Space& space, int64_t trials, std::function<double(const Trial&)> f,
                    const SearchOptions& options = {}, Where where = Where::current()) {
  return impl::run_random(impl::space_of(space), trials, f, options, where);
}
// All points of a grid with `each` values of a range, and every value of a choice.
template <class Space>
Study grid_search(const Space& space, int64_t each, std::function<double(const Trial&)> f,
                  const SearchOptions& options = {}, Where where = Where::current()) {
  return impl::run_grid(impl::space_of(space), each, f, options, where);
}
// Li et al.: Hyperband, a novel bandit-based approach to hyperparameter optimization, 2018: many points with a small budget,
// of which the best 1 of `eta` go on with eta times as much. `largest` is the full budget in the smallest units that make
// sense (epochs, say): trial.budget times `largest` is what a trial may use.
template <class Space>
Study hyperband(const Space& space, int64_t largest, std::function<double(const Trial&)> f,
                const SearchOptions& options = {}, int64_t eta = 3, Where where = Where::current()) {
  return impl::run_hyperband(impl::space_of(space), largest, eta, f, options, where);
}

// --- Learning rates --------------------------------------------------------------------------------------------------

struct FindRateOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double low = 1e-6, high = 1;
  int64_t steps = 100;
  double smoothing = 0.9;  // of the losses: the fraction of the old mean
};
// What Loop::find_rate() saw: the loss at each rate (Smith: Cyclical learning rates for training neural networks, 2017).
struct RateTest {
  std::vector<double> rates, losses;  // smoothed; up to where the loss was four times the least
  double suggested = 0;               // where the loss fell fastest; 0 where it never did
};
// A curve in characters, and the rate suggested.
std::string to_string(const RateTest& test);
std::ostream& operator<<(std::ostream& out, const RateTest& test);

}  // namespace rill::train

#pragma GCC visibility pop
