// Handles that were moved from, of every kind that files, pipelines and training have: those that share what they hold are
// copied instead and go on; those that own it say so at each call. And what temporaries give outlives them.
// test_mistakes.cpp has Variables, functions, layers and optimizers.
#include <fmt/format.h>

#include <type_traits>
#include <utility>

#include "catch.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/data.h"
#include "rill/distribute.h"
#include "rill/distributions.h"
#include "rill/metrics.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "rill/serialize.h"
#include "rill/serialize/debugger.h"
#include "rill/summary.h"
#include "rill/train.h"

using namespace rill;
namespace features = rill::data::features;

// NOLINTBEGIN(bugprone-use-after-move): that is what is tried
namespace {

// What `use` gives of a handle that was moved from, by construction and by assignment, is what it gives of one that was not.
template <class T, class Use>
void goes_on(const T& whole, Use use) {
  const auto expected = use(whole);
  T moved = whole;
  T taken = std::move(moved);
  CHECK(use(moved) == expected);
  taken = std::move(moved);
  CHECK(use(moved) == expected);
  CHECK(use(taken) == expected);
}

void refuses_moved(std::initializer_list<std::pair<const char*, std::function<void()>>> uses, const std::string& who) {
  for (const auto& [what, use] : uses) {
    INFO(what);
    const std::string message = message_of(use);
    INFO("message: " << message);
    CHECK(has(message, "[" + who + "]"));
    CHECK(has(message, "was moved from"));
  }
}

Table numbers() { return {{"a"}, {tensor({1.0, 2.0})}}; }
auto table_of = [](const auto& columns) { return columns(numbers()).template to_vector<float>(); };

}  // namespace

TEST_CASE("datasets and columns that were moved from are whole") {
  goes_on(data::range(5).map([](int64_t i) { return i * i; }),
          [](const auto& ds) { return std::pair(ds.collect(), ds.describe()); });
  const data::ImageFolder pictures(data::Dataset<std::pair<Tensor, int64_t>>(
                                       data::from_generator(std::vector<std::pair<Tensor, int64_t>>{{ones({2}), 1}})),
                                   {"cat", "dog"}, {"dog/1.png"});
  goes_on(pictures, [](const data::ImageFolder& f) { return std::tuple(f.classes(), f.paths(), f.count()); });
  goes_on(data::Vocabulary({"a", "b"}), [](const data::Vocabulary& v) {
    return std::pair(v.ids(tensor({"b", "a", "c"})).to_vector<int64_t>(), v.has_texts());
  });
  goes_on(features::numeric("a"), [](const features::Column& c) { return std::pair(c.name(), c.width()); });
  goes_on(features::Columns({features::numeric("a")}), table_of);
  goes_on(features::Linear({features::numeric("a")}), table_of);
  goes_on(features::SequenceColumns({features::numeric("a")}), [](const features::SequenceColumns& c) {
    return c(Table{{"a"}, {tensor({{1.0, 2.0}})}}).values.to_vector<float>();
  });
}

TEST_CASE("distributions, metrics, callbacks and graphs that run, moved from, are whole") {
  const Tensor two = tensor({1.f, 2.f});
  const auto density = [](const auto& d) { return d.log_prob(tensor({1.f, 1.f})).template to_vector<float>(); };
  goes_on(distributions::Normal(two, two), density);
  goes_on(random::Key(3), [](const random::Key& k) { return random::normal({2}, {.key = k}).to_vector<float>(); });
  goes_on(distributions::Independent(distributions::Normal(two, two), 1), density);
  goes_on(metrics::mean_squared_error(),
          [&](const metrics::Metric& m) { return std::pair(m.name(), m(two, zeros({2})).item<double>()); });
  int steps = 0;
  train::Callback counts = train::each_step([&](train::Run&) { ++steps; });
  const train::Callback taken = std::move(counts);
  nn::Sequential net(nn::Dense(2, 1));
  train::Loop loop(
      net, {.loss = [](const Tensor& p, const Tensor& y) { return mean_squared_error(p, y); }, .optimizer = nn::SGD()});
  loop.fit(data::from_tensors(std::pair(ones({4, 2}), ones({4, 1}))).batch(2),
           {.progress = false, .callbacks = {counts}});
  CHECK(steps == 2);
  const auto f = function("f", [](const Tensor& x) { return sin(x) + 1; });
  goes_on(GraphRun(f.graph(two), {{"arg0", two}}), [](const GraphRun& r) {
    GraphRun run = r;
    CHECK(run.step());
    return std::pair(run.results()[0].to_vector<float>(), run.graph().nodes().size());
  });
}

TEST_CASE("groups of ranks, meshes and layouts that were moved from are whole") {
  goes_on(distribute::Group({0}),
          [](const distribute::Group& g) { return g.ranks().size(); });  // of none it is all ranks
  goes_on(distribute::Mesh({{"data", 1}}), [](const distribute::Mesh& m) { return m.size("data"); });
  goes_on(distribute::Layout({none, "data"}), [](const distribute::Layout& l) { return l.axes()[1].axis; });
}

TEST_CASE("models, checkpoints and dumps that were moved from are whole") {
  const Folder folder;
  const Variable w(tensor({1.f, 2.f, 3.f}), "w");
  const auto f = function("f", [w](const Tensor& x) { return sin(x * w); }, {.signature = {spec(f32, {any, 3}, "x")}});
  for (const char* file : {"f.rill", "f.onnx"}) {
    INFO(file);
    export_model(f, folder / file);
    goes_on(import_model(folder / file), [&](const Model& m) {
      export_model(m, folder / "again.onnx");
      return std::tuple(m.name(), m.inputs().size(), m.outputs().size(), m.variables().size(), m.functions(),
                        variables(m).size(), m({{"x", ones({2, 3})}}).begin()->second.to_vector<float>());
    });
  }
  goes_on(Checkpoint{{"w", w}}, [&](const Checkpoint& c) {
    c.save(folder / "checkpoint");
    return c.variables().size();
  });
  goes_on(debug::Dumper(folder / "dump", {.tensors = true}),
          [](const debug::Dumper& d) { return std::pair(d.wants(0), d.folder()); });
  auto watched = debug::dump(f, folder / "dump", {.tensors = true});
  const auto other = std::move(watched);
  CHECK(array_equal(other(ones({1, 3})), f(ones({1, 3}))));
  refuses_moved({{"call", [&] { watched(ones({1, 3})); }}}, "function");
  debug::Dump dump(folder / "dump");  // as large as what it has read: it is moved, and then it is empty
  const debug::DumpValue value = dump.values().at(0);
  const debug::Dump kept = std::move(dump);
  CHECK(dump.values().empty());
  refuses_moved({{"tensor", [&] { dump.tensor(value); }}}, "Dump.tensor");
  refuses_moved({{"name_of", [&] { dump.name_of(value); }}}, "Dump.name_of");
  CHECK(kept.tensor(value).defined());
}

TEST_CASE("an iterator that was moved from says so") {
  auto moved = data::range(5).iterator({.stats = true});
  const std::string state = moved.save();
  auto its = std::move(moved);
  refuses_moved({{"next", [&] { moved.next(); }}}, "Iterator.next");
  refuses_moved({{"save", [&] { moved.save(); }}, {"checkpoint", [&] { Checkpoint{{"i", moved}}.variables(); }}},
                "Iterator.save");
  refuses_moved({{"restore", [&] { moved.restore(state); }}}, "Iterator.restore");
  refuses_moved({{"stats", [&] { moved.stats(); }}}, "Iterator.stats");
  CHECK(*its.next() == 0);
  moved = std::move(its);
  CHECK(*moved.next() == 1);
  refuses_moved({{"next", [&] { its.next(); }}}, "Iterator.next");
}

TEST_CASE("what reads and writes records, moved from, says so") {
  const Folder folder;
  RecordWriter out(folder / "a.tfrecord");
  RecordWriter its = std::move(out);
  refuses_moved({{"write", [&] { out.write("x"); }}, {"flush", [&] { out.flush(); }}, {"close", [&] { out.close(); }}},
                "RecordWriter");
  its.write("x");
  its.close();
  RecordReader in(folder / "a.tfrecord");
  RecordReader reads = std::move(in);
  std::string bytes;
  refuses_moved({{"next", [&] { in.next(bytes); }},
                 {"skip", [&] { in.skip(); }},
                 {"place", [&] { in.place(); }},
                 {"go_to", [&] { in.go_to({}); }}},
                "RecordReader");
  CHECK(reads.next(bytes));
  CHECK(bytes == "x");
}

TEST_CASE("a manager of checkpoints that was moved from says so") {
  const Folder folder;
  const Variable w(ones({2}), "w");
  CheckpointManager moved(Checkpoint{{"w", w}}, folder / "run");
  CheckpointManager its = std::move(moved);
  refuses_moved({{"save", [&] { moved.save(1); }},
                 {"save_if_due", [&] { moved.save_if_due(1); }},
                 {"is_due", [&] { (void)moved.is_due(1); }},
                 {"restore", [&] { moved.restore(); }},
                 {"restore_if_any", [&] { moved.restore_if_any(); }},
                 {"latest", [&] { moved.latest(); }},
                 {"latest_step", [&] { moved.latest_step(); }},
                 {"all", [&] { moved.all(); }},
                 {"wait", [&] { moved.wait(); }}},
                "CheckpointManager");
  its.save(1);
  CHECK(its.latest_step() == 1);
}

TEST_CASE("a writer of summaries that was moved from says so") {
  const Folder folder;
  summary::Writer moved(folder.path());
  summary::Writer its = std::move(moved);
  const Tensor x = ones({2, 2});
  refuses_moved({{"scalar", [&] { moved.scalar("a", tensor(1.f), 0); }},
                 {"histogram", [&] { moved.histogram("a", x, 0); }},
                 {"image", [&] { moved.image("a", ones({2, 2, 1}), 0); }},
                 {"audio", [&] { moved.audio("a", ones({4}), 8000, 0); }},
                 {"pr_curve", [&] { moved.pr_curve("a", x, x, 0); }},
                 {"embedding", [&] { moved.embedding("a", x); }},
                 {"hparams", [&] { moved.hparams({{"a", 1}}); }},
                 {"hparams_end", [&] { moved.hparams_end(); }},
                 {"hparams_config", [&] { moved.hparams_config({{.name = "a"}}, {}); }},
                 {"text", [&] { moved.text("a", "b", 0); }},
                 {"graph", [&] { moved.graph(function("f", [](const Tensor& t) { return t; }).graph(x)); }},
                 {"flush", [&] { moved.flush(); }},
                 {"path", [&] { (void)moved.path().size(); }}},
                "summary::Writer");
  its.scalar("a", tensor(1.f), 0);
  its.flush();
}
// NOLINTEND(bugprone-use-after-move)

TEST_CASE("what others refer to cannot be moved") {
  // Its loss and its metrics refer to it, as a Loop's step does to the loop.
  STATIC_REQUIRE_FALSE(std::is_move_constructible_v<train::LinearRegressor>);
  STATIC_REQUIRE_FALSE(std::is_move_constructible_v<train::DnnClassifier>);
  STATIC_REQUIRE_FALSE(std::is_move_constructible_v<train::Loop<nn::Sequential>>);
  STATIC_REQUIRE_FALSE(std::is_move_constructible_v<train::Monitored>);
  STATIC_REQUIRE_FALSE(std::is_move_constructible_v<debug::DumpScope>);
  STATIC_REQUIRE_FALSE(std::is_move_constructible_v<distribute::ParameterServer>);
  STATIC_REQUIRE_FALSE(std::is_move_constructible_v<distribute::Timeline>);
}

TEST_CASE("what files, pipelines and meshes give as temporaries outlives them") {
#define RILL_GIVES_A_COPY(expression) STATIC_REQUIRE_FALSE(std::is_reference_v<decltype(expression)>)
  RILL_GIVES_A_COPY(std::declval<data::Dataset<Tensor>>().stage());
  RILL_GIVES_A_COPY(std::declval<data::ImageFolder>().classes());
  RILL_GIVES_A_COPY(std::declval<data::ImageFolder>().paths());
  RILL_GIVES_A_COPY(std::declval<data::Vocabulary>().keys());
  RILL_GIVES_A_COPY(std::declval<features::Column>().name());
  RILL_GIVES_A_COPY(std::declval<features::Columns>().columns());
  RILL_GIVES_A_COPY(std::declval<features::SequenceColumns>().columns());
  RILL_GIVES_A_COPY(std::declval<debug::Dumper>().folder());
  RILL_GIVES_A_COPY(std::declval<debug::Dump>().folder());
  RILL_GIVES_A_COPY(std::declval<debug::Dump>().graphs());
  RILL_GIVES_A_COPY(std::declval<debug::Dump>().nodes());
  RILL_GIVES_A_COPY(std::declval<debug::Dump>().calls());
  RILL_GIVES_A_COPY(std::declval<debug::Dump>().values());
  RILL_GIVES_A_COPY(std::declval<debug::Dump>().source(""));
  RILL_GIVES_A_COPY(std::declval<debug::Dump>().sources());
  RILL_GIVES_A_COPY(std::declval<debug::Dumped<int (*)(int)>>().function());
  RILL_GIVES_A_COPY(std::declval<distributions::Normal>().at(0));
  RILL_GIVES_A_COPY(std::declval<distributions::Independent>().base());
  RILL_GIVES_A_COPY(std::declval<distributions::Transformed>().transforms());
  RILL_GIVES_A_COPY(std::declval<distribute::Mesh>().axes());
  RILL_GIVES_A_COPY(std::declval<distribute::Layout>().axes());
  RILL_GIVES_A_COPY(std::declval<distribute::Group>().ranks());
  RILL_GIVES_A_COPY(std::declval<distribute::Pipeline>().table());
  RILL_GIVES_A_COPY(std::declval<distribute::ShardedTensor>().part());
  RILL_GIVES_A_COPY(std::declval<distribute::ShardedTensor>().mesh());
  RILL_GIVES_A_COPY(std::declval<distribute::ShardedTensor>().sums());
#undef RILL_GIVES_A_COPY
  const Tensor& keys = data::Vocabulary({"a", "b"}).keys();
  CHECK(keys.to_vector<std::string>() == std::vector<std::string>{"a", "b"});
  size_t letters = 0;
  for (const features::Column& c : features::Columns({features::numeric("ab"), features::numeric("c")}).columns())
    letters += c.name().size();
  CHECK(letters == 3);
}
