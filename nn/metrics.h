// Metrics: measures of a model over many batches. A metric keeps sums in Variables, so that a traced step adds to them
// without a read, and states of several processes can be joined.
//
//   auto accuracy = metrics::accuracy();
//   for (...) accuracy.update(model(x), y);
//   double a = accuracy.result().item<double>();
//
// Predictions come first, labels second, weights (one for each example, or of the labels' shape) last, as in losses. A
// metric computes in f64 for all dtypes. Copies share the state. Formulas are scikit-learn's if it has the metric.
#pragma once
#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rill/ops/names.h"
#include "rill/ops/ops.h"

#pragma GCC visibility push(default)

namespace rill::metrics {

class Metric {
 public:
  // A metric of your own: `update` returns a batch's contribution to each of the sums, in order; `result` is computed
  // from the sums. Both are written with public functions. `sums` are the shapes of the sums.
  using Update =
      std::function<std::vector<Tensor>(const Tensor& prediction, const Tensor& labels, const Tensor& weights)>;
  using Result = std::function<Tensor(const std::vector<Tensor>& sums)>;
  Metric(std::string name, std::vector<Shape> sums, Update update, Result result, Where where = Where::current());
  // For statistics that cannot be added, such as means and squared distances to them: `join` combines those of two
  // batches. All are zeros before the first batch.
  template <class S>
    requires std::convertible_to<const S&, std::string_view>
  Metric(const S&) {
    static_assert(!sizeof(S), "a metric is an object and not its name: {.metrics = {metrics::accuracy()}}");
  }
  using Join = std::function<std::vector<Tensor>(const std::vector<Tensor>& a, const std::vector<Tensor>& b)>;
  Metric(std::string name, std::vector<Shape> sums, Update update, Result result, Join join,
         Where where = Where::current());
  // Copies count together; a move is a copy, so that what was moved from is whole.
  Metric(const Metric&) = default;
  Metric& operator=(const Metric&) = default;

  // Adds a batch. Throws where shapes do not go together, and names the metric.
  void update(const Tensor& prediction, const Tensor& labels, Where where = Where::current()) const;
  void update(const Tensor& prediction, const Tensor& labels, const Tensor& weights,
              Where where = Where::current()) const;
  // Over all batches since the last reset(): f64. Of no examples means, r2() and explained_variance() are NaN, and counts
  // and what is made of them are 0.
  Tensor result(Where where = Where::current()) const;
  // For one batch, without the state: result() as it would be after it.
  Tensor operator()(const Tensor& prediction, const Tensor& labels, Where where = Where::current()) const;
  // Adds what another metric like this one has counted, the values of its variables(): as of another process.
  void join(const std::vector<Tensor>& sums, Where where = Where::current()) const;
  // Forgets all batches.
  void reset(Where where = Where::current()) const;
  // "accuracy": its key in a training history.
  const std::string& name() const& { return name_; }
  std::string name() const&& { return name_; }
  Metric& named(std::string name) & {
    name_ = std::move(name);
    return *this;
  }
  Metric named(std::string name) && { return this->named(std::move(name)); }
  const std::string& name_of_scope() const& { return name_; }
  std::string name_of_scope() const&& { return name_; }
  std::vector<Variable> variables() const { return sums_; }
  void visit_parts(ModelVisitor& visitor);

 private:
  std::vector<Tensor> added(const Tensor& prediction, const Tensor& labels, const Tensor& weights,
                            const Where& where) const;
  std::string name_;
  std::vector<Variable> sums_;
  Update update_;
  Result result_;
  Join join_;  // empty: by adding
};

// --- Classes ---------------------------------------------------------------------------------------------------------

// How often the most likely class is the label. Predictions [..., classes] (logits or probabilities) with labels that
// are class numbers [...] or one-hot [..., classes]; or, of predictions and labels of one shape (or [..., 1]) that are not
// one-hot, probabilities of a yes: right where (p > 0.5) == label. A prediction with a NaN is wrong, and so is one whose
// label is none of the classes, as in Keras. Of rows that are meant to be one-hot and are not, the label is the first of
// the largest numbers.
Metric accuracy();
struct ThresholdOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double threshold = 0.5;    // what counts as a yes: a prediction above it, as its dtype has it
  bool from_logits = false;  // predictions are logits: the threshold is for their sigmoid
};
// For labels 0 or 1 (or booleans), element by element.
Metric binary_accuracy(const ThresholdOptions& options = {}, Where where = Where::current());
// How often the label is among the k most likely classes; of equal ones the earlier are the more likely. A label that
// is none of the classes is among none, as in accuracy().
Metric top_k(int64_t k, Where where = Where::current());

// How a metric of each class becomes one number: binary (the class of a yes), macro (the mean over classes), micro (from
// the counts of all classes), weighted (the mean by how often a class is the label), none (a vector).
enum class Average : uint8_t { binary, macro, micro, weighted, none };
struct ClassOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t classes = 0;                // 0: yes or no, predictions that are probabilities of a yes
  Average average = Average::binary;  // macro where there are classes and it is left at binary
  double threshold = 0.5;
  bool from_logits = false;
};
// tp / (tp + fp), tp / (tp + fn), tn / (tn + fp), and (1 + b^2) p r / (b^2 p + r): 0 where they would be 0 / 0.
Metric precision(const ClassOptions& options = {}, Where where = Where::current());
Metric recall(const ClassOptions& options = {}, Where where = Where::current());
Metric specificity(const ClassOptions& options = {}, Where where = Where::current());
Metric f_beta(double beta, const ClassOptions& options = {}, Where where = Where::current());
Metric f1(const ClassOptions& options = {}, Where where = Where::current());

// Counts [label, prediction] of classes.
Metric confusion_matrix(int64_t classes, Where where = Where::current());
// The mean over classes that occur of tp / (tp + fp + fn), the intersection over the union; 0 of no examples.
Metric mean_iou(int64_t classes, Where where = Where::current());
// Cohen's kappa: agreement beyond chance, NaN where all is of one class. `weighting` is none, linear or quadratic in the distance of classes.
enum class KappaWeighting : uint8_t { none, linear, quadratic };
Metric cohen_kappa(int64_t classes, KappaWeighting weighting = KappaWeighting::none, Where where = Where::current());
// Matthews' correlation coefficient (Gorodkin's for more than two classes), in [-1, 1].
Metric matthews(int64_t classes = 2, Where where = Where::current());

// --- Ranking and probabilities ---------------------------------------------------------------------------------------

enum class Curve : uint8_t { roc, pr };
struct AucOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Curve curve = Curve::roc;
  int64_t thresholds = 200;  // the number of points of the curve, evenly spaced in [0, 1], as in Keras
  bool from_logits = false;
};
// The area under a curve of yes or no, by trapezoids (roc) or Davis and Goadrich's interpolation (pr).
Metric auc(const AucOptions& options = {}, Where where = Where::current());
// sum of (r_n - r_{n-1}) p_n over the thresholds.
Metric average_precision(const AucOptions& options = {}, Where where = Where::current());
// The expected calibration error: the mean of |confidence - accuracy| over `bins` bins of confidence, weighted by their
// counts. Predictions are probabilities [..., classes], or of a yes.
Metric calibration_error(int64_t bins = 15, Where where = Where::current());
// exp(mean cross entropy) of logits [..., classes] and class numbers [...]; labels equal to `ignored` do not count.
Metric perplexity(std::optional<int64_t> ignored = {}, Where where = Where::current());

// --- Numbers ---------------------------------------------------------------------------------------------------------

// The mean of e^2, its root, and the mean of |e|, of e = prediction - label. Over all elements.
Metric mean_squared_error();
Metric root_mean_squared_error();
Metric mean_absolute_error();
// 1 - sum (y - p)^2 / sum (y - mean y)^2; and the same with the mean of y - p subtracted. Over all elements.
Metric r2();
Metric explained_variance();
// The mean of a loss: f(prediction, labels) returns a number, or one for each example. With weights it must be one for
// each.
Metric mean_of(std::string name, std::function<Tensor(const Tensor&, const Tensor&)> f, Where where = Where::current());

// --- Sequences -------------------------------------------------------------------------------------------------------

struct EditDistanceOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<Tensor> prediction_lengths = {};  // integers [...]: how many tokens count
  std::optional<Tensor> label_lengths = {};
  bool normalize = false;  // divided by the length of the labels (infinite where that is 0 and the distance is not)
};
// Levenshtein's distance of sequences of tokens (integers or strings) along the last axis: [..., n] and [..., m] to f64
// [...]. Computed on the host, not in a trace.
Tensor edit_distance(const Tensor& prediction, const Tensor& labels, const EditDistanceOptions& options = {},
                     Where where = Where::current());
// Papineni et al.'s BLEU of texts split at white space, with n-grams up to `order`: strings [n] and references [n] or [n,
// several]. Computed on the host, not in a trace. `smooth` adds one to the counts above one-grams (Lin and Och, 2004).
double bleu(const Tensor& prediction, const Tensor& references, int64_t order = 4, bool smooth = false,
            Where where = Where::current());
// ROUGE-N's and ROUGE-L's F1 of texts split at white space (Lin, 2004): the mean over examples.
double rouge_n(const Tensor& prediction, const Tensor& references, int64_t n = 1, Where where = Where::current());
double rouge_l(const Tensor& prediction, const Tensor& references, Where where = Where::current());

}  // namespace rill::metrics

#pragma GCC visibility pop
