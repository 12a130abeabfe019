// A node that holds graphs is a record, a struct of attributes and a ControlNode, in one file: the one here is known to
// no line of the library, and is traced, run, printed, read back, looked into, freed of effects and has tangents. And
// what the library's own nodes say of their operands is so.
#include <numeric>

#include "catch.h"
#include "graph_programs.h"
#include "rill/rill.h"
#include "rill/trace/call/inner_call.h"
#include "rill/trace/control/control_nodes.h"
#include "rill/trace/control/control_view.h"

using namespace rill;

namespace {

// twice: operands: carried, constants. Graph: (carried, constants) -> carried. What the second of two runs gives.
struct TwiceAttrs : HeldGraphs {
  int carried = 0;
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("graphs", s.names());
  }
  template <class S, class V>
  static void stored(S& s, V&& v) {
    v("carried", s.carried), v("place", s.place);
  }
};

Tensors call_twice(Operands in, AttrsView attrs) {
  const TwiceAttrs& a = attrs.as<TwiceAttrs>();
  std::vector<Tensor> arguments, results;
  for (const Tensor* t : in) arguments.push_back(*t);
  for (int step = 0; step < 2; ++step) {
    results.assign(size_t(a.carried), {});
    run_inner(*a.graphs[0], arguments, results);
    std::copy(results.begin(), results.end(), arguments.begin());
  }
  return Tensors(results.begin(), results.end());
}

NodeRoles roles_of_twice(AttrsView attrs, size_t operands) {
  const size_t carried = size_t(attrs.as<TwiceAttrs>().carried);
  const RoleGroups all{{Role::carried, carried}, {Role::fixed, operands - carried}}, given{{Role::carried, carried}};
  return {all, given, all, given};
}

const Op twice_op([] {
  OpSpec spec =
      control_flow<TwiceAttrs>("twice", "what a graph gives of what it gave", call_twice, nullptr, nullptr, "");
  spec.no_gradient = "it is a test";
  return spec;
}());
const ControlNode twice_node({.op = twice_op,
                              .attrs = control_attrs<TwiceAttrs>,
                              .roles = roles_of_twice,
                              .check =
                                  [](const Op& op, std::span<const Spec* const> in, AttrsView attrs) {
                                    const size_t inputs = attrs.as<TwiceAttrs>().graphs.at(0)->graph.inputs.size();
                                    if (inputs != in.size()) fail(op.name, "operands are missing", Where());
                                  },
                              .apply = apply_control,
                              .resized = [](AttrsView attrs, std::span<const size_t> sizes) -> Attrs {
                                TwiceAttrs a = attrs.as<TwiceAttrs>();
                                a.carried = int(sizes[0]);
                                return a;
                              }});

Tensor step(const Tensor& x, const Tensor& w) { return sin(x) * w; }

// step() twice, as one node.
Tensor twice(const Tensor& x, const Tensor& w, bool prints = false) {
  const auto body = function("body", [prints](const Tensor& v, const Tensor& by) {
    if (prints) print("a step {}", v);
    return step(v, by);
  });
  TwiceAttrs attrs;
  attrs.carried = 1;
  attrs.graphs = {std::make_shared<const InnerGraph>("body", body.graph(spec(f32, {3}), spec(f32, {3})))};
  attrs.outputs = {x.spec()};
  const Tensor* in[] = {&x, &w};
  return apply_any(twice_op, in, attrs, Where::current())[0];
}

size_t total(const RoleGroups& roles) {
  return std::accumulate(roles.begin(), roles.end(), size_t(0),
                         [](size_t n, const RoleGroup& p) { return n + p.count; });
}

void check_parts(const Graph& g, int& nodes) {
  for (const Node& n : g.nodes()) {
    if (n.kind != Node::Kind::op || !n.op->graphs) continue;
    INFO(n.op->name);
    ++nodes;
    const ControlNode& control = control_of(*n.op);
    const NodeRoles roles = control.roles(n.attrs, n.inputs.size());
    CHECK(total(roles.operands) == n.inputs.size());
    CHECK(total(roles.outputs) == n.outputs.size());
    const HeldGraphs& held = held_by(n);
    for (size_t k = 0; k < held.graphs.size(); ++k) {
      const Graph& inner = held.graphs[k]->graph;
      if (!roles.inputs.empty()) {
        CHECK(total(roles.inputs) == inner.inputs.size());
        CHECK(total(roles.results) == inner.outputs.size());
      }
      // An input is what its operand is, or a row of it.
      for (size_t i = 0; i < inner.inputs.size(); ++i) {
        const int operand = operand_of_input(*n.op, n.attrs, n.inputs.size(), k, i);
        if (operand < 0) continue;
        REQUIRE(size_t(operand) < n.inputs.size());
        const Spec &is = inner.spec({inner.inputs[i].node, 0}), &of = g.spec(n.inputs[size_t(operand)]);
        CHECK((is.shape == of.shape || (!of.shape.empty() && is.shape == row_spec(of).shape)));
      }
      check_parts(inner, nodes);
    }
  }
}

}  // namespace

TEST_CASE("a control node is a record, its attributes and a table, in one file") {
  const Tensor x = random::normal({3}, {.key = random::Key(1)}), w = random::normal({3}, {.key = random::Key(2)});
  const Tensor want = step(step(x, w), w);
  const auto f = function("f", [](const Tensor& v, const Tensor& by) { return twice(v, by) + 1; });
  CHECK(same_bits(f(x, w), want + 1));
  CHECK(same_bits(twice(x, w), want));

  const Graph g = f.graph(x, w);
  const std::string text = to_text(g);
  const Graph again = parse_graph(text);
  CHECK(to_text(again) == text);
  CHECK(text.find("twice(%0, %1) {carried=1}") != text.npos);
  CHECK(same_bits(again.run({{ValueId{0, 0}, x}, {ValueId{1, 0}, w}})[0], want + 1));
  CHECK_THROWS_WITH(parse_graph(std::string(text).replace(text.find("twice(%0, %1)"), 13, "twice(%0)")),
                    contains_text("operands are missing"));

  const SpreadGraph spread = spread_out(g);
  CHECK(spread.graph.nodes().size() > g.nodes().size());
  CHECK(f.explain().find("body") != std::string::npos);

  // Tangents, of one operand and of both.
  const Tensor dx = ones({3}), dw = full({3}, 2.f);
  const auto plain = [](const Tensor& v, const Tensor& by) { return step(step(v, by), by); };
  CHECK(allclose(jvp([&](const Tensor& v) { return twice(v, w); }, x, dx).second,
                 jvp([&](const Tensor& v) { return plain(v, w); }, x, dx).second));
  CHECK(allclose(jvp([&](const Tensor& v) { return twice(x, v); }, w, dw).second,
                 jvp([&](const Tensor& v) { return plain(x, v); }, w, dw).second));

  const auto loud = function("loud", [](const Tensor& v, const Tensor& by) { return twice(v, by, true); });
  const Graph with = loud.graph(x, w), without = without_effects(with);
  CHECK(std::any_of(with.nodes().begin(), with.nodes().end(), has_effect));
  CHECK(std::none_of(without.nodes().begin(), without.nodes().end(), has_effect));
  CHECK(same_bits(without.run({{ValueId{0, 0}, x}, {ValueId{1, 0}, w}})[0], want));
}

TEST_CASE("what nodes say of their operands is so") {
  int nodes = 0;
  for (const auto& programs : {graph_programs::control_flow(), graph_programs::gradient_rules()})
    for (const auto& [name, body, inputs] : programs) {
      INFO(name);
      const auto f = function(name, [body = body](const graph_programs::List& in) { return body(in); });
      check_parts(f.graph(inputs), nodes);
    }
  CHECK(nodes > 10);
  for (const Op* op : {&cond_op, &switch_case_op, &while_loop_op, &scan_op, &custom_gradient_op})
    CHECK(&control_of(*op).op == op);
}
