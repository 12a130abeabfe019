// Learning rates and schedules: each schedule is a formula of the step, in f64.
#include "rill/nn/optimizers/schedules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "rill/ops/apply.h"
#include "rill/ops/option_checks.h"

namespace rill::nn {

namespace {
constexpr double pi = 3.14159265358979323846;

double checked_rate(double rate, std::string_view op, const Where& where) {
  require_option(rate >= 0 && std::isfinite(rate), op, "the learning rate", rate, "finite and 0 or more", where);
  return rate;
}

void require_above_zero(std::string_view op, std::string_view option, double value, const Where& where) {
  require_option(value > 0 && std::isfinite(value), op, option, value, "finite and above 0", where);
}

void require_ascending(std::string_view op, const std::vector<double>& boundaries, const Where& where) {
  for (size_t i = 1; i < boundaries.size(); ++i)
    if (!(boundaries[i - 1] < boundaries[i]))
      fail(op, fmt::format("the boundaries do not ascend: {} follows {}", boundaries[i], boundaries[i - 1]), where);
}

// From `a` to `b` along half a cosine, or in a line, as `done` goes from 0 to 1.
Tensor between(double a, double b, const Tensor& done, bool cosine) {
  return cosine ? b + (a - b) / 2 * (cos(done * pi) + 1) : a + (b - a) * done;
}
// f(step) with the step in f64: powers of an integer would be integers, too.
template <class F>
Schedule of_step(F f) {
  return [f = std::move(f)](const Tensor& step) { return f(astype(step, f64)); };
}
}  // namespace

LearningRate::LearningRate(double rate, Where where) {
  CallerScope caller(where);
  checked_rate(rate, "LearningRate", where);
  EagerScope eager;
  rate_.emplace_back(full({}, rate, {.dtype = f64}), VariableOptions{.name = "learning_rate", .trainable = false});
}
LearningRate::LearningRate(const Variable& rate) : rate_{rate} {}
LearningRate::LearningRate(Schedule schedule, Where where) : schedule_(std::move(schedule)) {
  if (!schedule_) fail("LearningRate", "the schedule is empty", where);
}

Tensor LearningRate::at(const Tensor& step, Where where) const {
  if (rate_.empty() && !schedule_) fail("LearningRate", "it was moved from, and holds nothing", where);
  const Tensor rate = rate_.empty() ? schedule_(step) : rate_[0].value(where);
  if (!rate.defined() || rate.size() != 1)
    fail("LearningRate",
         "the rate is " + (rate.defined() ? to_string(rate.spec()) : "an undefined tensor") + " and must be one number",
         where);
  return astype(rate, f64, where);
}

LearningRate& LearningRate::assign(double rate, Where where) {
  if (rate_.empty())
    fail("LearningRate.assign", "the learning rate follows a schedule, which cannot be assigned", where);
  rate_[0].assign(checked_rate(rate, "LearningRate.assign", where), where);
  return *this;
}

Schedule exponential_decay(double initial, double steps, double factor, Where where) {
  checked_rate(initial, "exponential_decay", where);
  require_option(steps > 0, "exponential_decay", "steps", steps, "above 0", where);
  require_option(factor > 0, "exponential_decay", "factor", factor, "above 0", where);
  return of_step([=](const Tensor& step) { return initial * exp(step * (std::log(factor) / steps)); });
}

Schedule cosine_decay(double initial, double steps, double alpha, double warmup, Where where) {
  checked_rate(initial, "cosine_decay", where);
  require_option(steps > 0, "cosine_decay", "steps", steps, "above 0", where);
  require_not_negative("cosine_decay", "alpha", alpha, where);
  require_option(warmup >= 0 && warmup <= steps, "cosine_decay", "warmup", warmup, "in [0, steps]", where);
  return of_step([=](const Tensor& step) {
    const Tensor done = clip((step - warmup) / std::max(1.0, steps - warmup), 0, 1);
    const Tensor decayed = initial * (alpha + (1 - alpha) * 0.5 * (1 + cos(done * pi)));
    return warmup > 0 ? rill::where(step < warmup, initial * step / warmup, decayed) : decayed;
  });
}

namespace {
Schedule steps_between(std::string_view op, std::vector<double> boundaries, std::vector<double> values,
                       const Where& where) {
  for (double v : values) checked_rate(v, op, where);
  require_ascending(op, boundaries, where);
  return of_step([boundaries = std::move(boundaries), values = std::move(values)](const Tensor& step) {
    Tensor rate = full_like(step, values[0]);
    for (size_t i = 0; i < boundaries.size(); ++i) rate = rill::where(step >= boundaries[i], values[i + 1], rate);
    return rate;
  });
}
}  // namespace

Schedule piecewise_constant(std::vector<double> boundaries, std::vector<double> values, Where where) {
  if (values.size() != boundaries.size() + 1)
    fail("piecewise_constant",
         std::to_string(values.size()) + " values for " + std::to_string(boundaries.size()) +
             " boundaries. give one value more than boundaries",
         where);
  return steps_between("piecewise_constant", std::move(boundaries), std::move(values), where);
}

void LearningRate::name_variables(VariablePaths& paths) const {
  if (!rate_.empty()) paths.add("learning_rate", rate_[0]);
}

Schedule constant_rate(double rate, Where where) {
  checked_rate(rate, "constant_rate", where);
  return of_step([=](const Tensor& step) { return full_like(step, rate); });
}

Schedule step_decay(double initial, double steps, double factor, Where where) {
  checked_rate(initial, "step_decay", where);
  require_above_zero("step_decay", "steps", steps, where);
  require_above_zero("step_decay", "factor", factor, where);
  return of_step([=](const Tensor& step) { return initial * pow(full_like(step, factor), floor(step / steps)); });
}

Schedule multi_step_decay(double initial, std::vector<double> boundaries, double factor, Where where) {
  require_above_zero("multi_step_decay", "factor", factor, where);
  std::vector<double> values{initial};
  for (size_t i = 0; i < boundaries.size(); ++i) values.push_back(values.back() * factor);
  return steps_between("multi_step_decay", std::move(boundaries), std::move(values), where);
}

Schedule polynomial_decay(double initial, double steps, double final, double power, Where where) {
  checked_rate(initial, "polynomial_decay", where);
  checked_rate(final, "polynomial_decay", where);
  require_above_zero("polynomial_decay", "steps", steps, where);
  require_above_zero("polynomial_decay", "power", power, where);
  return of_step([=](const Tensor& step) {
    const Tensor left = 1 - clip(step / steps, 0, 1);
    return (initial - final) * (power == 1 ? left : pow(left, full_like(left, power))) + final;
  });
}

Schedule inverse_time_decay(double initial, double steps, double rate, Where where) {
  checked_rate(initial, "inverse_time_decay", where);
  require_above_zero("inverse_time_decay", "steps", steps, where);
  require_not_negative("inverse_time_decay", "rate", rate, where);
  return of_step([=](const Tensor& step) { return initial / (1 + rate * step / steps); });
}

// In the i-th cycle, which begins at (multiple^i - 1) / (multiple - 1) first cycles, the sum of those before.
Schedule cosine_restarts(double initial, double steps, const RestartOptions& options, Where where) {
  const auto [named_only, multiple, decay, alpha] = options;
  checked_rate(initial, "cosine_restarts", where);
  require_above_zero("cosine_restarts", "steps", steps, where);
  require_option(multiple >= 1, "cosine_restarts", "multiple", multiple, "1 or more", where);
  require_above_zero("cosine_restarts", "decay", decay, where);
  require_not_negative("cosine_restarts", "alpha", alpha, where);
  return of_step([initial, steps, multiple = multiple, decay = decay, alpha = alpha](const Tensor& step) {
    const Tensor done = step / steps;
    Tensor cycle = floor(done), within = done - cycle;
    if (multiple > 1) {
      // At a boundary the logarithm's rounding must not make it the cycle before.
      cycle = floor(log(1 + done * (multiple - 1)) / std::log(multiple) + 1e-9);
      const Tensor length = pow(full_like(cycle, multiple), cycle);
      within = (done - (length - 1) / (multiple - 1)) / length;
    }
    return initial * (alpha + (1 - alpha) * 0.5 * pow(full_like(cycle, decay), cycle) * (1 + cos(within * pi)));
  });
}

Schedule one_cycle(double highest, double steps, const OneCycleOptions& options, Where where) {
  checked_rate(highest, "one_cycle", where);
  require_option(steps >= 2, "one_cycle", "steps", steps, "2 or more", where);
  require_option(options.rising > 0 && options.rising < 1, "one_cycle", "rising", options.rising, "in (0, 1)", where);
  require_above_zero("one_cycle", "first_divisor", options.first_divisor, where);
  require_above_zero("one_cycle", "last_divisor", options.last_divisor, where);
  const double first = highest / options.first_divisor, last = first / options.last_divisor;
  const double top = options.rising * steps - 1, end = steps - 1;
  require_option(top > 0, "one_cycle", "rising", options.rising, "more than one of the steps", where);
  return of_step([=, cosine = options.cosine](const Tensor& step) {
    const Tensor up = between(first, highest, step / top, cosine);
    const Tensor down = between(highest, last, clip((step - top) / (end - top), 0, 1), cosine);
    return rill::where(step <= top, up, down);
  });
}

Schedule cyclic(double low, double high, double rising, const CyclicOptions& options, Where where) {
  checked_rate(low, "cyclic", where);
  checked_rate(high, "cyclic", where);
  require_above_zero("cyclic", "rising", rising, where);
  require_not_negative("cyclic", "falling", options.falling, where);
  require_above_zero("cyclic", "cycle_factor", options.cycle_factor, where);
  require_above_zero("cyclic", "step_factor", options.step_factor, where);
  const double falling = options.falling > 0 ? options.falling : rising, share = rising / (rising + falling);
  return of_step([=, by_cycle = options.cycle_factor, by_step = options.step_factor](const Tensor& step) {
    const Tensor cycle = floor(step / (rising + falling)), x = step / (rising + falling) - cycle;
    Tensor height = rill::where(x <= share, x / share, (x - 1) / (share - 1));
    if (by_cycle != 1) height = height * pow(full_like(cycle, by_cycle), cycle);
    if (by_step != 1) height = height * pow(full_like(step, by_step), step);
    return low + (high - low) * height;
  });
}

Schedule noam(double width, double warmup, double scale, Where where) {
  require_above_zero("noam", "width", width, where);
  require_above_zero("noam", "warmup", warmup, where);
  require_above_zero("noam", "scale", scale, where);
  return of_step([=](const Tensor& step) {
    const Tensor t = step + 1;
    return scale / std::sqrt(width) * minimum(rsqrt(t), t * std::pow(warmup, -1.5));
  });
}

Schedule warmup_stable_decay(double rate, double warmup, double stable, double decay, double final, Where where) {
  checked_rate(rate, "warmup_stable_decay", where);
  checked_rate(final, "warmup_stable_decay", where);
  require_not_negative("warmup_stable_decay", "warmup", warmup, where);
  require_not_negative("warmup_stable_decay", "stable", stable, where);
  require_above_zero("warmup_stable_decay", "decay", decay, where);
  return of_step([=](const Tensor& step) {
    const Tensor falls = between(rate, final, clip((step - (warmup + stable)) / decay, 0, 1), false);
    return warmup > 0 ? rill::where(step < warmup, rate * step / warmup, falls) : falls;
  });
}

Schedule joined(std::vector<Schedule> schedules, std::vector<double> boundaries, Where where) {
  if (schedules.size() != boundaries.size() + 1)
    fail("joined",
         fmt::format("{} schedules for {} boundaries. give one schedule more than boundaries", schedules.size(),
                     boundaries.size()),
         where);
  require_ascending("joined", boundaries, where);
  for (const Schedule& s : schedules)
    if (!s) fail("joined", "a schedule is empty", where);
  return of_step([schedules = std::move(schedules), boundaries = std::move(boundaries)](const Tensor& step) {
    Tensor rate = schedules[0](step);
    for (size_t i = 0; i < boundaries.size(); ++i)
      rate = rill::where(step >= boundaries[i], schedules[i + 1](maximum(step - boundaries[i], 0.0)), rate);
    return rate;
  });
}

Schedule warmed_up(Schedule schedule, double steps, Where where) {
  require_above_zero("warmed_up", "steps", steps, where);
  if (!schedule) fail("warmed_up", "the schedule is empty", where);
  const Schedule rise = [=](const Tensor& step) { return schedule(zeros_like(step)) * step / steps; };
  return joined({rise, schedule}, {steps}, where);
}

// --- Plateau ---------------------------------------------------------------------------------------------------------

Plateau::Plateau(const LearningRate& rate, const PlateauOptions& options, Where where)
    : rate_(rate), options_(options), state_([&] {
        const EagerScope eager;
        const double worst = std::numeric_limits<double>::infinity() * (options.higher_is_better ? -1 : 1);
        return Variable(tensor({worst, 0.0, 0.0}), VariableOptions{.name = "plateau", .trainable = false});
      }()) {
  require_option(options.factor > 0 && options.factor < 1, "Plateau", "factor", options.factor, "in (0, 1)", where);
  require_not_negative("Plateau", "threshold", options.threshold, where);
  require_not_negative("Plateau", "lowest", options.lowest, where);
  require_option(options.patience >= 0, "Plateau", "patience", options.patience, "not negative", where);
  require_option(options.cooldown >= 0, "Plateau", "cooldown", options.cooldown, "not negative", where);
  rate_.assign(rate_.at(tensor(0.0)).item<double>(), where);  // throws of a schedule
}

double Plateau::update(double metric, Where where) {
  CallerScope caller(where);
  std::vector<double> now = state_.to_vector<double>();
  double &best = now[0], &bad = now[1], &cooling = now[2];
  const double sign = options_.higher_is_better ? 1 : -1;
  const double margin = options_.relative ? std::abs(best) * options_.threshold : options_.threshold;
  const bool better = std::isinf(best) ? !std::isnan(metric) : sign * (metric - best) > margin;
  if (better) best = metric, bad = 0;
  else ++bad;
  if (cooling > 0) --cooling, bad = 0;
  double rate = rate_.at(tensor(0.0)).item<double>();
  if (bad > double(options_.patience)) {
    rate = std::max(rate * options_.factor, options_.lowest);
    rate_.assign(rate);
    cooling = double(options_.cooldown), bad = 0;
  }
  state_.assign(tensor(now));
  return rate;
}

void Plateau::name_variables(VariablePaths& paths) const { paths.add("plateau", state_); }

// --- Plots -----------------------------------------------------------------------------------------------------------

std::string plot(const Schedule& schedule, int64_t steps, const PlotOptions& options, Where where) {
  CallerScope caller(where);
  if (!schedule) fail("plot", "the schedule is empty", where);
  require_option(steps >= 1, "plot", "steps", steps, "1 or more", where);
  require_option(options.width >= 2 && options.height >= 2, "plot", "width or height",
                 std::min(options.width, options.height), "2 or more", where);
  const int64_t width = std::min(options.width, steps), height = options.height;
  std::vector<double> rates;
  for (int64_t i = 0; i < width; ++i) {
    const double step = width == 1 ? 0 : std::round(double(i) * double(steps - 1) / double(width - 1));
    rates.push_back(schedule(tensor(step)).item<double>());
  }
  const double low = std::min(0.0, *std::min_element(rates.begin(), rates.end()));
  const double high = *std::max_element(rates.begin(), rates.end()), range = high > low ? high - low : 1;
  std::vector<std::string> lines(size_t(height), std::string(size_t(width), ' '));
  for (size_t i = 0; i < rates.size(); ++i)
    lines[size_t(std::lround((high - rates[i]) / range * double(height - 1)))][i] = '*';
  std::string result;
  for (int64_t row = 0; row < height; ++row) {
    const double value = high - range * double(row) / double(height - 1);
    std::string& line = lines[size_t(row)];
    line.erase(line.find_last_not_of(' ') + 1);
    result += fmt::format("{:>9.3g} |{}\n", value, line);
  }
  return result + fmt::format("{:>9} +{}\n{:>11}{:<{}}{}\n", "", std::string(size_t(width), '-'), "", 0,
                              std::max<int64_t>(1, width - int64_t(std::to_string(steps - 1).size())), steps - 1);
}

}  // namespace rill::nn
