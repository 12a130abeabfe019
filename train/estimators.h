// Estimators: ready-made models of tables of raw columns, for users of TensorFlow's. A thin layer over Loop.
//
//   train::DnnClassifier estimator({.columns = {numeric("age"), indicator(vocabulary("job", {"cook", "nurse"}))},
//                                   .hidden = {64, 32}, .classes = 2, .folder = "runs/people"});
//   auto input = [&] { return data::from_table(people, {.label = "bought"}).shuffle(1000).repeat().batch(32); };
//   train::Logs result = train::train_and_evaluate(estimator, {.input = input, .max_steps = 2000}, {.input = input, .steps = 20});
//   estimator.export_saved_model("served/people");   // takes the raw columns
//
// There are no boosted trees.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rill/data/dataset.h"
#include "rill/data/features.h"
#include "rill/nn/layers/dense.h"
#include "rill/nn/layers/dropout.h"
#include "rill/train/loop.h"

#pragma GCC visibility push(default)

namespace rill::train {

// The data: a callable that makes a dataset of batches {table of raw columns, labels}.
using TableBatches = data::Dataset<std::pair<Table, Tensor>>;
class InputFunction {
 public:
  InputFunction() = default;
  template <class F>
    requires std::is_invocable_r_v<TableBatches, const F&>
  InputFunction(F f) : f_(std::move(f)) {}
  template <class D>
    requires requires { typename D::Element; }
  InputFunction(const D&) {
    static_assert(!sizeof(D),
                  "an input is a function that makes the dataset, for each pass anew: [&] { return dataset; }");
  }
  TableBatches operator()(Where where = Where::current()) const {
    if (!f_) rill::fail("estimator", "there is no input. give {.input = [&] { return a dataset of batches; }}", where);
    return f_();
  }

 private:
  std::function<TableBatches()> f_;
};

struct EstimatorOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::vector<data::features::Column> columns = {};  // the input of the (deep) model
  std::vector<data::features::Column> wide = {};     // for wide and deep models: the input of the linear part
  std::vector<int64_t> hidden = {};                  // widths of the hidden layers of deep models
  nn::Activation activation = relu;
  double dropout = 0;                    // after each hidden layer
  int64_t classes = 2;                   // of classifiers
  std::vector<std::string> labels = {};  // what labels that are texts may be, in the order of the classes
  int64_t outputs = 1;                   // of regressors: numbers an example
  AnyOptimizer optimizer = {};           // none: Adam; of linear models a larger rate
  std::string folder = "";               // of checkpoints, from which a run continues. Empty: none
  int64_t save_every_steps = 500;        // into the folder; and so often train_and_evaluate() evaluates
  int keep = 5;                          // checkpoints
  int64_t summary_every_steps = 100;     // the loss into the folder, for TensorBoard; 0: never
  std::optional<uint64_t> seed = {};     // of the first weights
  bool progress = false;                 // see FitOptions
  Ranks distribute = {};                 // see LoopOptions
};

// For an estimator of a model of yours.
struct ModelEstimatorOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // The raw columns that the model reads, as features: for a model of tables those that it uses, numeric("age"); for
  // one of a tensor, the columns that form it, in this order.
  std::vector<data::features::Column> columns = {};
  Loss loss = {};  // of the model's result and the labels
  AnyOptimizer optimizer = {};
  std::vector<metrics::Metric> metrics = {};
  // The results of predict() and exports by name, from the model's result; none: "predictions", unchanged.
  std::function<std::map<std::string, Tensor>(const Tensor&)> results = {};
  std::string folder = "";  // these as in EstimatorOptions
  int64_t save_every_steps = 500;
  int keep = 5;
  int64_t summary_every_steps = 100;
  std::optional<uint64_t> seed = {};
  bool progress = false;
  Ranks distribute = {};
};

namespace impl {
// A model of any type that an estimator trains.
class TableBody {
 public:
  virtual ~TableBody() = default;
  // `columns` makes the tensor of a model that takes one.
  virtual Tensor call(const Table& table, const data::features::Columns& columns, const nn::Call& call) const = 0;
  virtual void visit(ModelVisitor& visitor) = 0;
  virtual bool takes_columns() const = 0;  // whether it takes that tensor
};
template <class Model>
class TableBodyOf final : public TableBody {
 public:
  explicit TableBodyOf(Model model) : model_(std::move(model)) {}
  Tensor call(const Table& table, const data::features::Columns& columns, const nn::Call& call) const override {
    const rill::detail::UserScopeOf<Model> scope;
    if constexpr (std::is_invocable_r_v<Tensor, const Model&, const Table&, const nn::Call&>)
      return model_(table, call);
    else if constexpr (std::is_invocable_r_v<Tensor, const Model&, const Table&>) return model_(table);
    else if constexpr (std::is_invocable_r_v<Tensor, const Model&, const Tensor&, const nn::Call&>)
      return model_(columns(table), call);
    else {
      static_assert(
          !sizeof(Model),
          "an estimator's model is called as model(table, call) with a const Table&, or as model(x, call) with "
          "the tensor that .columns make, and gives a Tensor");
      return {};
    }
  }
  void visit(ModelVisitor& visitor) override { rill::detail::visit_inside(model_, visitor); }
  bool takes_columns() const override {
    return !std::is_invocable_r_v<Tensor, const Model&, const Table&, const nn::Call&> &&
           !std::is_invocable_r_v<Tensor, const Model&, const Table&>;
  }

 private:
  Model model_;
};
}  // namespace impl

// The model: hidden layers over the columns, a linear part, or both, whose results are added.
class TableModel {
 public:
  TableModel(const EstimatorOptions& options, int64_t outputs, bool deep, const Where& where);
  TableModel(std::unique_ptr<impl::TableBody> body, const std::vector<data::features::Column>& columns,
             const Where& where);
  // [rows, outputs].
  Tensor operator()(const Table& table, const nn::Call& call = {}) const;
  // A model of the user's has its own paths, as a Loop of it; and the columns theirs, where they learn something.
  void visit_parts(ModelVisitor& visitor);
  std::vector<Variable> variables() const { return rill::variables(*this).values(); }
  // The line that errors name, and the op: the current call of the estimator.
  void call_from(const Where& where, std::string op) { where_ = where, op_ = std::move(op); }
  // All raw columns, each once.
  const data::features::Columns& inputs() const { return all_; }

 private:
  std::optional<data::features::Columns> columns_;
  std::vector<nn::Dense> hidden_;
  std::optional<nn::Dense> head_;
  std::optional<data::features::Linear> linear_;
  std::unique_ptr<impl::TableBody> body_;
  data::features::Columns all_;
  double dropout_ = 0;
  Where where_;
  std::string op_ = "estimator";
};

struct StepOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<int64_t> steps = {};      // so many more
  std::optional<int64_t> max_steps = {};  // up to so many, including those of earlier runs
  std::vector<Callback> callbacks = {};
};

class Estimator {
 public:
  // For a model of yours, a struct of layers that is called as model(table, call), the counterpart of TensorFlow's
  // model function; or as model(x, call) with the tensor of the columns: model_to_estimator()'s counterpart. A copy of
  // the model is kept, which shares its Variables. Throws if there are no columns, no loss or no optimizer.
  template <class Model>
    requires(!std::is_convertible_v<Model, std::unique_ptr<impl::TableBody>>)
  Estimator(Model model, ModelEstimatorOptions options, Where where = Where::current())
      : Estimator(std::unique_ptr<impl::TableBody>(std::make_unique<impl::TableBodyOf<Model>>(std::move(model))),
                  std::move(options), where) {}
  Estimator(const Estimator&) = delete;  // its loop refers to it: keep it by std::make_unique where it has to move

  // Trains for so many steps; without a number, to the end of the input. It continues from the folder: a run that has
  // reached max_steps is not trained, and the history is empty.
  History train(const InputFunction& input, const StepOptions& options = {}, Where where = Where::current());
  // The loss and the metrics over the input, or its first `steps` batches, and "global_step". This, predict() and the
  // exports use the weights in the folder, if nothing was trained here yet; without any, predict() and the exports
  // throw, and this warns.
  Logs evaluate(const InputFunction& input, std::optional<int64_t> steps = {}, Where where = Where::current());
  // For classifiers "logits", "probabilities" and "classes", for regressors "predictions".
  std::map<std::string, Tensor> predict(const Table& table, Where where = Where::current());
  // How many steps were made, over all runs.
  int64_t step(Where where = Where::current());
  // Writes FOLDER/1, or the next number, as a SavedModel whose signature has the raw columns. Returns its path.
  std::string export_saved_model(const std::string& folder, Where where = Where::current());
  // Writes the same as any model file: "model.onnx".
  void export_model(const std::string& path, Where where = Where::current());
  TableModel& model() { return *model_; }
  // Restores the weights whose paths and shapes agree from a checkpoint of another run.
  RestoreReport warm_start(const std::string& folder, Where where = Where::current());

 protected:
  enum class Task { classify, regress, own };
  Estimator(std::string name, EstimatorOptions options, Task task, bool deep, const Where& where);

 private:
  friend Logs train_and_evaluate(Estimator&, const struct TrainSpec&, const struct EvalSpec&, Where);
  Estimator(std::unique_ptr<impl::TableBody> body, ModelEstimatorOptions options, const Where& where);
  void make_loop(const Where& where);
  // train(), which calls `after` after every so many steps in all, except at its end.
  History train_and(const InputFunction& input, const StepOptions& options, int64_t every,
                    const std::function<void()>& after, const Where& where);
  // The beginning of each call: it continues from the folder, if nothing was trained here.
  void begin(std::string_view call, const Where& where);
  // begin(), and throws where there is nothing that was trained.
  void begin_trained(std::string_view call, const Where& where);
  // Of a call that has begun.
  void write_model(const std::string& path, const Where& where);
  // Creates the parameters, so that other shapes in a file are detected. Returns the model's result for a row.
  Tensor build();
  // A line for TensorBoard in the folder, where there is one.
  void write_evaluation(const Logs& logs) const;
  Tensor loss(const Tensor& prediction, const Tensor& labels) const;
  Tensor class_numbers(const Tensor& labels) const;
  std::map<std::string, Tensor> results(const Tensor& logits) const;
  std::vector<metrics::Metric> metrics_of_task() const;

  std::string name_, op_;  // of the class, and of the call that is under way: "DnnClassifier.train"
  EstimatorOptions options_;
  ModelEstimatorOptions own_;  // of a model of the user's
  Task task_;
  std::unique_ptr<TableModel> model_;
  std::unique_ptr<Loop<TableModel>> loop_;
  int64_t step_ = 0;
  bool taken_up_ = false, trained_ = false;
  Where where_;  // of the call that is under way
};

#define RILL_ESTIMATOR(Name, task, deep)                                    \
  class Name : public Estimator {                                           \
   public:                                                                  \
    explicit Name(EstimatorOptions options, Where where = Where::current()) \
        : Estimator(#Name, std::move(options), Task::task, deep, where) {}  \
  };
// A linear model of the columns, or hidden layers over them; with {.wide = ...} both: wide and deep.
RILL_ESTIMATOR(LinearClassifier, classify, false)
RILL_ESTIMATOR(LinearRegressor, regress, false)
RILL_ESTIMATOR(DnnClassifier, classify, true)
RILL_ESTIMATOR(DnnRegressor, regress, true)
using DnnLinearCombinedClassifier = DnnClassifier;
using DnnLinearCombinedRegressor = DnnRegressor;
#undef RILL_ESTIMATOR

struct TrainSpec {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  InputFunction input = {};
  std::optional<int64_t> max_steps = {};
  std::vector<Callback> callbacks = {};
};
struct EvalSpec {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  InputFunction input = {};
  std::optional<int64_t> steps = 100;
};
// Trains up to max_steps, without them to the end of the input, and evaluates after every `save_every_steps` of the
// estimator and at the end. The input continues after an evaluation. Returns the last one, also if no steps were left.
Logs train_and_evaluate(Estimator& estimator, const TrainSpec& train, const EvalSpec& eval,
                        Where where = Where::current());

}  // namespace rill::train

#pragma GCC visibility pop
