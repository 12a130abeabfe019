#include "rill/autodiff/batching.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <set>
#include <utility>

#include "rill/autodiff/tape_impl.h"
#include "rill/devices/params/contraction_params.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/tensor/cost_dims.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/tensor/settings.h"

namespace rill {

extern const Op add_op, divide_op, dot_general_op, identity_op, multiply_op, negative_op, reshape_op, subtract_op;

// --- Rows ------------------------------------------------------------------------------------------------------------

namespace {
enum Kind : uint8_t {
  shared,   // all rows are equal to `tensor`
  batched,  // row i is tensor(i)
  last,     // row i is tensor(ellipsis, i): what a product with unit vectors selects from a matrix's columns
  scaled,   // row i is tensor's element i at its own index, and 0 elsewhere
  units     // the same, with all elements 1
};
bool is_diagonal(uint8_t kind) { return kind >= scaled; }
}  // namespace

class Batcher::Outside : public ListenersScope {
 public:
  explicit Outside(Batcher& b) : ListenersScope(b.level_.own().below) {}
};

// The batched tensor that a row stands for. The row holds it in place of a buffer, and frees it.
struct Batcher::Rows : Buffer {
  Tensor tensor;
  uint8_t kind;
};

const Batcher::Rows* Batcher::rows_of(const Tensor& t) const {
  return t.rep()->trace == serial ? static_cast<const Rows*>(t.rep()->buffer.get()) : nullptr;
}

Tensor Batcher::stand_for(Tensor tensor, Spec row, uint8_t kind) {
  auto* rows = new Rows;
  rows->bytes = tensor.rep()->buffer ? tensor.rep()->buffer->bytes : 0;
  rows->release = [](Buffer* b) { delete static_cast<Rows*>(b); };
  rows->tensor = std::move(tensor);
  rows->kind = kind;
  Tensor t = make_stand_in(std::move(row));
  TensorRep& rep = *t.mutable_rep();
  rep.trace = serial;
  rep.trace_value = next_value_++;
  rep.buffer = Ref<Buffer>::adopt(rows);
  return t;
}

namespace {
Spec row_spec_of(const Spec& batched) {
  Spec row = batched;
  row.weak = false;
  row.shape.erase(0);
  return row;
}
}  // namespace

Tensor Batcher::row_of(const Tensor& t) { return stand_for(t, row_spec_of(t.spec()), batched); }

Tensor Batcher::unit(const Spec& spec) {
  const Outside outside(*this);
  return stand_for(ones(spec.shape, {spec.dtype, spec.device}), {spec.shape, spec.dtype, false, spec.device}, units);
}

bool Batcher::is_batched(const Tensor& t) const {
  const Rows* r = rows_of(t);
  return r && r->kind != shared;
}

// The tensor outside that `t` stands for; `t` itself if this batch does not know it.
Tensor Batcher::outer_value(const Tensor& t) const {
  const Rows* r = rows_of(t);
  if (!r) return t;
  return is_diagonal(r->kind) ? expanded_units(*r) : r->kind == last ? moveaxis(r->tensor, -1, 0) : r->tensor;
}

Tensor Batcher::expanded_units(const Rows& r) const {
  const Spec& s = r.tensor.spec();
  Shape shape = s.shape;
  shape.insert(0, size_);
  const bool ones = r.kind == units;
  const Tensor where_one = reshape(eye(size_, size_, 0, {ones ? s.dtype : DType::boolean, s.device}), shape);
  return ones ? where_one : where(where_one, r.tensor, zeros({}, {s.dtype, s.device}));
}

Tensor Batcher::all_rows(const Tensor& row) {
  const Outside outside(*this);
  Tensor value = outer_value(row);
  if (is_batched(row)) return value;
  Shape s = value.shape();
  s.insert(0, size_);
  return broadcast_to(value, s);
}

// --- The thread ------------------------------------------------------------------------------------------------------

Batcher::Batcher(Dim size, std::string_view op, Randomness randomness, uint32_t number)
    : size_(size),
      name_(op),
      randomness_(randomness),
      level_(listeners().level_of(*this)),
      outer_(static_cast<EnclosingTrace*>(level_.before().trace)) {
  serial = number;
}

// --- Calls -----------------------------------------------------------------------------------------------------------

namespace {

// Once for each op and line.
void report_loop(const Op& op, Dim rows, const Where& where) {
  static const bool log = settings::logs("vmap");
  if (!log) return;
  static ForkMutex mutex;
  static auto& reported = *new std::set<std::pair<const Op*, std::string>>;  // ops may run while a program ends
  const std::string location = place_of(where);
  const std::lock_guard lock(mutex);
  if (reported.emplace(&op, location).second)
    std::fprintf(stderr, "rill: vmap: %s has no batch rule, and runs row by row, for %lld rows (%s)\n",
                 std::string(op.name).c_str(), static_cast<long long>(int64_t(rows)), location.c_str());
}

Tensors call_batched(const BatchArgs& a) {
  if (a.op.batch) return a.op.batch(a);
  if (a.op.kind == OpKind::elementwise) return batch_elementwise(a);
  report_loop(a.op, a.size, a.where);
  return batch_by_loop(a);
}

Tensors call_as_is(const Op& op, std::span<const Tensor> in, AttrsView attrs, const Where& where) {
  SmallVec<const Tensor*, 8> pointers;
  for (const Tensor& t : in) pointers.push_back(&t);
  return apply(op, Operands(pointers.data(), pointers.size()), attrs, where);
}

}  // namespace

Tensors Batcher::append(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, const Where& where) {
  SmallVec<char, 8> flags;
  bool any = false, diagonals = false, lasts = false;
  for (const Tensor* t : in) {
    const Rows* r = rows_of(*t);
    flags.push_back(r && r->kind != shared);
    any |= flags.back() != 0;
    diagonals |= r && is_diagonal(r->kind);
    lasts |= r && r->kind == last;
  }
  const Outside outside(*this);
  if (diagonals)
    if (Tensors out = append_units(op, in, attrs, specs, where); !out.empty()) return out;
  if (lasts)
    if (Tensors out = append_last(op, in, attrs, specs, where); !out.empty()) return out;
  Tensors values;
  for (const Tensor* t : in) values.push_back(outer_value(*t));
  const std::span<const Tensor> operands(values.data(), values.size());
  // Tapes outside may identify one row with another only if both are the same rows.
  if (&op == &known_as_op && flags[0] != flags[1]) {
    const Tensor same = identity(values[0]);
    return {flags[0] ? row_of(same) : same};
  }
  if (!any && !op.graphs) return call_as_is(op, operands, attrs, where);
  Tensors out = call_batched({op, attrs, operands, {flags.data(), flags.size()}, size_, where});
  Tensors rows;
  for (size_t k = 0; k < specs.size(); ++k) {
    if (out[k].ndim() == specs[k].shape.ndim()) {  // control flow itself knows which results are equal for all rows
      rows.push_back(out[k]);
      continue;
    }
    Spec row = row_spec_of(out[k].spec());
    row.weak = specs[k].weak;
    rows.push_back(stand_for(std::move(out[k]), std::move(row), batched));
  }
  return rows;
}

namespace {
// Whether 0 in operand `i` makes an elementwise op's result 0. (Products of 0 and infinity do not count: these zeros
// are not computed by a function, but stand for other rows than a unit vector's own.)
bool zero_gives_zero(const Op& op, size_t i) {
  return (op.linear_in >> i & 1) || &op == &multiply_op || &op == &negative_op || (&op == &divide_op && i == 0);
}
}  // namespace

// Calls on batches of unit vectors whose result is again one, or is known without multiplying by 0; else returns none.
Tensors Batcher::append_units(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, const Where& where) {
  SmallVec<const Tensor*, 8> operands(in);
  size_t at = 0;  // the index of the last one
  int count = 0;
  bool others = false;  // whether there are others that are batched
  for (size_t i = 0; i < in.size(); ++i) {
    const Rows* r = rows_of(*in[i]);
    if (!r) continue;
    operands[i] = &r->tensor;
    if (is_diagonal(r->kind)) at = i, ++count;
    else others |= r->kind != shared;
  }
  if (others || specs.size() != 1) return {};
  const Rows& d = *rows_of(*in[at]);
  const Shape &given = d.tensor.shape(), &made = specs[0].shape;
  const bool same_shape = std::equal(given.begin(), given.end(), made.begin(), made.end(), saves_if_equal);
  const auto call = [&] { return apply(op, Operands(operands.data(), operands.size()), attrs, where)[0]; };
  if (count == 2 && same_shape && (&op == &add_op || &op == &subtract_op) &&
      operands[0]->shape() == operands[1]->shape())
    return {stand_for(call(), specs[0], scaled)};
  if (count != 1) return {};
  if (&op == &reshape_op || &op == &identity_op) return {stand_for(call(), specs[0], d.kind)};
  if (op.kind == OpKind::elementwise && zero_gives_zero(op, at) && same_shape)
    return {stand_for(call(), specs[0], scaled)};
  if (&op != &dot_general_op) return {};
  // All axes of the unit vectors are contracted: the product selects what it would multiply by 1.
  const auto& p = attrs.as<ContractionParams>();
  const Dims &own = at == 0 ? p.lhs_contract : p.rhs_contract, &paired = at == 0 ? p.rhs_contract : p.lhs_contract;
  if (!p.lhs_batch.empty() || own.size() != d.tensor.shape().size()) return {};
  const Tensor& other = *operands[1 - at];
  Axes order = Axes::repeat(0, own.size()), rest;
  for (size_t i = 0; i < own.size(); ++i) order[size_t(own[i])] = paired[i];
  for (int64_t axis = 0; axis < other.ndim(); ++axis)
    if (std::find(paired.begin(), paired.end(), Dim(axis)) == paired.end()) rest.push_back(axis);
  // Large matrices are copied to rows at once: it costs little beside the products that follow, which are faster.
  constexpr int64_t large = 1 << 16;
  const bool columns = std::is_sorted(order.begin(), order.end()) && !order.empty() &&
                       order[0] == int64_t(rest.size()) && other.size() < large;
  Shape shape = specs[0].shape;
  shape.insert(columns ? shape.size() : 0, size_);
  for (Dim axis : rest) order.push_back(axis);
  Tensor picked = reshape(columns ? other : transpose(other, order), shape);
  if (d.kind == scaled) {
    Shape factor(shape.size(), 1);
    factor[columns ? shape.size() - 1 : 0] = size_;
    picked = picked * reshape(d.tensor, factor);
  }
  return {stand_for(picked, specs[0], columns ? last : batched)};
}

// Calls on batches whose batch axis is the last, and on shared operands, that leave it there; else returns none.
Tensors Batcher::append_last(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, const Where& where) {
  const bool elementwise = op.kind == OpKind::elementwise, product = &op == &dot_general_op;
  if (specs.size() != 1 || !(elementwise || product)) return {};
  Tensors values;
  SmallVec<char, 4> is_last;
  for (const Tensor* t : in) {
    const Rows* r = rows_of(*t);
    if (r && r->kind != last && r->kind != shared) return {};
    is_last.push_back(r && r->kind == last);
    values.push_back(r ? r->tensor : *t);
  }
  if (elementwise) {
    for (size_t i = 0; i < values.size(); ++i) {
      Shape s = values[i].shape();
      if (is_last[i] || s.empty()) continue;
      s.push_back(1);
      values[i] = reshape(values[i], s);
    }
    return {stand_for(call_as_is(op, {values.data(), values.size()}, attrs, where)[0], specs[0], last)};
  }
  if (is_last[0] && is_last[1]) return {};
  // The batch is a free axis of its operand, after its other axes; the right operand's come last.
  const auto& p = attrs.as<ContractionParams>();
  const size_t used = p.lhs_batch.size() + p.lhs_contract.size();
  const bool left_is_all = values[1].shape().size() == used, left_has_none = values[0].shape().size() == used + 1;
  if (is_last[1] || left_is_all) return {stand_for(dot_general(values[0], values[1], p, where), specs[0], last)};
  if (!left_has_none) return {};
  const ContractionParams turned{p.rhs_contract, p.lhs_contract, p.rhs_batch, p.lhs_batch};
  return {stand_for(dot_general(values[1], values[0], turned, where), specs[0], last)};
}

// --- Variables -------------------------------------------------------------------------------------------------------

bool Batcher::draws_own(const VariableState& v) const {
  if (!is_generator(v)) return false;
  if (randomness_ == Randomness::error)
    fail(name_,
         "random numbers are drawn, and .randomness = Randomness::error forbids that. let rows draw numbers of their "
         "own (Randomness::different) or the same ones (Randomness::same), or pass a random::Key");
  return randomness_ == Randomness::different;
}

Tensor Batcher::read(const Shared<VariableState>& v) {
  const bool own = draws_own(*v);
  Tensor value;
  {
    const Outside outside(*this);
    value = Variable(v).value();
    if (own) value = split_generator(value, size_);
  }
  return own ? row_of(value) : shared_row(std::move(value));
}

// Tapes inside get an alias of the value read, which outer tapes would not know: of a row, they know the batch.
Tensor Batcher::shared_row(Tensor value) {
  if (listeners().tapes.empty() || !level_.before().any_tape()) return value;
  const Spec spec = value.spec();
  return stand_for(std::move(value), spec, shared);
}

Tensor Batcher::as_reading(const Shared<VariableState>& v, const Tensor& value) {
  const Rows* r = rows_of(value);
  if (r && r->kind != shared) return value;
  Tensor outer;
  {
    const Outside outside(*this);
    outer = rill::as_reading(v, r ? r->tensor : value);
  }
  return shared_row(std::move(outer));
}

void Batcher::assign(const Shared<VariableState>& v, const Tensor& value) {
  const bool own = draws_own(*v);
  if (!own && is_batched(value))
    fail("assign",
         fmt::format("variable '{}' is assigned a value that differs from row to row, inside {}. return the value from "
                     "the function, and assign what {} gives, or a sum of it",
                     v->name, name_, name_));
  const Outside outside(*this);
  if (own) count_draw();
  else Variable(v).assign(outer_value(value));
}

// --- Rules of the user -----------------------------------------------------------------------------------------------

Tensor Batcher::append_rule(const Tensor& value, Operands in, const GradientRule& rule, const Where& where) {
  // Runs the rule on rows, and returns cotangents as the outside has them: for what rows share, their sum.
  SmallVec<char, 8> shares;
  SmallVec<Tensor, 8> operands;
  for (const Tensor* t : in) shares.push_back(!is_batched(*t));
  const GradientRule of_batch = [rule, shares, number = serial, size = size_, op = name_,
                                 randomness = randomness_](const Tensor& cotangent) {
    Batcher again(size, op, randomness, number);
    const Tensors back = rule(again.row_of(cotangent));
    Tensors out;
    for (size_t k = 0; k < back.size(); ++k) out.push_back(back[k].defined() ? again.all_rows(back[k]) : Tensor());
    const Outside outside(again);
    for (size_t k = 0; k < out.size(); ++k)
      if (out[k].defined() && shares[k]) out[k] = sum(out[k], 0);
    return out;
  };
  const Tensor all = all_rows(value);
  Tensor out;
  {
    const Outside outside(*this);
    for (const Tensor* t : in) operands.push_back(outer_value(*t));
    SmallVec<const Tensor*, 8> pointers;
    for (const Tensor& t : operands) pointers.push_back(&t);
    out = row_of(detail::with_rule(all, Operands(pointers.data(), pointers.size()), of_batch, where));
  }
  detail::record_rule(in, out, rule, where);
  return out;
}

// --- Other queries of a trace ----------------------------------------------------------------------------------------

bool Batcher::made_by(const Tensor& t, const Op& op, AttrsView& attrs) const {
  const Rows* r = rows_of(t);
  return outer_ && (!r || r->kind == shared) && outer_->made_by(r ? r->tensor : t, op, attrs);
}

Tensor Batcher::constant_value(const Tensor& t) const {
  const Rows* r = rows_of(t);
  if (r && r->kind != shared) return {};
  const Tensor& value = r ? r->tensor : t;
  return outer_ && value.is_symbolic() ? outer_->constant_value(value) : value;
}

bool Batcher::is_constant(const Tensor& t) const { return !is_watched(t) && (!outer_ || outer_->is_constant(t)); }

bool Batcher::is_watched(const Tensor& t) const {
  for (const TapeListener* tape : level_.before().tapes)
    if (tape->watches(t)) return true;
  return outer_ && outer_->is_watched(t);
}

bool Batcher::makes(const Tensor& t) const { return !outer_ || outer_->makes(t); }

bool Batcher::sees(const Tensor& t) const { return t.rep()->trace == serial || (outer_ && outer_->sees(t)); }

void Batcher::fail_read(std::string_view what, const Where& where) {
  fail(name_,
       fmt::format("{}() reads a tensor's value inside the function that {} maps, which runs once for all rows: it may "
                   "differ from row to row. choose with where() or cond(), loop with while_loop() or scan(), look at "
                   "values with print(), or return the tensor",
                   what, name_),
       where);
}

}  // namespace rill
