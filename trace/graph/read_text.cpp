// Parses a text, which may be invalid, into a graph; see ../graph_text.h. Start at Reader::run.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "rill/autodiff/recompute_policy.h"
#include "rill/ops/state/variable_state.h"
#include "rill/ops/stored_ops.h"
#include "rill/trace/graph/control_node.h"
#include "rill/trace/graph/graph_text_parts.h"
#include "rill/trace/graph/instantiate.h"
#include "rill/trace/graph/spec_text.h"
#include "rill/trace/graph_text.h"

namespace rill {
namespace {

using graph_text::ElementText;
using graph_text::Token;
using Kind = Token::Kind;

constexpr int most_inputs = 1 << 20, deepest = 100;

Dim read_open_size(std::string_view text) {
  if (text != "?") fail("parse_graph", fmt::format("'{}' is no size", text.substr(0, 40)), Where());
  return open_size;
}

class Reader {
 public:
  Reader(std::string_view text, const GraphVariables& variables, const GraphTensors& tensors, const Where& where)
      : lexer_(text, where), variables_(variables), tensors_(tensors), where_(where) {
    advance();
  }

  Graph run() {
    while (is_word("region")) region();
    Graph g = graph(0);
    if (now_.kind != Kind::end) expected("the end of the text");
    return g;
  }

 private:
  // --- Tokens ------------------------------------------------------------------------------------------------------

  void advance() { now_ = lexer_.next(); }
  [[noreturn]] void reject(const Token& at, const std::string& what) const {
    graph_text::reject_at(at.line, at.column, what, where_);
  }
  [[noreturn]] void expected(const std::string& what) const {
    reject(now_, fmt::format("expected {}, found {}", what,
                             now_.kind == Kind::end ? "the end of the text" : "'" + now_.text.substr(0, 40) + "'"));
  }
  bool is_sign(std::string_view sign) const { return now_.kind == Kind::sign && now_.text == sign; }
  bool is_word(std::string_view word) const { return now_.kind == Kind::word && now_.text == word; }
  bool take(std::string_view sign) {
    if (!is_sign(sign)) return false;
    advance();
    return true;
  }
  bool take_word(std::string_view word) {
    if (!is_word(word)) return false;
    advance();
    return true;
  }
  void require(std::string_view sign) {
    if (!take(sign)) expected(fmt::format("'{}'", sign));
  }
  void require_word(std::string_view word) {
    if (!take_word(word)) expected(fmt::format("'{}'", word));
  }
  std::string word(const char* what) {
    if (now_.kind != Kind::word) expected(what);
    std::string text = std::move(now_.text);
    advance();
    return text;
  }
  std::string string(const char* what) {
    if (now_.kind != Kind::string) expected(fmt::format("{}, in quotes", what));
    std::string text = std::move(now_.text);
    advance();
    return text;
  }
  int64_t number(const char* what, int64_t least, int64_t most) {
    const Token at = now_;
    int64_t n = 0;
    if (now_.kind != Kind::word || !whole_in(now_.text, n) || n < least || n > most)
      expected(fmt::format("{}, a number in [{}, {}]", what, least, most));
    advance();
    return n;
  }
  static bool whole_in(std::string_view text, int64_t& n) {
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), n);
    return fault == std::errc() && end == text.data() + text.size();
  }
  // The result of `f`; its errors name the position `at`.
  template <class F>
  auto at_place(const Token& at, F&& f) const {
    try {
      return f();
    } catch (const Error& e) {
      std::string what = e.what();
      if (what.starts_with("[parse_graph] ")) what.erase(0, 14);
      reject(at, what);
    }
  }

  // --- Parts of nodes ----------------------------------------------------------------------------------------------

  // "f32[2,3]", "weak i64[] on ref:0".
  Spec spec() {
    const Token at = now_;
    std::string text = take_word("weak") ? "weak " : "";
    text += word("a spec, such as f32[2,3]");
    require("[");
    text += '[';
    for (bool first = true; !take("]"); first = false) {
      if (!first) require(",");
      text += (first ? "" : ",") + word("a size");
    }
    text += ']';
    if (take_word("on")) {
      text += " on " + word("a device");
      require(":");
      text += ":" + word("the number of a device");
    }
    return at_place(at, [&] { return read_spec(text, read_open_size); });
  }

  ValueId value(const Graph& g) {
    const Token at = now_;
    require("%");
    const std::string text = word("the number of a node");
    const size_t dot = text.find('.');
    int64_t node = 0, output = 0;
    const bool good =
        whole_in(text.substr(0, dot), node) && (dot == text.npos || whole_in(text.substr(dot + 1), output));
    if (!good || node < 0 || size_t(node) >= g.nodes().size() || output < 0 ||
        size_t(output) >= g.nodes()[size_t(node)].outputs.size())
      reject(at, fmt::format("%{} is no value that stands before", text.substr(0, 40)));
    return {int32_t(node), int32_t(output)};
  }
  std::vector<ValueId> values(const Graph& g, std::string_view end) {
    std::vector<ValueId> all;
    for (bool first = true; !is_sign(end); first = false) {
      if (!first) require(",");
      all.push_back(value(g));
    }
    require(end);
    return all;
  }

  AttrValue attribute() {
    if (now_.kind == Kind::string) return string("text");
    if (!take("[")) return word("a value");
    Dims dims;
    for (bool first = true; !take("]"); first = false) {
      if (!first) require(",");
      const bool open = is_word("?");
      if (open) advance();
      dims.push_back(open ? open_size : number("a number", INT64_MIN, INT64_MAX));
    }
    return dims;
  }
  AttrList attributes() {
    AttrList list;
    if (!take("{")) return list;
    for (bool first = true; !take("}"); first = false) {
      if (!first) require(",");
      std::string key = word("the name of an attribute");
      require("=");
      list.emplace_back(std::move(key), attribute());
    }
    return list;
  }

  // A tensor whose spec comes later.
  struct Elements {
    Token at;
    std::string name;  // of a tensor that the caller provides
    std::vector<ElementText> elements;
  };
  ElementText element() {
    ElementText e;
    e.is_string = now_.kind == Kind::string;
    if (e.is_string) {
      e.first = string("text");
    } else if (take("(")) {
      e.is_pair = true;
      e.first = word("a number");
      require(",");
      e.second = word("a number");
      require(")");
    } else {
      e.first = word("an element");
    }
    return e;
  }
  Elements elements() {
    Elements t{now_, "", {}};
    if (take_word("tensor")) {
      t.name = string("the name of a tensor");
    } else if (take("[")) {
      for (bool first = true; !take("]"); first = false) {
        if (!first) require(",");
        t.elements.push_back(element());
      }
    } else {
      t.elements.push_back(element());
    }
    return t;
  }
  Tensor tensor(const Elements& t, const Spec& s) const {
    if (t.name.empty()) return at_place(t.at, [&] { return graph_text::tensor_of(s, t.elements); });
    const auto found = std::ranges::find(tensors_, t.name, &GraphTensors::value_type::first);
    if (found == tensors_.end()) reject(t.at, fmt::format("no tensor '{}' is given", t.name));
    if (!(found->second.defined() && found->second.spec() == s))
      reject(t.at,
             fmt::format("tensor '{}' is {}, and is to be {}", t.name,
                         found->second.defined() ? placed_text(found->second.spec()) : "nothing", placed_text(s)));
    return found->second;
  }

  const Variable& variable(const Token& at, const std::string& name) const {
    const auto found = std::ranges::find(variables_, name, &GraphVariables::value_type::first);
    if (found == variables_.end()) reject(at, fmt::format("no Variable '{}' is given", name));
    return found->second;
  }

  void region() {
    advance();
    number("the next number of a region", int64_t(regions_.size()), int64_t(regions_.size()));
    require_word("keeps");
    detail::RecomputeRegion r{take_word("products") ? Kept::products : Kept::nothing};
    if (r.policy.kept == Kept::nothing) require_word("nothing");
    while (now_.kind == Kind::string) r.policy.names.push_back(string("a name"));
    regions_.push_back(Shared<const detail::RecomputeRegion>::make(std::move(r)));
  }

  // --- Nodes -------------------------------------------------------------------------------------------------------

  // What follows the specs of any node.
  bool is_mark() const {
    return now_.kind == Kind::word &&
           std::ranges::count(std::array{"scope", "at", "in", "backward", "region"}, now_.text);
  }
  void marks(Node& n) {
    while (true) {
      if (take_word("scope")) n.scope = string("a scope");
      else if (take_word("at")) n.where = string("a place");
      else if (take_word("in")) n.function = string("a function");
      else if (take_word("backward")) n.backward = true;
      else if (take_word("region")) {
        if (regions_.empty()) expected("no region: none is defined");
        n.region = regions_[size_t(number("a region", 0, int64_t(regions_.size()) - 1))];
      } else return;
    }
  }

  std::vector<Spec> specs() {
    std::vector<Spec> all;
    require(":");
    if (now_.kind != Kind::word || is_mark() || is_word("inputs") || is_word("return")) return all;  // no outputs
    do all.push_back(spec());
    while (take(","));
    return all;
  }

  void input(Graph& g, Node& n, const std::string& kind, const Token& at) {
    GraphInput in;
    in.node = int32_t(g.nodes().size());
    Elements captured;
    std::string name;
    if (kind == "argument") {
      in.argument = int(number("the number of an argument", 0, most_inputs));
    } else if (kind == "variable") {
      in.kind = GraphInput::Kind::variable;
      name = string("the name of a Variable");
    } else {
      in.kind = GraphInput::Kind::captured;
      captured = elements();
    }
    n.kind = Node::Kind::input;
    n.name = string("a name");
    n.outputs = specs();
    if (n.outputs.size() != 1) reject(at, "an input is one value");
    const Spec& s = n.outputs[0];
    if (in.kind == GraphInput::Kind::captured) in.captured = tensor(captured, s);
    if (in.kind == GraphInput::Kind::variable) {
      in.variable = variable(at, name).shared_state();
      if (!(in.variable->spec == s))
        reject(at, fmt::format("variable '{}' is {}, and is to be {}", name, placed_text(in.variable->spec),
                               placed_text(s)));
    }
    g.inputs.push_back(std::move(in));
  }

  // Parses the attributes of a node with graphs, in braces. Its outputs are among them if they differ from those
  // after the node.
  Attrs control(const Node& n, AttrList list, InnerGraphs graphs, const Token& at) const {
    return at_place(at, [&] {
      std::vector<Spec> outputs;
      if (const auto said = std::ranges::find(list, "outputs", &AttrList::value_type::first); said != list.end()) {
        const auto* text = std::get_if<std::string>(&said->second);
        if (!text) fail("parse_graph", "'outputs' are specs in quotes", Where());
        outputs = specs_in(*text);
        list.erase(said);
      }
      const ReadDim read = read_open_size;
      AttrValues values(list, DType::f32, read);
      const ControlAttrs& of = control_of(*n.op).attrs;
      return of.changed(of.read(values), [&](HeldGraphs& held) {
        held.graphs = std::move(graphs);
        held.outputs = outputs.empty() ? n.outputs : std::move(outputs);
      });
    });
  }
  // Of "f32[2]; f32[?,3]".
  static std::vector<Spec> specs_in(std::string_view text) {
    std::vector<Spec> all;
    while (!text.empty()) {
      const size_t end = std::min(text.find("; "), text.size());
      all.push_back(read_spec(text.substr(0, end), read_open_size));
      text.remove_prefix(std::min(end + 2, text.size()));
    }
    return all;
  }

  void call(Graph& g, Node& n, const std::string& name, const Token& at, int depth) {
    n.op = find_stored_op(name);
    if (!n.op) reject(at, fmt::format("'{}' is no op of this build{}", name.substr(0, 80), missing_ops()));
    require("(");
    n.inputs = values(g, ")");
    const Token attrs_at = now_;
    const AttrList list = attributes();
    n.outputs = specs();
    marks(n);
    if (!n.op->graphs) {
      const DType operand = n.inputs.empty() ? DType::f32 : g.spec(n.inputs[0]).dtype;
      n.attrs = at_place(attrs_at, [&] { return read_attrs(*n.op, list, operand, read_open_size); });
      return check_outputs(g, n, at);
    }
    InnerGraphs graphs;
    require("{");
    while (!take("}")) {
      std::string role = string("the role of a graph");
      require("=");
      graphs.push_back(std::make_shared<const InnerGraph>(std::move(role), graph(depth + 1)));
    }
    n.attrs = control(n, list, std::move(graphs), attrs_at);
    check_outputs(g, n, at);
  }

  // Checks that the outputs are those in the text, as far as possible: if no size is open.
  void check_outputs(const Graph& g, const Node& n, const Token& at) const {
    if (holds_open_size(g, n)) return;
    at_place(at, [&] {
      SmallVec<const Spec*, 8> in;
      for (const ValueId v : n.inputs) in.push_back(&g.spec(v));
      const OutSpecs out = checked_infer(*n.op, {in.data(), in.size()}, n.attrs);
      if (n.op->graphs) check_control(*n.op, {in.data(), in.size()}, n.attrs);
      bool same = out.size() == n.outputs.size();
      std::string gives;
      for (size_t k = 0; k < out.size(); ++k) {
        same = same && out[k] == n.outputs[k];
        gives += (k ? ", " : "") + spec_text(out[k], [](Dim) { return std::string("?"); });
      }
      if (!same)
        fail("parse_graph", fmt::format("{} gives {} here", n.op->name, gives.empty() ? "nothing" : gives), Where());
    });
  }

  void node(Graph& g, int depth) {
    require("%");
    const auto next = int64_t(g.nodes().size());
    number("the number of the next node", next, next);
    require("=");
    const Token at = now_;
    const std::string kind = word("an op, 'argument', 'variable', 'captured' or 'constant'");
    Node n;
    if (kind == "argument" || kind == "variable" || kind == "captured") {
      if (depth > 0 && kind == "captured") reject(at, "what a graph inside a node reads is an operand of the node");
      input(g, n, kind, at);
    } else if (kind == "constant") {
      const Elements t = elements();
      n.kind = Node::Kind::constant;
      n.outputs = specs();
      if (n.outputs.size() != 1) reject(at, "a constant is one value");
      n.constant = tensor(t, n.outputs[0]);
    } else {
      call(g, n, kind, at, depth);
    }
    marks(n);
    g.append(std::move(n));
  }

  Graph graph(int depth) {
    if (depth > deepest) expected(fmt::format("graphs that are in graphs at most {} times", deepest));
    require_word("graph");
    Graph g;
    g.name = string("the name of the graph");
    require("{");
    while (is_sign("%")) node(g, depth);
    if (take_word("inputs")) reorder_inputs(g);
    require_word("return");
    if (is_sign("%")) {
      do g.outputs.push_back(value(g));
      while (take(","));
    }
    while (now_.kind == Kind::string) assign(g);
    require("}");
    return g;
  }

  // Puts the inputs in the listed order, if it differs from that of their nodes.
  void reorder_inputs(Graph& g) {
    std::vector<int32_t> number(g.nodes().size(), -1);  // by node, its index among the inputs
    for (size_t k = 0; k < g.inputs.size(); ++k) number[size_t(g.inputs[k].node)] = int32_t(k);
    std::vector<GraphInput> listed;
    do {
      const Token at = now_;
      int32_t& k = number[size_t(value(g).node)];
      if (k < 0) reject(at, "an input, each once, is expected here");
      listed.push_back(g.inputs[size_t(std::exchange(k, -1))]);
    } while (take(","));
    if (listed.size() != g.inputs.size()) expected("all inputs of the graph");
    g.inputs = std::move(listed);
  }

  void assign(Graph& g) {
    const Token at = now_;
    const std::string name = string("the name of a Variable");
    require("<-");
    const Variable& v = variable(at, name);
    const ValueId id = value(g);
    if (g.spec(id).shape != v.shape() || g.spec(id).dtype != v.dtype())
      reject(at, fmt::format("variable '{}' is {}, and is assigned {}", name, placed_text(v.state().spec),
                             placed_text(g.spec(id))));
    g.assigns.push_back({v.shared_state(), id});
  }

  graph_text::Lexer lexer_;
  const GraphVariables& variables_;
  const GraphTensors& tensors_;
  const Where where_;
  Token now_;
  std::vector<Shared<const detail::RecomputeRegion>> regions_;
};

}  // namespace

Graph parse_graph(std::string_view text, const GraphVariables& variables, const GraphTensors& tensors, Where where) {
  return Reader(text, variables, tensors, where).run();
}

}  // namespace rill
