// The parts of a Loop that do not depend on the types of the model and of the data: counting epochs and steps, metrics,
// callbacks, checkpoints, signals, progress. loop.h makes the typed parts. Start at Core::fit().
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <vector>

#include "rill/autodiff/tape.h"
#include "rill/distribute/session.h"
#include "rill/metrics.h"
#include "rill/nn/activation.h"
#include "rill/nn/optimizers.h"
#include "rill/serialize/checkpoint.h"
#include "rill/tensor/user_scope.h"
#include "rill/train/callbacks.h"
#include "rill/train/search.h"

#pragma GCC visibility push(default)

namespace rill::distribute {
class Mesh;
}

namespace rill::train {

namespace impl {
struct RankCalls;
const RankCalls& rank_calls();
}  // namespace impl

// Which ranks of a distribute::Session train together.
class Ranks {
 public:
  Ranks() = default;
  template <std::same_as<bool> B>
  Ranks(B all) : calls_(all ? &impl::rank_calls() : nullptr) {}  // all of them, or each by itself
  Ranks(const distribute::Group& group) : calls_(&impl::rank_calls()), sharers_(group), everybody_(group) {}
  // Those along one axis share batches. All ranks of the mesh train; those along its other axes have other parts of one
  // model (distribute::ColumnParallelDense and similar).
  Ranks(const distribute::Mesh& mesh, const std::string& axis, Where where = Where::current());
  template <std::same_as<distribute::Mesh> M>
  Ranks(const M&) {
    static_assert(!sizeof(M), "say along which axis batches are shared: {.distribute = {mesh, \"data\"}}");
  }
  explicit operator bool() const { return calls_ != nullptr; }
  const impl::RankCalls* operator->() const { return calls_; }       // for the loop
  const distribute::Group& sharers() const { return sharers_; }      // of batches
  const distribute::Group& everybody() const { return everybody_; }  // who begins, saves and ends at once
  // This rank's part of a model that is distributed over several ranks: "model-1". Empty if it is complete.
  const std::string& part() const { return part_; }
  // This rank's number among those that share batches, and how many they are: 0 of 1 where each trains by itself.
  std::pair<int64_t, int64_t> share(const Where& where) const;

 private:
  const impl::RankCalls* calls_ = nullptr;  // null where each trains by itself
  distribute::Group sharers_, everybody_;
  std::string part_;
};

// f(prediction, target): a number, or one for each example, whose mean is the loss.
class Loss {
 public:
  Loss() = default;
  Loss(Tensor (*f)(const Tensor&, const Tensor&, Where))
      : f_(f ? Callback_([f](const Tensor& p, const Tensor& y) { return f(p, y, Where::current()); }) : Callback_()) {}
  template <class F>
    requires(std::is_class_v<F> && !std::same_as<F, Loss> &&
             std::is_invocable_r_v<Tensor, const F&, const Tensor&, const Tensor&>)
  Loss(F f) {
    if (detail::is_empty_callable(f)) return;
    f_ = [f = std::move(f)](const Tensor& p, const Tensor& y) -> Tensor {
      const UserScope user;
      return f(p, y);
    };
  }
  // A loss with options, at their defaults: cross_entropy, dice_loss.
  template <std::default_initializable O>
    requires(std::is_class_v<O>)
  Loss(Tensor (*f)(const Tensor&, const Tensor&, const O&, Where))
      : f_(f ? Callback_([f](const Tensor& p, const Tensor& y) { return f(p, y, O(), Where::current()); })
             : Callback_()) {}
  template <nn::TextLike S>
  Loss(const S&) {
    static_assert(!sizeof(S), "a loss is a function and not its name: {.loss = sparse_softmax_cross_entropy}");
  }
  template <std::same_as<double> Number>
  Loss(Tensor (*)(const Tensor&, const Tensor&, Number, Where)) {
    static_assert(
        !sizeof(Number),
        "this loss takes a number besides: {.loss = [](const Tensor& p, const Tensor& y) { return huber_loss(p, "
        "y); }}");
  }
  template <class F>
    requires(std::is_class_v<F> && !std::same_as<F, Loss> && !std::convertible_to<F, std::string_view> &&
             !std::is_invocable_r_v<Tensor, const F&, const Tensor&, const Tensor&>)
  Loss(const F&) {
    static_assert(!sizeof(F), "a loss is called as f(prediction, target) with two const Tensor& and gives a Tensor");
  }
  Tensor operator()(const Tensor& prediction, const Tensor& target) const { return f_(prediction, target); }
  explicit operator bool() const { return bool(f_); }

 private:
  using Callback_ = rill::Callback<Tensor(const Tensor&, const Tensor&)>;
  Callback_ f_;
};

// An optimizer of any type: one that is given up is kept, an lvalue is referred to and must live as long.
class AnyOptimizer {
 public:
  AnyOptimizer() = default;
  template <std::derived_from<nn::Optimizer> O>
  AnyOptimizer(O&& optimizer) : held_(std::make_shared<O>(std::move(optimizer))) {}
  template <std::derived_from<nn::Optimizer> O>
  AnyOptimizer(O& optimizer) : held_(std::shared_ptr<void>(), &optimizer) {}
  AnyOptimizer(std::shared_ptr<nn::Optimizer> optimizer) : held_(std::move(optimizer)) {}
  template <class S>
    requires(std::convertible_to<S, std::string_view> || std::is_arithmetic_v<S>)
  AnyOptimizer(const S&) {
    static_assert(!sizeof(S),
                  "an optimizer is neither a name nor a rate: {.optimizer = nn::Adam({.learning_rate = 1e-3})}");
  }
  nn::Optimizer* get() const { return held_.get(); }

 private:
  std::shared_ptr<nn::Optimizer> held_;
};

struct FitOptions;
struct LoopOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Loss loss = {};               // of the model's result and the target
  AnyOptimizer optimizer = {};  // nn::AdamW({...}), or one of yours
  std::vector<metrics::Metric> metrics = {};
  double clip_norm = 0;               // gradients of a step are scaled to this global norm at most; 0: they are not
  bool traced = true;                 // steps are traced and compiled; false: they run op by op, for a debugger
  std::optional<DType> compute = {};  // the dtype in which the model computes: nn::Call::compute
  // On all ranks of a distribute::Session, those of a group, or those along an axis of a mesh, {mesh, "data"}: each has
  // its rows of every batch, gradients are means over all rows, and the numbers of an epoch are those of all ranks. All
  // start with the first one's parameters, optimizer and random generator; all write the files for resuming, and the
  // first one shows progress. Every rank needs a row of every batch.
  Ranks distribute = {};
};

namespace impl {

// One pass over a dataset, whose element type only loop.h knows.
class Pass {
 public:
  virtual ~Pass() = default;
  // Goes to the next element; false at the end.
  virtual bool next() = 0;
  virtual std::string save() const = 0;
  virtual void restore(const std::string& state) = 0;
  // For the element of the last next(): a training step, or the model's prediction.
  virtual Tensor train() = 0;
  virtual Tensor train_unchanged() = 0;  // eagerly, and the state is as before
  virtual std::optional<Profile> profile(const ProfileOptions& options) = 0;
  virtual std::optional<Graph> graph() = 0;
  virtual void evaluate() = 0;
  virtual Tensor predict() = 0;
};
struct Source {
  std::function<std::unique_ptr<Pass>(uint64_t epoch)> pass = {};
  std::optional<int64_t> size = {};
  std::string stages = "";  // as they are printed
  const char* name = "the dataset";
};

class Core {
 public:
  Core(LoopOptions options, std::function<void(ModelVisitor&)> visit_model, bool own_step, const Where& where);
  ~Core();
  Core(const Core&) = delete;

  // --- Inside of a traced step ---
  // The mean of the loss, weighted.
  Tensor loss_of(const Tensor& prediction, const Tensor& target, const Tensor& weights) const;
  // A step of the optimizer by the model's trainable Variables.
  void descend(const Tensor& loss, GradientTape& tape);
  // The loss of a batch, of which this rank has some rows, as it counts in the mean over ranks; and that mean.
  Tensor weighted_loss(const Tensor& loss, const Tensor& prediction) const;
  Tensor joined_loss(const Tensor& share) const;
  // Adds to the running means and to the metrics.
  void count(const Tensor& loss, const Tensor& prediction, const Tensor& target, const Tensor& weights);
  // Class weights as weights of the examples of a batch of labels, which are counted. Throws where one is of no class that
  // the prediction has.
  Tensor example_weights(const std::map<int64_t, double>& class_weights, const Tensor& labels,
                         const Tensor& prediction);
  // Weights of the batch that another tensor has a row for each example of.
  static Tensor rows_like(const Tensor& weights, const Tensor& batch);
  // While it is set, descend() stores each gradient of the loss in it, by path, before it is clipped. For eager steps.
  void show_gradients(std::map<std::string, Tensor>* into) { shown_gradients_ = into; }
  // For a step of the user's own: numbers by name.
  void count_own(const std::map<std::string, Tensor>& numbers);

  const LoopOptions& options() const { return options_; }
  NamedVariables variables() const;
  // Identifies the model's Variables: it changes if a layer or a Variable is added, removed or replaced.
  std::string fingerprint() const;

  // Returns nothing if until() ends it after a batch.
  Logs evaluate(const Source& data, std::optional<int64_t> steps, const Where& where, bool (*until)() = nullptr);
  Tensor predict(const Source& data, const Where& where);
  RateTest find_rate(const Source& data, const FindRateOptions& options, const Where& where);

  // While a run is under way: another one of the same loop would mix its numbers with it.
  class AtWork {
   public:
    AtWork(Core& core, const Where& where);
    ~AtWork();
    AtWork(const AtWork&) = delete;

   private:
    Core& core_;
  };
  // Before the steps of a run with these class weights; and, after an epoch, warns of classes without labels, once.
  void begin_class_weights(const std::map<int64_t, double>& class_weights);
  void tell_unseen_classes();
  // Throws where options are for a loss, and the step is the user's own.
  void check_own_step(const struct FitData& data, const FitOptions& options, const Where& where) const;

 private:
  friend class CoreRun;
  metrics::Metric& own_mean(const std::string& name);
  void show(const std::vector<Tensor>& gradients, const std::vector<Variable>& of) const;
  // The mean loss, the metrics, and the means of a step of the user's own.
  std::vector<metrics::Metric> all_metrics() const;
  std::vector<Variable> sums() const;  // of all of them
  void reset_metrics();
  Logs read_metrics(bool of_all_ranks) const;
  // Warns if a model that was neither trained nor restored is about to be created.
  void tell_if_untrained(const char* op);

  LoopOptions options_;
  std::function<void(ModelVisitor&)> name_model_;
  bool own_step_;
  Where where_;
  metrics::Metric mean_loss_;
  std::map<std::string, metrics::Metric> own_means_;
  std::vector<int64_t> weighted_classes_;        // until the warning about those without labels
  std::map<size_t, Variable> labels_seen_ = {};  // the label counts of the classes with weights
  std::map<std::string, Tensor>* shown_gradients_ = nullptr;
  std::atomic<bool> at_work_ = false;
};

}  // namespace impl

// A dataset of the elements that the loop trains on, for validation.
class Validation {
 public:
  Validation() = default;
  template <class D>
    requires requires { typename D::Element; }
  Validation(D dataset) : held_(std::make_shared<D>(std::move(dataset))), type_(typeid(D)) {}
  explicit operator bool() const { return bool(held_); }
  // Null where it is of another type.
  template <class D>
  const D* get() const {
    return type_ == std::type_index(typeid(D)) ? static_cast<const D*>(held_.get()) : nullptr;
  }

 private:
  std::shared_ptr<const void> held_;
  std::type_index type_ = typeid(void);
};

struct FitOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t epochs = 1;  // over all runs, where one is resumed
  // An epoch, with its validation and its row of the history, has so many steps; the next one continues in the dataset,
  // which begins again, shuffled anew, when it ends. None: an epoch is a pass over the dataset.
  std::optional<int64_t> steps_per_epoch = {};
  Validation validation = {};
  int64_t validation_every = 1;  // every so many epochs; and after the last one
  std::optional<int64_t> validation_steps = {};
  std::map<int64_t, double> class_weights = {};  // of integer labels; others count 1. Unused ones are reported
  bool progress = true;                          // on stderr: a bar on a terminal, else a line now and then
  std::vector<Callback> callbacks = {};
  // A folder from which a stopped or killed run continues, with the same bits; it is written after each epoch, and when
  // SIGTERM or SIGINT ends the run. Empty: none.
  std::string resume = "";
  int64_t save_every_steps = 0;  // into that folder in addition, so that a kill loses less
  int keep = 2;                  // how many of the last checkpoints are kept there
};

namespace impl {
// The arguments of fit() beside the options, made by loop.h.
struct FitData {
  Source train, validation;
};
History run_fit(Core& core, const FitData& data, const FitOptions& options, const Where& where);
// Throws where options make no sense.
void check_fit(const FitData& data, const FitOptions& options, const Where& where);
}  // namespace impl

}  // namespace rill::train

#pragma GCC visibility pop
