// debug::dump(): what it writes of traced functions, loops and eager calls, and what is read back of it; that dumped
// values have the bits of the ordinary run. tests/scripts/test_debugger.py has TensorFlow read such dumps.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "catch.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "rill/serialize.h"
#include "rill/serialize/debugger.h"

using namespace rill;

namespace {

const debug::DumpValue& value_of(const debug::Dump& d, const std::string& name, int64_t step = 0, int time = 1) {
  for (const debug::DumpValue& v : d.values())
    if (d.name_of(v) == name && v.step == step && v.time == time) return v;
  FAIL("no value " << name << " of step " << step << " at time " << time);
  return d.values()[0];
}
std::vector<std::string> names_of(const debug::Dump& d) {
  std::vector<std::string> names;
  for (const debug::DumpValue& v : d.values()) names.push_back(d.name_of(v));
  return names;
}

auto network(const Variable& w) {
  return function("net", [w](const Tensor& x) {
    Tensor h;
    {
      NameScope scope("hidden");
      h = relu(matmul(x, w) + 1);
    }
    return sum(reshape(log(h), {-1}));
  });
}

}  // namespace

TEST_CASE("every value of a traced call is dumped, with the bits of the ordinary run") {
  const Folder at;
  Variable w(tensor({{1.f, -3.f}, {0.5f, 0.25f}}), "w");
  const auto f = network(w);
  const Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}});
  const Tensor plain = f(x);
  jit::wait();
  const auto dumped = debug::dump(f, at / "dump", {.tensors = true});
  const Tensor y = dumped(x), again = dumped(x + 1);
  CHECK(same_bits(y, f(x)));
  CHECK(same_bits(y, plain));
  CHECK(same_bits(again, f(x + 1)));

  const debug::Dump d(at / "dump");
  REQUIRE(d.calls().size() == 2);
  CHECK(d.calls()[0].name == "net");
  CHECK(d.calls()[0].file == "test_debugger.cpp");
  CHECK(d.calls()[1].step == 1);
  const Tensor product = matmul(x, w.value()), h = relu(product + 1);
  CHECK(same_bits(d.tensor(value_of(d, "hidden/matmul:0")), product));
  CHECK(same_bits(d.tensor(value_of(d, "hidden/relu:0")), h));
  CHECK(same_bits(d.tensor(value_of(d, "log:0")), log(h)));
  CHECK(same_bits(d.tensor(value_of(d, "reshape:0")), reshape(log(h), {-1})));
  CHECK(same_bits(d.tensor(value_of(d, "sum:0")), y));
  CHECK(same_bits(d.tensor(value_of(d, "sum:0", 1)), again));
  CHECK(same_bits(d.tensor(value_of(d, "w:0")), w.value()));

  const debug::DumpValue& bad = value_of(d, "log:0");
  CHECK(bad.health.negative_infinite == 2);
  CHECK(bad.health.has_inf_or_nan());
  CHECK(bad.health.finite() == 2);
  CHECK(bad.shape == Shape{2, 2});
  const debug::DumpNode& n = d.nodes()[size_t(value_of(d, "hidden/matmul:0").node)];
  CHECK(n.op == "matmul");
  CHECK(n.scope == "hidden");
  CHECK(n.file == "test_debugger.cpp");
  REQUIRE(size_t(n.line) <= d.source(n.file).size());
  CHECK(has(d.source(n.file)[size_t(n.line - 1)], "matmul(x, w)"));
  CHECK(n.inputs.size() == 2);
}

TEST_CASE("health: counts, range, mean and variance") {
  const float infinite = std::numeric_limits<float>::infinity();
  const debug::Health h = debug::health_of(tensor({1.f, -2.f, 0.f, NAN, infinite, -infinite, 4.f}));
  CHECK(h.size == 7);
  CHECK((h.nan == 1 && h.positive_infinite == 1 && h.negative_infinite == 1));
  CHECK((h.negative == 1 && h.zero == 1 && h.positive == 2));
  CHECK((h.least == -2 && h.greatest == 4 && h.mean == 0.75));
  CHECK(h.variance == (0.25 * 0.25 + 2.75 * 2.75 + 0.75 * 0.75 + 3.25 * 3.25) / 4);
  CHECK(debug::health_of(tensor({true, false})).zero == 1);
  CHECK(debug::health_of(tensor({int64_t(-3), int64_t(5)})).least == -3);
  CHECK(debug::health_of(tensor({std::complex<float>(3, 4)})).greatest == 5);
  CHECK(debug::health_of(tensor({std::complex<float>(0, NAN)})).nan == 1);
  CHECK(debug::health_of(zeros({0})).finite() == 0);
  CHECK(debug::health_of(tensor({std::string("a")})).size == 1);
  CHECK(debug::health_of(full({3}, 2).astype(bf16)).mean == 2);
  CHECK(has(message_of([] { debug::health_of(Tensor()); }), "undefined"));
}

TEST_CASE("without tensors a dump has the health of each value") {
  const Folder at;
  Variable w(tensor({{1.f, -3.f}, {0.5f, 0.25f}}), "w");
  const auto dumped = debug::dump(network(w), at / "dump");
  dumped(tensor({{1.f, 2.f}, {3.f, 4.f}}));
  const debug::Dump d(at / "dump");
  const debug::DumpValue& v = value_of(d, "hidden/relu:0");
  CHECK(v.health.greatest == 6);
  CHECK(v.dtype == f32);
  CHECK(!v.has_tensor);
  CHECK(has(message_of([&] { d.tensor(v); }), ".tensors = true"));
}

TEST_CASE("eager calls in a scope, with who made their operands") {
  const Folder at;
  const Tensor x = tensor({-1.f, 4.f});
  {
    const auto scope = debug::dump(at / "dump", {.tensors = true});
    const Tensor y = sqrt(x);
    const Tensor z = y + y;
    CHECK(same_bits(z, sqrt(x) * 2));
  }
  exp(x);  // not any more
  const debug::Dump d(at / "dump");
  const std::vector<std::string> names = names_of(d);
  REQUIRE(names.size() >= 2);
  CHECK(names[0] == "sqrt_0:0");
  CHECK(names[1] == "add_1:0");
  CHECK(d.nodes()[1].inputs == std::vector<std::string>{"sqrt_0:0", "sqrt_0:0"});
  CHECK(d.nodes()[0].file == "test_debugger.cpp");
  CHECK(value_of(d, "sqrt_0:0").health.nan == 1);
  CHECK(same_bits(d.tensor(value_of(d, "add_1:0")), sqrt(x) + sqrt(x)));
  for (const std::string& name : names) CHECK(!has(name, "exp"));
}

TEST_CASE("steps, patterns and conditions say what is kept") {
  const Folder at;
  Variable w(tensor({{1.f, 1.f}, {1.f, 1.f}}), "w");
  const auto f = network(w);
  const Tensor good = ones({1, 2}), bad = full({1, 2}, -5.f);
  {
    const auto dumped = debug::dump(f, at / "steps", {.steps = {1}, .nodes = {"hidden/*"}});
    for (int i = 0; i < 3; ++i) dumped(good);
    const debug::Dump d(at / "steps");
    CHECK(!d.values().empty());
    for (const debug::DumpValue& v : d.values()) {
      CHECK(v.step == 1);
      CHECK(d.name_of(v).starts_with("hidden/"));
    }
  }
  {
    const auto dumped = debug::dump(f, at / "ops", {.ops = {"log", "rel?"}});
    dumped(good);
    CHECK(names_of(debug::Dump(at / "ops")) == std::vector<std::string>{"hidden/relu:0", "log:0"});
  }
  {
    const auto dumped = debug::dump(f, at / "when", {.when = debug::has_inf_or_nan});
    dumped(good), dumped(bad), dumped(good);
    const debug::Dump d(at / "when");
    REQUIRE(d.calls().size() == 1);
    CHECK(d.calls()[0].step == 1);
    CHECK(value_of(d, "hidden/matmul:0", 1).health.least == -10);
  }
  {
    int asked = 0;
    debug::Dumper dumper(at / "only", {.when =
                                           [&](const debug::DumpedTensor& t) {
                                             ++asked;
                                             return t.op == "relu" && t.health.zero == 2;
                                           },
                                       .matching_only = true});
    {
      debug::DumpScope scope(dumper);
      f(good);
      CHECK(!scope.close());
    }
    debug::DumpScope scope(dumper);
    f(bad);
    CHECK(scope.close());
    CHECK(asked > 8);
    CHECK(names_of(debug::Dump(at / "only")) == std::vector<std::string>{"hidden/relu:0"});
  }
}

TEST_CASE("loops and branches: a graph inside a node, and a value a step") {
  const Folder at;
  const auto f = function("loop", [](const Tensor& x) {
    return std::get<1>(while_loop([](const Tensor& n, const Tensor&) { return n < 3; },
                                  [](const Tensor& n, const Tensor& y) { return std::tuple(n + 1, y * 2); }, tensor(0),
                                  x));
  });
  const Tensor y = debug::dump(f, at / "dump", {.tensors = true})(tensor({1.f, 2.f}));
  CHECK(same_bits(y, tensor({8.f, 16.f})));
  const debug::Dump d(at / "dump");
  int times = 0;
  for (const debug::DumpValue& v : d.values()) {
    const debug::DumpNode& n = d.nodes()[size_t(v.node)];
    if (n.op != "multiply") continue;
    CHECK(v.time == ++times);
    CHECK(d.tensor(v).to_vector<float>()[0] == std::pow(2.f, float(times)));
    const debug::DumpGraph& g = d.graphs()[size_t(n.graph)];
    REQUIRE(g.outer > 0);
    CHECK(d.graphs()[size_t(g.outer)].name == "loop");
    CHECK(d.graphs()[size_t(g.outer)].by_name.contains(g.inside));
  }
  CHECK(times == 3);
}

TEST_CASE("gradients: a step of training has the bits that it has unwatched") {
  const Folder at;
  const auto train = [&](bool watched) {
    random::seed(3);
    nn::Dense model(3, 2, {.activation = tanh});
    nn::SGD sgd({.learning_rate = 0.1});
    const auto step = function("step", [&](const Tensor& x) {
      GradientTape tape;
      const Tensor loss = mean(square(model(x)));
      sgd.minimize(loss, tape, model.variables());
      return loss;
    });
    const Tensor x = random::normal({4, 3});
    const auto dumped = debug::dump(step, at / "dump");
    for (int i = 0; i < 3; ++i) watched ? dumped(x) : step(x);
    jit::wait();
    watched ? dumped(x) : step(x);
    return model.kernel.value();
  };
  CHECK(same_bits(train(true), train(false)));
  const debug::Dump d(at / "dump");
  CHECK(d.calls().size() >= 4);
  // A tape around a call: its backward graph is dumped too.
  Variable w(ones({2, 2}), "w");
  const auto f = network(w);
  {
    const auto scope = debug::dump(at / "tape", {.functions = {"net*"}});
    GradientTape tape;
    const Tensor y = f(ones({1, 2}));
    tape.gradient(y, w);
  }
  const debug::Dump t(at / "tape");
  CHECK(t.calls().size() == 2);
}

TEST_CASE("a large tensor is a file beside the dump") {
  const Folder at;
  const auto f = function("f", [](const Tensor& x) { return x * 2; });
  const Tensor x = arange(100).astype(f32);
  debug::dump(f, at / "dump", {.tensors = true, .largest = 64})(x);
  const debug::Dump d(at / "dump");
  const debug::DumpValue& v = value_of(d, "multiply:0");
  CHECK(!v.path.empty());
  CHECK(std::filesystem::exists(at / "dump/" + v.path));
  CHECK(same_bits(d.tensor(v), x * 2));
  debug::dump(f, at / "dump", {.tensors = true})(x);  // replaces the other, and its files
  const debug::Dump e(at / "dump");
  CHECK(e.calls().size() == 1);
  CHECK(value_of(e, "multiply:0").path.empty());
  CHECK(!std::filesystem::exists(at / "dump/" + v.path));
}

TEST_CASE("dtypes of all kinds are dumped") {
  const Folder at;
  const auto f = function("f", [](const Tensor& x) {
    const Tensor c = complex(x, x);
    return std::vector{x.astype(f16) + 1, x.astype(bf16) * 2, x > 0, x.astype(i64) - 1, c * c, x.astype(u8) + 1};
  });
  const std::vector<Tensor> all = debug::dump(f, at / "dump", {.tensors = true})(tensor({1.f, 2.f}));
  {
    const auto scope = debug::dump(at / "text", {.tensors = true});
    concat({tensor({std::string("a")}), tensor({std::string("BC")})}, 0);
  }
  const debug::Dump d(at / "dump");
  for (const Tensor& t : all) {
    bool found = false;
    for (const debug::DumpValue& v : d.values())
      found |= v.dtype == t.dtype() && v.shape == t.shape() && same_bits(d.tensor(v), t);
    INFO(name(t.dtype()));
    CHECK(found);
  }
  const debug::Dump text(at / "text");
  REQUIRE(text.values().size() == 1);
  CHECK(text.tensor(text.values()[0]).to_vector<std::string>()[1] == "BC");
}

TEST_CASE("an error ends a call, and what came before is there") {
  const Folder at;
  const auto f = function("f", [](const Tensor& x) {
    assert_that(all(x > 0), "x is positive", {});
    return sqrt(x);
  });
  f(ones({2}));
  const auto dumped = debug::dump(f, at / "dump");
  CHECK(!message_of([&] { dumped(-ones({2})); }).empty());
  const debug::Dump d(at / "dump");
  CHECK(d.calls().empty());
  const std::vector<std::string> names = names_of(d);
  INFO(names.size() << (names.empty() ? "" : names.back()));
  CHECK(std::any_of(d.values().begin(), d.values().end(), [](const debug::DumpValue& v) {
    return v.dtype == boolean && v.shape == Shape{2} && v.health.zero == 2;
  }));
  CHECK(dumped(ones({2})).size() == 2);
  CHECK(debug::Dump(at / "dump").calls().size() == 1);
}

TEST_CASE("messages of dumps") {
  const Folder at;
  CHECK(has(message_of([&] { debug::Dump(at / "none"); }), "none"));
  CHECK(has(message_of([&] { debug::Dump(at.path()); }), "tfdbg_events"));
  CHECK(has(message_of([&] { debug::Dumper(""); }), "empty"));
  CHECK(has(message_of([&] { debug::Dumper("x", {.largest = -1}); }), "largest"));
  const auto f = function("f", [&](const Tensor& x) {
    const auto scope = debug::dump(at / "traced");
    return x;
  });
  CHECK(has(message_of([&] { f(ones({2})); }), "traced"));
  // A damaged record is an error, one that is cut short the end.
  debug::dump(function("g", [](const Tensor& x) { return x + 1; }), at / "dump")(ones({2}));
  std::string graphs;
  for (const auto& entry : std::filesystem::directory_iterator(at / "dump"))
    if (entry.path().string().ends_with(".graphs")) graphs = entry.path().string();
  const std::string whole = contents(graphs);
  std::ofstream(graphs, std::ios::binary) << whole.substr(0, 30) + char(whole[30] ^ 1) + whole.substr(31);
  CHECK(!message_of([&] { debug::Dump(at / "dump"); }).empty());
}

TEST_CASE("damaged dumps are refused, or read as something else") {
  const Folder at;
  Variable w(tensor({{1.f, -3.f}, {0.5f, 0.25f}}), "w");
  {
    const auto scope = debug::dump(at / "good", {.tensors = true, .largest = 12});
    sqrt(network(w)(tensor({{1.f, 2.f}, {3.f, 4.f}})) + tensor({-1.f, 4.f}));
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(at / "good"))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  uint64_t state = 12345;
  const auto below = [&](size_t n) {
    return size_t((state = state * 6364136223846793005u + 1442695040888963407u) >> 33) % n;
  };
  int refused = 0, read = 0;
  for (int i = 0; i < 400; ++i) {
    const std::filesystem::path& file = files[below(files.size())];
    std::vector<std::string> records = read_records(file.string());
    if (records.empty()) continue;
    std::string& bytes = records[below(records.size())];
    for (size_t k = 1 + below(4); k-- > 0 && !bytes.empty();) bytes[below(bytes.size())] ^= char(1 + below(255));
    std::string whole;  // with checksums that are right
    for (const std::string& r : records) whole += record(r);
    const std::string before = contents(file);
    std::ofstream(file, std::ios::binary) << whole;
    try {
      const debug::Dump d(at / "good");
      for (const debug::DumpValue& v : d.values()) {
        d.name_of(v);
        if (v.has_tensor) d.tensor(v);
      }
      ++read;
    } catch (const Error&) {
      ++refused;
    }
    std::ofstream(file, std::ios::binary) << before;
  }
  CHECK(refused > 50);
  CHECK(read > 50);
}

// For test_debugger.py: dumps of both kinds in the folder that RILL_DUMPS names.
TEST_CASE("child: writes dumps for others", "[.]") {
  const std::string at = std::getenv("RILL_DUMPS");
  Variable w(tensor({{1.f, -3.f}, {0.5f, 0.25f}}), "w");
  const auto f = network(w);
  const Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}});
  debug::dump(f, at + "/full", {.tensors = true})(x);
  debug::dump(f, at + "/health")(x);
  {
    const auto scope = debug::dump(at + "/eager", {.tensors = true});
    sqrt(tensor({-1.f, 4.f}) * 2);
  }
  const auto loop = function("loop", [](const Tensor& y) {
    return std::get<1>(while_loop([](const Tensor& n, const Tensor&) { return n < 3; },
                                  [](const Tensor& n, const Tensor& z) { return std::tuple(n + 1, z * 2); }, tensor(0),
                                  y));
  });
  CHECK(debug::dump(loop, at + "/loop")(tensor({1.f, 2.f})).size() == 2);
}
