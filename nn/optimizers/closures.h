// Wrappers of a rule, and optimizers that compute the loss more than once: Lookahead, SAM, LBFGS.
#pragma once
#include <deque>
#include <utility>
#include <vector>

#include "rill/nn/optimizers/optimizer.h"
#include "rill/tensor/callback.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// --- Lookahead -------------------------------------------------------------------------------------------------------

struct LookaheadOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t steps = 5;  // of the rule, between two of the slow weights
  double rate = 0.5;  // of the way that these take to the parameters
};

namespace impl {
LookaheadOptions checked_lookahead(const LookaheadOptions& options, const Where& where);
using FastAndSlow = std::vector<std::pair<Variable, Variable>>;
void begin_lookahead(const FastAndSlow& weights, const Tensor& step);
void end_lookahead(const FastAndSlow& weights, const Tensor& step, const LookaheadOptions& options);
// The options of a rule; of one of the user's that does not name them, a type that nothing converts to.
struct Unnamed {
  Unnamed() = delete;
};
template <class Rule>
struct OptionsOf {
  using Type = Unnamed;
};
template <class Rule>
  requires requires { typename Rule::Options; }
struct OptionsOf<Rule> {
  using Type = typename Rule::Options;
};
}  // namespace impl

// A rule whose parameters go back, every few steps, to slow weights that have followed them (Zhang et al.: Lookahead
// optimizer, 2019): nn::Lookahead<nn::Adam> optimizer({.learning_rate = 0.01}, {.steps = 5}).
template <class Rule>
class Lookahead : public Rule {
 public:
  explicit Lookahead(const impl::OptionsOf<Rule>::Type& rule, const LookaheadOptions& options = {},
                     Where where = Where::current())
      : Rule(rule, where), lookahead_(impl::checked_lookahead(options, where)) {}
  // Of a rule of yours: what it is made of.
  template <class Options>
    requires(!std::convertible_to<Options, typename impl::OptionsOf<Rule>::Type>)
  explicit Lookahead(const Options& rule, const LookaheadOptions& options = {}, Where where = Where::current())
      : Rule(rule, where), lookahead_(impl::checked_lookahead(options, where)) {}
  explicit Lookahead(const LookaheadOptions& options = {}, Where where = Where::current())
      : lookahead_(impl::checked_lookahead(options, where)) {}

 protected:
  std::vector<std::string> slot_names() const override {
    std::vector<std::string> names = Rule::slot_names();
    names.push_back("slow");
    return names;
  }
  Shape slot_shape(const Variable& variable, const std::string& name) const override {
    return name == "slow" ? variable.shape() : Rule::slot_shape(variable, name);
  }
  bool begins_as_parameter(const std::string& name) const override {
    return name == "slow" || Rule::begins_as_parameter(name);
  }
  void before_updates(const std::vector<Variable>& variables, const Tensor& step) override {
    impl::begin_lookahead(weights(variables), step);
  }
  void after_updates(const std::vector<Variable>& variables, const Tensor& step) override {
    impl::end_lookahead(weights(variables), step, lookahead_);
  }

 private:
  impl::FastAndSlow weights(const std::vector<Variable>& variables) {
    impl::FastAndSlow result;
    for (const Variable& v : variables) result.emplace_back(v, this->slot(v, "slow"));
    return result;
  }
  LookaheadOptions lookahead_;
};

// --- SAM -------------------------------------------------------------------------------------------------------------

// Computes the loss of a batch from the parameters as they are now.
using LossFunction = Callback<Tensor()>;

struct SAMOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double rho = 0.05;      // how far away the gradients are computed
  bool adaptive = false;  // each parameter's way is relative to its size: ASAM
};
// Steps by the gradients at w + rho g / |g| instead of w, where the loss is highest nearby (Foret et al.:
// Sharpness-aware minimization, 2021; adaptive: Kwon et al., 2021). It computes the loss twice in each step.
class SAM {
 public:
  explicit SAM(const SAMOptions& options = {}, Where where = Where::current());
  // One step of `optimizer`, with its loss scale for both computations. Gives the loss before it. Throws where the loss
  // does not depend on a variable.
  Tensor minimize(const LossFunction& loss, Optimizer& optimizer, const std::vector<Variable>& variables,
                  Where where = Where::current()) const;
  Tensor minimize(const LossFunction& loss, Optimizer& optimizer, const NamedVariables& variables,
                  Where where = Where::current()) const;

 private:
  SAMOptions options_;
};

// --- Stochastic weight averaging -----------------------------------------------------------------------------------

//   nn::WeightAverage average(model.variables());
//   for (...) { train(); if (epoch >= 10) average.update(); }
//   average.swap();  // for evaluation; called again, the parameters are their own again
//
// Variables that are not trainable are left alone: pass data through the model once in training mode, so that statistics
// of batches fit the means. In a checkpoint it is {"average", average}.

// The mean of the parameters at chosen times, the ends of epochs say, which is in a flatter region than each (Izmailov
// et al.: Averaging weights leads to wider optima, 2018): in f64 for f64 parameters, else in f32.
class WeightAverage {
 public:
  // Throws where there is nothing to train.
  explicit WeightAverage(const std::vector<Variable>& variables, Where where = Where::current());
  explicit WeightAverage(const NamedVariables& variables, Where where = Where::current());
  // Takes the parameters as they are now into the mean. May be part of a traced function.
  void update(Where where = Where::current());
  // Gives the parameters their means, or their own values back. Throws inside a traced function and before update().
  void swap(Where where = Where::current());
  // The number of averaged values.
  int64_t count() const { return count_.item<int64_t>(); }
  void visit_parts(ModelVisitor& visitor);

 private:
  std::vector<Variable> variables_, means_;
  Variable count_;
  std::vector<Tensor> own_;  // while the means are swapped in
};

// --- LBFGS -----------------------------------------------------------------------------------------------------------

struct LBFGSOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double learning_rate = 1;          // the first step length that is tried
  int64_t max_iterations = 20;       // of one minimize()
  int64_t max_evaluations = 25;      // of the loss, likewise
  double gradient_tolerance = 1e-7;  // no element of the gradient is larger at a minimum
  double change_tolerance = 1e-9;    // changes of the loss or the parameters below it end minimize()
  int64_t history = 100;             // steps that are remembered
  bool strong_wolfe = true;          // a line search; without it steps have the length learning_rate
};
// Quasi-Newton steps from the last changes of parameters and gradients (Nocedal, Wright: Numerical optimization, 2006,
// Algorithm 7.4; line search 3.5 with cubic interpolation), as torch has them. For losses without noise. It computes in
// f64 on the host and reads the loss, so that it does not work inside a traced function; the loss itself may be one.
// In a checkpoint it is {"lbfgs", lbfgs}, with all that it remembers: two numbers for each of `history` steps and each
// parameter.
class LBFGS {
 public:
  LBFGS(LBFGS&&) = default;
  LBFGS& operator=(LBFGS&&) = default;
  // Throws where a tolerance or the rate is negative, or a count below 1.
  explicit LBFGS(const LBFGSOptions& options = {}, Where where = Where::current());
  // Up to max_iterations steps. Gives the loss before them. Throws where the loss does not depend on a variable.
  Tensor minimize(const LossFunction& loss, const std::vector<Variable>& variables, Where where = Where::current());
  Tensor minimize(const LossFunction& loss, const NamedVariables& variables, Where where = Where::current());
  // The Variables for a checkpoint.
  void name_variables(VariablePaths& paths) const;

 private:
  struct Point {
    double t = 0, loss = 0, slope = 0;
    Tensor gradient;
  };
  class Line;
  void remember(const Tensor& gradient);
  Tensor direction_at(const Tensor& gradient) const;
  std::string memory() const;
  // Restores the state that a checkpoint has read since memory() was written.
  void recall(const Where& where);

  LBFGSOptions options_;
  Variable state_;               // memory(), for a checkpoint
  mutable std::string written_;  // what state_ holds, unless a checkpoint was restored
  int64_t steps_ = 0;
  Tensor direction_, gradient_;  // of the last step
  double length_ = 0, scale_ = 1;
  struct Change {
    Tensor gradient, parameters;
    double one_over_product;
  };
  std::deque<Change> changes_;
};

}  // namespace rill::nn

#pragma GCC visibility pop
