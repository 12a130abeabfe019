// Dispatch, step by step: check the operands and infer, run the kernel or append to a trace, record on tapes.
#include "rill/ops/apply.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rill/devices/cpu/elementwise/elementwise.h"
#include "rill/devices/cpu/move/their_order.h"
#include "rill/devices/driver.h"
#include "rill/devices/host_memory.h"
#include "rill/ops/call_replay.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/run_errors.h"
#include "rill/ops/run_watch.h"
#include "rill/tensor/delayed.h"
#include "rill/tensor/dim_table.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/tensor/later_errors.h"
#include "rill/tensor/limits.h"
#include "rill/tensor/per_thread.h"

namespace rill {

// --- Listeners -------------------------------------------------------------------------------------------------------

thread_local constinit Listeners* thread_listeners = nullptr;

Listeners& make_listeners() {
  struct Lowest : Listeners {
    ~Lowest() {
      if (thread_listeners == this) thread_listeners = nullptr;
    }
  };
  static thread_local constinit PerThread<Lowest> lowest;
  thread_listeners = &*lowest;
  return *lowest;
}

namespace {
std::atomic<uint64_t> last_listener{0};
}
TapeListener::TapeListener() : number(++last_listener) {}

void Listeners::add(TapeListener& tape) {
  tapes.push_back(&tape);
  for (size_t i = tapes.size(); --i > 0 && tapes[i - 1]->number > tape.number;) std::swap(tapes[i - 1], tapes[i]);
}
void Listeners::remove(const TapeListener& tape) {
  for (size_t i = tapes.size(); i-- > 0;)
    if (tapes[i] == &tape) tapes.erase(i);
}

Listeners Listeners::without_tapes() const {
  return {trace, variables, notes, nullptr, repeats, open_sizes, {}, below};
}
Listeners Listeners::outside(const TapeListener& inner) const {
  Listeners l = without_tapes();
  for (size_t i = 0; i < tapes.size() && tapes[i] != &inner; ++i) l.tapes.push_back(tapes[i]);
  if (!l.tapes.empty()) l.calls = calls;
  return l;
}
Listeners Listeners::eager() const {
  const bool own = variables && variables != trace;
  return {nullptr, own ? variables : nullptr, notes, calls, repeats, open_sizes, tapes, below};
}
Listeners Listeners::level_of(TraceListener& t, bool is_part) {
  return {&t, &t, nullptr, nullptr, is_part && repeats, open_sizes, {}, this};
}

void ListenersScope::end_list() {
  const SmallVec<TapeListener*, 4> left = own_.tapes;
  for (TapeListener* tape : left) tape->list_ends(own_);
}

bool executing_eagerly() { return listeners().run_ops(); }

bool is_constant_scalar(const Tensor& t) {
  if (!t.spec().weak || t.ndim() != 0 || t.is_symbolic() || t.rep()->tape) return false;
  const Listeners& now = listeners();
  for (const TapeListener* tape : now.tapes)
    if (tape->watches(t)) return false;
  return now.run_ops() || now.trace->is_constant(t);
}

// --- Checks ----------------------------------------------------------------------------------------------------------

namespace {

using SpecPointers = SmallVec<const Spec*, 8>;

void check_operands(const Op& op, Operands in, SpecPointers& specs, const Where& where) {
  specs.reserve(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    if (!in[i]->defined())
      fail(op.name, fmt::format("operand {} is an undefined tensor. assign a value to it first", i), where);
    specs.push_back(&in[i]->spec());
  }
  for (size_t i = 1; i < specs.size() && !op.call; ++i)
    if (!(specs[i]->device == specs[0]->device))
      fail(op.name,
           fmt::format("operands are on {} and {}. move one with to(\"{}\")", to_string(specs[0]->device),
                       to_string(specs[i]->device), to_string(specs[0]->device)),
           where);
}

void check_dtype(const Op& op, const SpecPointers& specs, AttrsView attrs, const Where& where) {
  if (specs.empty() || contains(op.dtypes, specs[0]->dtype)) return;
  std::string allowed;
  for (int d = 0; d < dtype_count; ++d)
    if (contains(op.dtypes, DType(d))) allowed += (allowed.empty() ? "" : ", ") + std::string(name(DType(d)));
  const DType given = specs[0]->dtype;
  InferArgs{op, specs, attrs, where}.reject(
      fmt::format("{} is not taken. use one of {} ({})", name(given), allowed,
                  given == DType::string ? "functions of strings are in rill::strings"
                  : is_float8(given)     ? "8-bit floats are for storage: convert with astype(f32) first"
                                         : "see astype()"));
}

void check_not_leaked(const Op& op, Operands in, const Where& where) {
  for (const Tensor* t : in)
    if (t->rep()->trace && !compute_delayed(*t)) fail_foreign(op.name, "an operand", *t, where);
}

Tensor dense_copy(const Tensor& t) {
  Spec spec = t.spec();
  Tensor out = empty_tensor(std::move(spec));
  copy_elements(t, out);
  return out;
}

Tensor view_of(const Op& op, const Tensor& in, AttrsView attrs, const Spec& out) {
  Tensor v = op.view(in, attrs, out);
  return v.defined() ? v : op.view(dense_copy(in), attrs, out);
}

}  // namespace

// --- Values of traces ------------------------------------------------------------------------------------------------

namespace {
struct RunningTraces {
  struct Trace {
    uint32_t serial;
    std::thread::id thread;
    std::string name;
  };
  ForkMutex mutex;
  std::vector<Trace> traces;
  // The name of one that runs on another thread, or none.
  std::optional<std::string> elsewhere(uint32_t serial) {
    std::lock_guard lock(mutex);
    for (const Trace& t : traces)
      if (t.serial == serial && t.thread != std::this_thread::get_id()) return t.name;
    return std::nullopt;
  }
};
RunningTraces& running_traces() {
  static RunningTraces* all = new RunningTraces;  // traces may end after main()
  return *all;
}
}  // namespace

std::string_view EnclosingTrace::why_unknown() {
  return now() && now()->runs_now() ? "may differ from row to row in vmap" : "are not known while a function is traced";
}

uint32_t EnclosingTrace::new_serial() {
  static std::atomic<uint32_t> next{1};
  uint32_t n = next++;
  while (n == 0 || n == delayed_trace) n = next++;  // those of tensors of no trace
  return n;
}

void trace_begins(uint32_t serial, const std::string& name) {
  RunningTraces& all = running_traces();
  std::lock_guard lock(all.mutex);
  all.traces.push_back({serial, std::this_thread::get_id(), name});
}
void trace_ends(uint32_t serial) {
  RunningTraces& all = running_traces();
  std::lock_guard lock(all.mutex);
  std::erase_if(all.traces, [&](const auto& t) { return t.serial == serial; });
}
bool trace_on_other_thread(uint32_t serial) { return running_traces().elsewhere(serial).has_value(); }

void fail_foreign(std::string_view op, std::string_view what, const Tensor& t, const Where& where) {
  if (const std::optional<std::string> name = running_traces().elsewhere(t.rep()->trace))
    fail(op,
         fmt::format("{} belongs to the function '{}', which is being traced on another thread. a trace sees only what "
                     "its own thread does: compute there, and return the result",
                     what, *name),
         where);
  fail(
      op,
      fmt::format("{} belongs to a function that has finished tracing. return it from that function instead of storing "
                  "it outside",
                  what),
      where);
}

namespace {
// What the dtype of the first operand does not say: whether others and the results are 8-bit floats.
void check_float8(const Op& op, std::span<const Spec* const> specs, const OutSpecs& out, AttrsView attrs,
                  const Where& where) {
  const auto check = [&](const Spec& s, std::string_view cure) {
    if (is_float8(s.dtype) && !contains(op.dtypes, s.dtype)) [[unlikely]]
      InferArgs{op, specs, attrs, where}.reject(
          fmt::format("{} is for storage, and this op computes. {}", name(s.dtype), cure));
  };
  for (size_t i = 1; i < specs.size(); ++i) check(*specs[i], "convert with astype(f32) first");
  for (const Spec& s : out) check(s, "compute in f32, and convert the result with astype()");
}
}  // namespace

OutSpecs infer(const Op& op, std::span<const Spec* const> in, AttrsView attrs, const Where& where) {
  const InferArgs args{op, in, attrs, where};
  OutSpecs out = op.infer(args);
  for (const Spec& s : out)
    if (!has_sound_size(s)) [[unlikely]]
      args.reject(describe_size(s));
  check_float8(op, in, out, attrs, where);
  return out;
}

// --- Running ---------------------------------------------------------------------------------------------------------

Kernel kernel_for(const Op& op, Device device, DType dtype) {
  // The reference kernels work on the host's memory, so they stand in where the CPU has no kernel of its own.
  if (device.kind() == DeviceKind::cpu && op.cpu && contains(op.cpu_dtypes, dtype)) return op.cpu;
  if (!is_host(device)) [[unlikely]] {
    if (const Kernel kernel = driver_of(device).kernel(op, op.name, dtype, op.ref)) return kernel;
    fail(op.name,
         fmt::format("there is no kernel for {} on {}. move the operands with to(\"cpu:0\")", name(dtype),
                     to_string(device)),
         Where());
  }
  if (!op.ref) [[unlikely]]  // a record of the user's
    fail(op.name,
         fmt::format("the record has no kernel for {} on {}. give it a ref kernel", name(dtype), to_string(device)),
         Where());
  return op.ref;
}

void run_kernel(const Op& op, Operands in, std::span<Tensor* const> out, AttrsView attrs, Packed* packed) {
  Kernel kernel = kernel_for(op, out[0]->device(), in.empty() ? out[0]->dtype() : in[0]->dtype());
  // Nothing is allocated where nothing is copied: of the updates of a step in place, a failing one would leave those before.
  const auto is_dense = [](const Tensor* t) { return t->is_contiguous(); };
  if (!op.wants_contiguous || std::all_of(in.begin(), in.end(), is_dense))
    return run_on_device(kernel, {in, out, attrs, packed, &op});
  SmallVec<Tensor, 4> copies;
  SmallVec<const Tensor*, 8> dense(in);
  copies.reserve(in.size());
  for (const Tensor*& t : dense)
    if (!t->is_contiguous()) t = &copies.emplace_back(dense_copy(*t));
  run_on_device(kernel, {dense, out, attrs, packed, &op});
}

namespace {
// Whether the result, which is large, may lie as operands do that are not dense. A copy is made to be dense.
bool may_keep_order(const Op& op, Operands in, const Tensor& out) {
  if (op.kind != OpKind::elementwise || !op.cpu || op.cpu == cpu::copy || op.wants_contiguous ||
      out.device().kind() != DeviceKind::cpu || !cpu::may_lie_otherwise(out.spec()))
    return false;
  return std::any_of(in.begin(), in.end(), [](const Tensor* t) { return !t->is_contiguous(); });
}
}  // namespace

Tensor run_op1(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs) {
  if (placement_is_logged()) [[unlikely]]
    report_placement(op.name, in, specs[0].device);
  if (op.view) return view_of(op, *in[0], attrs, specs[0]);
  Tensor out = empty_tensor(specs[0]);
  if (const Buffer* b = out.rep()->buffer.get(); b && b->bytes >= cpu::worth_an_order && may_keep_order(op, in, out))
      [[unlikely]] {
    out = Tensor();
    return cpu::run_in_their_order(in, specs[0], [&](Operands some, Tensor& y) {
      Tensor* outs[] = {&y};
      run_kernel(op, some, outs, attrs);
    });
  }
  Tensor* outs[] = {&out};
  run_kernel(op, in, outs, attrs);
  return out;
}

Tensors run_op(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs) {
  if (op.call) return op.call(in, attrs);
  if (specs.size() == 1) return Tensors{run_op1(op, in, attrs, specs)};
  if (placement_is_logged()) [[unlikely]]
    report_placement(op.name, in, specs[0].device);
  Tensors out;
  SmallVec<Tensor*, 4> pointers;
  out.reserve(specs.size());
  for (const Spec& s : specs) out.push_back(empty_tensor(s));
  for (Tensor& t : out) pointers.push_back(&t);
  run_kernel(op, in, pointers, attrs);
  return out;
}

void fail_running(const Op& op, Operands in, const Where& where) {
  if (op.call) throw;  // what a callable of the user's throws stays what it is
  std::string fault;
  try {
    throw;
  } catch (const host_memory::OutOfMemory& e) {
    fault = e.reason;
  } catch (const Error& e) {
    if (*e.what() != '[') throw;  // it names a line
    fail_placed(e.what(), where);
  } catch (const std::bad_alloc&) {
    fault = "out of memory";
  } catch (const std::exception& e) {
    fault = fmt::format("the kernel could not run: {}", e.what());
  }
  std::string operands;
  for (const Tensor* t : in) operands += (operands.empty() ? "" : ", ") + to_string(t->spec());
  fail(op.name, fmt::format("{}. operands: {}", fault, operands.empty() ? "none" : operands), where);
}

namespace {
inline OutSpecs checked_outputs(const Op& op, Operands in, AttrsView attrs, const Where& where) {
  SpecPointers specs;
  check_operands(op, in, specs, where);
  check_dtype(op, specs, attrs, where);
  if (listeners().open_sizes && listeners().trace) [[unlikely]] {
    InferDims again_for_each_size(*OpenDims::now());
    return infer(op, specs, attrs, where);
  }
  return infer(op, specs, attrs, where);
}
}  // namespace

namespace {
// A call of an op that runs, or whose results were kept when it ran before.
Tensors run_or_give(CallReplay& replay, const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs,
                    const Where& where) {
  Tensors out = replay.give(op, in, attrs, specs, where);
  if (!out.empty()) return out;
  check_not_leaked(op, in, where);
  {
    const CallReplay::Pause pause;
    const StartedFrom here(where);
    try {
      out = run_op(op, in, attrs, specs);
    } catch (...) {
      fail_running(op, in, where);
    }
  }
  replay.ran(op, in, out);
  return out;
}
}  // namespace

namespace {
// Tensors without axes on the CPU are numbers, which join tensors on another device.
bool is_on_cpu(const Tensor& t) { return t.device().kind() == DeviceKind::cpu; }
bool is_cpu_number(const Tensor& t) { return t.ndim() == 0 && t.dtype() != DType::string && is_on_cpu(t); }

// Of operands on several devices: the one that is not the CPU, where all that is not there is numbers.
std::optional<Device> device_to_join(Operands in) {
  const Device* there = nullptr;
  for (const Tensor* t : in) {
    if (!t->defined()) return std::nullopt;
    if (!is_on_cpu(*t)) there = &t->spec().device;
  }
  if (!there) return std::nullopt;
  for (const Tensor* t : in)
    if (!(t->device() == *there) && !is_cpu_number(*t)) return std::nullopt;
  return *there;
}

bool on_several_devices(Operands in) {
  for (size_t i = 1; i < in.size(); ++i)
    if (in[i]->defined() && in[0]->defined() && !(in[i]->device() == in[0]->device())) return true;
  return false;
}

}  // namespace

Tensor number_beside(const Tensor& number, const Tensor& x) {
  if (!number.defined() || !x.defined()) return number;  // what takes it will say so
  return is_cpu_number(number) && !is_on_cpu(x) ? number.to(x.device()) : number;
}

namespace {
// The call with its numbers where the others are; nothing where it is not such a call.
std::optional<Tensors> apply_joined(const Op& op, Operands in, AttrsView attrs, const Where& where) {
  const std::optional<Device> device = op.call ? std::nullopt : device_to_join(in);
  if (!device) return std::nullopt;
  std::vector<Tensor> moved;
  for (const Tensor* t : in) moved.push_back(t->to(*device, where));
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : moved) pointers.push_back(&t);
  return apply(op, pointers, attrs, where);
}
}  // namespace

Tensor apply1(const Op& op, Operands in, AttrsView attrs, const Where& where) {
  if (on_several_devices(in)) [[unlikely]]
    if (std::optional<Tensors> out = apply_joined(op, in, attrs, where)) return std::move((*out)[0]);
  Listeners& now = listeners();
  OutSpecs out_specs = checked_outputs(op, in, attrs, where);
  Tensor out;
  if (now.trace) [[unlikely]] {
    out = std::move(now.trace->append(op, in, attrs, out_specs, where)[0]);
  } else if (now.calls) [[unlikely]] {
    out = std::move(run_or_give(*now.calls, op, in, attrs, out_specs, where)[0]);
  } else {
    check_not_leaked(op, in, where);
    try {
      if (is_host(out_specs[0].device)) [[likely]] {
        out = run_op1(op, in, attrs, out_specs);
      } else {
        const StartedFrom here(where);
        out = run_op1(op, in, attrs, out_specs);
      }
    } catch (...) {
      fail_running(op, in, where);
    }
  }
  if (runs_are_watched() && !now.trace) [[unlikely]]
    show_results(op, in, {&out, 1}, where);
  for (TapeListener* tape : now.tapes) tape->record(op, in, {&out, 1}, attrs, where);
  return out;
}

Tensors apply(const Op& op, Operands in, AttrsView attrs, const Where& where) {
  if (on_several_devices(in)) [[unlikely]]
    if (std::optional<Tensors> out = apply_joined(op, in, attrs, where)) return *std::move(out);
  Listeners& now = listeners();
  OutSpecs out_specs = checked_outputs(op, in, attrs, where);
  Tensors out;
  if (now.repeats && op.effect && out_specs.empty()) [[unlikely]]  // what gives something is needed again
    return out;
  if (now.trace) {
    out = now.trace->append(op, in, attrs, out_specs, where);
  } else if (now.calls) [[unlikely]] {
    out = run_or_give(*now.calls, op, in, attrs, out_specs, where);
  } else {
    check_not_leaked(op, in, where);
    try {
      const StartedFrom here(where);
      out = run_op(op, in, attrs, out_specs);
    } catch (...) {
      fail_running(op, in, where);
    }
  }
  if (runs_are_watched() && !now.trace) [[unlikely]]
    show_results(op, in, {out.data(), out.size()}, where);
  for (TapeListener* tape : now.tapes) tape->record(op, in, out, attrs, where);
  return out;
}

}  // namespace rill
