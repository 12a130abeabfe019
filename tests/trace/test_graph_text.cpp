// Graphs as text: what is printed reads back, prints the same, and computes the same bits, for every record, control
// flow, Variables and constants; and texts that are none say where.
#include <cstdlib>
#include <filesystem>

#include "catch.h"
#include "graph_programs.h"
#include "io_helpers.h"
#include "messages.h"
#include "random_graphs.h"
#include "record_samples.h"
#include "rill/rill.h"

using namespace rill;
using graph_programs::Body;
using graph_programs::data;
using graph_programs::List;
using record_samples::in_dtype;

namespace {

GraphFeeds feeds_of(const Graph& g, const List& in) {
  GraphFeeds feeds;
  for (const GraphInput& i : g.inputs)
    if (i.kind == GraphInput::Kind::argument) feeds.emplace_back(ValueId{i.node, 0}, in[size_t(i.argument)]);
  return feeds;
}

// Reads back the text of a graph, with all numbers in it and with large ones aside. `exact`: it prints the same.
void check(const Graph& g, const List& in, bool exact = true) {
  const List want = g.run(feeds_of(g, in));
  for (const bool aside : {false, true}) {
    GraphTensors tensors;
    const std::string text = to_text(g, {.tensors = aside ? &tensors : nullptr, .largest = 2});
    INFO(text);
    const Graph again = parse_graph(text, graph_variables(g), tensors);
    GraphTensors more;
    const std::string same = to_text(again, {.tensors = aside ? &more : nullptr, .largest = 2});
    if (exact) CHECK(same == text);
    else CHECK(to_text(parse_graph(same, graph_variables(g), more)) == to_text(again));
    const List is = again.run(feeds_of(again, in));
    REQUIRE(is.size() == want.size());
    for (size_t k = 0; k < is.size(); ++k) CHECK(same_bits(is[k], want[k]));
    for (size_t k = 0; k < g.assigns.size(); ++k)
      CHECK(same_bits(again.run(feeds_of(again, in), {again.assigns[k].value})[0],
                      g.run(feeds_of(g, in), {g.assigns[k].value})[0]));
  }
}
void check(const std::string& name, const Body& body, const List& in, bool exact = true) {
  INFO(name);
  const auto f = function(name, [body](const List& x) { return body(x); });
  check(f.graph(in), in, exact);
}

}  // namespace

TEST_CASE("every record's samples read back with the bits of the graph") {
  int count = 0;
  record_samples::for_each_op([&](const Op& op) {
    int k = 0;
    for (const Sample& s : op.samples())
      for (DType d : {record_samples::main_dtype(s), f64, i64, u8, c64, bf16, boolean, rill::string}) {
        const bool text = d == rill::string || record_samples::main_dtype(s) == rill::string;
        if (text && d != record_samples::main_dtype(s)) continue;  // no cast makes one of the other
        const auto in = in_dtype(op, s, d);
        if (!in || (k > 0 && d != record_samples::main_dtype(s) && s.in.empty())) continue;
        check(
            std::string(op.name) + std::to_string(k++),
            [&op, attrs = s.attrs](const List& x) { return op_check::run(op, x, attrs); }, *in,
            d == record_samples::main_dtype(s));  // a number among the attributes may be of the sample's dtype
        ++count;
      }
  });
  CHECK(count > 500);
}

TEST_CASE("control flow, gradient rules and recomputed parts read back") {
  for (const auto& [name, body, inputs] : graph_programs::control_flow()) check(name, body, inputs);
  for (const auto& [name, body, inputs] : graph_programs::gradient_rules()) check(name, body, inputs);
}

TEST_CASE("random graphs of all control flow in all other read back") {
  const Tensor x = tensor({0.5f, -1.f, 2.f});
  for (uint64_t seed = 0; seed < 10 * random_graphs::kinds; ++seed)
    for (const bool open : {false, true}) {
      INFO("seed " << seed << (open ? ", open" : ""));
      const auto kind = random_graphs::Kind(seed % random_graphs::kinds);
      const random_graphs::RandomGraph body(seed, kind, 1 + int(seed % 3));
      const auto f = function("f \"of\" x", [&](const Tensor& v) { return body(v); });
      const Graph g = f.graph(spec(f32, {open ? Dim(any) : Dim(3)}, "x"));
      if (!open) {
        check(g, {x});
        continue;
      }
      const std::string text = to_text(g);
      INFO(text);
      CHECK(to_text(parse_graph(text, graph_variables(g))) == text);
    }
}

TEST_CASE("Variables, captured tensors and constants of every kind read back") {
  Variable w(data({4, 2}), "dense/w"), other(data({2}, 3), "dense/w"), odd(zeros({}, i64), "a \"b\"\n\x01");
  const Tensor captured = data({3, 2}, 5), text = tensor({"a\nb", "\"", "\xc3\xa4"});
  const Tensor numbers = tensor({-0.f, NAN, INFINITY, -INFINITY, 1e-45f, 3.4e38f, 0.1f});
  const uint32_t bits = 0xFF800001;  // a NaN with a sign and a number of its own
  float nan = 0;
  std::memcpy(&nan, &bits, sizeof nan);
  const Tensor signalling = from_data(&nan, {1});
  auto f = function("all \"of\" it", [&](const Tensor& x) {
    NameScope scope("layer/1");
    odd.assign_add(1);
    w.assign(w * 2);
    return std::vector{matmul(x, w) + other + captured,
                       concat({text, text}),
                       numbers.astype(f16),
                       signalling,
                       tensor({{1, 2}, {3, 4}}).astype(c128),
                       odd + 0,
                       full({2}, 7),
                       tensor(true)};
  });
  const Tensor x = data({3, 4}, 9);
  check(f.graph(spec(f32, {3, 4}, "x")), {x});
  const Graph g = f.graph(spec(f32, {3, 4}, "x"));
  const auto variables = graph_variables(g);
  CHECK(variables.size() == 3);
  CHECK(variables[0].first == "a \"b\"\n\x01");
  CHECK(variables[1].first == "dense/w");
  CHECK(variables[2].first == "dense/w_1");
}

TEST_CASE("open sizes read back") {
  auto f = function("f", [](const Tensor& x) { return reshape(x, {x.dim(0) * 3}) + 1; });
  const Graph g = f.graph(spec(f32, {any, 3}, "x"));
  const std::string text = to_text(g);
  INFO(text);
  CHECK(has(text, "f32[?,3]"));
  const Graph again = parse_graph(text);
  CHECK(to_text(again) == text);
  CHECK(to_string(again) == to_string(g));
}

TEST_CASE("a text that a person wrote") {
  const Variable w(ones({3, 2}), "w");
  const Graph g = parse_graph(R"(
    # A layer.
    graph "layer" {
      %0 = argument 0 "x" : f32[2,3]
      %1 = variable "w" "w" : f32[3,2]   # its weights
      %2 = captured [0.5, -1] "b" : f32[2]
      %3 = multiply(%1, %1) : f32[3,2]
      %4 = constant 2 : f32[]
      return %3, %4, %0, %2
    })",
                              {{"w", w}});
  const List out = g.run({{"x", zeros({2, 3})}});
  CHECK(same_bits(out[0], ones({3, 2})));
  CHECK(out[1].item<float>() == 2);
  CHECK(same_bits(out[3], tensor({0.5f, -1.f})));
}

TEST_CASE("what is wrong with a text has a line and a column") {
  auto message = [](const std::string& text) {
    return message_of([&] { parse_graph(text, {{"w", Variable(ones({2}), "w")}}); });
  };
  const std::string head = "graph \"g\" {\n  %0 = argument 0 \"x\" : f32[2]\n";
  CHECK(has(message(""), "line 1, column 1: expected 'graph', found the end of the text"));
  CHECK(has(message(head + "  %1 = exp(%0) f32[2]\n"), "line 3, column 16: expected ':', found 'f32'"));
  CHECK(has(message(head + "  %1 = bogus(%0) : f32[2]\n"), "line 3, column 8: 'bogus' is no op"));
  CHECK(has(message(head + "  %1 = exp(%1) : f32[2]\n"), "line 3, column 12: %1 is no value"));
  CHECK(has(message(head + "  %2 = exp(%0) : f32[2]\n"), "the number of the next node, a number in [1, 1], found '2'"));
  CHECK(has(message(head + "  %1 = exp(%0) {a=1} : f32[2]\n"), "line 3, column 16: "));
  CHECK(has(message(head + "  %1 = constant [1, 2] : f32[3]\n"), "f32[3] has 2 elements here"));
  CHECK(has(message(head + "  %1 = constant [1, x] : f32[2]\n"), "'x' is no f32"));
  CHECK(has(message(head + "  %1 = constant 300 : u8[]\n"), "'300' is no u8"));
  CHECK(has(message(head + "  %1 = captured tensor \"t0\" \"c\" : f32[3]\n"), "no tensor 't0' is given"));
  CHECK(has(message(head + "  %1 = variable \"v\" \"v\" : f32[2]\n"), "no Variable 'v' is given"));
  CHECK(has(message(head + "  %1 = variable \"w\" \"w\" : f32[3]\n"), "variable 'w' is f32[2], and is to be f32[3]"));
  CHECK(has(message(head + "  %1 = argument 0 \"open : f32[3]\n"), "the end of a string"));
  CHECK(has(message(head + "  inputs %0, %0\n  return %0\n}"), "line 3, column 14: an input, each once, is expected"));
  CHECK(has(message(head + "  %1 = argument 1 \"y\" : f32[]\n  inputs %1\n  return %0\n}"), "all inputs of the graph"));
  CHECK(has(message(head + "  return %0\n} more"), "line 4, column 3: expected the end of the text, found 'more'"));
  CHECK(has(message(head + "  return %0\n  \"w\" <- %0\n  \"z\" <- %0\n}"), "line 5, column 3: no Variable 'z'"));
  CHECK(has(message(head + "  %1 = exp(%0) : f32[3]\n  return %1\n}"), "line 3, column 8: exp gives f32[2] here"));
}

TEST_CASE("graphs in files read back") {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  const GraphVariables variables = {{"w", Variable(ones({3, 2}), "w")}, {"count", Variable(zeros({}, i64), "count")}};
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator((root ? root : ".") + std::string("/tests/fixtures/graphs"))) {
    INFO(entry.path().string());
    const std::string text = contents(entry.path().string());
    CHECK(to_text(parse_graph(text, variables)) == text);
    ++count;
  }
  CHECK(count > 4);
}
