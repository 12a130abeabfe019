// Estimators: canned models of tables, over the training loop (test_train.cpp).
#include <cstdlib>
#include <filesystem>

#include "catch.h"
#include "clouds.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/data.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "rill/serialize.h"
#include "rill/train.h"

using namespace rill;

namespace {
using namespace data::features;
Table iris() {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  return data::csv(std::string(root ? root : ".") + "/examples/data/iris.csv").table();
}
std::vector<Column> measures() {
  return {numeric("sepal_length"), numeric("sepal_width"), numeric("petal_length"), numeric("petal_width")};
}
}  // namespace

TEST_CASE("canned models of tables learn, resume and are exported with their raw columns") {
  const Folder folder;
  const Table table = iris();
  CHECK(table.at("species").dim(0) == 150);
  auto input = [&] {
    return data::from_table(table, {.label = "species"}).shuffle(150, {.seed = 1}).repeat().batch(32);
  };
  auto once = [&] { return data::from_table(table, {.label = "species"}).batch(50); };
  const auto options = [&](const std::string& where) {
    return train::EstimatorOptions{.columns = measures(),
                                   .hidden = {16, 16},
                                   .classes = 3,
                                   .optimizer = nn::Adam({.learning_rate = 0.01}),
                                   .folder = where,
                                   .save_every_steps = 100,
                                   .seed = 1};
  };
  train::DnnClassifier estimator(options(folder / "run"));
  const train::Logs result =
      train::train_and_evaluate(estimator, {.input = input, .max_steps = 300}, {.input = once, .steps = 3});
  CHECK(result.at("accuracy") > 0.95);
  CHECK(result.at("global_step") == 300);
  const auto predicted = estimator.predict(table);
  CHECK(predicted.at("probabilities").shape() == Shape{150, 3});
  CHECK(mean((predicted.at("classes") == table.at("species")).astype(f64)).item<double>() ==
        Approx(result.at("accuracy")));

  // Another process goes on where this one was; one that is past the end makes no step.
  const Tensor weights = estimator.predict(table).at("logits");
  train::DnnClassifier past(options(folder / "run"));
  CHECK(array_equal(past.predict(table).at("logits"), weights));
  CHECK(past.train(input, {.max_steps = 200}).empty());
  CHECK(train::train_and_evaluate(past, {.input = input, .max_steps = 300}, {.input = once}) == result);
  CHECK(past.step() == 300);
  CHECK(array_equal(past.predict(table).at("logits"), weights));
  train::DnnClassifier again(options(folder / "run"));
  again.train(input, {.steps = 60});
  CHECK(again.step() == 360);
  again.train(input, {.max_steps = 400});
  CHECK(again.step() == 400);

  const std::string path = again.export_saved_model(folder / "served");
  CHECK(path == (folder / "served/1"));
  CHECK(again.export_saved_model(folder / "served") == (folder / "served/2"));
  const Model served = import_model(path);
  std::map<std::string, Tensor> inputs;
  for (const char* name : {"sepal_length", "sepal_width", "petal_length", "petal_width"})
    inputs.emplace(name, table.at(name).astype(f32));
  CHECK(allclose(served(inputs).at("logits"), again.predict(table).at("logits"), {.rtol = 1e-4, .atol = 1e-4}));
}

TEST_CASE("an estimator's optimizer may scale the loss") {
  const Table table{{"x", "y"}, {arange(20).astype(f32) / 20, (arange(20) > 10).astype(i64)}};
  const auto loss = [&](const nn::SGDOptions& sgd) {
    train::LinearClassifier model({.columns = {numeric("x")}, .optimizer = nn::SGD(sgd), .seed = 1});
    const auto input = [&] { return data::from_table(table, {.label = "y"}).repeat().batch(5); };
    model.train(input, {.steps = 40});
    return model.evaluate(input, 4).at("loss");
  };
  CHECK(loss({.learning_rate = 0.1, .loss_scale = nn::LossScale()}) == loss({.learning_rate = 0.1}));
}

TEST_CASE("an estimator of other widths takes what agrees, or says what does not") {
  const Folder folder;
  const Table table = iris();
  auto input = [&] { return data::from_table(table, {.label = "species"}).repeat().batch(32); };
  const auto of_widths = [&](std::vector<int64_t> hidden, const std::string& where) {
    return train::DnnClassifier({.columns = measures(), .hidden = std::move(hidden), .classes = 3, .folder = where});
  };
  of_widths({4, 6}, folder / "run").train(input, {.steps = 3});
  train::DnnClassifier wider = of_widths({4, 7}, "");
  const RestoreReport report = wider.warm_start(folder / "run");
  CHECK(report.restored.size() == 3);  // of the first layer, and the head's bias
  wider.train(input, {.steps = 2});
  CHECK(wider.step() == 2);
  train::LinearClassifier linear({.columns = measures(), .classes = 3});
  CHECK(has(message_of([&] { linear.warm_start(folder / "run"); }), "no weights that agree"));
  CHECK(has(message_of([&] { linear.predict(table); }), "nothing was trained"));
  CHECK(has(message_of([&] { train::DnnRegressor({.columns = measures(), .labels = {"a", "b"}}); }), "of classifiers"));
  train::DnnClassifier other = of_widths({5}, folder / "run");
  CHECK(has(message_of([&] { other.step(); }), "of other columns, widths or another model"));
  for (int i = 0; i < 2; ++i) CHECK(has(message_of([&] { other.predict(table); }), "misshapen"));
}

TEST_CASE("an estimator says what it was not given: training, and numbers for its hidden layers") {
  const Folder folder;
  const Table table = iris();
  auto input = [&] { return data::from_table(table, {.label = "species"}).batch(50); };
  train::LinearClassifier model({.columns = measures(), .classes = 3});
  CHECK(has(message_of([&] { model.predict(table); }), "nothing was trained. train() comes first"));
  CHECK(has(message_of([&] { model.export_saved_model(folder / "served"); }), "nothing was trained"));
  CHECK(has(stderr_of([&] { model.evaluate(input); }), "was not trained"));
  train::LinearClassifier empty({.columns = measures(), .classes = 3, .folder = folder / "none"});
  CHECK(has(message_of([&] { empty.predict(table); }), "there is no checkpoint in " + (folder / "none")));
  model.train(input, {.steps = 1});
  CHECK(stderr_of([&] { model.predict(table), model.evaluate(input); }) == "");

  const Column job = vocabulary("job", {"cook", "nurse"});
  for (const Column& ids : {job, hashed("city", 1000), identity("kind", 7), crossed({"job", "city"}, 50)})
    CHECK(has(message_of([&] { train::DnnClassifier({.columns = {numeric("age"), ids}}); }),
              "hidden layers take numbers, and the column '" + ids.name() + "' gives ids, " +
                  std::to_string(ids.buckets()) + " of them. give indicator(...)"));
  train::DnnClassifier({.columns = {bucketized("age", {18, 30}), indicator(job), embedding(job, 2)}, .wide = {job}});
  train::LinearRegressor({.columns = {job}});
}

TEST_CASE("errors of an estimator name its class and the call") {
  CHECK(has(message_of([] { train::DnnClassifier({.columns = {numeric("x")}, .hidden = {4, 0}}); }),
            "[DnnClassifier] hidden[1] is 0"));
  train::LinearRegressor model({.columns = {numeric("x")}});
  const Folder folder;
  CHECK(has(message_of([&] { model.export_saved_model(folder / "m"); }), "[LinearRegressor.export_saved_model]"));
  CHECK(has(message_of([&] { model.export_model(folder / "m.rill"); }), "[LinearRegressor.export_model]"));
  CHECK(has(message_of([&] {
              model.train(
                  [] { return data::from_table({{"x", "y"}, {ones({3}), ones({3})}}, {.label = "y"}).batch(1); },
                  {.steps = -1});
            }),
            "[LinearRegressor.train] steps is -1"));
}

TEST_CASE("train_and_evaluate reads its input on behind each evaluation, and ends with it") {
  const Table table = iris();
  int trains = 0, evaluations = 0;
  auto input = [&] { return ++trains, data::from_table(table, {.label = "species"}).batch(10); };
  auto held_out = [&] { return ++evaluations, data::from_table(table, {.label = "species"}).batch(50); };
  train::LinearClassifier model({.columns = measures(), .classes = 3, .save_every_steps = 6});
  const train::Logs result = train::train_and_evaluate(model, {.input = input}, {.input = held_out});
  CHECK(result.at("global_step") == 15);
  CHECK(trains == 1);
  CHECK(evaluations == 3);  // after 6, 12 and 15
  train::train_and_evaluate(model, {.input = input, .max_steps = 18}, {.input = held_out});
  CHECK(model.step() == 18);
  CHECK(evaluations == 4);  // at the end alone, though 18 is a multiple
  model.train(input, {.steps = INT64_MAX, .callbacks = {train::stop_at_step(4)}});
  CHECK(model.step() == 22);
  CHECK(has(message_of([&] { train::LinearClassifier({.columns = measures(), .labels = {"a", "a"}}); }),
            "two classes have the label 'a'"));
}

TEST_CASE("an estimator keeps as many checkpoints as it is told") {
  const Folder folder;
  const Table table = iris();
  auto input = [&] { return data::from_table(table, {.label = "species"}).repeat().batch(32); };
  train::LinearClassifier model(
      {.columns = measures(), .classes = 3, .folder = folder / "run", .save_every_steps = 1, .keep = 4});
  model.train(input, {.steps = 9});
  int n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "run"))
    n += entry.path().extension() == ".index";
  CHECK(n == 4);
}

namespace {
// Of raw columns, as a model function of TensorFlow's is of features.
struct Lengths {
  nn::Dense hidden{16, {.activation = tanh}}, out{3};
  Tensor operator()(const Table& t, const nn::Call& call = {}) const {
    const Tensor x = stack({t.at("petal_length").astype(f32), t.at("petal_width").astype(f32)}, -1);
    return out(hidden(x, call), call);
  }
};
}  // namespace

TEST_CASE("an estimator over a model of one's own: of a table, and of a tensor that columns make") {
  const Folder folder;
  const Table table = iris();
  auto input = [&] {
    return data::from_table(table, {.label = "species"}).shuffle(150, {.seed = 1}).repeat().batch(32);
  };
  auto once = [&] { return data::from_table(table, {.label = "species"}).batch(50); };
  const auto options = [&](std::vector<Column> columns, const std::string& where) {
    return train::ModelEstimatorOptions{.columns = std::move(columns),
                                        .loss = sparse_softmax_cross_entropy,
                                        .optimizer = nn::Adam({.learning_rate = 0.02}),
                                        .metrics = {metrics::accuracy()},
                                        .results =
                                            [](const Tensor& logits) {
                                              return std::map<std::string, Tensor>{{"logits", logits},
                                                                                   {"species", argmax(logits, -1)}};
                                            },
                                        .folder = where,
                                        .save_every_steps = 100,
                                        .summary_every_steps = 50,
                                        .seed = 1};
  };
  const std::vector<Column> raw{numeric("petal_length"), numeric("petal_width")};
  Lengths model;
  train::Estimator of_table(model, options(raw, folder / "table"));
  const train::Logs result =
      train::train_and_evaluate(of_table, {.input = input, .max_steps = 300}, {.input = once, .steps = 3});
  CHECK(result.at("accuracy") > 0.9);
  CHECK(result.at("global_step") == 300);
  CHECK(allclose(of_table.predict(table).at("logits"), model(table)));  // the copy shares its Variables
  // Its summaries stand in the folder.
  std::string events, evaluations;
  for (const auto& e : std::filesystem::directory_iterator(folder / "table"))
    if (has(e.path().string(), "tfevents")) events += contents(e.path());
  for (const auto& e : std::filesystem::directory_iterator(folder / "table/eval")) evaluations += contents(e.path());
  CHECK(has(events, "loss"));
  CHECK(has(evaluations, "accuracy"));
  // Another process goes on, and the export takes raw columns.
  train::Estimator again(Lengths(), options(raw, folder / "table"));
  CHECK(array_equal(again.predict(table).at("logits"), of_table.predict(table).at("logits")));
  again.train(input, {.steps = 20});
  CHECK(again.step() == 320);
  const Model served = import_model(again.export_saved_model(folder / "served"));
  const auto given = served(
      {{"petal_length", table.at("petal_length").astype(f32)}, {"petal_width", table.at("petal_width").astype(f32)}});
  CHECK(array_equal(given.at("species"), again.predict(table).at("species")));

  // A model that knows nothing of tables.
  nn::Sequential net(nn::Dense(16, {.activation = tanh}), nn::Dense(3));
  train::Estimator of_tensor(net, options(measures(), ""));
  of_tensor.train(input, {.steps = 300});
  CHECK(of_tensor.evaluate(once).at("accuracy") > 0.9);
  CHECK(variables(of_tensor.model()).contains("dense/kernel"));
  train::Estimator from_run(nn::Sequential(nn::Dense(16, {.activation = tanh}), nn::Dense(3)),
                            options({embedding(vocabulary("kind", {"a", "b"}), 4), numeric("x")}, ""));
  const Table kinds{{"kind", "x", "y"}, {tensor({"a", "b"}), tensor({1.f, 2.f}), tensor({0, 1})}};
  from_run.train([&] { return data::from_table(kinds, {.label = "y"}).repeat().batch(2); }, {.steps = 2});
  CHECK(variables(from_run.model()).size() == 5);  // the embedding as well

  CHECK(has(message_of([&] { train::Estimator(Lengths(), {.loss = sparse_softmax_cross_entropy}); }), "no columns"));
  CHECK(has(message_of([&] { train::Estimator(Lengths(), {.columns = raw}); }), "no loss"));
  CHECK(has(message_of([&] { train::Estimator(Lengths(), {.columns = raw, .loss = mean_squared_error}); }),
            "no optimizer"));
}

TEST_CASE("an estimator's input is one pass, and another one with the next call") {
  const Folder folder;
  const Table table = iris();
  for (const std::string& where : {std::string(), folder / "run"}) {
    train::LinearClassifier estimator({.columns = measures(), .classes = 3, .folder = where});
    for (int64_t passes : {1, 2}) {
      estimator.train([&] { return data::from_table(table, {.label = "species"}).batch(50); });
      CHECK(estimator.step() == 3 * passes);
    }
  }
}

TEST_CASE("linear, wide and deep, regression, texts as labels") {
  random::seed(1);
  const Table table = iris();
  auto input = [&] {
    return data::from_table(table, {.label = "species"}).shuffle(150, {.seed = 1}).repeat().batch(32);
  };
  train::LinearClassifier linear({.columns = measures(), .classes = 3});
  linear.train(input, {.steps = 400});
  CHECK(linear.evaluate(input, 5).at("accuracy") > 0.9);
  train::DnnClassifier wide_and_deep({.columns = measures(),
                                      .wide = {bucketized("petal_length", {2.5, 4.8})},
                                      .hidden = {8},
                                      .classes = 3,
                                      .optimizer = nn::Adam({.learning_rate = 0.02})});
  wide_and_deep.train(input, {.steps = 300});
  CHECK(wide_and_deep.evaluate(input, 5).at("accuracy") > 0.9);
  CHECK(variables(wide_and_deep.model()).size() > 4);

  auto lengths = [&] {
    return data::from_table(table, {.label = "petal_length"}).shuffle(150, {.seed = 1}).repeat().batch(32);
  };
  train::DnnRegressor regressor({.columns = {numeric("petal_width"), numeric("sepal_length")},
                                 .hidden = {16},
                                 .optimizer = nn::Adam({.learning_rate = 0.02})});
  regressor.train(lengths, {.steps = 600});
  CHECK(regressor.evaluate(lengths, 5).at("mean_absolute_error") < 0.5);
  CHECK(regressor.predict(table).at("predictions").shape() == Shape{150, 1});

  const Table texts{{"x", "kind"}, {tensor({0.f, 1.f, 0.1f, 0.9f}), tensor({"low", "high", "low", "high"})}};
  auto kinds = [&] { return data::from_table(texts, {.label = "kind"}).repeat().batch(4); };
  train::LinearClassifier named(
      {.columns = {numeric("x")}, .labels = {"low", "high"}, .optimizer = nn::Adam({.learning_rate = 0.1})});
  named.train(kinds, {.steps = 200});
  CHECK(named.evaluate(kinds, 1).at("accuracy") == 1);
  train::LinearClassifier unnamed({.columns = {numeric("x")}});
  CHECK(has(message_of([&] { unnamed.train(kinds, {.steps = 1}); }), ".labels"));
  train::LinearClassifier others({.columns = {numeric("x")}, .labels = {"low", "middle"}});
  const std::string strange = message_of([&] { others.train(kinds, {.steps = 1}); });
  CHECK(has(strange, "labels are among the estimator's .labels"));
  CHECK(has(strange, "high"));
  CHECK(has(message_of([] { train::LinearClassifier({}); }), "columns"));
  CHECK(has(message_of([&] { unnamed.train({}, {.steps = 1}); }), "no input"));
  CHECK(has(message_of([&] { unnamed.train(kinds, {.steps = -1}); }), "0 or more"));
  CHECK(has(message_of([&] { unnamed.train(kinds); }), ".max_steps"));
  // Errors are at the user's line.
  train::LinearClassifier absent({.columns = {numeric("z")}, .labels = {"low", "high"}});
  const std::string message = message_of([&] { absent.train(kinds, {.steps = 1}); });
  CHECK(has(message, "'z'"));
  CHECK(has(message, "test_estimators.cpp:"));
}

// --- What TensorFlow makes of them: tests/scripts/test_estimator_export.py ----------------------------------------------

namespace {
struct Spender {
  nn::Dense hidden{4, {.activation = tanh}}, out{1};
  Tensor operator()(const Table& t, const nn::Call& call = {}) const {
    return out(hidden(stack({t.at("age").astype(f32), t.at("visits").astype(f32)}, -1), call), call);
  }
};
}  // namespace

TEST_CASE("child: exports for TensorFlow", "[.]") {
  const std::string at = std::getenv("RILL_SERVED");
  const Table people{
      {"age", "visits", "city", "job", "buys", "spent"},
      {tensor({20.f, 35.f, 61.f, 44.f}), tensor({1, 7, 3, 12}), tensor({"Rome", "Oslo", "", "Ulm"}),
       tensor({"cook", "nurse", "cook", "pilot"}), tensor({"no", "yes", "yes", "no"}), tensor({1.f, 2.f, 5.f, 3.f})}};
  const auto without = [&](const char* other, const char* label) {
    Table t = people;
    const auto i = std::ranges::find(t.names, other) - t.names.begin();
    t.names.erase(t.names.begin() + i), t.columns.erase(t.columns.begin() + i);
    return [=] { return data::from_table(t, {.label = label}).repeat().batch(4); };
  };
  train::DnnClassifier buyers(
      {.columns = {numeric("age", {.normalizer = [](const Tensor& x) { return (x - 40) / 15; }}),
                   bucketized("age", {30, 50}), indicator(vocabulary("job", {"cook", "nurse"})),
                   embedding(hashed("city", 16), 3)},
       .wide = {crossed({"city", "job"}, 32), "visits"},
       .hidden = {8},
       .labels = {"no", "yes"},
       .seed = 1});
  buyers.train(without("spent", "buys"), {.steps = 30});
  buyers.export_saved_model(at + "/buyers");
  train::Estimator spenders(Spender(),
                            {.columns = {numeric("age"), identity("visits", 100)},
                             .loss = [](const Tensor& p, const Tensor& y) { return square(p - expand_dims(y, -1)); },
                             .optimizer = nn::Adam({.learning_rate = 0.01}),
                             .seed = 1});
  spenders.train(without("buys", "spent"), {.steps = 30});
  spenders.export_saved_model(at + "/spenders");
  std::map<std::string, Tensor> all = buyers.predict(people);
  all.merge(spenders.predict(people));
  save(at + "/predicted.npz", all);
  SUCCEED();
}
