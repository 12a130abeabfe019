// SGD, ASGD, Rprop.
#include "rill/nn/optimizers/sgd.h"

#include "rill/ops/option_checks.h"

namespace rill::nn {

SGD::SGD(const SGDOptions& o, Where where) : Optimizer(OptimizerOptions::of(o, "SGD", where), where), options_(o) {
  impl::require_momentum("SGD", o.momentum, where);
  if (o.nesterov && o.momentum == 0)
    fail("SGD", "nesterov is true and momentum is 0. Nesterov's momentum needs a momentum above 0", where);
}

std::vector<std::string> SGD::slot_names() const {
  return options_.momentum != 0 ? std::vector<std::string>{"velocity"} : std::vector<std::string>();
}

void SGD::update_rows(const Rows& rows, const Tensor& gradient) {
  Tensor g = gradient;
  if (options_.momentum != 0) {
    const Rows velocity = slot(rows, "velocity");
    const Tensor next = options_.momentum * velocity.value() + g;
    velocity.assign(next);
    g = options_.nesterov ? g + options_.momentum * next : next;
  }
  rows.subtract(rows.rate() * g);
}

ASGD::ASGD(const ASGDOptions& o, Where where) : Optimizer(OptimizerOptions::of(o, "ASGD", where), where), options_(o) {
  require_not_negative("ASGD", "decay", o.decay, where);
  require_not_negative("ASGD", "power", o.power, where);
  require_not_negative("ASGD", "start", o.start, where);
}

std::vector<std::string> ASGD::slot_names() const { return {"mean"}; }

void ASGD::begin_step(const Tensor& step, const Tensor& rate) {
  const Tensor base = 1 + options_.decay * rate * step;
  eta_ = rate / pow(base, full_like(base, options_.power));
  share_ = 1 / maximum(step - options_.start, 1.0);
}

void ASGD::update_rows(const Rows& rows, const Tensor& gradient) {
  const Rows mean = slot(rows, "mean");
  const Tensor eta = rows.rated(eta_), share = rows.number(share_), before = mean.value();
  const Tensor shrunk = astype(rows.value(), gradient.dtype()) * (1 - options_.decay * eta);
  const Tensor value = shrunk - eta * gradient;
  rows.assign(value);
  mean.assign(where(share == 1, value, before + share * (value - before)));
}

Rprop::Rprop(const RpropOptions& o, Where where)
    : Optimizer(OptimizerOptions::of(o, "Rprop", where), where), options_(o) {
  require_option(o.shrink > 0 && o.shrink < 1, "Rprop", "shrink", o.shrink, "in (0, 1)", where);
  require_option(o.grow > 1, "Rprop", "grow", o.grow, "above 1", where);
  require_option(o.shortest > 0 && o.shortest <= o.longest, "Rprop", "shortest", o.shortest,
                 "above 0 and at most longest", where);
}

std::vector<std::string> Rprop::slot_names() const { return {"before", "length"}; }

// A length is never 0 once it was set.
void Rprop::update_rows(const Rows& rows, const Tensor& gradient) {
  const Rows before = slot(rows, "before"), length = slot(rows, "length");
  const Tensor known = length.value(), agreement = gradient * before.value();
  const Tensor turned = agreement < 0, now = where(known == 0, rows.rate(), known);
  const Tensor factor = where(turned, options_.shrink, where(agreement > 0, options_.grow, 1.0));
  const Tensor next = clip(now * astype(factor, now.dtype()), options_.shortest, options_.longest);
  const Tensor g = where(turned, zeros_like(gradient), gradient);
  length.assign(next);
  before.assign(g);
  rows.subtract(sign(g) * next);
}

}  // namespace rill::nn
