// Lookahead, SAM, LBFGS.
#include "rill/nn/optimizers/closures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "rill/nn/optimizers/parts.h"
#include "rill/ops/apply.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/scopes.h"
#include "rill/trace/control_flow.h"

namespace rill::nn {

// --- Lookahead -------------------------------------------------------------------------------------------------------

namespace impl {

LookaheadOptions checked_lookahead(const LookaheadOptions& o, const Where& where) {
  require_option(o.steps >= 1, "Lookahead", "steps", o.steps, "1 or more", where);
  require_option(o.rate > 0 && o.rate <= 1, "Lookahead", "rate", o.rate, "in (0, 1]", where);
  return o;
}

void begin_lookahead(const FastAndSlow& weights, const Tensor& step) {
  cond(
      step == 0,
      [&] {
        for (auto [fast, slow] : weights) slow.assign(astype(fast.value(), slow.dtype()));
      },
      [] {});
}

void end_lookahead(const FastAndSlow& weights, const Tensor& step, const LookaheadOptions& options) {
  const double every = double(options.steps);
  cond(
      step + 1 - floor((step + 1) / every) * every == 0,
      [&] {
        for (auto [fast, slow] : weights) {
          const Tensor from = slow.value(), to = astype(fast.value(), from.dtype());
          const Tensor next = from + options.rate * (to - from);
          slow.assign(next);
          fast.assign(astype(next, fast.dtype()));
        }
      },
      [] {});
}

}  // namespace impl

// --- SAM -------------------------------------------------------------------------------------------------------------

SAM::SAM(const SAMOptions& options, Where where) : options_(options) {
  require_not_negative("SAM", "rho", options.rho, where);
}

namespace {
// Those of the optimizer's loss scale.
std::vector<Gradient> gradients_now(const LossFunction& loss, const Optimizer& optimizer,
                                    const std::vector<Variable>& variables, Tensor& loss_now) {
  GradientTape tape;
  loss_now = loss();
  return optimizer.gradients(loss_now, tape, variables);
}
// The norm of the model, of which other processes may have parts.
Tensor norm_of_model(const std::vector<Tensor>& gradients, const std::vector<Variable>& variables) {
  const impl::PartCalls* parts = impl::part_calls(variables);
  if (!parts) return global_norm(gradients);
  return sqrt(parts->square_of_norm({gradients.begin(), gradients.end()}, variables));
}
}  // namespace

Tensor SAM::minimize(const LossFunction& loss, Optimizer& optimizer, const std::vector<Variable>& variables,
                     Where where) const {
  CallerScope caller(where);
  if (!loss) fail("SAM", "the loss is empty", where);
  Tensor first, second;
  const std::vector<Tensor> here = optimizer.unscaled(gradients_now(loss, optimizer, variables, first));
  std::vector<Tensor> scaled, old;
  for (size_t i = 0; i < variables.size(); ++i) {
    old.push_back(variables[i].value());
    scaled.push_back(options_.adaptive ? abs(old[i]) * here[i] : here[i]);
  }
  const Tensor norm = norm_of_model(scaled, variables);
  for (size_t i = 0; i < variables.size(); ++i) {
    const Tensor way = options_.adaptive ? square(old[i]) * here[i] : here[i];
    const Tensor share = options_.rho / (norm.to(old[i].device()) + 1e-12);
    Variable(variables[i]).assign(old[i] + astype(share * way, old[i].dtype()));
  }
  std::vector<Gradient> there;
  try {
    there = gradients_now(loss, optimizer, variables, second);
  } catch (...) {
    for (size_t i = 0; i < variables.size(); ++i) Variable(variables[i]).assign(old[i]);
    throw;
  }
  for (size_t i = 0; i < variables.size(); ++i) Variable(variables[i]).assign(old[i]);
  optimizer.apply_gradients(there, variables);
  return first;
}

namespace {
std::vector<Variable> trainable_of(const NamedVariables& all) {
  std::vector<Variable> result;
  for (const auto& [path, v] : all)
    if (v.trainable()) result.push_back(v);
  return result;
}
}  // namespace

Tensor SAM::minimize(const LossFunction& loss, Optimizer& optimizer, const NamedVariables& variables,
                     Where where) const {
  return minimize(loss, optimizer, trainable_of(variables), where);
}

// --- Stochastic weight averaging -----------------------------------------------------------------------------------

namespace {
// Each once: a duplicate would be swapped twice.
std::vector<Variable> only_trainable(const std::vector<Variable>& all) {
  std::vector<Variable> some;
  for (const Variable& v : all) {
    const auto is_it = [&](const Variable& other) { return &other.state() == &v.state(); };
    if (v.trainable() && std::ranges::none_of(some, is_it)) some.push_back(v);
  }
  return some;
}
}  // namespace

WeightAverage::WeightAverage(const std::vector<Variable>& variables, Where where)
    : variables_(only_trainable(variables)),
      count_(zeros({}, {.dtype = i64}), VariableOptions{.name = "count", .trainable = false}) {
  CallerScope caller(where);
  if (variables_.empty()) fail("WeightAverage", "there are no trainable variables", where);
  const NameScope scope("average");
  for (const Variable& v : variables_) {
    const DType d = is_complex(v.dtype()) || v.dtype() == f64 ? v.dtype() : f32;
    means_.emplace_back(zeros(v.shape(), {d, v.device()}), VariableOptions{.name = v.name(), .trainable = false});
  }
}
WeightAverage::WeightAverage(const NamedVariables& variables, Where where)
    : WeightAverage(trainable_of(variables), where) {}

void WeightAverage::update(Where where) {
  CallerScope caller(where);
  if (!own_.empty()) fail("WeightAverage", "the means are swapped in. swap() them out first", where);
  const PauseTapes pause;
  const Tensor n = count_.value() + 1;
  for (size_t i = 0; i < variables_.size(); ++i) {
    const Tensor mean = means_[i].value();
    means_[i].assign(mean +
                     (variables_[i].value().astype(mean.dtype()) - mean) / n.astype(mean.dtype()).to(mean.device()));
  }
  count_.assign(n);
}

void WeightAverage::swap(Where where) {
  CallerScope caller(where);
  if (!executing_eagerly()) fail("WeightAverage", "parameters are swapped outside of traced functions", where);
  if (own_.empty()) {
    if (count() == 0) fail("WeightAverage", "there is no mean before update()", where);
    for (size_t i = 0; i < variables_.size(); ++i) {
      own_.push_back(variables_[i].value());
      variables_[i].assign(means_[i].value().astype(variables_[i].dtype()));
    }
    return;
  }
  for (size_t i = 0; i < variables_.size(); ++i) variables_[i].assign(own_[i]);
  own_.clear();
}

void WeightAverage::visit_parts(ModelVisitor& visitor) {
  visitor.variable("count", count_);
  for (size_t i = 0; i < means_.size(); ++i) visitor.variable(std::to_string(i), means_[i]);
}

// --- LBFGS -----------------------------------------------------------------------------------------------------------

namespace {

double dot_of(const Tensor& a, const Tensor& b) { return sum(a * b).item<double>(); }
double largest_of(const Tensor& x) { return max(abs(x)).item<double>(); }

// The minimum of the cubic through two points with their slopes, within bounds.
double cubic_minimum(double x1, double f1, double g1, double x2, double f2, double g2, double low, double high) {
  const double d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2), square = d1 * d1 - g1 * g2;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const double at = x1 <= x2 ? x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
                             : x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2));
  return std::min(std::max(at, low), high);
}

}  // namespace

// The loss along a direction from where the parameters are, and a search for a good step.
class LBFGS::Line {
 public:
  Line(const LossFunction& loss, const std::vector<Variable>& variables) : loss_(loss), variables_(variables) {
    stay();
  }
  // From now on the line begins where the parameters are.
  void stay() {
    start_.clear();
    for (const Variable& v : variables_) start_.push_back(v.value());
  }
  void go(const Tensor& direction, double t) {
    int64_t at = 0;
    for (size_t i = 0; i < variables_.size(); ++i) {
      const int64_t n = start_[i].size();
      const Tensor part = reshape(direction(slice(at, at + n)), start_[i].shape()).to(start_[i].device());
      Variable(variables_[i]).assign(astype(astype(start_[i], f64) + t * part, start_[i].dtype()));
      at += n;
    }
  }
  Point here(double t, const Tensor& direction) {
    ++evaluations;
    GradientTape tape;
    const Tensor value = loss_();
    const std::vector<Tensor> gradients = tape.gradient(value, variables_);
    std::vector<Tensor> flat;
    for (const Tensor& g : gradients) flat.push_back(astype(reshape(g, {-1}), f64).to("cpu:0"));
    if (!first.defined()) first = value;
    Point p{t, astype(value, f64).item<double>(), 0, concat(flat)};
    if (direction.defined()) p.slope = dot_of(p.gradient, direction);
    return p;
  }
  Point at(const Tensor& direction, double t) {
    go(direction, t);
    return here(t, direction);
  }
  // A point where the loss has sunk by enough and the slope has flattened, from `from` at t = 0.
  Point search(const Tensor& direction, const Point& from, double t, double tolerance);

  int64_t evaluations = 0;
  Tensor first;  // loss

 private:
  // The two points that the first phase has found a good one between; one where it has found that.
  std::vector<Point> bracket(const Tensor& direction, const Point& from, double t, int& tries);
  static constexpr double sunk = 1e-4, flat = 0.9;
  static constexpr int most = 25;
  const LossFunction& loss_;
  const std::vector<Variable>& variables_;
  std::vector<Tensor> start_;
};

std::vector<LBFGS::Point> LBFGS::Line::bracket(const Tensor& direction, const Point& from, double t, int& tries) {
  Point before = from, now = at(direction, t);
  for (; tries < most; ++tries) {
    if (now.loss > from.loss + sunk * now.t * from.slope || (tries > 1 && now.loss >= before.loss))
      return {before, now};
    if (std::abs(now.slope) <= -flat * from.slope) return {now};
    if (now.slope >= 0) return {before, now};
    const double next = cubic_minimum(before.t, before.loss, before.slope, now.t, now.loss, now.slope,
                                      now.t + 0.01 * (now.t - before.t), now.t * 10);
    before = std::exchange(now, at(direction, next));
  }
  return {from, now};
}

LBFGS::Point LBFGS::Line::search(const Tensor& direction, const Point& from, double t, double tolerance) {
  int tries = 0;
  std::vector<Point> ends = bracket(direction, from, t, tries);
  if (ends.size() == 1) return ends[0];
  const double size = largest_of(direction);
  bool slow = false;
  while (tries < most) {
    if (ends[1].loss < ends[0].loss) std::swap(ends[0], ends[1]);  // the better one first
    Point &best = ends[0], &other = ends[1];
    const double low = std::min(best.t, other.t), high = std::max(best.t, other.t), margin = 0.1 * (high - low);
    if ((high - low) * size < tolerance) break;
    const Point &a = best.t <= other.t ? best : other, &b = best.t <= other.t ? other : best;
    double next = cubic_minimum(a.t, a.loss, a.slope, b.t, b.loss, b.slope, low, high);
    // Too near to an end twice is no progress.
    if (std::min(high - next, next - low) < margin) {
      if (slow || next >= high || next <= low) {
        next = std::abs(next - high) < std::abs(next - low) ? high - margin : low + margin;
        slow = false;
      } else {
        slow = true;
      }
    } else {
      slow = false;
    }
    const Point now = at(direction, next);
    ++tries;
    if (now.loss > from.loss + sunk * next * from.slope || now.loss >= best.loss) {
      other = now;
      continue;
    }
    if (std::abs(now.slope) <= -flat * from.slope) return now;
    if (now.slope * (other.t - best.t) >= 0) other = best;
    best = now;
  }
  return ends[0].loss <= ends[1].loss ? ends[0] : ends[1];
}

LBFGS::LBFGS(const LBFGSOptions& o, Where where)
    : options_(o), state_(tensor(std::string()), VariableOptions{.name = "state", .trainable = false}) {
  require_option(o.learning_rate > 0, "LBFGS", "learning_rate", o.learning_rate, "above 0", where);
  require_option(o.max_iterations >= 1, "LBFGS", "max_iterations", o.max_iterations, "1 or more", where);
  require_option(o.max_evaluations >= 1, "LBFGS", "max_evaluations", o.max_evaluations, "1 or more", where);
  require_option(o.history >= 1, "LBFGS", "history", o.history, "1 or more", where);
  require_not_negative("LBFGS", "gradient_tolerance", o.gradient_tolerance, where);
  require_not_negative("LBFGS", "change_tolerance", o.change_tolerance, where);
}

// The change of the gradient over the last step.
void LBFGS::remember(const Tensor& gradient) {
  const Tensor change = gradient - gradient_, way = direction_ * length_;
  const double product = dot_of(change, way);
  if (!(product > 1e-10)) return;
  if (int64_t(changes_.size()) == options_.history) changes_.pop_front();
  changes_.push_back({change, way, 1 / product});
  scale_ = product / dot_of(change, change);
}

// Minus the gradient times the inverse of the Hessian that the remembered changes amount to.
Tensor LBFGS::direction_at(const Tensor& gradient) const {
  Tensor q = -gradient;
  std::vector<double> shares(changes_.size());
  for (size_t i = changes_.size(); i-- > 0;) {
    shares[i] = dot_of(changes_[i].parameters, q) * changes_[i].one_over_product;
    q = q - shares[i] * changes_[i].gradient;
  }
  q = q * scale_;
  for (size_t i = 0; i < changes_.size(); ++i)
    q = q + (shares[i] - dot_of(changes_[i].gradient, q) * changes_[i].one_over_product) * changes_[i].parameters;
  return q;
}

// All numbers as their bytes: the numbers of changes and parameters, then the state after a step.
std::string LBFGS::memory() const {
  std::string text;
  const auto put = [&](double x) { text.append(reinterpret_cast<const char*>(&x), sizeof x); };
  const auto put_all = [&](const Tensor& t) {
    if (t.defined())
      for (const double x : t.to_vector<double>()) put(x);
  };
  put(double(changes_.size())), put(gradient_.defined() ? double(gradient_.size()) : 0);
  put(double(steps_)), put(length_), put(scale_);
  put_all(direction_), put_all(gradient_);
  for (const Change& change : changes_)
    put(change.one_over_product), put_all(change.gradient), put_all(change.parameters);
  return text;
}

void LBFGS::recall(const Where& where) {
  const std::string text = state_.value().item<std::string>();
  if (text == written_) return;
  constexpr size_t head = 5;
  const auto numbers = int64_t(text.size() / sizeof(double));
  int64_t at = 0;
  const auto take = [&] {
    double x = 0;
    std::memcpy(&x, text.data() + size_t(at++) * sizeof x, sizeof x);
    return x;
  };
  const auto damaged = [&] { fail("LBFGS", "what the checkpoint has of it is damaged", where); };
  if (text.size() % sizeof(double) != 0 || numbers < int64_t(head)) damaged();
  const double count = take(), parameters = take();
  if (!(count >= 0 && parameters >= 0) ||
      double(numbers - int64_t(head)) != 2 * parameters + count * (1 + 2 * parameters))
    damaged();
  const auto take_all = [&] {
    std::vector<double> all(static_cast<size_t>(parameters));
    for (double& x : all) x = take();
    return tensor(all, {.device = "cpu:0"});
  };
  changes_.clear();
  steps_ = int64_t(take()), length_ = take(), scale_ = take();
  direction_ = gradient_ = Tensor();
  if (parameters > 0) direction_ = take_all(), gradient_ = take_all();
  for (int64_t i = 0; i < int64_t(count); ++i) {
    const double one_over_product = take();
    const Tensor gradient = take_all();
    changes_.push_back({gradient, take_all(), one_over_product});
  }
  written_ = text;
}

void LBFGS::name_variables(VariablePaths& paths) const {
  if (executing_eagerly() && state_.value().item<std::string>() == written_) {
    written_ = memory();
    Variable(state_).assign(tensor(written_));
  }
  paths.add("state", state_);
}

Tensor LBFGS::minimize(const LossFunction& loss, const std::vector<Variable>& variables, Where where) {
  CallerScope caller(where);
  if (!executing_eagerly())
    fail("LBFGS", "it reads the loss, and does not work inside a traced function. trace the loss instead", where);
  if (!loss) fail("LBFGS", "the loss is empty", where);
  if (variables.empty()) fail("LBFGS", "the list of variables is empty", where);
  recall(where);
  Line line(loss, variables);
  Point now = line.here(0, {});
  if (gradient_.defined() && gradient_.size() != now.gradient.size())
    fail("LBFGS",
         fmt::format("it remembers steps of {} numbers, and the variables have {}", gradient_.size(),
                     now.gradient.size()),
         where);
  if (largest_of(now.gradient) <= options_.gradient_tolerance) return line.first;
  for (int64_t i = 1; i <= options_.max_iterations; ++i) {
    if (steps_++ > 0) remember(now.gradient);
    direction_ = direction_at(now.gradient);
    gradient_ = now.gradient;
    length_ = (steps_ == 1 ? std::min(1.0, 1 / sum(abs(now.gradient)).item<double>()) : 1.0) * options_.learning_rate;
    const double before = now.loss;
    now.t = 0, now.slope = dot_of(now.gradient, direction_);
    if (now.slope > -options_.change_tolerance) break;
    line.stay();
    if (options_.strong_wolfe) {
      now = line.search(direction_, now, length_, options_.change_tolerance);
      length_ = now.t;
      line.go(direction_, length_);
    } else {
      line.go(direction_, length_);
      if (i != options_.max_iterations) now = line.here(length_, direction_);
    }
    if (line.evaluations >= options_.max_evaluations || largest_of(now.gradient) <= options_.gradient_tolerance ||
        largest_of(direction_) * length_ <= options_.change_tolerance ||
        std::abs(now.loss - before) < options_.change_tolerance)
      break;
  }
  return line.first;
}

Tensor LBFGS::minimize(const LossFunction& loss, const NamedVariables& variables, Where where) {
  return minimize(loss, trainable_of(variables), where);
}

}  // namespace rill::nn
