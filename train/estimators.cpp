// Estimators over Loop. Start at Estimator::train().
#include "rill/train/estimators.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "rill/nn/optimizers.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/strings.h"
#include "rill/serialize/checkpoint_manager.h"
#include "rill/serialize/export_model.h"
#include "rill/serialize/summary.h"

namespace rill::train {

using data::features::Column;
using data::features::Columns;
using data::features::Linear;

namespace {
std::vector<Column> both(std::vector<Column> a, const std::vector<Column>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
// For predictions [rows, outputs] and labels of that shape, or [rows] with one output.
Tensor error_of(const Tensor& prediction, const Tensor& labels) {
  const Tensor y = labels.astype(prediction.dtype());
  return prediction - (y.ndim() < prediction.ndim() ? expand_dims(y, -1) : y);
}
}  // namespace

// --- The model -------------------------------------------------------------------------------------------------------

TableModel::TableModel(const EstimatorOptions& o, int64_t outputs, bool deep, const Where& where)
    : all_(both(o.columns, o.wide), where), dropout_(o.dropout), where_(where) {
  if (deep) {
    columns_.emplace(o.columns, where);
    for (int64_t width : o.hidden) hidden_.emplace_back(width, nn::DenseOptions{.activation = o.activation}, where);
    head_.emplace(outputs, nn::DenseOptions{.name = "head"}, where);
  }
  const std::vector<Column>& linear = deep ? o.wide : o.columns;
  if (!linear.empty()) linear_.emplace(linear, data::features::LinearOptions{.units = outputs}, where);
}

TableModel::TableModel(std::unique_ptr<impl::TableBody> body, const std::vector<Column>& columns, const Where& where)
    : body_(std::move(body)), all_(columns, where), where_(where) {}

void TableModel::visit_parts(ModelVisitor& visitor) {
  if (body_) {
    body_->visit(visitor);
    if (body_->takes_columns()) rill::detail::visit_fields({"columns"}, visitor, all_);
  } else {
    rill::detail::visit_fields({"columns_", "hidden_", "head_", "linear_"}, visitor, columns_, hidden_, head_, linear_);
  }
}

Tensor TableModel::operator()(const Table& table, const nn::Call& call) const {
  const CallerScope caller(where_, op_.c_str());
  if (body_) return body_->call(table, all_, call);
  Tensor y;
  if (head_) {
    Tensor h = (*columns_)(table);
    for (const nn::Dense& layer : hidden_) {
      h = layer(h, call);
      if (dropout_ > 0) h = nn::Dropout(dropout_)(h, call);
    }
    y = (*head_)(h, call);
  }
  if (!linear_) return y;
  const Tensor wide = (*linear_)(table);
  return y.defined() ? y + wide : wide;
}

// --- Training and evaluation -----------------------------------------------------------------------------------------

namespace {
void check_run(std::string_view name, const EstimatorOptions& o, const Where& where) {
  require_option(o.save_every_steps >= 1, name, "save_every_steps", o.save_every_steps, "1 or more", where);
  require_option(o.keep >= 1, name, "keep", o.keep, "1 or more", where);
  require_option(o.summary_every_steps >= 0, name, "summary_every_steps", o.summary_every_steps, "0 or more", where);
}
}  // namespace

Estimator::Estimator(std::string name, EstimatorOptions options, Task task, bool deep, const Where& where)
    : name_(std::move(name)), op_(name_), options_(std::move(options)), task_(task) {
  if (options_.columns.empty()) fail(name_, "there are no columns. give {.columns = {numeric(\"age\"), ...}}", where);
  for (size_t i = 0; i < options_.hidden.size(); ++i)
    require_option(options_.hidden[i] >= 1, name_, fmt::format("hidden[{}]", i), options_.hidden[i], "1 or more",
                   where);
  require_option(options_.classes >= 2, name_, "classes", options_.classes, "2 or more", where);
  check_run(name_, options_, where);
  if (!options_.labels.empty() && int64_t(options_.labels.size()) != options_.classes)
    fail(op_, fmt::format("{} labels for {} classes", options_.labels.size(), options_.classes), where);
  for (size_t i = 0; i < options_.labels.size(); ++i)
    if (std::find(options_.labels.begin(), options_.labels.begin() + int64_t(i), options_.labels[i]) !=
        options_.labels.begin() + int64_t(i))
      fail(op_, fmt::format("two classes have the label '{}'", options_.labels[i]), where);
  for (const Column& c : options_.columns)
    if (deep && !c.is_dense())
      fail(op_,
           fmt::format(
               "hidden layers take numbers, and the column '{}' gives ids, {} of them. give indicator(...) of it, "
               "with a number for each id, or embedding(..., 8); ids as they are belong into .wide",
               c.name(), c.buckets()),
           where);
  if (task == Task::regress && !options_.labels.empty())
    fail(op_, "labels are of classifiers, and a regressor takes numbers. leave .labels out", where);
  if (options_.seed) random::seed(*options_.seed);
  model_ =
      std::make_unique<TableModel>(options_, task == Task::classify ? options_.classes : options_.outputs, deep, where);
  if (!options_.optimizer.get())
    options_.optimizer =
        AnyOptimizer(std::make_shared<nn::Adam>(nn::AdamOptions{.learning_rate = deep ? 0.001 : 0.02}));
  make_loop(where);
}

Estimator::Estimator(std::unique_ptr<impl::TableBody> body, ModelEstimatorOptions own, const Where& where)
    : name_("Estimator"), op_(name_), own_(std::move(own)), task_(Task::own) {
  if (own_.columns.empty())
    fail(op_, "there are no columns. give those that the model reads: {.columns = {numeric(\"age\"), ...}}", where);
  options_ = {.optimizer = own_.optimizer,
              .folder = own_.folder,
              .save_every_steps = own_.save_every_steps,
              .keep = own_.keep,
              .summary_every_steps = own_.summary_every_steps,
              .progress = own_.progress,
              .distribute = own_.distribute};
  check_run(name_, options_, where);
  if (own_.seed) random::seed(*own_.seed);
  model_ = std::make_unique<TableModel>(std::move(body), own_.columns, where);
  make_loop(where);
}

void Estimator::make_loop(const Where& where) {
  Loss by_task = own_.loss;
  if (task_ != Task::own) by_task = [this](const Tensor& p, const Tensor& y) { return loss(p, y); };
  loop_ = std::make_unique<Loop<TableModel>>(*model_,
                                             LoopOptions{.loss = by_task,
                                                         .optimizer = options_.optimizer,
                                                         .metrics = metrics_of_task(),
                                                         .distribute = options_.distribute},
                                             where);
}

Tensor Estimator::class_numbers(const Tensor& labels) const {
  if (labels.dtype() != DType::string) return labels;
  if (options_.labels.empty()) fail(op_, "the labels are texts. give {.labels = {...}}, in the order of the classes");
  Tensor number = zeros(labels.shape(), {.dtype = i64}) - 1;
  for (size_t i = 0; i < options_.labels.size(); ++i)
    number = rill::where(strings::equal(labels, tensor(options_.labels[i])), int64_t(i), number);
  assert_that(all(number >= 0), "labels are among the estimator's .labels", labels);
  return number;
}

Tensor Estimator::loss(const Tensor& prediction, const Tensor& labels) const {
  const CallerScope caller(where_, op_.c_str());
  if (task_ == Task::classify) return sparse_softmax_cross_entropy(prediction, class_numbers(labels));
  return square(error_of(prediction, labels));
}

std::vector<metrics::Metric> Estimator::metrics_of_task() const {
  if (task_ == Task::own) return own_.metrics;
  if (task_ == Task::regress)
    return {
        metrics::mean_of("mean_absolute_error", [](const Tensor& p, const Tensor& y) { return abs(error_of(p, y)); })};
  return {metrics::mean_of("accuracy", [this](const Tensor& p, const Tensor& y) {
    // A NaN, which argmax takes for the largest, is no hit.
    return ((argmax(p, -1) == class_numbers(y)) & !any(isnan(p), -1)).astype(f64);
  })};
}

namespace {
// A failing disk is reported, and training continues.
template <class F>
void tell_failure(const F& write) {
  try {
    write();
  } catch (const Error& e) {
    std::fprintf(stderr, "rill: a summary was not written: %s\n", e.what());
  }
}

// Counts an estimator's steps, and ends a run where they are enough.
struct StepCount {
  int64_t* step;
  int64_t before;  // of runs that this one does not know of
  std::optional<int64_t> until;
  int64_t every = 0;  // calls `after` after so many steps
  std::function<void()> after = {};
  std::string folder = "";  // for TensorBoard, the loss
  int64_t summary_every = 0;
  std::unique_ptr<summary::Writer> writer = {};
  void on_begin(Run& run) {
    if (run.resumed) before = 0;
    if (run.rank == 0 && summary_every > 0 && !folder.empty()) writer = std::make_unique<summary::Writer>(folder);
    count(run);
  }
  void on_step(Run& run) {
    count(run);
    if (writer && *step % summary_every == 0) tell_failure([&] { writer->scalar("loss", run.loss(), *step); });
    if (every > 0 && run.why_stopped().empty() && *step % every == 0) after();
  }
  void count(Run& run) const {
    *step = before + run.step;
    if (until && *step >= *until) run.stop(fmt::format("{} steps were made", *step));
  }
  void on_epoch(Run& run) {
    if (!until) run.stop("the input is over");
  }
};
}  // namespace

Tensor Estimator::build() {
  std::vector<Tensor> raw;
  for (const ArgSpec& s : model_->inputs().signature()) {
    Shape shape;
    for (const int64_t d : s.spec.shape) shape.push_back(d < 0 ? 1 : d);  // a row
    raw.push_back(s.spec.dtype == DType::string ? broadcast_to(tensor(std::string()), shape)
                                                : zeros(shape, {.dtype = s.spec.dtype}));
  }
  return (*model_)(model_->inputs().table(raw));
}

void Estimator::begin(std::string_view call, const Where& where) {
  where_ = where, op_ = fmt::format("{}.{}", name_, call);
  model_->call_from(where, op_);
  if (taken_up_ || options_.folder.empty()) return;
  if (const std::string latest = latest_checkpoint(options_.folder, where); !latest.empty()) {
    build();
    Variable position(zeros({4}, {.dtype = i64}), VariableOptions{.name = "position", .trainable = false});
    try {
      Checkpoint{{"model", *model_}, {"run/position", position}}.restore(latest, {.allow_extra = true}, where);
    } catch (const Error& e) {
      fail(op_,
           fmt::format("the run in {} is one of other columns, widths or another model. give those that it was begun "
                       "with, or another folder: {}",
                       options_.folder, e.what()),
           where);
    }
    step_ = position.to_vector<int64_t>()[1];
    trained_ = true;
  }
  taken_up_ = true;  // a folder that does not fit is reported each time
}

void Estimator::begin_trained(std::string_view call, const Where& where) {
  begin(call, where);
  if (!trained_)
    fail(op_,
         options_.folder.empty()
             ? "nothing was trained. train() comes first, or give the .folder of a run that was"
             : fmt::format("nothing was trained: there is no checkpoint in {}. train() comes first", options_.folder),
         where);
}

History Estimator::train(const InputFunction& input, const StepOptions& o, Where where) {
  return train_and(input, o, 0, {}, where);
}

History Estimator::train_and(const InputFunction& input, const StepOptions& o, int64_t every,
                             const std::function<void()>& after, const Where& where) {
  begin("train", where);
  for (const std::optional<int64_t>& n : {o.steps, o.max_steps})
    if (n) require_option(*n >= 0, op_, "steps", *n, "0 or more", where);
  std::optional<int64_t> until = o.max_steps;
  if (o.steps) until = std::min(until.value_or(INT64_MAX), *o.steps < INT64_MAX - step_ ? step_ + *o.steps : INT64_MAX);
  FitOptions fit{
      .progress = options_.progress, .callbacks = o.callbacks, .resume = options_.folder, .keep = options_.keep};
  fit.save_every_steps = options_.folder.empty() ? 0 : options_.save_every_steps;
  if (until && *until <= step_) return {};
  fit.callbacks.push_back(StepCount{&step_, step_, until, every, after, options_.folder, options_.summary_every_steps});
  fit.epochs = INT64_MAX;
  trained_ = true;
  const TableBatches batches = input(where);
  if (!until && batches.size() == data::endless && o.callbacks.empty())
    fail(op_, "the input has no end. give {.steps = 100} or {.max_steps = 1000}", where);
  return loop_->fit(batches, fit, where);
}

Logs Estimator::evaluate(const InputFunction& input, std::optional<int64_t> steps, Where where) {
  begin("evaluate", where);
  if (!trained_) std::fprintf(stderr, "rill: the estimator that is evaluated was not trained\n");
  Logs logs = loop_->evaluate(input(where), steps, where);
  logs["global_step"] = double(step_);
  return logs;
}

int64_t Estimator::step(Where where) {
  begin("step", where);
  return step_;
}

std::map<std::string, Tensor> Estimator::results(const Tensor& logits) const {
  if (task_ == Task::own && own_.results) return own_.results(logits);
  if (task_ != Task::classify) return {{"predictions", logits}};
  return {{"logits", logits}, {"probabilities", softmax(logits, -1)}, {"classes", argmax(logits, -1)}};
}

std::map<std::string, Tensor> Estimator::predict(const Table& table, Where where) {
  const CallerScope caller(where);
  begin_trained("predict", where);
  return results((*model_)(table));
}

void Estimator::export_model(const std::string& path, Where where) {
  begin_trained("export_model", where);
  write_model(path, where);
}

void Estimator::write_model(const std::string& path, const Where& where) {
  const Columns& inputs = model_->inputs();
  std::vector<std::string> names;
  for (const auto& [name, t] : results(build())) names.push_back(name);
  auto f = function("serving_default", [&](const std::vector<Tensor>& raw) {
    std::vector<Tensor> all;
    for (const auto& [name, t] : results((*model_)(inputs.table(raw)))) all.push_back(t);
    return all;
  });
  rill::export_model(f, path,
                     {.signature = inputs.signature(), .outputs = names, .variables = rill::variables(*model_)}, where);
}

std::string Estimator::export_saved_model(const std::string& folder, Where where) {
  begin_trained("export_saved_model", where);
  int64_t version = 1;
  while (std::filesystem::exists(fmt::format("{}/{}", folder, version))) ++version;
  const std::string path = fmt::format("{}/{}", folder, version);
  write_model(path, where);
  return path;
}

RestoreReport Estimator::warm_start(const std::string& folder, Where where) {
  const std::string latest = latest_checkpoint(folder, where);
  if (latest.empty()) fail(name_ + ".warm_start", fmt::format("there is no checkpoint in {}", folder), where);
  where_ = where, op_ = name_ + ".warm_start";
  model_->call_from(where, op_);
  build();
  RestoreReport report = Checkpoint{{"model", *model_}}.restore(
      latest, {.allow_missing = true, .allow_extra = true, .allow_misshapen = true}, where);
  if (report.restored.empty())
    fail(name_ + ".warm_start",
         fmt::format("{} has no weights that agree in path and shape: it is of a model of another kind", latest),
         where);
  taken_up_ = trained_ = true;  // it begins from that run, and not from its own folder
  return report;
}

void Estimator::write_evaluation(const Logs& logs) const {
  if (options_.folder.empty() || options_.summary_every_steps == 0) return;
  if (options_.distribute && options_.distribute.everybody().rank() != 0) return;
  tell_failure([&] {
    summary::Writer writer(options_.folder + "/eval");
    for (const auto& [name, value] : logs)
      if (name != "global_step") writer.scalar(name, tensor(value), step_);
  });
}

Logs train_and_evaluate(Estimator& e, const TrainSpec& train, const EvalSpec& eval, Where where) {
  Logs last;
  int64_t evaluated = -1;
  const auto evaluate = [&] {
    last = e.evaluate(eval.input, eval.steps, where);
    evaluated = e.step_;
    e.write_evaluation(last);
  };
  e.train_and(train.input, {.max_steps = train.max_steps, .callbacks = train.callbacks}, e.options_.save_every_steps,
              evaluate, where);
  if (evaluated != e.step_) evaluate();
  return last;
}

}  // namespace rill::train
