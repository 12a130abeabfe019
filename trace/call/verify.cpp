// verify(): compares a traced call with the callable itself. If bits differ, it finds the first op that is to blame, by
// running both the callable and the graph again, op by op, under a listener.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "rill/ops/numerics_check.h"
#include "rill/ops/ops.h"
#include "rill/trace/call/function_state.h"

namespace rill {

std::ostream& operator<<(std::ostream& out, const Verification& v) { return v ? out << true : out << v.difference; }

namespace {

class CollectTensors final : public LeafVisitor {
 public:
  void tensor(Tensor& t) override { tensors.push_back(t); }
  void constant(const void*, size_t) override {}
  std::vector<Tensor> tensors;
};

// --- Where two tensors differ ----------------------------------------------------------------------------------------

// A bool for each element of two tensors of equal shape and dtype: whether any bit differs. NaNs are equal whatever
// their sign and payload, which depend on the processor.
Tensor difference(const Tensor& a, const Tensor& b) {
  if (a.dtype() == DType::string) {
    const auto x = a.to_vector<std::string>(), y = b.to_vector<std::string>();
    std::vector<uint8_t> differ;
    for (size_t i = 0; i < x.size(); ++i) differ.push_back(x[i] != y[i]);
    return tensor(differ, a.shape()) != 0;
  }
  if (is_complex(a.dtype())) return difference(real(a), real(b)) | difference(imag(a), imag(b));
  if (!is_floating(a.dtype())) return a != b;
  const size_t size = size_of(a.dtype());
  const DType bits = size == 1 ? i8 : size == 2 ? i16 : size == 4 ? i32 : i64;
  return (bitcast(a, bits) != bitcast(b, bits)) & ~(isnan(computable(a)) & isnan(computable(b)));
}

// Whether a traced call may give `b` where eager code gives `a`.
bool agree(const Tensor& a, const Tensor& b) {
  if (same_bits(a, b)) return true;
  return a.shape() == b.shape() && a.dtype() == b.dtype() && !any(difference(a, b)).item<bool>();
}

std::string describe_index(int64_t at, const Shape& shape) {
  std::string text;
  for (size_t i = shape.size(); i-- > 0; at /= shape[i])
    text = fmt::format("{}{}{}", int64_t(at % shape[i]), text.empty() ? "" : ", ", text);
  return text.empty() ? "" : fmt::format(" at ({})", text);
}

// "f32[2,3]; at (0, 1) it is 2 eagerly and 3 traced. 4 of 6 elements differ, by 1 at most".
std::string describe_difference(const Tensor& eager, const Tensor& traced) {
  if (eager.shape() != traced.shape() || eager.dtype() != traced.dtype())
    return fmt::format("it is {} eagerly and {} traced", to_string(eager.spec()), to_string(traced.spec()));
  const Tensor a = reshape(eager, {eager.size()}), b = reshape(traced, {traced.size()});
  const Tensor differ = difference(a, b);
  const auto at = argmax(differ.astype(u8)).item<int64_t>();  // the first one; at least one differs
  std::string text = fmt::format("{};{} it is {} eagerly and {} traced", to_string(eager.spec()),
                                 describe_index(at, eager.shape()), to_string(a(at)), to_string(b(at)));
  text += fmt::format(". {} of {} elements differ", count_nonzero(differ).item<int64_t>(), int64_t(a.size()));
  if (is_floating(eager.dtype()) || is_integer(eager.dtype())) {
    const Tensor distance = abs(astype(a, f64) - astype(b, f64));
    text += fmt::format(", by {} at most", max(where(isfinite(distance), distance, 0)).item<double>());
  }
  return text;
}

// --- Op by op --------------------------------------------------------------------------------------------------------

struct Run {
  const Op* op;
  std::string place;
  std::vector<Tensor> out;
  bool is(const Run& other) const { return op == other.op && place == other.place; }
};

// While it lives, records the results of every op of this thread.
class OpLog final : public TapeListener {
 public:
  OpLog() : list_(listeners()) { list_.add(*this); }
  ~OpLog() { list_.remove(*this); }
  bool watches(const Tensor&) const override { return false; }
  void record(const Op& op, Operands, std::span<Tensor> out, AttrsView, const Where& where) override {
    runs.push_back({&op, place_of(where), {out.begin(), out.end()}});
  }
  void record_custom(Operands, std::span<Tensor>, const CustomVjp&, const Where&) override {}
  void watch_variable(const Shared<VariableState>&, Tensor&) override {}
  std::vector<Run> runs;

 private:
  Listeners& list_;
};

std::string describe_node(const Graph& g, size_t i) {
  const Node& n = g.nodes()[i];
  const std::string scope = n.scope.empty() ? "" : fmt::format(" of '{}'", n.scope);
  return fmt::format("%{} {}{}{}", i, n.op_name(), scope, n.where.empty() ? "" : fmt::format(" ({})", n.where));
}

// Pairs the results of nodes with those of eager ops: same op and line, in order. Ops without a partner, as constants
// of the trace and bodies of loops, are skipped.
std::string first_node(const Graph& g, std::span<const Run> eager, std::span<const Run> nodes) {
  std::string only_traced;
  size_t next = 0, k = 0;
  for (size_t i = 0; i < g.nodes().size() && k < nodes.size(); ++i) {
    if (g.nodes()[i].kind != Node::Kind::op) continue;
    const Run& run = nodes[k++];
    size_t at = next;
    while (at < eager.size() && !eager[at].is(run)) ++at;
    if (at == eager.size()) {
      if (only_traced.empty() && !run.op->graphs && !run.op->marker) only_traced = describe_node(g, i);
      continue;
    }
    for (size_t o = 0; o < run.out.size(); ++o)
      if (!agree(eager[at].out[o], run.out[o]))
        return fmt::format("the first node that differs is {}: {}", describe_node(g, i),
                           describe_difference(eager[at].out[o], run.out[o]));
    next = at + 1;
  }
  if (!only_traced.empty())
    return fmt::format("the callable does something else when it is traced: {} is in the trace alone", only_traced);
  return "no node of the graph differs when it runs alone: the optimized graph or a compiled kernel does (RILL_JIT=off "
         "runs without those)";
}

// Describes a tensor that the call's graph has captured and the callable, traced again into `now`, does not; or "".
std::string reassigned_capture(const Graph& called, const Graph& now) {
  for (const GraphInput& old : called.inputs) {
    if (old.kind != GraphInput::Kind::captured) continue;
    const auto is_same = [&](const GraphInput& i) {
      return i.kind == GraphInput::Kind::captured && agree(i.captured, old.captured);
    };
    if (std::any_of(now.inputs.begin(), now.inputs.end(), is_same)) continue;
    return fmt::format(
        "a captured tensor was reassigned: the trace keeps the {} that it was when the call was traced. "
        "make it an argument, or a Variable",
        to_string(old.captured.spec()));
  }
  return "";
}

}  // namespace

// --- verify ----------------------------------------------------------------------------------------------------------

Verification FunctionCore::verify(Body& body, const Where& where) {
  FunctionKey key;
  ReadKey read(key);
  body.walk_arguments(read);
  auto put_back = [&] {
    PutBack p(key.leaves);
    body.walk_arguments(p);
  };
  put_back();
  // Traced for its variables; leaves symbolic tensors in the arguments.
  const Graph g = trace(body, argument_names(), {}, nullptr, {}, where);
  const VariableSet variables(g);
  const std::vector<Tensor> before = variables.values();
  auto run_eagerly = [&] {
    variables.set(before);
    put_back();
    body.run();
    CollectTensors results;
    body.walk_prototype(results);
    return results.tensors;
  };
  const std::vector<Tensor> eager = run_eagerly(), eager_after = variables.values();
  variables.set(before);
  Shared<const void> prototype;
  put_back();
  const std::vector<Tensor> traced = call(body, prototype, where), traced_after = variables.values();

  std::string found;
  auto compare = [&](const Tensor& a, const Tensor& b, const std::string& what) {
    if (found.empty() && !agree(a, b)) found = fmt::format("{}, {}", what, describe_difference(a, b));
  };
  if (eager.size() != traced.size())
    found = fmt::format("the callable gives {} tensors and the traced call {}", eager.size(), traced.size());
  for (size_t i = 0; i < std::min(eager.size(), traced.size()); ++i)
    compare(eager[i], traced[i], fmt::format("result {}", i));
  for (size_t i = 0; i < traced_after.size(); ++i)
    compare(eager_after[i], traced_after[i], fmt::format("variable '{}'", variables.members()[i].state->name));
  if (found.empty()) return {};

  FunctionKey again;
  ReadKey read_again(again);
  put_back();
  body.walk_arguments(read_again);
  put_back();
  again.device = default_device();
  Shared<Instance> called;
  {
    std::lock_guard lock(state_->mutex);
    called = find(again);
  }
  if (called)
    if (const std::string reason = reassigned_capture(called->graph->graph(), g); !reason.empty())
      return {fmt::format("'{}': {}. {}", name_, found, reason)};

  std::vector<Run> ops, nodes;
  {
    OpLog log;
    run_eagerly();
    ops = std::move(log.runs);
  }
  variables.set(before);
  put_back();
  CollectTensors leaves;
  body.walk_arguments(leaves);
  std::vector<Tensor> inputs = gather_inputs(g, leaves.tensors);
  for (size_t k = 0; k < inputs.size(); ++k)
    if (g.inputs[k].kind == GraphInput::Kind::variable) inputs[k] = Variable(g.inputs[k].variable).value();
  {
    OpLog log;
    interpret(g, inputs);
    nodes = std::move(log.runs);
  }
  variables.set(traced_after);
  return {fmt::format("'{}': {}. {}", name_, found, first_node(g, ops, nodes))};
}

}  // namespace rill
