// Optimizers. apply_gradients() is written with public ops and keeps all it remembers (the count of steps, momenta) in
// Variables, so that a step that is traced by `function` remembers from call to call. Constructors throw where an
// option makes no sense: a beta or rho outside [0, 1), a negative epsilon, momentum or weight decay.
#pragma once
#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rill/autodiff/tape.h"
#include "rill/ops/names.h"
#include "rill/ops/ops.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// The learning rate at step 0, 1, 2, ... (an f64 scalar tensor): written with public functions.
using Schedule = std::function<Tensor(const Tensor& step)>;

// A number, kept in a Variable so that assign() changes it even in a traced step; or such a Variable; or a schedule.
// A number that is negative or NaN is an error.
class LearningRate {
 public:
  LearningRate(double rate, Where where = Where::current());
  LearningRate(const Variable& rate);
  LearningRate(Schedule schedule, Where where = Where::current());
  template <class F>  // a lambda: {.learning_rate = [](const Tensor& step) { return 0.1 / (step + 1); }}
    requires(!std::same_as<F, Schedule> && std::is_class_v<F> && std::is_invocable_r_v<Tensor, F&, const Tensor&>)
  LearningRate(F schedule, Where where = Where::current()) : LearningRate(Schedule(std::move(schedule)), where) {}
  // An f64 scalar.
  Tensor at(const Tensor& step, Where where = Where::current()) const;
  // Of a rate that is no schedule. Throws otherwise.
  LearningRate& assign(double rate, Where where = Where::current());
  // The Variable that holds the rate; of a schedule, nothing.
  void name_variables(VariablePaths& paths) const;

 private:
  std::vector<Variable> rate_;  // none or one
  Schedule schedule_;
};

// initial * factor^(step / steps).
Schedule exponential_decay(double initial, double steps, double factor, Where where = Where::current());
// From `initial` along half a cosine to initial * alpha at `steps`, after `warmup` steps that rise from 0 in a line.
Schedule cosine_decay(double initial, double steps, double alpha = 0, double warmup = 0,
                      Where where = Where::current());
// values[i] from step boundaries[i-1] on. Throws unless there is one value more than boundaries, which ascend.
Schedule piecewise_constant(std::vector<double> boundaries, std::vector<double> values, Where where = Where::current());

// What all optimizers have: they make and remember slots for each Variable that they update.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // One step: changes each variable by its gradient. An undefined gradient leaves its variable alone. Throws, before it
  // changes anything, where the lists differ in length, a variable stands there twice or is not of floating or complex
  // numbers, or a gradient is not of its variable's shape and on its device, or complex where the variable is real.
  //
  // Complex numbers are updated as pairs of real ones, as in torch: all optimizers treat the two parts alike.
  //
  // Of IndexedSlices, repeated rows are added up, and the step is made on the rows that stand there alone, at what
  // these cost. The others stay as they are: their momenta do not decay, and weight decay does not shrink them (as in
  // TensorFlow's LazyAdam and torch's SparseAdam). The count of steps is one for all rows.
  void apply_gradients(const std::vector<Tensor>& gradients, const std::vector<Variable>& variables,
                       Where where = Where::current());
  void apply_gradients(const std::vector<Gradient>& gradients, const std::vector<Variable>& variables,
                       Where where = Where::current());
  void apply_gradients(std::initializer_list<Gradient> gradients, const std::vector<Variable>& variables,
                       Where where = Where::current());
  // apply_gradients() of what `tape` gives for `loss`: tape.sparse_gradient(), so that a table from which rows are
  // looked up costs what these rows cost. Throws where the loss does not depend on one of them; with {.unconnected =
  // Unconnected::none} that one stays as it is.
  void minimize(const Tensor& loss, GradientTape& tape, const std::vector<Variable>& variables,
                const GradientOptions& options, Where where = Where::current());
  void minimize(const Tensor& loss, GradientTape& tape, const std::vector<Variable>& variables,
                Where where = Where::current()) {
    minimize(loss, tape, variables, {}, where);
  }
  // Makes what the optimizer remembers of these variables now, ahead of the first step: for a checkpoint to be loaded
  // into, say. Steps do so by themselves.
  void build(const std::vector<Variable>& variables, Where where = Where::current());
  // torch's: neither compiles, and each says what does.
  template <int n = 0>
  void step() {
    static_assert(n, "optimizer.step() is written optimizer.minimize(loss, tape, model.parameters())");
  }
  template <int n = 0>
  void zero_grad() {
    static_assert(n, "nothing stands for zero_grad(): gradients are what a tape gives, and are not accumulated");
  }
  // How many steps were made: i64.
  const Variable& iterations() const& { return iterations_; }
  Variable iterations() const&& { return iterations_; }
  // The count of steps and what is remembered of each parameter so far, for checkpoints.
  std::vector<Variable> variables() const;
  // The count of steps, the learning rate where it is no schedule, and the slots, each under the path that its Variable
  // has: "iterations", "learning_rate", "dense/kernel/m". A rule with Variables of its own adds them, and calls this.
  virtual void name_variables(VariablePaths& paths) const;
  const std::string& name_of_scope() const& { return name_; }
  std::string name_of_scope() const&& { return name_; }

  LearningRate learning_rate;

 protected:
  // A Variable as a rule sees it that works element by element: all of it, or the rows that a sparse gradient names. Of
  // a complex Variable values and gradients are pairs of real numbers along one more axis, the last.
  class Rows : public StandsForTensor {
   public:
    bool all() const { return !rows_.defined(); }  // whether it is the whole variable
    // The values now, of the gradient's shape.
    Tensor value() const;
    operator Tensor() const { return value(); }
    // New values, cast to the variable's dtype; its other rows stay as they are. Rows are written at the end of the
    // step, when nothing can fail any more; until then value() knows them.
    void assign(const Tensor& values) const;
    void subtract(const Tensor& change) const;  // likewise, from the values now; `change` may be of a wider dtype
    DType dtype() const { return variable_.dtype(); }  // of the variable
    const Variable& variable() const { return variable_; }

   private:
    friend class Optimizer;
    Rows(Optimizer& optimizer, Variable variable, Tensor rows)
        : optimizer_(&optimizer), variable_(std::move(variable)), rows_(std::move(rows)) {}
    Optimizer* optimizer_;
    Variable variable_;
    Tensor
        rows_;  // i64 [n], each row once; an index out of bounds may repeat: it reads zeros, and nothing is assigned there
  };

  Optimizer(std::string name, LearningRate rate, const Where& where = Where::current());
  // Called once a step before the variables' updates: `step` counts from 0.
  virtual void begin_step(const Tensor& step, const Tensor& rate) = 0;
  // Then for each variable, one of these two, which a rule overrides. update_rows() is for rules that treat every
  // element alike, and so can be asked for a few rows. A rule that needs the whole (a norm, say) overrides update(),
  // and gets sparse gradients made dense.
  virtual void update(const Variable& variable, const Tensor& gradient);
  virtual void update_rows(const Rows& rows, const Tensor& gradient);
  // The names of the slots that the rule uses.
  virtual std::vector<std::string> slot_names() const { return {}; }
  // What is remembered of `variable` under `name`: zeros of its shape at first.
  Variable& slot(const Variable& variable, const std::string& name);
  Rows slot(const Rows& rows, const std::string& name) { return {*this, slot(rows.variable_, name), rows.rows_}; }

 private:
  std::string name_;
  Variable iterations_;
  struct Slot {
    Shared<VariableState> of;
    std::string name;
    Variable variable;
  };
  struct NewRows {
    Variable variable;
    Tensor rows, values;
  };
  std::vector<NewRows> new_rows_;  // that this step will assign

  std::deque<Slot> slots_;  // stay where they are, since slot() gives references
  std::unordered_map<const VariableState*, std::vector<size_t>> places_;
};

// Adam(0.001) and torch's Adam(parameters, 0.001): neither compiles, and both say what does.
#define RILL_OPTIONS_ARE_NAMED(name)                                                                            \
  template <class T, class... More>                                                                             \
    requires(std::is_arithmetic_v<T> || std::same_as<T, std::vector<Variable>>)                                 \
  explicit name(const T&, const More&...) : name() {                                                            \
    static_assert(!sizeof(T), "options have names, and parameters are given to each step: nn::" #name           \
                              "({.learning_rate = 0.01}), optimizer.minimize(loss, tape, model.parameters())"); \
  }

struct SGDOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.01;
  double momentum = 0;
  bool nesterov = false;    // throws without momentum
  double weight_decay = 0;  // times the parameter, added to its gradient
};
// v = momentum v + g; w -= rate v, or rate (g + momentum v) with Nesterov's momentum (Sutskever et al., 2013).
class SGD : public Optimizer {
 public:
  explicit SGD(const SGDOptions& options = {}, Where where = Where::current());
  RILL_OPTIONS_ARE_NAMED(SGD)

 protected:
  void begin_step(const Tensor& step, const Tensor& rate) override;
  void update_rows(const Rows& rows, const Tensor& gradient) override;
  std::vector<std::string> slot_names() const override;

 private:
  SGDOptions options_;
  Tensor rate_;
};

struct AdamOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.001;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
};
// Kingma, Ba: Adam, a method for stochastic optimization, 2015, Algorithm 1. See adam_update().
class Adam : public Optimizer {
 public:
  explicit Adam(const AdamOptions& options = {}, Where where = Where::current());
  RILL_OPTIONS_ARE_NAMED(Adam)

 protected:
  Adam(std::string name, const AdamOptions& options, double weight_decay, const Where& where);
  void begin_step(const Tensor& step, const Tensor& rate) override;
  void update_rows(const Rows& rows, const Tensor& gradient) override;
  std::vector<std::string> slot_names() const override;

 private:
  AdamParams params_;
  double weight_decay_;
  Tensor rate_, correction_, decay_;
};

struct AdamWOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.001;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;  // times the learning rate, the share by which a parameter shrinks each step
};
// Loshchilov, Hutter: Decoupled weight decay regularization, 2019.
class AdamW : public Adam {
 public:
  explicit AdamW(const AdamWOptions& options = {}, Where where = Where::current());
  RILL_OPTIONS_ARE_NAMED(AdamW)
};

struct RMSpropOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  LearningRate learning_rate = 0.001;
  double rho = 0.9;
  double momentum = 0;
  double epsilon = 1e-8;
};
// s = rho s + (1 - rho) g^2; w -= rate g / (sqrt(s) + epsilon) (Hinton's lecture 6e, 2012).
class RMSprop : public Optimizer {
 public:
  explicit RMSprop(const RMSpropOptions& options = {}, Where where = Where::current());
  RILL_OPTIONS_ARE_NAMED(RMSprop)

 protected:
  void begin_step(const Tensor& step, const Tensor& rate) override;
  void update_rows(const Rows& rows, const Tensor& gradient) override;
  std::vector<std::string> slot_names() const override;

 private:
  RMSpropOptions options_;
  Tensor rate_;
};

#undef RILL_OPTIONS_ARE_NAMED

}  // namespace rill::nn

#pragma GCC visibility pop
