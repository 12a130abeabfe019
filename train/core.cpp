// The parts of a training loop that do not depend on types: losses, metrics, evaluation. A run of fit() is in run.cpp.
// Start at Core::loss_of.
#include "rill/train/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "rill/data/stage.h"
#include "rill/nn/metrics/inputs.h"
#include "rill/nn/sequential.h"
#include "rill/ops/apply.h"
#include "rill/ops/numerics.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/state/variable_state.h"
#include "rill/train/rank_calls.h"
#include "rill/train/snapshot.h"

namespace rill::train {

std::pair<int64_t, int64_t> Ranks::share(const Where& where) const {
  if (!calls_) return {0, 1};
  return {calls_->rank(sharers_, where), calls_->size(sharers_, where)};
}

namespace impl {

// --- Inside of a step ------------------------------------------------------------------------------------------------

namespace {
// Puts it back at its end, whatever happens meanwhile.
class Kept {
 public:
  explicit Kept(const std::vector<Variable>& variables) : before_(variables) {}
  ~Kept() { before_.put_back(); }
  Kept(const Kept&) = delete;

 private:
  const Snapshot before_;
};

// The mean of numbers that are weighted by their example counts.
metrics::Metric mean_by_count(const std::string& name) {
  return metrics::Metric(
      name, {{}, {}},
      [](const Tensor& value, const Tensor& count, const Tensor&) {
        return std::vector{value.astype(f64) * count, count.astype(f64)};
      },
      [](const std::vector<Tensor>& sums) { return sums[0] / sums[1]; });
}
// How many examples a batch has, whatever its size will be.
Tensor count_of(const Tensor& batch) {
  return batch.ndim() == 0 ? tensor(1.) : sum(ones(Shape{batch.dim(0)}, {.dtype = f64}));
}
}  // namespace

Core::Core(LoopOptions options, std::function<void(ModelVisitor&)> name_model, bool own_step, const Where& where)
    : options_(std::move(options)),
      name_model_(std::move(name_model)),
      own_step_(own_step),
      where_(where),
      mean_loss_(mean_by_count("loss")) {
  if (!own_step && !options_.loss)
    fail("Loop", "there is no loss. give {.loss = sparse_softmax_cross_entropy}, say, or a step of your own", where);
  if (!own_step && !options_.optimizer.get())
    fail("Loop", "there is no optimizer. give {.optimizer = nn::Adam({.learning_rate = 1e-3})}, say", where);
  if (own_step && options_.loss)
    fail("Loop", "the step is your own, and .loss would not be asked. compute it in the step, or leave the step out",
         where);
  if (own_step && options_.clip_norm > 0)
    fail("Loop", "the step is your own, and .clip_norm would do nothing. give it to the step's optimizer", where);
  if (options_.compute)
    require_option(is_differentiable(*options_.compute), "Loop", "compute", name(*options_.compute),
                   "floating, as gradients are: f16, bf16, f32 or f64", where);
  require_option(options_.clip_norm >= 0, "Loop", "clip_norm", options_.clip_norm, "0 or more", where);
  if (const Ranks& ranks = options_.distribute; ranks && ranks->rank(ranks.everybody(), where) < 0)
    fail("Loop",
         fmt::format("rank {} is none of those that train. make the loop on these alone: if (group.rank() >= 0) ...",
                     ranks->rank({}, where)),
         where);
  for (const metrics::Metric& m : options_.metrics)
    if (m.name() == "loss" || m.name() == "seconds" || m.name().starts_with("val_"))
      fail("Loop",
           fmt::format("a metric is called '{}', as a number of the history's own is. name it: .named(\"...\")",
                       m.name()),
           where);
  for (size_t i = 0; i < options_.metrics.size(); ++i)
    for (size_t k = 0; k < i; ++k)
      if (options_.metrics[i].name() == options_.metrics[k].name())
        fail("Loop", fmt::format("two metrics are called '{}'. name one: .named(\"...\")", options_.metrics[i].name()),
             where);
}
Core::~Core() = default;

NamedVariables Core::variables() const {
  VariablePaths paths;
  name_model_(paths);
  return paths.finish();
}

namespace {
class Fingerprint final : public ModelVisitor {
 public:
  void enter(std::string_view name, const ModelPart& part) override { text += fmt::format("{}:{}(", name, part.type); }
  void leave() override { text += ")"; }
  void variable(std::string_view name, Variable& v) override { text += fmt::format("{}={} ", name, v.state().id); }
  void listed(const std::vector<Variable>& variables, const ModelPart&) override {
    for (const Variable& v : variables) text += fmt::format("{} ", v.state().id);
  }
  std::string text;
};
}  // namespace

std::string Core::fingerprint() const {
  Fingerprint f;
  name_model_(f);
  for (const Variable& v : variables().values()) f.text += fmt::format("{} ", v.state().id);
  return f.text;
}

namespace {
// A column [n,1] and a vector [n] broadcast to [n,n], where each was to be compared with its own.
void check_pairs(const Tensor& each, const Tensor& prediction, const Tensor& target, const Where& where) {
  const bool wider = prediction.ndim() > target.ndim();
  const Tensor &column = wider ? prediction : target, &flat = wider ? target : prediction;
  if (column.ndim() != flat.ndim() + 1 || each.ndim() != column.ndim() || flat.ndim() == 0) return;
  const Dim last = column.dim(-1), result = each.dim(-1);
  if (last.is_open() || last != 1 || (!result.is_open() && result == 1)) return;
  fail("Loop",
       fmt::format("the loss compares each with all: it gives {} of the prediction {} and the target {}. bring both to "
                   "one shape, say by expand_dims(y, -1)",
                   to_string(each.spec()), to_string(prediction.spec()), to_string(target.spec())),
       where);
}
}  // namespace

Tensor Core::loss_of(const Tensor& prediction, const Tensor& target, const Tensor& weights) const {
  const Tensor each = options_.loss(prediction, target);
  if (!each.defined()) fail("Loop", "the loss gives an undefined tensor", where_);
  if (!is_floating(each.dtype()))
    fail("Loop", fmt::format("the loss is {}, of which there is no gradient", to_string(each.spec())), where_);
  check_pairs(each, prediction, target, where_);
  if (!weights.defined()) return each.ndim() == 0 ? each : mean(each);
  if (each.ndim() == 0)
    fail("Loop",
         "examples have weights, and the loss gives one number for all of them. take one that gives a number for each "
         "example",
         where_);
  Tensor w = metrics::with_rows(weights.astype(each.dtype()), each.shape()[0]);
  while (w.ndim() < each.ndim()) w = expand_dims(w, -1);
  if (w.ndim() == each.ndim() + 1 && !w.dim(-1).is_open() && w.dim(-1) == 1) w = squeeze(w, -1);  // a column of a table
  Shape both = each.shape();
  if (!broadcast_into(both, w.shape()) || both != each.shape())
    fail("Loop",
         fmt::format(
             "the loss gives {}, and the weights are {}: a weight for each example, or for each number of the loss",
             to_string(each.spec()), to_string(weights.spec())),
         where_);
  return mean(each * w);
}

void Core::descend(const Tensor& loss, GradientTape& tape) {
  const std::vector<Variable> parameters = nn::trainable(variables().values());
  if (parameters.empty()) fail("Loop", "the model has no trainable parameters", where_);
  std::optional<GradientHook> averages;
  const Ranks& ranks = options_.distribute;
  if (ranks) averages.emplace(tape, ranks->averaging(ranks.sharers()));
  nn::Optimizer& optimizer = *options_.optimizer.get();
  std::vector<Gradient> all = optimizer.gradients(loss, tape, parameters, {.unconnected = Unconnected::none});
  std::vector<Gradient> gradients;
  std::vector<Variable> reached;
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i].defined()) gradients.push_back(all[i]), reached.push_back(parameters[i]);
  if (gradients.empty()) fail("Loop", "the loss depends on none of the model's parameters", where_);
  if (shown_gradients_) show(optimizer.unscaled(gradients), reached);
  optimizer.apply_gradients(gradients, reached, {.clip_norm = options_.clip_norm});
}

void Core::show(const std::vector<Tensor>& gradients, const std::vector<Variable>& of) const {
  for (const auto& [path, v] : variables())
    for (size_t i = 0; i < of.size(); ++i)
      if (&v.state() == &of[i].state()) shown_gradients_->insert_or_assign(path, gradients[i]);
}

// Ranks whose parts of a batch differ in length are weighted by their rows.
Tensor Core::weighted_loss(const Tensor& loss, const Tensor& prediction) const {
  const Ranks& ranks = options_.distribute;
  if (!ranks) return loss;
  const Tensor rows = count_of(prediction);
  return loss * astype(rows / ranks->mean(rows, ranks.sharers()), loss.dtype());
}
Tensor Core::joined_loss(const Tensor& share) const {
  const Ranks& ranks = options_.distribute;
  return ranks ? ranks->mean(share, ranks.sharers()) : share;
}

void Core::count(const Tensor& loss, const Tensor& prediction, const Tensor& target, const Tensor& weights) {
  const PauseTapes pause;
  mean_loss_.update(stop_gradient(loss), count_of(prediction));
  for (const metrics::Metric& m : options_.metrics) m.update(prediction, target, weights);
}

void Core::count_own(const std::map<std::string, Tensor>& numbers) {
  const PauseTapes pause;
  for (const auto& [name, value] : numbers) {
    if (name == "seconds")
      fail("Loop", "a number of the step is called 'seconds', as one of the history's own is. name it otherwise");
    if (!value.defined()) fail("Loop", fmt::format("the step gives an undefined tensor as '{}'", name));
    own_mean(name).update(mean(stop_gradient(value)), tensor(1.));
  }
}
metrics::Metric& Core::own_mean(const std::string& name) {
  auto at = own_means_.find(name);
  if (at == own_means_.end()) {
    const EagerScope eager;
    at = own_means_.emplace(name, mean_by_count(name)).first;
  }
  return at->second;
}

// --- Weights of classes ----------------------------------------------------------------------------------------------

Tensor Core::example_weights(const std::map<int64_t, double>& class_weights, const Tensor& labels,
                             const Tensor& prediction) {
  if (!is_integer(labels.dtype()))
    fail("Loop.fit", fmt::format("class weights are for labels that are class numbers, and these are {}",
                                 to_string(labels.spec())));
  const bool knows_classes = prediction.ndim() == 2 && labels.ndim() == 1 && !prediction.dim(-1).is_open();
  const int64_t classes = knows_classes ? int64_t(prediction.dim(-1)) : 1;
  for (const auto& [label, weight] : class_weights)
    if (classes > 1 && (label < 0 || label >= classes))
      fail("Loop.fit", fmt::format("class_weights has a weight of class {}, and the model gives {} classes, 0 to {}",
                                   label, classes, classes - 1));
  Tensor weights = ones(labels.shape(), {.dtype = f32});
  for (const auto& [label, weight] : class_weights) weights = rill::where(labels == label, weight, weights);
  const PauseTapes pause;
  std::vector<int64_t> all;
  for (const auto& [label, weight] : class_weights) all.push_back(label);
  const Tensor is_of_class = expand_dims(reshape(labels, {-1}).astype(i64), -1) == tensor(all);
  labels_seen_.at(all.size()).assign_add(sum(is_of_class.astype(i64), 0));
  return weights;
}

Tensor Core::rows_like(const Tensor& weights, const Tensor& batch) {
  return batch.ndim() == 0 ? weights : metrics::with_rows(weights, batch.shape()[0]);
}

void Core::begin_class_weights(const std::map<int64_t, double>& class_weights) {
  weighted_classes_.clear();
  for (const auto& [label, weight] : class_weights) weighted_classes_.push_back(label);
  if (weighted_classes_.empty()) return;
  const Tensor none = zeros({int64_t(weighted_classes_.size())}, {.dtype = i64});
  const VariableOptions options{.name = "labels_seen", .trainable = false};
  labels_seen_.try_emplace(weighted_classes_.size(), none, options).first->second.assign(none);
}

void Core::tell_unseen_classes() {
  if (weighted_classes_.empty()) return;
  const Ranks& ranks = options_.distribute;
  Tensor seen = labels_seen_.at(weighted_classes_.size()).value();
  if (ranks) seen = ranks->all_reduce(seen, distribute::Reduce::sum, ranks.sharers());
  std::string unseen;
  for (size_t i = 0; i < weighted_classes_.size(); ++i)
    if (seen.item<int64_t>(int64_t(i)) == 0)
      unseen += fmt::format("{}{}", unseen.empty() ? "" : ", ", weighted_classes_[i]);
  weighted_classes_.clear();
  if (!unseen.empty() && (!ranks || ranks->rank(ranks.everybody(), where_) == 0))
    std::fprintf(stderr, "rill: class_weights has a weight of class %s, which no label of the first epoch was\n",
                 unseen.c_str());
}

// --- Metrics over a pass ---------------------------------------------------------------------------------------------

std::vector<metrics::Metric> Core::all_metrics() const {
  std::vector<metrics::Metric> all;
  if (!own_step_) all.push_back(mean_loss_);
  all.insert(all.end(), options_.metrics.begin(), options_.metrics.end());
  for (const auto& [name, m] : own_means_) all.push_back(m);
  return all;
}

std::vector<Variable> Core::sums() const {
  std::vector<Variable> all;
  for (const metrics::Metric& m : all_metrics())
    for (const Variable& v : m.variables()) all.push_back(v);
  return all;
}

void Core::reset_metrics() {
  for (const metrics::Metric& m : all_metrics()) m.reset();
}

Logs Core::read_metrics(bool of_all_ranks) const {
  Logs logs;
  const auto read = [&](const metrics::Metric& m) {
    const Ranks& ranks = options_.distribute;
    const Tensor value = of_all_ranks && ranks ? ranks->result(m, ranks.sharers()) : m.result();
    if (value.size() != 1)
      fail("Loop",
           fmt::format("the metric '{}' gives {}, and a history has numbers. update() it yourself, over predict()",
                       m.name(), to_string(value.spec())),
           where_);
    logs[m.name()] = value.item<double>();
  };
  if (!own_step_) read(mean_loss_);
  for (const metrics::Metric& m : options_.metrics) read(m);
  for (const auto& [name, m] : own_means_) read(m);
  return logs;
}

void Core::tell_if_untrained(const char* op) {
  const std::vector<Variable> parameters = nn::trainable(variables().values());
  const auto is_built = [](const Variable& v) { return v.is_built(); };
  if (parameters.empty() || std::ranges::any_of(parameters, is_built)) return;
  std::fprintf(stderr,
               "rill: %s makes the model's parameters, which nobody has trained: fit() first, or build the model and "
               "restore a checkpoint\n",
               op);
}

Logs Core::evaluate(const Source& data, std::optional<int64_t> steps, const Where& where, bool (*until)()) {
  const CallerScope caller(where, "Loop.evaluate");
  if (data.size == data::endless && !steps)
    fail("Loop.evaluate", "the dataset has no end. say how many batches: evaluate(dataset, 100)", where);
  tell_if_untrained("Loop.evaluate");
  const Kept kept(sums());  // in the midst of an epoch of fit(), from a callback, they are as before
  reset_metrics();
  const std::unique_ptr<Pass> pass = data.pass(0);
  int64_t n = 0;
  for (; (!steps || n < *steps) && pass->next(); ++n) {
    pass->evaluate();
    if (until && until()) return {};
  }
  if (n == 0) fail("Loop.evaluate", fmt::format("{} has no elements", data.name), where);
  return read_metrics(true);
}

Tensor Core::predict(const Source& data, const Where& where) {
  const CallerScope caller(where, "Loop.predict");
  if (data.size == data::endless) fail("Loop.predict", "the dataset has no end. take(100) is one that has", where);
  tell_if_untrained("Loop.predict");
  const std::unique_ptr<Pass> pass = data.pass(0);
  std::vector<Tensor> parts;
  while (pass->next()) parts.push_back(pass->predict());
  if (parts.empty()) fail("Loop.predict", "the dataset has no elements", where);
  return parts.size() == 1 ? parts[0] : concat(parts, 0);
}

RateTest Core::find_rate(const Source& data, const FindRateOptions& o, const Where& where) {
  require_option(o.low > 0 && o.low < o.high, "find_rate", "low", o.low, "above 0 and below high", where);
  require_option(o.steps >= 2, "find_rate", "steps", o.steps, "2 or more", where);
  require_fraction("find_rate", "smoothing", o.smoothing, where);
  nn::Optimizer* optimizer = options_.optimizer.get();
  if (own_step_ || !optimizer) fail("find_rate", "the step is your own, and its optimizer is not known", where);
  std::unique_ptr<Pass> pass = data.pass(0);
  if (!pass->next()) fail("find_rate", "the dataset has no elements", where);
  pass->predict();  // makes the parameters
  optimizer->build(nn::trainable(variables().values()));
  VariablePaths paths;
  name_model_(paths);
  optimizer->name_variables(paths);
  std::vector<Variable> changed = paths.finish().values();
  changed.push_back(random::generator());
  const Kept kept(changed);
  RateTest test;
  double mean = 0, least = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < o.steps; ++i) {
    const double rate = o.low * std::pow(o.high / o.low, double(i) / double(o.steps - 1));
    optimizer->learning_rate.assign(rate, where);
    const double loss = pass->train().astype(f64).item<double>();
    mean = i == 0 ? loss : o.smoothing * mean + (1 - o.smoothing) * loss;
    if (!std::isfinite(mean) || mean > 4 * least) break;
    least = std::min(least, mean);
    test.rates.push_back(rate);
    test.losses.push_back(mean);
    if (!pass->next()) {
      pass = data.pass(uint64_t(i));
      pass->next();
    }
  }
  reset_metrics();
  if (test.rates.empty())
    fail("find_rate",
         fmt::format("the loss is {} already at the rate {}. train::stop_on_nan() says where that comes from", mean,
                     o.low),
         where);
  double steepest = 0;
  for (size_t i = 1; i < test.losses.size(); ++i)
    if (const double slope = test.losses[i] - test.losses[i - 1]; slope < steepest)
      steepest = slope, test.suggested = test.rates[i];
  return test;
}

void check_fit(const FitData& data, const FitOptions& options, const Where& where) {
  require_option(options.epochs >= 0, "Loop.fit", "epochs", options.epochs, "0 or more", where);
  require_option(options.validation_every >= 1, "Loop.fit", "validation_every", options.validation_every, "1 or more",
                 where);
  if (options.steps_per_epoch)
    require_option(*options.steps_per_epoch >= 1, "Loop.fit", "steps_per_epoch", *options.steps_per_epoch, "1 or more",
                   where);
  if (options.validation_steps)
    require_option(*options.validation_steps >= 1, "Loop.fit", "validation_steps", *options.validation_steps,
                   "1 or more", where);
  require_option(options.save_every_steps >= 0, "Loop.fit", "save_every_steps", options.save_every_steps, "0 or more",
                 where);
  require_option(options.keep >= 1, "Loop.fit", "keep", options.keep, "1 or more", where);
  for (const auto& [label, weight] : options.class_weights)
    require_option(std::isfinite(weight), "Loop.fit", fmt::format("class_weights[{}]", label), weight, "finite", where);
  if (options.save_every_steps > 0 && options.resume.empty())
    fail("Loop.fit", "there is no folder to save into every so many steps. give {.resume = \"runs/a\"}", where);
  if (data.train.size == data::endless && !options.steps_per_epoch && options.callbacks.empty())  // who could end it
    fail("Loop.fit", "the dataset has no end. say how many steps are an epoch: {.steps_per_epoch = 100}", where);
  if (data.validation.size == data::endless && !options.validation_steps)
    fail("Loop.fit", "the validation has no end. say how many of its batches count: {.validation_steps = 100}", where);
}

void Core::check_own_step(const FitData& data, const FitOptions& options, const Where& where) const {
  if (!own_step_) return;
  if (data.validation.pass)
    fail("Loop.fit", "the step is your own, and the loop does not know how to evaluate. do that in an each_epoch(f)",
         where);
  if (!options.class_weights.empty())
    fail("Loop.fit", "the step is your own, and class weights are a matter of the loss in it", where);
}

Core::AtWork::AtWork(Core& core, const Where& where) : core_(core) {
  if (core_.at_work_.exchange(true))
    fail("Loop.fit", "this loop is at work, in a callback's run or in another thread. make another loop of the model",
         where);
}
Core::AtWork::~AtWork() { core_.at_work_ = false; }

}  // namespace impl
}  // namespace rill::train
