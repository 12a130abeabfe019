// Propagating tangents: which tensors have one, and what happens when an op is recorded. Start at Impl::record; the
// rules are in tangents.cpp.
#include "rill/autodiff/forward.h"

#include <fmt/format.h>

#include "rill/autodiff/forward_impl.h"
#include "rill/autodiff/vmap.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"

namespace rill {

using Impl = ForwardAccumulator::Impl;

// --- Which tensors have a tangent ------------------------------------------------------------------------------------

Impl::Impl() : serial_(new_tape_serial()) { start_recording(); }

void Impl::forget() {
  serial_ = new_tape_serial();
  known_.clear(), free_.clear(), by_id_.clear(), variables_.clear();
}

uint32_t Impl::slot_of(const Tensor& t) const {
  const TensorRep* r = t.rep();
  if (r->tape == serial_) return r->tape_node;
  if (by_id_.empty()) return 0;
  const auto at = by_id_.find(r->id);
  return at == by_id_.end() ? 0 : at->second;
}

const Tensor& Impl::tangent_of(const Tensor& t) const {
  static const Tensor none;
  const uint32_t slot = slot_of(t);
  return slot ? known_[slot - 1].tangent : none;
}

// Returns its slot in known_ if it is new, else 0.
uint32_t Impl::keep(const Tensor& t, const Tensor& tangent) {
  if (const uint32_t slot = slot_of(t)) {
    known_[slot - 1].tangent = tangent;
    return 0;
  }
  bytes_ += size_t(t.size().hint()) * size_of(t.dtype());
  if (known_.size() - free_.size() >= sweep_at_ || bytes_ > byte_limit_) sweep();
  if (free_.empty()) known_.emplace_back(), free_.push_back(uint32_t(known_.size()));
  const uint32_t slot = free_.back();
  free_.pop_back();
  known_[slot - 1] = {t, tangent};
  return slot;
}

void Impl::set(const Tensor& t, const Tensor& tangent) {
  const uint32_t slot = keep(t, tangent);
  if (!slot) return;
  TensorRep* r = known_[slot - 1].tensor.mutable_rep();
  if (r->tape == 0) r->tape = serial_, r->tape_node = slot;
  else by_id_[r->id] = slot;
}

// Other threads may hold it too, so nothing is written to it.
void Impl::watch(const Tensor& t, const Tensor& tangent) {
  if (const uint32_t slot = keep(t, tangent)) by_id_[t.rep()->id] = slot;
}

// Drops the tangents of tensors that nothing else holds: nothing can ask for them. The rest may double before the next
// sweep, so that its amortised cost is low.
void Impl::sweep() {
  bytes_ = 0;
  for (uint32_t slot = 1; slot <= known_.size(); ++slot) {
    Known& k = known_[slot - 1];
    if (!k.tensor.defined()) continue;
    if (k.tensor.ref().unique()) {
      by_id_.erase(k.tensor.rep()->id);
      k = {};
      free_.push_back(slot);
    } else {
      bytes_ += size_t(k.tensor.size().hint()) * size_of(k.tensor.dtype());
    }
  }
  sweep_at_ = std::max<size_t>(64, 2 * (known_.size() - free_.size()));
  byte_limit_ = std::max(size_t(1) << 24, 2 * bytes_);
}

void Impl::set(const Shared<VariableState>& v, const Tensor& tangent) {
  for (KnownVariable& known : variables_)
    if (known.variable == v) {
      known.tangent = tangent;
      return;
    }
  variables_.push_back({v, tangent});
}

void Impl::watch_variable(const Shared<VariableState>& v, Tensor& value) {
  if (!recording) return;
  for (const KnownVariable& known : variables_)
    if (known.variable == v) set(value, known.tangent);
}

// --- Recording -------------------------------------------------------------------------------------------------------

Tensors Impl::tangents_of_all(Operands in) const {
  Tensors tangents;
  bool any = false;
  for (const Tensor* t : in) any |= watches(*t);
  for (size_t i = 0; any && i < in.size(); ++i) tangents.push_back(tangent_of(*in[i]));
  return tangents;
}

void Impl::set_all(std::span<const Tensor> out, const Tensors& tangents) {
  for (size_t i = 0; i < out.size() && i < tangents.size(); ++i)
    if (tangents[i].defined() && is_differentiable(out[i].dtype())) set(out[i], tangents[i]);
}

void Impl::record(const Op& op, Operands in, std::span<Tensor> out, AttrsView attrs, const Where& where) {
  if (!recording) return;
  if (&op == &known_as_op) {
    if (const Tensor tangent = tangent_of(*in[1]); tangent.defined()) set(out[0], tangent);
    return;
  }
  if (!(op.vjp || op.jvp) || op.stops_gradient || !any_differentiable(out)) return;
  const Tensors tangents = tangents_of_all(in);
  if (tangents.empty()) return;
  Tensors operands;
  for (const Tensor* t : in) operands.push_back(*t);
  const Outside outside(*this);
  const CallerScope caller(where);
  set_all(out, tangents_of({op, attrs, operands, out, tangents}));
}

void Impl::record_custom(Operands in, std::span<Tensor> out, const CustomVjp& vjp, const Where& where) {
  if (!recording) return;
  const Tensors tangents = tangents_of_all(in);
  if (tangents.empty()) return;
  const Outside outside(*this);
  const CallerScope caller(where);
  set_all(out, transposed(out, tangents, vjp));
}

void Impl::record_rule(Operands in, const Tensor& out, const TangentRule& rule, const Where& where) {
  if (!recording) return;
  Tensors tangents = tangents_of_all(in);
  if (tangents.empty() || !is_differentiable(out.dtype())) return;
  const Outside outside(*this);
  const CallerScope caller(where);
  for (size_t k = 0; k < in.size(); ++k)
    if (!tangents[k].defined() && is_differentiable(in[k]->dtype())) tangents[k] = zeros_like(*in[k]);
  set(out, rule(tangents));
}

namespace {
bool knows_any(const TapeListener& tape, Operands in) {
  for (const Tensor* t : in)
    if (is_differentiable(t->dtype()) && tape.watches(*t)) return true;
  return false;
}
}  // namespace

TapeListener* innermost_watching(Operands in) {
  const auto& tapes = listeners().tapes;
  for (size_t i = tapes.size(); i-- > 0;)
    if (knows_any(*tapes[i], in)) return tapes[i];
  return nullptr;
}

bool carried_outside(const TapeListener& inner, Operands in) {
  for (const TapeListener* tape : listeners().tapes) {
    if (tape == &inner) return false;
    if (dynamic_cast<const Impl*>(tape) && knows_any(*tape, in)) return true;
  }
  return false;
}

// --- The public members ----------------------------------------------------------------------------------------------

ForwardAccumulator::ForwardAccumulator() : impl_(new Impl()) {}
ForwardAccumulator::ForwardAccumulator(const Source& x, const Tensor& tangent, Where where)
    : ForwardAccumulator({{x, tangent}}, where) {}
ForwardAccumulator::ForwardAccumulator(const std::vector<std::pair<Source, Tensor>>& tangents, Where where)
    : ForwardAccumulator() {
  for (const auto& [x, tangent] : tangents) watch(x, tangent, where);
}
ForwardAccumulator::~ForwardAccumulator() { impl_->end(); }

namespace {

// `tangent` checked and converted as the tangent of something of spec `x`.
Tensor checked_tangent(std::string_view op, const Spec& x, const Tensor& tangent, const Where& where) {
  require_defined(op, tangent, "the tangent", where);
  if (!is_differentiable(x.dtype))
    fail(op,
         fmt::format("{} has no tangents: they need a floating or complex dtype. convert it with astype()",
                     to_string(x)),
         where);
  if (!(tangent.shape() == x.shape))
    fail(op,
         fmt::format("the tangent is {} and x {}: their shapes must be equal", to_string(tangent.spec()), to_string(x)),
         where);
  if (is_complex(tangent.dtype()) && !is_complex(x.dtype))
    fail(op,
         fmt::format("the tangent is {} and x {}: a real x has real tangents", to_string(tangent.spec()), to_string(x)),
         where);
  const CallerScope caller(where);
  const Tensor t = tangent.dtype() == x.dtype ? tangent : tangent.astype(x.dtype);
  return t.device() == x.device ? t : t.to(x.device);
}

}  // namespace

void ForwardAccumulator::watch(const Source& x, const Tensor& tangent, Where where) {
  if (!x.variable) require_defined("ForwardAccumulator", x.tensor, "what has a tangent", where);
  const Impl::Outside outside(*impl_);
  const Spec spec = x.variable ? x.variable->spec : x.tensor.spec();
  const Tensor t = checked_tangent("ForwardAccumulator", spec, tangent, where);
  if (x.variable) impl_->set(x.variable, t);
  else impl_->watch(x.tensor, t);
}

Tensor ForwardAccumulator::jvp(const Tensor& y, Unconnected unconnected, Where where) const {
  require_defined("ForwardAccumulator.jvp", y, "the target", where);
  if (!is_differentiable(y.dtype()))
    fail("ForwardAccumulator.jvp",
         fmt::format("the target is {}: tangents need a floating or complex dtype", to_string(y.spec())), where);
  if (const Tensor& t = impl_->tangent_of(y); t.defined() || unconnected == Unconnected::none) return t;
  if (unconnected == Unconnected::zero) return zeros(y.shape(), {y.dtype(), y.device()}, where);
  if (unconnected != Unconnected::error)
    fail("ForwardAccumulator.jvp", fmt::format("Unconnected({}) does not exist", int(unconnected)), where);
  fail("ForwardAccumulator.jvp",
       fmt::format("{} does not depend on what has a tangent, or was computed before the accumulator was made: compute "
                   "it from that while the accumulator lives, or ask with Unconnected::zero",
                   to_string(y.spec())),
       where);
}

void ForwardAccumulator::stop() { impl_->stop_recording(); }

// --- jvp and linearize -----------------------------------------------------------------------------------------------

const Tensor& detail::CarryLeaves::next() {
  if (taken_ == tangents_.size())
    fail(
        op_,
        fmt::format("there are only {} tangents. give a structure like the argument, with one for each tensor", taken_),
        where_);
  return *tangents_[taken_++];
}
void detail::CarryLeaves::argument(Tensor& t) {
  require_defined(op_, t, "x", where_);
  const Tensor tangent = checked_tangent(op_, t.spec(), next(), where_);
  t = fresh(op_, t, where_);
  along_.watch(t, tangent, where_);
}
void detail::CarryLeaves::tensor(Tensor& t) {
  if (t.defined() && is_differentiable(t.dtype()) && taken_ < tangents_.size() && tangents_[taken_]->defined())
    argument(t);
  else next();
}
void detail::CarryLeaves::variable(const Variable& v) {
  const Tensor& tangent = next();
  if (tangent.defined()) along_.watch(v, tangent, where_);
}
void detail::CarryLeaves::finish() const {
  if (taken_ != tangents_.size())
    fail(op_,
         fmt::format("{} tangents are given for {} tensors. give a structure like the argument", tangents_.size(),
                     taken_),
         where_);
}

void detail::take_tangents(const ForwardAccumulator& along, std::span<Tensor* const> results, const Where& where) {
  for (Tensor* t : results) {
    if (results.size() == 1) require_defined("jvp", *t, "what the function gives", where);
    const bool alone = results.size() == 1;  // then the result must have a tangent
    if (alone || (t->defined() && is_differentiable(t->dtype()))) *t = along.jvp(*t, Unconnected::zero, where);
    else *t = Tensor();
  }
}

namespace {
thread_local bool is_linearizing = false;
class Linearizing {
 public:
  Linearizing() { is_linearizing = true; }
  ~Linearizing() { is_linearizing = outer_; }
  Linearizing(const Linearizing&) = delete;

 private:
  const bool outer_ = is_linearizing;
};
}  // namespace

bool linearizing() { return is_linearizing; }

detail::LinearMap detail::linear_map(GradientTape& tape, std::span<Tensor* const> results,
                                     const std::vector<Source>& sources, const Where& where) {
  // The walk back is linear in its cotangents. A tape around it records its transpose, which is the map.
  auto map = Shared<GradientTape>::make(TapeOptions{.persistent = true, .watch_variables = false});
  std::vector<Tensor> targets, seeds;
  std::vector<Source> wanted;
  std::vector<Spec> specs;
  std::vector<int> number;  // by result, the index of its seed
  for (const Tensor* y : results) {
    if (results.size() == 1) require_defined("linearize", *y, "what the function gives", where);
    number.push_back(y->defined() && is_differentiable(y->dtype()) ? int(seeds.size()) : -1);
    if (number.back() < 0) continue;
    targets.push_back(*y);
    seeds.push_back(zeros_like(*y));
    map->watch(seeds.back(), where);
    wanted.emplace_back(seeds.back());
  }
  for (const Source& s : sources) specs.push_back(s.variable ? s.variable->spec : s.tensor.spec());
  const std::vector<Tensor> back = [&] {
    const Linearizing scope;
    return tape.gradient(targets, sources, {.unconnected = Unconnected::zero, .output_gradients = seeds}, where);
  }();
  map->stop();
  return [map, back, wanted, specs, number, where](const std::vector<Tensor>& tangents) {
    std::vector<Tensor> along;
    for (const Tensor& t : tangents) {
      if (specs.size() != tangents.size() && !(t.defined() && is_differentiable(t.dtype()))) continue;  // an integer's
      if (along.size() == specs.size()) along.push_back(t);
      else if (const Spec& s = specs[along.size()]; t.defined())
        along.push_back(checked_tangent("linearize", s, t, where));
      else along.push_back(zeros(s.shape, {s.dtype, s.device}, where));
    }
    if (along.size() != specs.size())
      fail("linearize",
           fmt::format("{} tangents are given for {} tensors. give a structure like the argument", along.size(),
                       specs.size()),
           where);
    const std::vector<Tensor> given =
        map->gradient(back, wanted, {.unconnected = Unconnected::zero, .output_gradients = along}, where);
    std::vector<Tensor> by_result;
    for (int k : number) by_result.push_back(k < 0 ? Tensor() : given[size_t(k)]);
    return by_result;
  };
}

}  // namespace rill
