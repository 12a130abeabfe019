// See shards.h. A unit's parts are gathered as one tensor, [ranks, elements], from which its parameters are cut. While
// the unit runs, UnitAnswers returns them when they are read. Start at Shards::run.
#include "rill/distribute/parallel/shards.h"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "rill/autodiff/transforms.h"
#include "rill/distribute/engine/pending.h"
#include "rill/distribute/parallel/part_norms.h"
#include "rill/distribute/parallel/parts.h"
#include "rill/ops/listeners.h"
#include "rill/ops/ops.h"
#include "rill/ops/scopes.h"
#include "rill/ops/state/variable_answers.h"
#include "rill/ops/state/variable_state.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::distribute {

namespace {

constexpr std::string_view shards_op = "Shards";

// Their ids, which are never used twice.
struct PartIds {
  ForkMutex mutex;
  std::set<uint64_t> ids;
};
PartIds& part_ids() {
  static PartIds* all = new PartIds;
  return *all;
}

struct Parameter {
  Variable whole, part;
  Shape shape;
  int64_t count = 0;         // elements
  int64_t first = 0, n = 0;  // of a rank's part, among those of the unit
};
struct Unit {
  std::vector<Parameter> parameters;
  int64_t count = 0;  // elements of a rank's part
  DType dtype = DType::f32;
};

// A parameter as rows of parts, one a rank: [ranks, n].
Tensor as_parts(const Parameter& p, const Tensor& whole, int64_t ranks) {
  Tensor flat = whole.reshape({-1});
  if (const int64_t more = p.n * ranks - p.count) flat = concat({flat, zeros({more}, {.dtype = whole.dtype()})});
  return flat.reshape({ranks, p.n});
}
std::vector<Tensor> cut(const Unit& unit, const Tensor& gathered) {
  std::vector<Tensor> whole;
  for (const Parameter& p : unit.parameters)
    whole.push_back(gathered(all, slice(p.first, p.first + p.n)).reshape({-1})(slice(0, p.count)).reshape(p.shape));
  return whole;
}
std::vector<Tensor> parts_of(const Unit& unit) {
  std::vector<Tensor> parts;
  for (const Parameter& p : unit.parameters) parts.push_back(p.part.value());
  return parts;
}
// The values of other Variables when a unit first ran, above all the random generator, for when it runs again.
using FirstReadings = std::map<const VariableState*, Tensor>;

// Answers reads of the parameters of a unit that runs. A second run reads what the first one read, and keeps its
// assignments to itself.
class UnitAnswers final : public ComputedAnswers {
 public:
  UnitAnswers(const Unit& unit, std::span<const Tensor> whole, FirstReadings& first, bool is_second)
      : first_(first), is_second_(is_second), outside_(listeners()) {
    for (size_t i = 0; i < whole.size(); ++i) whole_[&unit.parameters[i].whole.state()] = whole[i];
  }
  Tensor read(const Shared<VariableState>& v) override {
    if (const auto at = whole_.find(v.get()); at != whole_.end()) return at->second;
    if (is_second_)
      if (const auto at = first_.find(v.get()); at != first_.end() && at->second.defined()) return at->second;
    const ListenersScope outside(&outside_);
    const Tensor value = Variable(v).value();
    if (!is_second_) first_.try_emplace(v.get(), value);
    return value;
  }
  void assign(const Shared<VariableState>& v, const Tensor& value) override {
    if (is_second_) return void(first_[v.get()] = value);
    first_.try_emplace(v.get(), Tensor());  // assigned before it was read
    const ListenersScope outside(&outside_);
    Variable(v).assign(value);
  }

 private:
  std::map<const VariableState*, Tensor> whole_;
  FirstReadings& first_;
  const bool is_second_;
  Listeners& outside_;
};

Tensor run_whole(const Unit& unit, const Callback<Tensor(const Tensor&)>& f, const Tensor& x,
                 std::span<const Tensor> whole, FirstReadings& first, bool is_second) {
  UnitAnswers answers(unit, whole, first, is_second);
  Listeners own = listeners();
  own.variables = &answers, own.notes = nullptr, own.repeats = own.repeats || is_second;
  const ListenersScope scope(std::move(own));
  return f(x);
}

// Gives the Variable another value of the same spec: one that need not have memory for each element.
void put(const Variable& v, Tensor value) {
  VariableState& state = v.state();
  const std::lock_guard lock(state);
  std::swap(state.value, value);
}

}  // namespace

struct Shards::State {
  std::vector<Unit> units;
  ShardsOptions options;
  int64_t ranks = 1;

  // Parameters that are on their way already.
  struct Ahead {
    size_t unit;
    bool is_back;
    Pending pending;
  };
  std::unique_ptr<Ahead> ahead;

  ~State() { forget(); }
  void forget() {
    if (ahead) ahead->pending.drop();
    ahead.reset();
  }
  Pending start(size_t unit) const {
    Tensor all_parts = concat(parts_of(units[unit]));
    if (options.stage == 2) all_parts = with_mean_gradient(all_parts, ranks);
    return start_all_gather(all_parts, options.group);
  }
  // [ranks, elements] of a unit. The next one's begins.
  Tensor take(size_t unit, bool is_back) {
    // A rule is traced separately, amid the forward pass, and nothing else could wait for what it begins.
    if (is_back && !executing_eagerly()) return start(unit).wait();
    if (!ahead || ahead->unit != unit || ahead->is_back != is_back)
      forget(), ahead = std::make_unique<Ahead>(Ahead{unit, is_back, start(unit)});
    const Tensor gathered = std::exchange(ahead, nullptr)->pending.wait();
    const bool has_next = is_back ? unit > 0 : unit + 1 < units.size();
    if (has_next) {
      const size_t next = is_back ? unit - 1 : unit + 1;
      ahead = std::make_unique<Ahead>(Ahead{next, is_back, start(next)});
    }
    return gathered;
  }
};

namespace {

void check_units(const std::vector<NamedVariables>& units, const ShardsOptions& o, const Where& where) {
  if (units.empty()) fail(shards_op, "there is no unit", where);
  if (o.stage != 2 && o.stage != 3)
    fail(shards_op, fmt::format("stage is {}, and must be 2 or 3. apply_gradients_sharded() is the first", o.stage),
         where);
  if (o.group.rank(where) < 0)
    fail(shards_op, fmt::format("this rank is none of the group's, {}", to_string(Shape(o.group.ranks()))), where);
}

bool is_shared_out(const Variable& v, const Where& where) { return v.trainable(where) && is_floating(v.dtype(where)); }

Parameter taken_apart(const Variable& v, int64_t first, const Group& group, const Where& where) {
  const int64_t ranks = group.size(where);
  const Tensor value = v.value(where);
  Parameter p{v, v, value.shape(), int64_t(value.size())};
  p.n = (p.count + ranks - 1) / ranks, p.first = first;
  const Tensor rows = as_parts(p, value, ranks);
  // A copy, for a view would keep the full tensor.
  p.part = Variable(rows(group.rank(where)) + zeros({p.n}, {.dtype = value.dtype()}), {.name = v.name()}, where);
  const std::lock_guard<ForkMutex> lock(part_ids().mutex);
  part_ids().ids.insert(p.part.state().id);
  lies_on(p.part, group);
  return p;
}

}  // namespace

bool is_part(const VariableState& v) {
  const std::lock_guard<ForkMutex> lock(part_ids().mutex);
  return part_ids().ids.contains(v.id);
}

Shards::Shards(const std::vector<NamedVariables>& units, const ShardsOptions& options, Where where)
    : state_(std::make_shared<State>()) {
  CallerScope caller(where);
  check_units(units, options, where);
  if (!executing_eagerly()) fail(shards_op, "parameters are taken apart once, outside of a traced function", where);
  const PauseTapes pause;
  state_->options = options, state_->ranks = options.group.size(where);
  std::map<const VariableState*, size_t> unit_of;
  for (size_t u = 0; u < units.size(); ++u) {
    Unit unit;
    for (const auto& [path, v] : units[u]) {
      if (!is_shared_out(v, where)) continue;
      if (const auto [at, is_new] = unit_of.try_emplace(&v.state(where), u); !is_new)
        fail(shards_op, fmt::format("'{}' is a parameter of units {} and {}, and must be of one", path, at->second, u),
             where);
      if (unit.parameters.empty()) unit.dtype = v.dtype(where);
      if (v.dtype(where) != unit.dtype)
        fail(shards_op,
             fmt::format("unit {} has parameters of {} and of {}, and must have one dtype. make units of each", u,
                         rill::name(unit.dtype), rill::name(v.dtype(where))),
             where);
      unit.parameters.push_back(taken_apart(v, unit.count, options.group, where));
      unit.count += unit.parameters.back().n;
    }
    if (unit.parameters.empty()) fail(shards_op, fmt::format("unit {} has no trainable floating parameter", u), where);
    state_->units.push_back(std::move(unit));
  }
  for (const Unit& unit : state_->units)
    for (const Parameter& p : unit.parameters) Variable(p.whole).freeze(where);
  release(where);
}

size_t Shards::units() const { return state_->units.size(); }

std::vector<Variable> Shards::variables() const {
  std::vector<Variable> parts;
  for (const Unit& unit : state_->units)
    for (const Parameter& p : unit.parameters) parts.push_back(p.part);
  return parts;
}

void Shards::name_variables(VariablePaths& paths) const {
  for (size_t u = 0; u < units(); ++u) {
    const VariablePaths::Scope scope(paths, std::to_string(u));
    for (const Parameter& p : state_->units[u].parameters) paths.add(p.part.name(), p.part);
  }
}

void Shards::gather(Where where) const {
  CallerScope caller(where);
  const PauseTapes pause;
  for (const Unit& unit : state_->units) {
    const std::vector<Tensor> whole = cut(unit, all_gather(concat(parts_of(unit)), state_->options.group, where));
    for (size_t i = 0; i < whole.size(); ++i) Variable(unit.parameters[i].whole).assign(whole[i], where);
  }
}

void Shards::release(Where where) const {
  CallerScope caller(where);
  if (!executing_eagerly()) fail(shards_op, "parameters are released outside of traced functions", where);
  const PauseTapes pause;
  for (const Unit& unit : state_->units)
    for (const Parameter& p : unit.parameters)
      put(p.whole, broadcast_to(full({}, std::numeric_limits<double>::quiet_NaN(), unit.dtype), p.shape));
}

Tensor Shards::run(size_t unit, const Callback<Tensor(const Tensor&)>& f, const Tensor& x, Where where) const {
  CallerScope caller(where);
  if (unit >= units()) fail(shards_op, fmt::format("there is no unit {}: there are {}", unit, units()), where);
  require_defined(shards_op, x, "x", where);
  const std::shared_ptr<State> state = state_;
  const Unit& u = state->units[unit];
  const auto first = std::make_shared<FirstReadings>();
  if (state->options.stage == 2) {
    return run_whole(u, f, x, cut(u, state->take(unit, false)), *first, false);
  }
  std::vector<Tensor> whole;
  {
    const PauseTapes pause;
    whole = cut(u, state->take(unit, false));
  }
  const auto again = [state, unit, f, first](const Tensor& in, const Tensor& g) {
    const Unit& it = state->units[unit];
    const std::vector<Tensor> parameters = cut(it, state->take(unit, true));
    rill::GradientTape tape;
    std::vector<Source> sources;
    for (const Tensor& p : parameters) tape.watch(p), sources.emplace_back(p);
    const bool goes_on = is_differentiable(in.dtype());
    if (goes_on) tape.watch(in), sources.emplace_back(in);
    FirstReadings readings = *first;
    const Tensor y = run_whole(it, f, in, parameters, readings, true);
    std::vector<Tensor> back =
        tape.gradient(std::vector<Tensor>{y}, sources, {.unconnected = Unconnected::zero, .output_gradients = {g}});
    Tensors out{goes_on ? back.back() : Tensor()};
    std::vector<Tensor> rows;
    for (size_t i = 0; i < parameters.size(); ++i) rows.push_back(as_parts(it.parameters[i], back[i], state->ranks));
    const Tensor mine = reduce_scatter(concat(rows, 1), Reduce::mean, state->options.group).reshape({it.count});
    for (const Parameter& p : it.parameters) out.push_back(mine(slice(p.first, p.first + p.n)));
    return out;
  };
  return custom_gradient([&](const Tensor& in, const std::vector<Tensor>&) {
    const Tensor y = run_whole(u, f, in, std::exchange(whole, {}), *first, false);
    return std::pair(y, [again, in](const Tensor& g) { return again(in, g); });
  })(x, parts_of(u));
}

}  // namespace rill::distribute
