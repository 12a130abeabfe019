// Control-flow nodes from files are checked here before they run; see check_control.h. Start at ControlCheck::run.
#include "rill/trace/control/check_control.h"

#include <fmt/format.h>

namespace rill {
namespace {

// `a` in place of `b`: what values are, whether or not they came from C++ numbers.
bool fits(const Spec& a, const Spec& b) { return a.shape == b.shape && a.dtype == b.dtype && a.device == b.device; }

class ControlCheck {
 public:
  ControlCheck(const Op& op, std::span<const Spec* const> in, const ControlAttrs& a) : op_(op), in_(in), a_(a) {}

  void run() const {
    if (op_.marker) return check_rule();
    require(!in_.empty() && !a_.graphs.empty() && a_.carried >= 0 && a_.scanned >= 0, "operands and graphs");
    for (const auto& g : a_.graphs) check_inputs(g->graph);
    if (&op_ == &cond_op || &op_ == &switch_case_op) check_choice();
    else if (&op_ == &while_loop_op) check_while();
    else check_scan();
  }

 private:
  void require(bool holds, std::string_view what) const {
    if (!holds) fail(op_.name, fmt::format("the node and its graphs disagree about {}", what), Where());
  }
  const Spec& spec(const Graph& g, size_t k) const { return g.spec(g.outputs[k]); }
  const Graph& body() const { return a_.graphs[0]->graph; }
  bool is_scalar(const Spec& s, DType dtype) const { return s.shape.empty() && s.dtype == dtype; }

  void check_inputs(const Graph& g) const {
    for (size_t k = 0; k < g.inputs.size(); ++k)
      require(g.inputs[k].kind == GraphInput::Kind::argument && g.inputs[k].argument == int(k), "arguments");
    require(g.assigns.empty(), "assigned variables");
  }

  // Inputs [from, from + n) of the graph are the operands from `operand` on.
  void check_operands(const Graph& g, size_t from, size_t operand, size_t n) const {
    require(from + n <= g.inputs.size() && operand + n <= in_.size(), "the number of operands");
    for (size_t k = 0; k < n; ++k)
      require(fits(g.spec({g.inputs[from + k].node, 0}), *in_[operand + k]), fmt::format("operand {}", operand + k));
  }
  void check_result(size_t k, const Spec& want) const {
    require(k < a_.outputs.size() && fits(a_.outputs[k], want), fmt::format("result {}", k));
  }

  void check_choice() const {
    const bool cond = &op_ == &cond_op;
    require(cond ? is_scalar(*in_[0], DType::boolean) : is_integer(in_[0]->dtype) && in_[0]->shape.empty(),
            "the choice");
    require(!cond || a_.graphs.size() == 2, "the number of branches");
    for (const auto& inner : a_.graphs) {
      const Graph& g = inner->graph;
      require(g.inputs.size() + 1 == in_.size(), "the number of operands");
      check_operands(g, 0, 1, g.inputs.size());
      require(g.outputs.size() == a_.outputs.size(), "the number of results");
      for (size_t k = 0; k < g.outputs.size(); ++k) check_result(k, spec(g, k));
    }
  }

  // The carried values before each step, stacked, as results from number `first` on, and nothing after them.
  void check_saved(size_t first, size_t operand) const {
    const size_t carried = size_t(a_.carried);
    require(a_.outputs.size() == first + (a_.saves ? carried : 0), "the number of results");
    require(!a_.saves || a_.length >= 0, "the number of steps");
    for (size_t k = 0; a_.saves && k < carried; ++k)
      check_result(first + k, stacked_spec(*in_[operand + k], a_.length));
  }

  void check_while() const {
    const size_t carried = size_t(a_.carried);
    require(is_scalar(*in_[0], DType::boolean), "the condition");
    require(a_.graphs.size() == 1 && carried < in_.size(), "the number of operands");
    require(body().inputs.size() + 1 == in_.size(), "the number of operands");
    check_operands(body(), 0, 1, body().inputs.size());
    require(body().outputs.size() == 1 + carried && is_scalar(spec(body(), 0), DType::boolean), "the condition");
    for (size_t k = 0; k < carried; ++k) {
      require(fits(spec(body(), 1 + k), *in_[1 + k]), fmt::format("carried value {}", k));
      check_result(k, *in_[1 + k]);
    }
    if (a_.saves) check_result(carried, Spec{{}, DType::i64, false, Device()});
    check_saved(carried + (a_.saves ? 1 : 0), 1);
  }

  void check_scan() const {
    const size_t first = a_.counted ? 1 : 0, carried = size_t(a_.carried), scanned = size_t(a_.scanned);
    require(!a_.counted || is_scalar(*in_[0], DType::i64), "the number of steps");
    require(a_.graphs.size() == 1 && a_.length >= 0, "the number of steps");
    require(first + carried + scanned <= in_.size(), "the number of operands");
    require(body().inputs.size() + first == in_.size(), "the number of operands");
    check_operands(body(), 0, first, carried);
    for (size_t k = 0; k < scanned; ++k) {
      const Spec& xs = *in_[first + carried + k];
      require(!xs.shape.empty() && xs.shape[0] == a_.length, "the number of rows");
      require(fits(body().spec({body().inputs[carried + k].node, 0}), row_spec(xs)), "the rows");
    }
    const size_t constants = in_.size() - first - carried - scanned;
    check_operands(body(), carried + scanned, first + carried + scanned, constants);
    require(body().outputs.size() >= carried, "the number of results");
    for (size_t k = 0; k < carried; ++k) {
      require(fits(spec(body(), k), *in_[first + k]), fmt::format("carried value {}", k));
      check_result(k, *in_[first + k]);
    }
    const size_t results = body().outputs.size();
    for (size_t k = carried; k < results; ++k) check_result(k, stacked_spec(spec(body(), k), a_.length));
    check_saved(results, first);
  }

  // An argument of a rule's graph: the node's operand of that number.
  void check_rule_inputs(const Graph& g, size_t shift, const Spec* first) const {
    for (const GraphInput& i : g.inputs) {
      if (i.kind == GraphInput::Kind::variable) continue;
      require(i.kind == GraphInput::Kind::argument && i.argument >= 0, "arguments");
      const size_t operand = shift + size_t(i.argument);
      const bool is_first = first && i.argument == 0;
      require(is_first || operand < in_.size(), "the number of operands");
      require(fits(g.spec({i.node, 0}), is_first ? *first : *in_[operand]), "what the rule reads");
    }
  }
  void check_rule() const {
    const size_t arguments = size_t(a_.carried);
    require(!in_.empty() && a_.carried >= 0 && arguments < in_.size(), "the number of arguments");
    require(a_.outputs.size() == 1, "the number of results");
    check_result(0, *in_[0]);
    require(!a_.graphs.empty() || !a_.fault.empty(), "the rule");
    require(a_.graphs.size() <= 2, "the rule");
    if (a_.graphs.empty()) return;
    const Graph& g = body();
    check_rule_inputs(g, arguments, in_[0]);
    require(g.outputs.size() == a_.gives.size(), "the number of cotangents");
    for (size_t k = 0; k < a_.gives.size(); ++k) {
      require(a_.gives[k] >= 0 && size_t(a_.gives[k]) < arguments, "the arguments");
      require(fits(spec(g, k), *in_[1 + size_t(a_.gives[k])]), "the cotangents");
    }
    if (a_.graphs.size() < 2) return;
    const Graph& t = a_.graphs[1]->graph;
    check_rule_inputs(t, 1, nullptr);
    require(t.outputs.size() == 1 && fits(spec(t, 0), *in_[0]) && t.assigns.empty(), "the tangent");
  }

  const Op& op_;
  std::span<const Spec* const> in_;
  const ControlAttrs& a_;
};

}  // namespace

void check_control(const Op& op, std::span<const Spec* const> in, const ControlAttrs& attrs) {
  ControlCheck(op, in, attrs).run();
}

}  // namespace rill
