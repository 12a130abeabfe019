// Cases of test_distribute.py: the training loop and estimators on several ranks.
#include <algorithm>
#include <fstream>
#include <iterator>

#include "cases.h"

namespace {

train::History fit(Net& net, bool distribute, int64_t epochs, const std::string& resume = "",
                   std::vector<train::Callback> callbacks = {}) {
  random::seed(1);
  net = Net();
  train::Loop loop(net, {.loss = mean_squared_error,
                         .optimizer = nn::Adam({.learning_rate = 0.01}),
                         .metrics = {metrics::mean_absolute_error()},
                         .distribute = distribute});
  auto ds = examples();
  return loop.fit(ds.take(96).shuffle({.seed = 3}).batch(20), {.epochs = epochs,
                                                               .validation = ds.skip(96).batch(16),
                                                               .progress = false,
                                                               .callbacks = std::move(callbacks),
                                                               .resume = resume});
}

// A last batch of 16 rows, and parts of other lengths: the numbers are still those of one process.
void loop() {
  Net alone, together, again;
  const train::History a = fit(alone, false, 3), b = fit(together, true, 3);
  for (const char* number : {"loss", "mean_absolute_error", "val_loss", "val_mean_absolute_error"})
    for (int64_t e = 0; e < 3; ++e) {
      const double one = a[size_t(e)].at(number), other = b[size_t(e)].at(number);
      EXPECT(std::abs(one - other) < 1e-4 * std::abs(one));
      EXPECT(distribute::is_same(tensor(other)));
    }
  EXPECT(distribute::is_same(together));
  for (size_t i = 0; i < variables(alone).size(); ++i)
    EXPECT(allclose(variables(alone).values()[i], variables(together).values()[i], {.rtol = 1e-3, .atol = 1e-4}));
  // Stopped after an epoch, and gone on with.
  if (folder.empty()) return;
  fit(again, true, 1, folder);
  distribute::barrier();
  fit(again, true, 3, folder);
  for (size_t i = 0; i < variables(again).size(); ++i)
    EXPECT(same(variables(again).values()[i].value(), variables(together).values()[i].value()));
  // What all ranks know one writes, and each has a dump of its own.
  fit(again, true, 2, "",
      {train::csv_log(folder + "/log.csv"), train::debugger(folder + "/dump", {.steps = {1}}),
       train::checkpoint(folder + "/callback", {.best_by = "val_loss"}), train::tensorboard(folder + "/board")});
  distribute::barrier();
  std::ifstream log(folder + "/log.csv");
  EXPECT(std::count(std::istreambuf_iterator<char>(log), std::istreambuf_iterator<char>(), '\n') == 3);
  EXPECT(debug::Dump(folder + "/dump" + (me ? "-rank-" + std::to_string(me) : "")).values().front().step == 1);
}

// --- Some of the ranks, and parts of a model -------------------------------------------------------------------------

// Those of a group train, while the others do something else.
void loop_of_some() {
  const Group some = n > 2 ? Group(n == 3 ? std::vector<int64_t>{0, 2} : std::vector<int64_t>{0, 2, 3}) : Group();
  Net alone, together;
  const auto options = [](train::Ranks ranks) {
    return train::LoopOptions{
        .loss = mean_squared_error, .optimizer = nn::SGD({.learning_rate = 0.05}), .distribute = std::move(ranks)};
  };
  const auto run = [&](Net& net, const train::Ranks& ranks) {
    random::seed(1);
    net = Net();
    train::Loop loop(net, options(ranks));
    return loop.fit(examples().batch(20), {.epochs = 2, .progress = false}).back().at("loss");
  };
  const double one = run(alone, false);
  if (some.rank() < 0) {
    EXPECT(says([&] { train::Loop(together, options(some)); }, "is none of those that train"));
  } else {
    EXPECT(std::abs(run(together, some) - one) < 1e-4 * one);
    EXPECT(distribute::is_same(together, some));
  }
  distribute::barrier();
}

// What would train on half of the data without a word, or wait for files that come to another folder.
void loop_mistakes() {
  Net net;
  train::Loop loop(net, {.loss = mean_squared_error, .optimizer = nn::SGD(), .distribute = true});
  const auto fits = [&](const auto& data, const std::string& resume = "") {
    return message_of([&] { loop.fit(data, {.progress = false, .resume = resume}); });
  };
  EXPECT(has(fits(examples().shard(n, me).batch(16)), n > 1 ? "without shard()" : ""));
  EXPECT(has(fits(examples().batch(16).shard(n, me, {.within_batch = true})), n > 1 ? "without shard()" : ""));
  EXPECT(has(fits(examples().batch(16), folder + "/" + std::to_string(me)),
             n > 1 ? "different folders to resume from" : ""));
  EXPECT(fits(examples().shard(2, 1).batch(16)).empty());  // one half on all of them
}

// Each rank has another number of its own, of which no layer says so.
struct OwnNumber {
  nn::Param number{"number", nn::constant(double(me))};
  nn::Dense dense{1};
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const { return dense(x, call) * number({1}, call); }
  RILL_LAYER(OwnNumber, number, dense)
};

struct Halves {
  distribute::ColumnParallelDense up;
  distribute::RowParallelDense down;
  explicit Halves(const Group& group) : up(12, {.group = group, .activation = tanh}), down(1, {.group = group}) {}
  Tensor operator()(const Tensor& x, const nn::Call& = {}) const { return down(up(x)); }
  RILL_LAYER(Halves, up, down)
};

// Batches along one axis of a mesh, parts of the model along the other: as in one process, and after a stop likewise.
void loop_on_mesh() {
  const int64_t parts = n % 2 == 0 ? 2 : 1;
  const distribute::Mesh mesh({{"data", n / parts}, {"model", parts}});
  const Group group = mesh.group("model");
  const auto run = [&](Halves& net, const train::Ranks& ranks, int64_t epochs, const std::string& resume = "") {
    train::Loop loop(net,
                     {.loss = mean_squared_error, .optimizer = nn::Adam({.learning_rate = 0.01}), .distribute = ranks});
    const auto data = examples().shuffle({.seed = 3}).batch(32);
    return loop.fit(data, {.epochs = epochs, .validation = data, .progress = false, .resume = resume});
  };
  const auto made = [](const Group& ranks) {
    random::seed(1);
    return Halves(ranks);
  };
  Halves alone = made(Group({me})), together = made(group), stopped = made(group), again = made(group);
  const train::History a = run(alone, false, 3), b = run(together, {mesh, "data"}, 3);
  for (const char* number : {"loss", "val_loss"})
    EXPECT(std::abs(a.back().at(number) - b.back().at(number)) < 1e-3 * a.back().at(number));
  EXPECT(distribute::is_same(together, mesh.group("data")));
  run(stopped, {mesh, "data"}, 1, folder);
  distribute::barrier();
  run(again, {mesh, "data"}, 3, folder);
  for (size_t i = 0; i < variables(again).size(); ++i)
    EXPECT(same(variables(again).values()[i].value(), variables(together).values()[i].value()));
  EXPECT(says([&] { train::Ranks(mesh, "date"); }, "there is no axis 'date'"));
  distribute::barrier();
}

// The norm is that of the whole model, and each part is written into a folder of its own.
void loop_clipped() {
  const int64_t parts = n % 2 == 0 ? 2 : 1;
  const distribute::Mesh mesh({{"data", n / parts}, {"model", parts}});
  const train::Ranks ranks(mesh, "data");
  const auto run = [&](auto& net, const train::Ranks& on, double optimizers = 0, double clip = 0.25) {
    train::Loop loop(net, {.loss = mean_squared_error,
                           .optimizer = nn::SGD({.learning_rate = 0.25, .clip_norm = optimizers}),
                           .clip_norm = clip,
                           .distribute = on});
    std::vector<train::Callback> callbacks;
    if (on && clip > 0)
      callbacks = {train::checkpoint(folder + "/steps", {.keep = 2, .every_steps = 3}),
                   train::checkpoint(folder + "/minutes", {.every_minutes = 1e-9, .best_by = "loss"})};
    return loop.fit(examples().batch(32), {.epochs = 2, .progress = false, .callbacks = std::move(callbacks)});
  };
  const auto made = [](const Group& on) {
    random::seed(1);
    return Halves(on);
  };
  Halves alone = made(Group({me})), together = made(mesh.group("model")), free = made(mesh.group("model"));
  const double one = run(alone, false).back().at("loss"), all = run(together, ranks).back().at("loss");
  EXPECT(std::abs(one - all) < 1e-4 * one);
  EXPECT(std::abs(run(free, ranks, 0, 0).back().at("loss") - all) > 1e-3 * all);  // it clips
  EXPECT(distribute::is_same(together, mesh.group("data")));
  if (parts > 1) {
    EXPECT(distribute::is_same(together.down.bias.value()));  // what all have alike stays so
    Halves other = made(mesh.group("model"));  // the optimizer's clip_norm is that of the whole model too
    EXPECT(std::abs(run(other, ranks, 0.25, 0).back().at("loss") - one) < 1e-4 * one);
    OwnNumber own;
    EXPECT(says([&] { run(own, ranks); }, "no layer says that it is a part"));
  }
  distribute::barrier();
  const std::string part = parts > 1 ? "/model-" + std::to_string(mesh.rank("model")) : "";
  for (const std::string kind : {"/steps", "/minutes"}) {
    Halves read = made(mesh.group("model"));
    nn::build(read, spec(f32, {any, 4}));
    const std::string latest = latest_checkpoint(folder + kind + part);
    EXPECT(!latest.empty());
    Checkpoint{{"model", read}}.restore(latest, {.allow_extra = true});
    const bool is_last = kind == "/minutes";
    EXPECT(same(read.up.kernel.value(), together.up.kernel.value()) == is_last);
  }
  distribute::barrier();
}

void estimator() {
  using namespace data::features;
  const Tensor x = random::normal({96}, {.key = random::Key(5)});
  const Table table{{"x", "y"}, {x, 2 * x + 1}};
  const auto run = [&](bool distributed) {
    const auto input = [&] { return data::from_table(table, {.label = "y"}).repeat().batch(24); };
    train::LinearRegressor model({.columns = {numeric("x")}, .seed = 1, .distribute = distributed});
    model.train(input, {.steps = 60});
    return model.evaluate(input, 4).at("loss");
  };
  const double alone = run(false), together = run(true);
  EXPECT(std::abs(alone - together) < 1e-3 * alone && distribute::is_same(tensor(together)));
}

const Cases all_loops = {
    {"loop", loop},
    {"loop_of_some", loop_of_some},
    {"loop_mistakes", loop_mistakes},
    {"loop_on_mesh", loop_on_mesh},
    {"loop_clipped", loop_clipped},
    {"estimator", estimator},
};

}  // namespace

const Cases loop_cases = all_loops;
