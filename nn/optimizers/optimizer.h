// The base of all optimizers: apply_gradients() is written with public ops and keeps its state (the step count,
// momenta) in Variables, so that a step that is traced by `function` keeps it between calls. Constructors throw if an
// option makes no sense: a beta or rho outside [0, 1), a negative epsilon, momentum or weight decay.
//
// A step: gradients are divided by the loss scale, accumulated, clipped; weight decay is added to them; then the rule
// changes each parameter, or the f32 master of one of 16 bits; then averages follow. A rule of your own is a class that
// overrides begin_step() and update_rows(), ten lines: see sgd.cpp.
#pragma once
#include <concepts>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rill/autodiff/tape.h"
#include "rill/nn/optimizers/loss_scale.h"
#include "rill/nn/optimizers/schedules.h"
#include "rill/ops/names.h"
#include "rill/ops/ops.h"

#pragma GCC visibility push(default)

namespace rill::nn {

namespace impl {
struct PartCalls;
}

// The options that every optimizer has, at the end of its own.
//
//   weight_decay     times the parameter, added to its gradient; of rules that say so, the fraction by which a parameter
//                    shrinks at learning rate 1
//   clip_value       each element of a gradient is brought into [-clip_value, clip_value]; 0: none
//   clip_each        each gradient is scaled down to this norm; 0: none
//   clip_norm        all gradients are scaled down by one factor to this global norm; 0: none
//   accumulate       a step is made at every n-th call, of the mean of n gradients
//   ema              averages of the parameters, average = ema * average + (1 - ema) * parameter, for swap_averages()
//   masters          parameters of 16 bits have an f32 master that is updated and rounded to them
//   skip_not_finite  a step of which a gradient is not finite is left out, and not counted
//   loss_scale       the loss is scaled up for f16 gradients, by a number that follows them; skips as well
//   name             the scope of its Variables
#define RILL_SHARED_OPTIONS(decay, its_name)            \
  double weight_decay = decay;                          \
  double clip_value = 0;                                \
  double clip_each = 0;                                 \
  double clip_norm = 0;                                 \
  int64_t accumulate = 1;                               \
  double ema = 0;                                       \
  bool masters = true;                                  \
  bool skip_not_finite = false;                         \
  std::optional<::rill::nn::LossScale> loss_scale = {}; \
  std::string name = its_name;

// The options of a rule that the base handles.
struct OptimizerOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.001;
  RILL_SHARED_OPTIONS(0, "optimizer")

  // From the options of a rule, which have the same fields. Throws, in the rule's name, where one makes no sense.
  template <class O>
  static OptimizerOptions of(const O& o, std::string_view rule, const Where& where) {
    OptimizerOptions result{.learning_rate = o.learning_rate,
                            .weight_decay = o.weight_decay,
                            .clip_value = o.clip_value,
                            .clip_each = o.clip_each,
                            .clip_norm = o.clip_norm,
                            .accumulate = o.accumulate,
                            .ema = o.ema,
                            .masters = o.masters,
                            .skip_not_finite = o.skip_not_finite,
                            .loss_scale = o.loss_scale,
                            .name = o.name};
    result.check(rule, where);
    return result;
  }
  void check(std::string_view rule, const Where& where) const;
};

// The options that differ for the parameters of a group.
struct GroupOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::optional<double> rate = {};          // times the learning rate
  std::optional<double> weight_decay = {};  // instead of the optimizer's
};

// What makes a step differ from apply_gradients() by itself: for training loops and for distribution.
struct ApplyOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double clip_norm = 0;  // before the optimizer's own clipping, and like its clip_norm; 0: none
  // The sum of a number over the processes that make this step together, each of some of the parameters: so they agree
  // on its norm, and on whether it is left out. Empty: this process makes it alone.
  std::function<Tensor(const Tensor&)> sum = {};
};

namespace impl {
// Throws, in the rule's name, unless it is in [0, 1]: with a larger one velocities grow without a bound.
void require_momentum(std::string_view rule, double momentum, const Where& where);
}  // namespace impl

// The base of all optimizers: creates and keeps slots for each Variable that it updates.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // A copy would share some of the state and not the rest. An optimizer can be moved.
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  Optimizer(Optimizer&&) = default;
  Optimizer& operator=(Optimizer&&) = default;

  // One step: changes each variable by its gradient. An undefined gradient leaves its variable alone. Throws, before it
  // changes anything, where the lists differ in length or are empty, a variable stands there twice or is not of
  // floating or complex numbers, or a gradient is not of its variable's shape and on its device, or complex where the
  // variable is real. Of variables(model) the gradients are those of the trainable ones, in order; their paths are what
  // group() goes by. Of a plain list it goes by the Variables' names.
  //
  // A step is computed in the variable's precision, and at least in f32, whatever the gradient's is. Complex numbers
  // are updated as pairs of real ones, as in torch: all optimizers treat the two parts alike.
  //
  // Of IndexedSlices, repeated rows are added up, and the step is made on the rows that stand there alone, at what
  // these cost. The others stay as they are: their momenta do not decay, and weight decay does not shrink them (as in
  // TensorFlow's LazyAdam and torch's SparseAdam). The count of steps is one for all rows. Rules that need a whole
  // parameter (norms, matrices), and accumulation, make such gradients dense.
  //
  // With a loss_scale, gradients are those of the loss times the scale: what gradients() gives.
  //
  // Of parameters that lie on several processes (distribute::lies_on), all must make the step at once: it is left out
  // in all or in none, clip_norm is of the whole model, and clip_each of the whole parameter. Throws where the rule
  // needs more of the whole than its norms.
  void apply_gradients(const std::vector<Tensor>& gradients, const std::vector<Variable>& variables,
                       Where where = Where::current());
  void apply_gradients(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                       Where where = Where::current());
  void apply_gradients(std::initializer_list<Gradient> gradients, const std::vector<Variable>& variables,
                       Where where = Where::current());
  void apply_gradients(const std::vector<Tensor>& gradients, const NamedVariables& variables,
                       Where where = Where::current());
  void apply_gradients(std::initializer_list<Gradient> gradients, const NamedVariables& variables,
                       Where where = Where::current());
  void apply_gradients(const std::vector<Gradient>& gradients, const NamedVariables& variables,
                       Where where = Where::current());
  // With options: apply_gradients(gradients, variables, {.clip_norm = 1}).
  void apply_gradients(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                       const ApplyOptions& options, Where where = Where::current());
  // What apply_gradients() takes: tape.sparse_gradient() of the loss, times the loss scale where there is one.
  std::vector<Gradient> gradients(const Tensor& loss, GradientTape& tape, const std::vector<Variable>& variables,
                                  GradientOptions options = {}, Where where = Where::current()) const;
  // Such gradients without the loss scale, dense. Undefined ones stay so.
  std::vector<Tensor> unscaled(const std::vector<Gradient>& gradients, Where where = Where::current()) const;
  // apply_gradients() of what `tape` gives for `loss`: tape.sparse_gradient(), so that a table from which rows are
  // looked up costs what these rows cost. Throws where the loss does not depend on one of them; with {.unconnected =
  // Unconnected::none} that one stays as it is. Of variables(model) it takes the trainable ones.
  void minimize(const Tensor& loss, GradientTape& tape, const std::vector<Variable>& variables,
                const GradientOptions& options, Where where = Where::current());
  void minimize(const Tensor& loss, GradientTape& tape, const std::vector<Variable>& variables,
                Where where = Where::current()) {
    minimize(loss, tape, variables, {}, where);
  }
  void minimize(const Tensor& loss, GradientTape& tape, const NamedVariables& variables, const GradientOptions& options,
                Where where = Where::current());
  void minimize(const Tensor& loss, GradientTape& tape, const NamedVariables& variables,
                Where where = Where::current()) {
    minimize(loss, tape, variables, {}, where);
  }
  // Creates the slots of these variables now, before the first step: to load a checkpoint into them, say. Steps create
  // them by themselves. Throws if a variable has no value yet.
  void build(const std::vector<Variable>& variables, Where where = Where::current());
  void build(const NamedVariables& variables, Where where = Where::current());
  // Sets options for parameters whose paths match: group("*/bias", {.weight_decay = 0}). Patterns are those of freeze()
  // in rill/ops/names.h; if several match, the last one that sets an option counts. A step throws if a pattern has
  // matched nothing. Functions that were traced before do not change.
  Optimizer& group(std::string pattern, const GroupOptions& options, Where where = Where::current());
  // Gives the parameters the values of their averages or, called again, their own back: for evaluation between steps.
  // Throws without the option `ema`, and inside a traced function. A step while averages are swapped in is an error.
  void swap_averages(Where where = Where::current());
  // torch's names: neither compiles, and each names its counterpart.
  template <int n = 0>
  void step() {
    static_assert(n, "optimizer.step() is written optimizer.minimize(loss, tape, model.parameters())");
  }
  template <int n = 0>
  void zero_grad() {
    static_assert(n, "nothing stands for zero_grad(): gradients are what a tape gives, and are not accumulated");
  }
  // Without its tape it does not compile, and says where that stands.
  template <class Variables>
    requires std::same_as<Variables, std::vector<Variable>> || std::same_as<Variables, NamedVariables>
  void minimize(const Tensor&, const Variables&) {
    static_assert(!sizeof(Variables),
                  "the tape that has seen the loss stands between: minimize(loss, tape, variables)");
  }
  // In the other order it does not compile, and says so.
  template <class Variables, class Gradients>
    requires std::same_as<Variables, std::vector<Variable>> || std::same_as<Variables, NamedVariables>
  void apply_gradients(const Variables&, const Gradients&) {
    static_assert(!sizeof(Variables), "gradients come first: apply_gradients(gradients, variables)");
  }
  // torch's and Keras's optimizers know their parameters: this does not compile, and says that ours do not.
  template <class G>
    requires std::same_as<G, Tensor> || std::same_as<G, Gradient>
  void apply_gradients(const std::vector<G>&) {
    static_assert(!sizeof(G), "an optimizer holds no parameters: apply_gradients(gradients, variables)");
  }
  // How many steps were made: i64.
  const Variable& iterations() const& { return iterations_; }
  Variable iterations() const&& { return iterations_; }
  // The step count and all slots so far, for checkpoints.
  std::vector<Variable> variables() const;
  // The count of steps, the learning rate where it is no schedule, and the slots, each under the path that its Variable
  // has: "iterations", "learning_rate", "dense/kernel/m". A rule with Variables of its own adds them, and calls this.
  virtual void name_variables(VariablePaths& paths) const;
  const std::string& name_of_scope() const& { return name_; }
  std::string name_of_scope() const&& { return name_; }
  // The option of that name.
  double clip_norm() const { return options_.clip_norm; }
  // Whether what a step does to one parameter depends on the gradients of others.
  bool goes_by_all_gradients() const {
    return options_.clip_norm > 0 || options_.skip_not_finite || options_.loss_scale.has_value();
  }

  LearningRate learning_rate;

 protected:
  // A Variable in an elementwise rule: all of it, or the rows of a sparse gradient. For a complex Variable values and
  // gradients are pairs of real numbers along one more axis, the last.
  class Rows : public StandsForTensor {
   public:
    bool all() const { return !rows_.defined(); }  // whether it is the entire variable
    // The values now, of the gradient's shape.
    Tensor value() const;
    operator Tensor() const { return value(); }
    // New values, cast to the variable's dtype; its other rows stay as they are. Rows are written at the end of the
    // step, when nothing can fail any more; until then value() returns them.
    void assign(const Tensor& values) const;
    void subtract(const Tensor& change) const;  // likewise, from the values now; `change` may be of a wider dtype
    DType dtype() const { return variable_.dtype(); }  // of the variable
    const Variable& variable() const { return variable_; }
    // A number of the step's, on the variable's device, in the dtype that its updates are computed in. It is computed once
    // for all variables that have the same.
    Tensor number(const Tensor& n) const;
    // The learning rate, as changed by the rule, times the factor of the variable's group; and `times`.
    Tensor rate() const { return rated(optimizer_->rate_); }
    Tensor rated(const Tensor& n, double times = 1) const;
    // The optimizer's weight decay, or that of the variable's group.
    double weight_decay() const;
    // The norm of x, which has a number for each element of the variable: of the whole parameter, where this process has
    // a part of it.
    Tensor norm(const Tensor& x) const;

   private:
    friend class Optimizer;
    Rows(Optimizer& optimizer, Variable variable, Tensor rows, bool is_parameter)
        : optimizer_(&optimizer), variable_(std::move(variable)), rows_(std::move(rows)), parameter_(is_parameter) {}
    Rows master() const;
    void write(const Tensor& values) const;
    Optimizer* optimizer_;
    Variable variable_;
    Tensor rows_;  // i64 [n], each row once; an index out of bounds may repeat: it reads zeros, and is not assigned
    bool parameter_;
  };

  Optimizer(std::string name, LearningRate rate, const Where& where = Where::current());
  Optimizer(OptimizerOptions options, const Where& where = Where::current());
  // Called once a step before the variables' updates: `step` counts from 0; both are f64.
  virtual void begin_step(const Tensor& step, const Tensor& rate);
  // Then for each variable, one of these two, which a rule overrides. update_rows() is for elementwise rules, which can
  // update a few rows. A rule that needs the entire parameter (a norm, say) overrides update(), or update_rows() and
  // takes_rows(), and gets sparse gradients made dense.
  virtual void update(const Variable& variable, const Tensor& gradient);
  virtual void update_rows(const Rows& rows, const Tensor& gradient);
  // Whether update_rows() may be called for a few rows.
  virtual bool takes_rows() const { return true; }
  // Whether the rule does the same to a part of a parameter as to the whole, if it takes norms by Rows::norm(). Of a
  // rule that does not, parameters that lie on several processes are refused.
  virtual bool takes_parts() const { return takes_rows(); }
  // Whether the rule applies weight_decay() itself; otherwise it is added to gradients.
  virtual bool decays() const { return false; }
  // The names of the slots that the rule uses, and the shape of one where it is not its variable's.
  virtual std::vector<std::string> slot_names() const { return {}; }
  virtual Shape slot_shape(const Variable& variable, const std::string& name) const;
  // Whether that slot begins as the parameter, of whose shape it is, and not as zeros: a parameter may join at any step.
  virtual bool begins_as_parameter(const std::string& name) const;
  // Around the updates of all variables of a step.
  virtual void before_updates(const std::vector<Variable>& variables, const Tensor& step);
  virtual void after_updates(const std::vector<Variable>& variables, const Tensor& step);
  // The slot of `variable` called `name`: initially zeros of its shape, or the parameter's value (above).
  Variable& slot(const Variable& variable, const std::string& name);
  Rows slot(const Rows& rows, const std::string& name) {
    return {*this, slot(rows.variable_, name), rows.rows_, false};
  }
  const OptimizerOptions& options() const { return options_; }

 private:
  struct Given;  // a gradient during a step
  // With whom a step is made: its parameters, with and without gradients, and how it is made.
  struct Step {
    const std::vector<Variable>& parameters;
    const ApplyOptions& options;
    const impl::PartCalls* parts;
    bool is_shared() const { return parts || options.sum; }
    Tensor all_finite(const std::vector<Given>& given) const;
    // Undefined where this process alone makes it.
    Tensor norm(const std::vector<Given>& given) const;
  };
  struct Slot {
    Shared<VariableState> of;
    std::string name;
    Variable variable;
  };
  struct NewRows {
    Variable variable;
    Tensor rows, values;
  };
  struct Number {
    Tensor of;
    double times, factor;
    Tensor is;
  };
  struct Group {
    std::string pattern;
    GroupOptions options;
    bool matched = false;
  };
  struct Settings {
    double rate = 1, weight_decay = 0;
  };
  using Names = std::vector<std::string>;

  void apply(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables, const Names& names,
             const NamedVariables* all, const ApplyOptions& options, const Where& where);
  void require_whole(const std::vector<Variable>& variables, const Where& where) const;
  void settle(const std::vector<Variable>& variables, const Names& names, const NamedVariables* all,
              const Where& where);
  std::vector<Given> taken(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                           const Where& where) const;
  void accumulate(std::vector<Given> given, const Step& step, const Where& where);
  void guarded_step(const std::vector<Given>& given, const Step& step, const Where& where);
  void make_step(std::vector<Given> given, const Step& step, const Where& where);
  void clip_gradients(std::vector<Given>& given, const Step& step) const;
  void update_one(const Given& given);
  void follow(const std::vector<Variable>& variables, const Tensor& step);
  Names all_slot_names(const Variable* variable) const;
  bool has_master(const Variable& variable) const;
  Settings settings(const Variable& variable) const;
  Tensor number_for(const Variable& v, const Tensor& n, double times, double factor);

  OptimizerOptions options_;
  std::string name_;
  Variable iterations_;
  std::vector<Variable> calls_;  // since the last step: none or one
  std::vector<Group> groups_;
  std::unordered_map<const VariableState*, Settings> settings_;  // of this step's variables that are in a group
  Tensor rate_;
  std::vector<Number> numbers_;                   // of this step
  std::vector<NewRows> new_rows_;                 // that this step will assign
  std::vector<std::pair<Variable, Tensor>> own_;  // what parameters were, while their averages are swapped in

  std::deque<Slot> slots_;  // with stable addresses, since slot() returns references
  std::unordered_map<const VariableState*, std::vector<size_t>> places_;
};

// Adam(0.001) and torch's Adam(parameters, 0.001): neither compiles, and both name the counterpart. What wraps a rule
// takes its options in braces by the name that all have.
#define RILL_OPTIONS_ARE_NAMED(name)                                                                            \
  using Options = name##Options;                                                                                \
  template <class T, class... More>                                                                             \
    requires(std::is_arithmetic_v<T> || std::same_as<T, std::vector<Variable>>)                                 \
  explicit name(const T&, const More&...) : name() {                                                            \
    static_assert(!sizeof(T), "options have names, and parameters are given to each step: nn::" #name           \
                              "({.learning_rate = 0.01}), optimizer.minimize(loss, tape, model.parameters())"); \
  }

// The declarations of most rules: their options, an update of rows, the names of slots.
#define RILL_RULE(name)                                                             \
 public:                                                                            \
  explicit name(const name##Options& options = {}, Where where = Where::current()); \
  RILL_OPTIONS_ARE_NAMED(name)                                                      \
                                                                                    \
 protected:                                                                         \
  void update_rows(const Rows& rows, const Tensor& gradient) override;              \
  std::vector<std::string> slot_names() const override;                             \
                                                                                    \
 private:                                                                           \
  name##Options options_;

}  // namespace rill::nn

#pragma GCC visibility pop
