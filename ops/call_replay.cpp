#include "rill/ops/call_replay.h"

#include <utility>
#include <vector>

#include "rill/ops/run_errors.h"
#include "rill/ops/run_watch.h"
#include "rill/tensor/delayed.h"

namespace rill {

// --- Delayed calls ---------------------------------------------------------------------------------------------------

namespace {

// Shared by its results.
struct DelayedCall {
  const Op* op;
  Attrs attrs;
  Tensors in;
  OutSpecs specs;
  Where where;
  Tensors out = {};  // once it has run; then `in` is empty
};
// What a result, and each alias of it, holds in place of a buffer.
struct Delayed : Buffer {
  Shared<DelayedCall> call;
  size_t index = 0;
};

const Delayed* delayed(const Tensor& t) {
  return t.rep()->trace == delayed_trace ? static_cast<const Delayed*>(t.rep()->buffer.get()) : nullptr;
}

// One after another, for a call holds operands that hold calls: chains may be longer than the stack is deep.
void let_go(Buffer* b) {
  static thread_local constinit std::vector<Shared<DelayedCall>>* waiting = nullptr;  // of the first that lets go
  auto* d = static_cast<Delayed*>(b);
  Shared<DelayedCall> call = std::move(d->call);
  delete d;
  if (waiting) return waiting->push_back(std::move(call));
  std::vector<Shared<DelayedCall>> own{std::move(call)};
  waiting = &own;
  while (!own.empty()) {
    const Shared<DelayedCall> next = std::move(own.back());
    own.pop_back();
  }
  waiting = nullptr;
}

// Makes `t` the tensor that its call gave.
void fill(const Tensor& t, const Delayed& d) {
  const Tensor result = d.call->out[d.index];
  TensorRep& r = const_cast<TensorRep&>(*t.rep());  // made below
  r.trace = 0;
  r.strides = result.rep()->strides;
  r.data = result.rep()->data;
  r.buffer = result.rep()->buffer;
}

void run(DelayedCall& c) {
  SmallVec<const Tensor*, 8> in;
  for (const Tensor& t : c.in) {
    if (const Delayed* d = delayed(t)) fill(t, *d);
    in.push_back(&t);
  }
  const CallReplay::Pause pause;
  try {
    c.out = run_op(*c.op, Operands(in.data(), in.size()), c.attrs, c.specs);
  } catch (...) {
    fail_running(*c.op, Operands(in.data(), in.size()), c.where);
  }
  if (runs_are_watched()) [[unlikely]]
    show_results(*c.op, Operands(in.data(), in.size()), {c.out.data(), c.out.size()}, c.where);
  c.in.clear();
}

}  // namespace

bool compute_delayed(const Tensor& t) {
  const Delayed* asked = delayed(t);
  if (!asked) return false;
  std::vector<DelayedCall*> stack{asked->call.get()};
  while (!stack.empty()) {
    DelayedCall& call = *stack.back();
    const size_t before = stack.size();
    if (call.out.empty())
      for (const Tensor& operand : call.in)
        if (const Delayed* d = delayed(operand); d && d->call->out.empty()) stack.push_back(d->call.get());
    if (stack.size() > before) continue;
    if (call.out.empty()) run(call);
    stack.pop_back();
  }
  fill(t, *asked);
  return true;
}

Tensors delay_call(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, std::span<const Strides> strides,
                   const Where& where) {
  auto call = Shared<DelayedCall>::make(DelayedCall{&op, Attrs(attrs), {}, specs, where});
  for (const Tensor* t : in) call->in.push_back(*t);
  Tensors out;
  for (size_t k = 0; k < specs.size(); ++k) {
    auto* d = new Delayed;
    d->call = call;
    d->index = k;
    d->release = let_go;
    Tensor t = make_stand_in(specs[k]);
    TensorRep& r = *t.mutable_rep();
    r.strides = strides[k];
    r.trace = delayed_trace;
    r.buffer = Ref<Buffer>::adopt(d);
    out.push_back(std::move(t));
  }
  return out;
}

}  // namespace rill
