// See async.h. A collective that begins is two records: start_X returns a number, under which its data moves, and
// wait_X takes the operand and the number. So a graph keeps the operand until then, and drops neither.
#include "rill/distribute/async.h"

#include <fmt/format.h>

#include <exception>
#include <map>
#include <mutex>
#include <optional>

#include "rill/distribute/engine/calls.h"
#include "rill/distribute/engine/pending.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/listeners.h"
#include "rill/ops/ops.h"
#include "rill/tensor/fork_mutex.h"

namespace rill::distribute {

// --- What has begun --------------------------------------------------------------------------------------------------

namespace {

struct Started {
  Rest rest;
  std::string op, place;
};

// By number, of this process.
struct StartedCalls {
  ForkMutex mutex;
  std::map<int64_t, Started> calls;
  int64_t last = 0;       // 0 is none
  std::string forgotten;  // reported by the next one that begins

  int64_t add(Started s) {
    const std::lock_guard<ForkMutex> lock(mutex);
    calls.emplace(++last, std::move(s));
    return last;
  }
  std::optional<Started> take(int64_t number) {
    const std::lock_guard<ForkMutex> lock(mutex);
    const auto at = calls.find(number);
    if (at == calls.end()) return std::nullopt;
    std::optional<Started> s = std::move(at->second);
    calls.erase(at);
    return s;
  }
};
StartedCalls& started() {
  static StartedCalls* all = new StartedCalls;  // handles may live longer than main()
  return *all;
}

std::string lost(std::string_view op, std::string_view place) {
  return fmt::format("the {} that began at {} was never waited for. keep what it gives, and call wait() once", op,
                     place);
}

std::string_view base_name(const Op& op) { return op.name.substr(op.name.find('_') + 1); }
const Op& base_of(const Op& op) { return *find_op(base_name(op)); }

// --- Records ---------------------------------------------------------------------------------------------------------

OutSpecs infer_start(const InferArgs& a) {
  const Op& base = base_of(a.op);
  base.infer(InferArgs{base, a.in, a.attrs, a.where});
  return {Spec{Shape{}, DType::i64, false, Device()}};
}

Tensors start_call(std::string_view name, Operands in, AttrsView attrs) {
  const auto& group = *static_cast<const GroupAttrs*>(attrs.data);
  std::string forgotten;
  {
    const std::lock_guard<ForkMutex> lock(started().mutex);
    forgotten = std::exchange(started().forgotten, "");
  }
  if (!forgotten.empty()) {
    const std::string no_function;
    const ReplayScope at(group.place, no_function);
    fail(name, forgotten);
  }
  Rest rest = begin(name, *in[0], attrs);
  return {tensor(started().add({std::move(rest), std::string(name), group.place}))};
}
Tensors wait_call(std::string_view name, Operands in, AttrsView attrs) {
  const int64_t number = in[1]->item<int64_t>();
  if (number == 0) return find_op(name)->call(in.first(1), attrs);  // of a batch: it begins here
  std::optional<Started> s = started().take(number);
  if (!s) fail(name, "it was waited for already");
  return {moved_to(s->rest(), in[0]->device())};
}

OutSpecs infer_wait(const InferArgs& a) {
  const Op& base = base_of(a.op);
  return base.infer(InferArgs{base, a.in.first(1), a.attrs, a.where});
}
Tensors vjp_wait(const VjpArgs& a) {
  const Op& base = base_of(a.op);
  Tensors back = base.vjp(VjpArgs{base, a.attrs, a.in.first(1), a.out, a.cotangent, a.needed});
  back.push_back(Tensor());
  return back;
}
Tensors jvp_wait(const JvpArgs& a) {
  const Op& base = base_of(a.op);
  if (base.jvp) return base.jvp(JvpArgs{base, a.attrs, a.in.first(1), a.out, a.tangent.first(1)});
  const Tensor* in[] = {&a.tangent[0]};
  return apply(base, in, a.attrs, Where());
}
// For rows nothing begins ahead.
Tensors batch_start(const BatchArgs& a) { return {full(Shape{a.size}, 0, i64)}; }
Tensors batch_wait(const BatchArgs& a) {
  const Op& base = base_of(a.op);
  return base.batch(BatchArgs{base, a.attrs, a.in.first(1), a.batched.first(1), a.size, a.where});
}

#define RILL_STARTED(id, base_op, set, in_saved, out_saved)                                               \
  const Op start_##id##_op({.name = "start_" #base_op,                                                    \
                            .doc = #base_op " begins; gives its number",                                  \
                            .dtypes = set,                                                                \
                            .infer = infer_start,                                                         \
                            .no_gradient = "it gives a number, and its wait_ has the derivative",         \
                            .batch = batch_start,                                                         \
                            .call = [](Operands in, AttrsView a) { return start_call(#base_op, in, a); }, \
                            .effect = true});                                                             \
  const Op wait_##id##_op({.name = "wait_" #base_op,                                                      \
                           .doc = "what the " #base_op " gives that has begun under a number",            \
                           .dtypes = set,                                                                 \
                           .inputs = 2,                                                                   \
                           .infer = infer_wait,                                                           \
                           .vjp = vjp_wait,                                                               \
                           .saves_in = in_saved,                                                          \
                           .saves_out = out_saved,                                                        \
                           .jvp = jvp_wait,                                                               \
                           .batch = batch_wait,                                                           \
                           .call = [](Operands in, AttrsView a) { return wait_call(#base_op, in, a); },   \
                           .effect = true});
constexpr DTypeSet any_plain = plain_set | float8_set;
RILL_STARTED(sum, all_reduce, number_set, save_none, save_none)
RILL_STARTED(by, all_reduce_by, number_set, save(0), save(0))
RILL_STARTED(gather, all_gather, any_plain, save_none, save_none)
RILL_STARTED(scatter, reduce_scatter, number_set, save_none, save_none)
RILL_STARTED(broadcast, broadcast, any_plain, save_none, save_none)
RILL_STARTED(exchange, all_to_all, any_plain, save_none, save_none)
RILL_STARTED(permute, permute_ranks, any_plain, save_none, save_none)
#undef RILL_STARTED

const Op go_on_op({.name = "ranks_go_on",
                   .doc = "lets what has begun move",
                   .kind = OpKind::creation,
                   .inputs = 0,
                   .outputs = 0,
                   .infer = [](const InferArgs&) { return OutSpecs(); },
                   .no_gradient = "it gives nothing",
                   .call =
                       [](Operands, AttrsView) {
                         Begun::advance();
                         return Tensors();
                       },
                   .effect = true});

}  // namespace

// --- Handles ---------------------------------------------------------------------------------------------------------

struct Pending::State {
  Tensor x, number;
  const Op* wait = nullptr;
  Attrs attrs;
  std::string place, waited;  // where it began; and was waited for
  uint32_t trace = 0;         // of the function in which it began; 0: outside of all
  int exceptions = std::uncaught_exceptions();

  State() = default;
  State(const State&) = delete;
  ~State() {
    if (!waited.empty() || !number.defined()) return;
    // Collectives left behind by an exception are not a mistake of their own.
    const bool is_thrown = std::uncaught_exceptions() > exceptions;
    if (trace == 0 && is_thrown) started().take(number.item<int64_t>());
    if (is_thrown) return;
    const std::lock_guard<ForkMutex> lock(started().mutex);
    started().forgotten = lost(base_name(*wait), place);
  }
};

namespace {
uint32_t trace_now() {
  const TraceListener* trace = listeners().trace;
  return trace ? trace->serial : 0;
}
}  // namespace

Pending start(std::string_view base, const Tensor& x, AttrsView attrs, const Where& where) {
  const Op* op = find_op(fmt::format("start_{}", base));
  const auto state = std::make_shared<Pending::State>();
  Pending::State& s = *state;
  s.x = x, s.attrs = Attrs(attrs), s.wait = find_op(fmt::format("wait_{}", base));
  s.place = static_cast<const GroupAttrs*>(attrs.data)->place, s.trace = trace_now();
  const Tensor* in[] = {&s.x};
  s.number = std::move(apply(*op, in, attrs, where)[0]);
  return Pending(state);
}

bool Pending::is_pending() const { return state_ && state_->waited.empty(); }

void Pending::drop() {
  if (!is_pending()) return;
  State& s = *state_;
  if (s.trace == 0) started().take(s.number.item<int64_t>());
  s.waited = s.place, s.x = Tensor(), s.number = Tensor();
}

Tensor Pending::wait(Where where) {
  CallerScope caller(where);
  constexpr std::string_view op = "Pending::wait";
  if (!state_) fail(op, "nothing has begun. start_all_reduce() and the like begin", where);
  State& s = *state_;
  if (!s.waited.empty())
    fail(op, fmt::format("the {} that began at {} was waited for at {} already", base_name(*s.wait), s.place, s.waited),
         where);
  if (s.trace != trace_now())
    fail(op,
         fmt::format("the {} began at {}, {}. begin and wait in the same function, or outside of all",
                     base_name(*s.wait), s.place,
                     s.trace ? "in a function that is traced, and is waited for elsewhere"
                             : "outside of the function that is traced here"),
         where);
  s.waited = place_of(where);
  const Tensor* in[] = {&s.x, &s.number};
  Tensor out = std::move(apply(*s.wait, in, s.attrs, where)[0]);
  s.x = Tensor(), s.number = Tensor();
  return out;
}

void advance_all(const Where& where) {
  if (listeners().trace) apply(go_on_op, Operands(), {}, where);
  else Begun::advance();
}

std::string never_waited_for() {
  const std::lock_guard<ForkMutex> lock(started().mutex);
  if (!started().calls.empty()) {
    const Started& first = started().calls.begin()->second;
    return lost(first.op, first.place);
  }
  return started().forgotten;
}

// --- Functions -------------------------------------------------------------------------------------------------------

Pending start_all_reduce(const Tensor& x, Reduce reduce, const Group& group, Where where) {
  CallerScope caller(where);
  ReduceAttrs attrs;
  attrs.reduce = reduce;
  const bool is_linear = reduce == Reduce::sum || reduce == Reduce::mean;
  return start(is_linear ? "all_reduce" : "all_reduce_by", x, with_group(attrs, group, where), where);
}
Pending start_all_gather(const Tensor& x, const Group& group, Where where) {
  CallerScope caller(where);
  return start("all_gather", x, with_group(GroupAttrs(), group, where), where);
}
Pending start_reduce_scatter(const Tensor& x, Reduce reduce, const Group& group, Where where) {
  CallerScope caller(where);
  ReduceAttrs attrs;
  attrs.reduce = reduce;
  return start("reduce_scatter", x, with_group(attrs, group, where), where);
}
Pending start_broadcast(const Tensor& x, int64_t root, const Group& group, Where where) {
  CallerScope caller(where);
  if (root < 0 || root >= group.size(where))
    fail("start_broadcast", fmt::format("the root is {} and must be from 0 to {}", root, group.size(where) - 1), where);
  RootAttrs attrs;
  attrs.root = root;
  return start("broadcast", x, with_group(attrs, group, where), where);
}
Pending start_all_to_all(const Tensor& x, const Group& group, Where where) {
  CallerScope caller(where);
  return start("all_to_all", x, with_group(GroupAttrs(), group, where), where);
}
Pending start_permute(const Tensor& x, const std::vector<std::pair<int64_t, int64_t>>& pairs, const Group& group,
                      Where where) {
  CallerScope caller(where);
  PermuteAttrs attrs;
  attrs.to = permute_targets(pairs, group, where);
  return start("permute_ranks", x, with_group(attrs, group, where), where);
}
Pending start_rotate(const Tensor& x, int64_t shift, const Group& group, Where where) {
  return start_permute(x, ring(shift, group, where), group, where);
}

}  // namespace rill::distribute
