// Learning rates: a number, a Variable, or a schedule, which is any function of the step. These are the formulas of
// papers and other libraries; joined() and warmed_up() combine them, plot() shows one.
#pragma once
#include <functional>
#include <string>
#include <vector>

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
  // For a rate that is no schedule. Throws otherwise.
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

// `rate` at every step.
Schedule constant_rate(double rate, Where where = Where::current());
// initial * factor^floor(step / steps): torch's StepLR.
Schedule step_decay(double initial, double steps, double factor, Where where = Where::current());
// `initial`, times `factor` at each boundary: torch's MultiStepLR.
Schedule multi_step_decay(double initial, std::vector<double> boundaries, double factor,
                          Where where = Where::current());
// final + (initial - final) (1 - step / steps)^power until `steps`, then `final`. Power 1 is a line.
Schedule polynomial_decay(double initial, double steps, double final = 0, double power = 1,
                          Where where = Where::current());
// initial / (1 + rate step / steps): Keras's InverseTimeDecay.
Schedule inverse_time_decay(double initial, double steps, double rate, Where where = Where::current());
struct RestartOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double multiple = 1;  // the ratio of a cycle's length to the one before
  double decay = 1;     // the ratio of a cycle's first rate to that of the one before
  double alpha = 0;     // of `initial`, where cycles end
};
// cosine_decay() that restarts after `steps` (Loshchilov, Hutter: SGDR, 2017).
Schedule cosine_restarts(double initial, double steps, const RestartOptions& options = {},
                         Where where = Where::current());
struct OneCycleOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double rising = 0.3;        // the fraction of the steps at whose end the rate is highest
  double first_divisor = 25;  // it begins at highest / first_divisor
  double last_divisor = 1e4;  // and ends at that / last_divisor
  bool cosine = true;         // else linear
};
// Up to `highest` and down again within `steps`: torch's OneCycleLR (Smith, Topin: Super-convergence, 2018).
Schedule one_cycle(double highest, double steps, const OneCycleOptions& options = {}, Where where = Where::current());
struct CyclicOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double falling = 0;       // steps down; 0: as many as up
  double cycle_factor = 1;  // the ratio of a cycle's height to the one before: 0.5 is torch's triangular2
  double step_factor = 1;   // likewise with each step: torch's exp_range
};
// Linearly from `low` to `high` in `rising` steps, and down again, repeatedly: torch's CyclicLR (Smith, 2017).
Schedule cyclic(double low, double high, double rising, const CyclicOptions& options = {},
                Where where = Where::current());
// scale width^-0.5 min(t^-0.5, t warmup^-1.5) at t = step + 1 (Vaswani et al.: Attention is all you need, 2017).
Schedule noam(double width, double warmup, double scale = 1, Where where = Where::current());
// From 0 to `rate` in a line in `warmup` steps, `rate` for `stable` steps, then in a line to `final` in `decay` steps.
Schedule warmup_stable_decay(double rate, double warmup, double stable, double decay, double final = 0,
                             Where where = Where::current());
// schedules[i] from boundaries[i-1] on, where it begins at its step 0: optax's join_schedules. Throws unless there is
// one schedule more than boundaries, which ascend.
Schedule joined(std::vector<Schedule> schedules, std::vector<double> boundaries, Where where = Where::current());
// From 0 to schedule(0) in a line in `steps` steps, then the schedule, from its step 0 on.
Schedule warmed_up(Schedule schedule, double steps, Where where = Where::current());

struct PlateauOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double factor = 0.1;            // times the rate
  int64_t patience = 10;          // updates without an improvement that are let pass
  double threshold = 1e-4;        // by how much a metric must be better than the best, to be so
  bool relative = true;           // whether that is times the best
  int64_t cooldown = 0;           // updates after a change during which nothing is counted
  double lowest = 0;              // rate
  bool higher_is_better = false;  // of the metric
};
// Lowers a learning rate when a metric stops to improve: torch's ReduceLROnPlateau.
//
//   nn::Adam adam;
//   nn::Plateau plateau(adam.learning_rate, {.patience = 3});
//   for (...) plateau.update(validation_loss);
class Plateau {
 public:
  // For a rate that is no schedule, which it shares. Throws otherwise.
  explicit Plateau(const LearningRate& rate, const PlateauOptions& options = {}, Where where = Where::current());
  // Call it after an epoch; returns the rate from now on.
  double update(double metric, Where where = Where::current());
  void name_variables(VariablePaths& paths) const;

 private:
  LearningRate rate_;
  PlateauOptions options_;
  Variable state_;  // the best metric, updates since, updates of cooldown that are left
};

struct PlotOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t width = 64, height = 12;  // of the area, in characters
};
// The rates at steps 0 to steps - 1, as lines of text.
std::string plot(const Schedule& schedule, int64_t steps, const PlotOptions& options = {},
                 Where where = Where::current());

}  // namespace rill::nn

#pragma GCC visibility pop
