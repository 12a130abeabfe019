// Replay; see executable.h. The constructor resolves kernels, make_frame the fixed addresses; start at
// Executable::replay.
#include "rill/trace/run/executable.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_set>
#include <utility>

#include "rill/devices/driver.h"
#include "rill/devices/host_memory.h"
#include "rill/devices/registry.h"
#include "rill/ops/call_replay.h"
#include "rill/ops/numerics_check.h"
#include "rill/ops/run_errors.h"
#include "rill/tensor/later_errors.h"
#include "rill/tensor/lent_memory.h"
#include "rill/trace/graph/layout.h"
#include "rill/trace/run/living.h"

namespace rill {

// What one running call needs: the arena, a tensor for each value, and the operand lists of each instruction.
struct Executable::Frame {
  Ref<Buffer> arena;
  std::vector<Tensor> values;
  struct OperandLists {
    std::vector<const Tensor*> in;
    std::vector<Tensor*> out;
  };
  std::vector<OperandLists> operands;
  std::deque<Captures> captures;  // by range
  std::unique_ptr<Frame> next;    // of the idle ones: a frame is returned without an allocation, which could fail
};

// --- All of them, for when memory runs out ---------------------------------------------------------------------------

void Executable::give_back_memory() {
  Captures::give_back_memory();
  std::vector<std::unique_ptr<Frame>> frames;  // freed after the lock is released
  living<Executable>().for_each([&](Executable& e) {
    const std::lock_guard lock(e.mutex_);
    frames.push_back(std::move(e.idle_));
  });
}

Executable::~Executable() { living<Executable>().remove(this); }

Executable::Executable(Graph g) : graph_(std::move(g)), plan_(plan_memory(graph_)) {
  list_instructions();
  find_capture_ranges();
  number_results();
  living<Executable>().add(this);
  set_memory_saver(give_back_memory);
}

void Executable::list_instructions() {
  Layouts layouts;
  const std::vector<bool> constant = constant_nodes(graph_.inputs.size());
  for (const Node& n : graph_.nodes()) {
    size_t first = plan_.first[size_t(&n - graph_.nodes().data())];
    layouts.append(n);
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const ValueLocation& p = plan_.locations[first + k];
      bool fixed = p.kind == ValueLocation::Kind::arena || p.kind == ValueLocation::Kind::constant ||
                   (p.kind == ValueLocation::Kind::view && p.fixed_view);
      if (!fixed) moving_.push_back(uint32_t(first + k));
    }
    if (n.kind != Node::Kind::op || (n.op->view && plan_.locations[first].fixed_view)) continue;
    Instruction i;
    i.op = n.op;
    i.node = &n;
    i.is_view = n.op->view != nullptr;
    bool dense = true;
    for (ValueId v : n.inputs) {
      i.in.push_back(uint32_t(plan_.number(v)));
      dense &= layouts.of(v).defined() && layouts.of(v).is_contiguous();
    }
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      i.out.push_back(uint32_t(first + k));
      if (!n.op->call && plan_.locations[first + k].kind == ValueLocation::Kind::output)
        outputs_.push_back({uint32_t(first + k), &n, k, {}});
    }
    if (n.op->call) {
      instructions_.push_back(std::move(i));
      continue;
    }
    if (n.op->packs && constant[size_t(n.inputs[1].node)]) i.packed = std::make_unique<Packed>();
    DType dtype = n.inputs.empty() ? n.outputs[0].dtype : graph_.spec(n.inputs[0]).dtype;
    if (!i.is_view && (dense || !n.op->wants_contiguous)) i.kernel = kernel_for(*n.op, n.outputs[0].device, dtype);
    instructions_.push_back(std::move(i));
  }
}

// The results that each output is.
void Executable::number_results() {
  uint32_t result = 0;
  const auto returned = [&](ValueId v) {
    const auto at = std::lower_bound(outputs_.begin(), outputs_.end(), plan_.number(v),
                                     [](const Output& o, size_t value) { return o.value < value; });
    if (at != outputs_.end() && at->value == plan_.number(v)) at->results.push_back(result);
    ++result;
  };
  for (ValueId v : graph_.outputs) returned(v);
  for (const GraphAssign& a : graph_.assigns) returned(a.value);
}

// Ranges are as long as possible. A single kernel gains nothing.
void Executable::find_capture_ranges() {
  const auto device_of = [&](const Instruction& i) {
    const Device d = i.node->outputs.empty() ? Device() : i.node->outputs[0].device;
    const bool elsewhere =
        std::any_of(i.node->outputs.begin(), i.node->outputs.end(), [&](const Spec& s) { return s.device != d; }) ||
        std::any_of(i.node->inputs.begin(), i.node->inputs.end(),
                    [&](ValueId v) { return graph_.spec(v).device != d; });
    return i.op->call || elsewhere ? Device() : d;
  };
  const std::unordered_set<uint32_t> moving(moving_.begin(), moving_.end());
  for (size_t at = 0; at < instructions_.size();) {
    CaptureRange range{device_of(instructions_[at]), at, at, {}};
    if (is_host(range.device)) {
      ++at;
      continue;
    }
    size_t kernels = 0;
    std::unordered_set<uint32_t> seen;
    for (; range.end < instructions_.size() && device_of(instructions_[range.end]) == range.device; ++range.end) {
      const Instruction& i = instructions_[range.end];
      kernels += !i.is_view;
      for (const auto& list : {i.in, i.out})
        for (const uint32_t v : list)
          if (moving.contains(v) && seen.insert(v).second) range.moving.push_back(v);
    }
    at = range.end;
    if (kernels < 2) continue;
    instructions_[range.begin].range = int32_t(ranges_.size());
    ranges_.push_back(std::move(range));
  }
}

std::vector<bool> Executable::constant_nodes(size_t first_fixed) const {
  std::vector<bool> constant(graph_.nodes().size());
  for (size_t k = 0; k < graph_.inputs.size(); ++k) {
    const GraphInput& i = graph_.inputs[k];
    constant[size_t(i.node)] = i.kind == GraphInput::Kind::captured || k >= first_fixed;
  }
  for (size_t k = 0; k < constant.size(); ++k) {
    const Node& n = graph_.nodes()[k];
    if (n.kind == Node::Kind::constant) constant[k] = true;
    else if (n.kind == Node::Kind::op) constant[k] = n.op->view && constant[size_t(n.inputs[0].node)];
  }
  return constant;
}

Executable::Packs Executable::packs_for(size_t first) const {
  if (std::none_of(instructions_.begin(), instructions_.end(), [](auto& i) { return i.op->packs && !i.packed; }))
    return {};
  const std::vector<bool> constant = constant_nodes(first);
  Packs packs(instructions_.size());
  for (size_t k = 0; k < packs.size(); ++k) {
    const Instruction& i = instructions_[k];
    if (i.op->packs && !i.packed && constant[size_t(i.node->inputs[1].node)]) packs[k] = std::make_unique<Packed>();
  }
  return packs;
}

size_t Executable::kernel_count() const {
  size_t n = 0;
  for (const Instruction& i : instructions_) n += !i.is_view;
  return n;
}

std::unique_ptr<Executable::Frame> Executable::make_frame() const {
  auto f = std::make_unique<Frame>();
  f->values.resize(plan_.locations.size());
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    const Node& n = graph_.nodes()[i];
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      size_t number = plan_.first[i] + k;
      const ValueLocation& p = plan_.locations[number];
      Tensor& t = f->values[number];
      if (p.kind == ValueLocation::Kind::constant) {
        t = n.constant;
      } else if (p.kind == ValueLocation::Kind::arena) {
        if (!f->arena) f->arena = allocate(n.outputs[k].device, plan_.arena_bytes);
        t = make_tensor(n.outputs[k], f->arena);
        t.mutable_rep()->data += p.offset;
      } else if (p.kind == ValueLocation::Kind::view && p.fixed_view) {
        t = n.op->view(f->values[plan_.number(n.inputs[0])], n.attrs, n.outputs[k]);
      }
    }
  }
  for (const Instruction& i : instructions_) {
    auto& o = f->operands.emplace_back();
    for (uint32_t v : i.in) o.in.push_back(&f->values[v]);
    for (uint32_t v : i.out) o.out.push_back(&f->values[v]);
  }
  for (size_t r = 0; r < ranges_.size(); ++r) f->captures.emplace_back(captures_are_off_);
  return f;
}

namespace {
// Whether only the caller's list of inputs and the frame hold the tensor, so that its memory may be overwritten; and
// whether it covers its buffer: a result in a small part of a large buffer would keep all of it from being freed.
bool may_reuse_memory_of(const Tensor& t) {
  const Buffer& b = *t.rep()->buffer;
  return t.ref().holders() == 2 && t.rep()->buffer.unique() && !is_lent(b) && t.is_contiguous() &&
         t.rep()->data == b.data && b.bytes <= 64 + 2 * size_t(t.size()) * size_of(t.dtype());
}
}  // namespace

void Executable::retire() const {
  std::unique_ptr<Frame> idle;  // freed after the lock is released
  std::lock_guard lock(mutex_);
  retired_ = true;
  idle = std::move(idle_);
  for (const Instruction& i : instructions_)
    if (i.packed) i.packed->clear();
}

// All outputs are allocated before any input is overwritten: if an allocation fails, Variables are unchanged. Nor are
// they overwritten if something watches each kernel and may throw once it has run.
void Executable::make_outputs(Frame& f, std::span<const Tensor> wanted) const {
  const bool watched = runs_are_watched() || placement_is_logged();
  for (const Output& o : outputs_) {
    const Spec& spec = o.node->outputs[o.index];
    const auto place =
        std::find_if(o.results.begin(), o.results.end(), [&](uint32_t r) { return wanted[r].defined(); });
    if (place != o.results.end()) {
      f.values[o.value] = wanted[*place];
      continue;
    }
    const int32_t over = plan_.locations[o.value].over;
    const bool reuses = over >= 0 && !watched && f.values[size_t(over)].device() == spec.device &&
                        may_reuse_memory_of(f.values[size_t(over)]);
    try {
      f.values[o.value] = reuses ? make_tensor(spec, f.values[size_t(over)].rep()->buffer) : empty_tensor(spec);
    } catch (const Error& e) {
      fail_at(origin_of(*o.node), e);
    }
  }
}

void Executable::execute(const Instruction& i, size_t at, Frame& f, const Packs* packs) const {
  auto& o = f.operands[at];
  const Node& n = *i.node;
  if (i.op->call) {
    Tensors results = i.op->call(o.in, n.attrs);
    for (size_t k = 0; k < o.out.size(); ++k) *o.out[k] = std::move(results[k]);
    return;
  }
  if (placement_is_logged()) [[unlikely]]
    report_placement(i.op->name, o.in, n.outputs[0].device);
  if (i.is_view) {
    *o.out[0] = run_op1(*i.op, o.in, n.attrs, OutSpecs(n.outputs.begin(), n.outputs.end()));
    return;
  }
  Packed* const packed = i.packed || !packs ? i.packed.get() : (*packs)[at].get();
  const Origin origin = origin_of(n);
  const StartedFrom here(origin);
  try {
    if (i.kernel) run_on_device(i.kernel, {o.in, o.out, n.attrs, packed, i.op});
    else run_kernel(*i.op, o.in, o.out, n.attrs, packed);
  } catch (...) {
    fail_running(*i.op, o.in, Where::current());
  }
}

void Executable::execute_checked(const Instruction& i, size_t at, Frame& f, const Packs* packs) const {
  const auto& o = f.operands[at];
  if (i.op->call || i.is_view) return execute(i, at, f, packs);
  const OperandsBefore before(o.in, o.out);
  execute(i, at, f, packs);
  Tensors out;
  for (const Tensor* t : o.out) out.push_back(*t);
  const Origin origin = origin_of(*i.node);
  check_results(*i.op, before.get(), {out.data(), out.size()}, Where(), &origin);
}

// Views first: the host makes them, and their addresses are known before anything has run.
bool Executable::launch_range(const CaptureRange& range, Frame& f, const Packs* packs) const {
  Captures& captures = f.captures[size_t(&range - ranges_.data())];
  if (!captures.may_launch() || placement_is_logged()) return false;
  for (size_t k = range.begin; k < range.end; ++k) {
    const Instruction& i = instructions_[k];
    if (!i.is_view) continue;
    execute(i, k, f, packs);
    const auto& o = f.operands[k];
    if (o.out[0]->rep()->buffer.get() == o.in[0]->rep()->buffer.get()) continue;
    captures.charge();  // it was copied, perhaps before a kernel of the range has computed its elements
    return false;
  }
  return captures.launch(range, f.values, [&] {
    for (size_t k = range.begin; k < range.end; ++k)
      if (!instructions_[k].is_view) execute(instructions_[k], k, f, packs);
  });
}

template <class F>
void Executable::replay(std::span<const Tensor> inputs, std::span<Tensor> results, F&& execute_some) const {
  std::unique_ptr<Frame> frame;
  {
    std::lock_guard lock(mutex_);
    if (idle_) {
      frame = std::move(idle_);
      idle_ = std::move(frame->next);
    }
  }
  if (!frame) try {
      frame = make_frame();
    } catch (const host_memory::OutOfMemory& e) {
      fail(graph_.name, fmt::format("{}. it is for the values inside one call", e.reason), Where());
    }
  // Returns the frame, without any of this call's tensors, also if a kernel throws.
  struct Return {
    const Executable& e;
    std::unique_ptr<Frame>& frame;
    ~Return() {
      for (uint32_t v : e.moving_) frame->values[v] = Tensor();
      std::lock_guard lock(e.mutex_);
      if (e.retired_) return;
      frame->next = std::move(e.idle_);
      e.idle_ = std::move(frame);
    }
  } give_back{*this, frame};

  for (size_t k = 0; k < graph_.inputs.size(); ++k) {
    if (inputs[k].rep() && inputs[k].rep()->trace)
      compute_delayed(inputs[k]);  // kernels read it below, without dispatch
    frame->values[plan_.first[size_t(graph_.inputs[k].node)]] = inputs[k];
  }
  make_outputs(*frame, results);
  size_t at = 0;
  try {
    while (at < instructions_.size()) at += execute_some(instructions_[at], at, *frame);
  } catch (const Error& e) {
    fail_at(origin_of(*instructions_[at].node), e);
  }

  size_t r = 0;
  auto take = [&](ValueId v) {
    const Tensor& t = frame->values[plan_.number(v)];
    ValueLocation::Kind kind = plan_.locations[plan_.number(v)].kind;
    // An input or constant that is returned becomes a new tensor, so that tapes can tell them apart.
    results[r++] = kind == ValueLocation::Kind::output ? t : make_alias(t);
  };
  for (ValueId v : graph_.outputs) take(v);
  for (const GraphAssign& a : graph_.assigns) take(a.value);
}

// Shows the values of ops, and those that exist already: constants, and views that were made with the frame.
void Executable::show_nodes(size_t begin, size_t end, Frame& f) const {
  for (size_t k = begin; k < end; ++k) {
    const Node& n = graph_.nodes()[k];
    if (n.kind == Node::Kind::input) continue;
    SmallVec<const Tensor*, 4> out;
    for (size_t o = 0; o < n.outputs.size(); ++o) out.push_back(&f.values[plan_.first[k] + o]);
    run_watcher()->has(graph_, int32_t(k), {out.data(), out.size()});
  }
}

void Executable::run_watched(std::span<const Tensor> inputs, std::span<Tensor> results, const Packs* packs) const {
  RunWatcher* const watcher = run_watcher();
  if (watcher) watcher->begins(graph_, inputs);
  struct Ends {
    RunWatcher* watcher;
    const Graph& graph;
    std::span<const Tensor> results = {};
    ~Ends() {
      if (watcher) watcher->ends(graph, results);
    }
  } ends{watcher, graph_};
  size_t shown = 0;
  replay(inputs, results, [&](const Instruction& i, size_t at, Frame& f) {
    const auto node = size_t(i.node - graph_.nodes().data());
    if (watcher) {
      show_nodes(shown, node, f);
      watcher->begins_node(graph_, int32_t(node));
    }
    execute_checked(i, at, f, packs);
    shown = at + 1 == instructions_.size() ? graph_.nodes().size() : node + 1;
    if (watcher) show_nodes(node, shown, f);
    return size_t(1);
  });
  ends.results = results;
}

void Executable::run(std::span<const Tensor> inputs, std::span<Tensor> results, const Packs* packs) const {
  if (runs_are_watched()) [[unlikely]]
    return run_watched(inputs, results, packs);
  replay(inputs, results, [=, this](const Instruction& i, size_t at, Frame& f) {
    if (i.range >= 0) {
      const CaptureRange& range = ranges_[size_t(i.range)];
      if (launch_range(range, f, packs)) return range.end - range.begin;
    }
    execute(i, at, f, packs);
    return size_t(1);
  });
}

namespace {
// Bytes of the distinct elements in memory: broadcast axes count once.
int64_t bytes_in_memory(const Tensor& t) {
  int64_t n = int64_t(size_of(t.dtype()));
  for (int k = 0; k < t.ndim(); ++k)
    if (t.strides()[size_t(k)] != 0 || t.shape()[size_t(k)] == 0) n *= t.shape()[size_t(k)];
  return n;
}

thread_local const Executable::Note* noting = nullptr;
}  // namespace

const Executable::Note* Executable::note_now() { return noting; }

void Executable::run_timed(std::span<const Tensor> inputs, std::span<Tensor> results, const Note& note,
                           const Packs* packs) const {
  using Clock = std::chrono::steady_clock;
  struct Noting {
    const Note* outer;
    ~Noting() { noting = outer; }
  } scope{std::exchange(noting, &note)};
  replay(inputs, results, [&](const Instruction& i, size_t at, Frame& f) {
    Timing t;
    t.graph = &graph_;
    t.node = int32_t(i.node - graph_.nodes().data());
    const Device device = i.node->outputs.empty() ? Device() : i.node->outputs[0].device;
    t.start = Clock::now();
    if (is_host(device)) {
      execute(i, at, f, packs);
      t.seconds = std::chrono::duration<double>(Clock::now() - t.start).count();
    } else {
      t.seconds = driver_of(device).seconds_of(device, [&] { execute(i, at, f, packs); });
    }
    if (i.is_view) return size_t(1);
    for (size_t k = 0; k < i.in.size(); ++k)
      if (std::find(i.in.begin(), i.in.begin() + k, i.in[k]) == i.in.begin() + k)
        t.bytes_read += bytes_in_memory(*f.operands[at].in[k]);
    for (const Tensor* out : f.operands[at].out) t.bytes_written += bytes_in_memory(*out);
    note(t);
    return size_t(1);
  });
}

}  // namespace rill
