// profile(): times kernels and compares them with the limits of the machine; see ../profile.h. Start at profile_graph.
#include "rill/trace/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ostream>
#include <unordered_map>

#include "rill/devices/registry.h"
#include "rill/ops/call_replay.h"
#include "rill/ops/ops.h"
#include "rill/ops/state/variable_state.h"
#include "rill/tensor/text.h"
#include "rill/trace/call/inner_call.h"
#include "rill/trace/call/profiled.h"
#include "rill/trace/graph/control_node.h"
#include "rill/trace/graph/spec_text.h"
#include "rill/trace/jit.h"

namespace rill {

// --- The machine -----------------------------------------------------------------------------------------------------

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

template <class F>
double best_seconds(F&& f) {
  double best = 1e30;
  for (int i = 0; i < 6; ++i) {
    const auto start = Clock::now();
    f();
    best = std::min(best, seconds_since(start));
  }
  return best;
}

}  // namespace

MachineLimits measured_limits() {
  static const MachineLimits limits = [] {
    EagerScope eager;
    MachineLimits m;
    constexpr int64_t n = 16 << 20, side = 1024;
    Tensor x = ones({n}), a = ones({side, side});
    m.bytes_per_second = 2.0 * n * sizeof(float) / best_seconds([&] { negative(x), synchronize(x.device()); });
    m.flops_per_second = 2.0 * side * side * side / best_seconds([&] { matmul(a, a), synchronize(a.device()); });
    return m;
  }();
  return limits;
}

// --- Running ---------------------------------------------------------------------------------------------------------

namespace detail {

std::string kernel_name(const Node& n) {
  return n.kind == Node::Kind::op && n.op->title ? n.op->title(n.attrs) : std::string(n.op_name());
}

static void make_inner(const Graph& g) {
  for (const Node& n : g.nodes())
    if (n.kind == Node::Kind::op && n.op->graphs)
      for (const auto& inner : held_by(n).graphs) make_inner(call_of(*inner).graph());
}

std::shared_ptr<Tiers> compiled_tiers(Graph traced) {
  std::shared_ptr<Tiers> tiers = Tiers::make(std::move(traced));
  make_inner(tiers->eager().graph());
  jit::wait();
  return tiers;
}

}  // namespace detail

namespace {

// The number of multiplications and additions; 0 if unknown.
double flops_of(const Graph& g, const Node& n) {
  if (!n.op->flops) return 0;
  SmallVec<const Spec*, 8> in;
  for (ValueId v : n.inputs) in.push_back(&g.spec(v));
  return n.op->flops({in.data(), in.size()}, n.outputs[0], n.attrs);
}

std::string outputs_of(const Node& n) {
  std::string s;
  for (const Spec& spec : n.outputs) s += (s.empty() ? "" : ", ") + to_string(spec);
  return s;
}

// The graph's inputs. The values of Variables are copied for each run: assignments then write in place, as in a call,
// and the Variables do not change.
std::vector<Tensor> fresh_inputs(const Graph& g, const std::vector<Tensor>& arguments) {
  std::vector<Tensor> in;
  for (const GraphInput& i : g.inputs) {
    if (i.kind == GraphInput::Kind::argument) {
      in.push_back(arguments[size_t(i.argument)]);
    } else if (i.kind == GraphInput::Kind::captured) {
      in.push_back(i.captured);
    } else {
      const Tensor value = value_of(*i.variable).contiguous();
      Tensor copy = empty_tensor(value.spec());
      copy_elements(value, copy);
      in.push_back(std::move(copy));
    }
  }
  return in;
}

void weigh(KernelProfile& k, const MachineLimits& limits) {
  const double memory = double(k.bytes_read + k.bytes_written) / limits.bytes_per_second;
  const double compute = k.flops / limits.flops_per_second;
  k.compute_bound = compute > memory;
  if (k.calls > 0 && k.seconds > 0) k.percent_of_limit = 100 * std::max(memory, compute) * double(k.calls) / k.seconds;
}

// Lists the kernels of an executable and of the graphs inside its nodes, then adds up their times.
class Times {
 public:
  explicit Times(Profile& p) : p_(p) {}

  // `around`: the kernel whose node holds `g`, or none.
  void list(const Graph& g, const KernelProfile* around, const std::string& role) {
    std::vector<int>& numbers = kernels_[&g];
    numbers.assign(g.nodes().size(), -1);
    for (size_t i = 0; i < g.nodes().size(); ++i) {
      const Node& n = g.nodes()[i];
      if (n.kind != Node::Kind::op || n.op->view) continue;
      numbers[i] = int(p_.kernels.size());
      KernelProfile k;
      k.name = detail::kernel_name(n), k.output = outputs_of(n), k.scope = n.scope, k.where = n.where;
      k.node = around ? around->node : int32_t(i);
      if (around) {
        k.inside = fmt::format("{}{}{} {}", around->inside, around->depth ? ", " : "", around->name, role);
        k.depth = around->depth + 1;
      }
      k.flops = flops_of(g, n);
      p_.kernels.push_back(k);
      holds_others_.push_back(n.op->graphs != nullptr);
      if (n.op->graphs)
        for (const auto& inner : held_by(n).graphs) list(call_of(*inner).executable().graph(), &k, inner->role);
    }
  }

  // Spans recorded until the next call belong to a run that began at `start`.
  void begin(Clock::time_point start) { start_ = start, p_.spans.clear(); }
  void note(const Executable::Timing& t) {
    const int number = kernels_.at(t.graph)[size_t(t.node)];
    KernelProfile& k = p_.kernels[size_t(number)];
    ++k.calls;
    k.seconds += t.seconds;
    k.bytes_read = t.bytes_read, k.bytes_written = t.bytes_written;
    if (k.depth == 0 || p_.spans.size() < 100'000)
      p_.spans.push_back({number, std::chrono::duration<double>(t.start - start_).count(), t.seconds});
  }
  void weigh_all() {
    for (size_t i = 0; i < p_.kernels.size(); ++i)
      if (!holds_others_[i]) weigh(p_.kernels[i], p_.limits);
  }

 private:
  Profile& p_;
  std::unordered_map<const Graph*, std::vector<int>> kernels_;  // by node: its index in the profile, or -1
  std::vector<bool> holds_others_;                              // by index: whether it is control flow
  Clock::time_point start_;
};

}  // namespace

namespace detail {

Profile profile_graph(Graph traced, const std::vector<Tensor>& arguments, const ProfileOptions& options) {
  if (options.runs < 1) fail("profile", fmt::format("runs is {}. give at least 1", options.runs), Where());
  for (const Tensor& t : arguments)
    if (t.defined() && t.is_symbolic() && !compute_delayed(t)) {
      refuse_read_in_trace("profile", Where());
      fail_foreign("profile", "an argument", t, Where());
    }
  EagerScope eager;
  Profile p;
  p.limits = options.limits;
  if (p.limits.bytes_per_second <= 0) p.limits.bytes_per_second = measured_limits().bytes_per_second;
  if (p.limits.flops_per_second <= 0) p.limits.flops_per_second = measured_limits().flops_per_second;
  p.runs = options.runs;

  const std::shared_ptr<Tiers> tiers = compiled_tiers(std::move(traced));
  const Executable& e = tiers->now();
  p.graph = e.graph();
  p.function = p.graph.name;
  p.state = tiers->state();
  Times times(p);
  times.list(e.graph(), nullptr, "");
  for (int run = -1; run < options.runs; ++run) {
    std::vector<Tensor> in = fresh_inputs(p.graph, arguments), results(e.result_count());
    const auto start = Clock::now();
    times.begin(start);
    e.run_timed(in, results, [&](const Executable::Timing& t) {
      if (run >= 0) times.note(t);
    });
    if (run >= 0) p.seconds += seconds_since(start);
  }
  std::sort(p.spans.begin(), p.spans.end(), [](auto& a, auto& b) {
    return a.start != b.start ? a.start < b.start : a.seconds > b.seconds;  // control flow before its inner kernels
  });
  times.weigh_all();
  return p;
}

}  // namespace detail

namespace {

using Kernels = std::vector<KernelProfile>::const_iterator;

std::string line_of(const KernelProfile& k, double runs, double in_kernels) {
  const std::string at = one_line(k.scope.empty() || k.where.empty() ? k.scope + k.where : k.scope + ", " + k.where);
  const std::string limit = k.percent_of_limit > 0
                                ? fmt::format("{:>5.1f} {}", k.percent_of_limit, k.compute_bound ? "compute" : "memory")
                                : "";
  return fmt::format("{:>10.2f} {:>6g} {:>5.1f}% {:>10.1f} {:>10.1f} {:>9}  {:<14} {:{}}{} -> {}{}\n",
                     1e6 * k.seconds / double(k.calls), double(k.calls) / runs,
                     in_kernels > 0 ? 100 * k.seconds / in_kernels : 0, double(k.bytes_read) / 1e3,
                     double(k.bytes_written) / 1e3, k.flops > 0 ? fmt::format("{:.2f}", k.flops / 1e6) : "", limit, "",
                     2 * k.depth, k.name, k.output, at.empty() ? "" : "  (" + at + ")");
}

// Sorts the kernels of one depth, the longest first; each stays followed by its inner kernels.
std::string lines_of(Kernels begin, Kernels end, double runs, double in_kernels) {
  std::vector<std::pair<Kernels, Kernels>> parts;  // a kernel, and the next one of its depth
  for (Kernels k = begin; k != end;) {
    const Kernels next = std::find_if(k + 1, end, [&](const KernelProfile& o) { return o.depth <= k->depth; });
    if (k->calls > 0) parts.emplace_back(k, next);
    k = next;
  }
  std::stable_sort(parts.begin(), parts.end(), [](auto& a, auto& b) { return a.first->seconds > b.first->seconds; });
  std::string text;
  for (const auto& [k, next] : parts) text += line_of(*k, runs, in_kernels) + lines_of(k + 1, next, runs, in_kernels);
  return text;
}

}  // namespace

std::string to_string(const Profile& p) {
  double in_kernels = 0;
  for (const KernelProfile& k : p.kernels)
    if (k.depth == 0) in_kernels += k.seconds;
  const double runs = std::max(1, p.runs);
  std::string text = fmt::format(
      "profile of '{}' ({}): {} kernels, {:.1f} us a run, {:.1f} of them in kernels; mean of {} runs\n",
      one_line(p.function), p.state, p.kernels.size(), 1e6 * p.seconds / runs, 1e6 * in_kernels / runs, p.runs);
  text += fmt::format("limits: {:.1f} GB/s, {:.1f} GFLOP/s\n", p.limits.bytes_per_second / 1e9,
                      p.limits.flops_per_second / 1e9);
  text += fmt::format("{:>10} {:>6} {:>6} {:>10} {:>10} {:>9}  {:<14} {}\n", "us a call", "calls", "share", "KB read",
                      "KB written", "MFLOP", "% of limit", "kernel");
  return text + lines_of(p.kernels.begin(), p.kernels.end(), runs, in_kernels);
}

std::ostream& operator<<(std::ostream& out, const Profile& p) { return out << to_string(p); }

}  // namespace rill
