// Models, a training loop, estimators.
#include <rill/data.h>
#include <rill/nn.h>
#include <rill/rill.h>
#include <rill/serialize.h>
#include <rill/train.h>
#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include "expect.h"
using namespace rill;

// A model is a plain struct of layers and a call; no base class, no registration. Sizes are found at the first call.
struct Residual {
  nn::Conv2D one{8, {3}, {.padding = "same"}}, two{8, {3}, {.padding = "same"}};
  nn::BatchNorm norm{{.momentum = 0.9}};
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    return relu(x + two(relu(norm(one(x, call), call)), call));
  }
};
struct Net {
  nn::Conv2D stem{8, {3}, {.padding = "same", .activation = relu}};
  std::vector<Residual> blocks = nn::repeat(2, [] { return Residual(); });
  nn::Dense head{10};
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    Tensor h = stem(x, call);
    for (const Residual& block : blocks) h = block(h, call);
    return head(mean(h, {1, 2}), call);
  }
};

int main() {
  const auto folder = std::filesystem::temp_directory_path() / ("rill-api-training-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  std::filesystem::copy_file(std::filesystem::path(root ? root : ".") / "examples/data/iris.csv", folder / "iris.csv",
                             std::filesystem::copy_options::overwrite_existing);
  std::filesystem::current_path(folder);
  random::seed(1);
  // Ten patterns, with noise: what such a small model can tell apart in eighty steps.
  Tensor y = random::randint(0, 10, {64});
  Tensor x = take(random::normal({10, 8, 8, 1}) * 2, y, 0) + 0.3f * random::normal({64, 8, 8, 1});
  {  // Built by the first call, or by a spec; then it has variables with paths and a summary.
    Net net;
    nn::build(net, spec(f32, {any, 8, 8, 1}));
    EXPECT(variables(net).contains("blocks/1/two/kernel") && has(to_string(nn::summary(net, x)), "blocks/1/two"));
    EXPECT(has(message_of([&] { nn::build(net, spec(f32, {any, 8, 8, 3})); }),
               "stem"));                    // was built for another number of channels
    Net twin = net, copy = nn::clone(net);  // a copy shares its Variables, a clone does not
    variables(net).at("head/bias").assign(ones({10}));
    EXPECT(array_equal(twin.head(x.reshape({-1, 8})), net.head(x.reshape({-1, 8}))) && !array_equal(copy(x), net(x)));
    nn::cast(copy, bf16, "blocks/*");
    EXPECT(variables(copy).at("blocks/0/one/kernel").dtype() == bf16 && copy(x).dtype() == f32);
    nn::Sequential s(nn::Dense(4), relu, nn::Dropout(0.5), nn::Dense(2));
    s[3] = nn::Dense(3);
    EXPECT(s(x.reshape({-1, 64}), nn::Mode::training).dim(1) == 3 && variables(s).size() == 4);
  }
  {  // Groups by path: no weight decay on biases and norms, a smaller rate for the stem.
    Net net;
    nn::build(net, spec(f32, {any, 8, 8, 1}));
    nn::AdamW adam({.learning_rate = 1e-3, .weight_decay = 0.1, .clip_norm = 1.0, .ema = 0.999});
    adam.group("*/bias", {.weight_decay = 0}).group("*/norm/*", {.weight_decay = 0}).group("stem/*", {.rate = 0.1});
    GradientTape tape;
    adam.minimize(mean(sparse_softmax_cross_entropy(net(x, nn::Mode::training), y)), tape, variables(net));
    EXPECT(adam.iterations().value().item<int64_t>() == 1);
  }
  {  // fit: an epoch loop with progress, metrics, validation, callbacks, and a history that plots itself.
    Net net;
    train::Loop loop(net, {.loss = sparse_softmax_cross_entropy,
                           .optimizer = nn::AdamW({.learning_rate = nn::cosine_decay(1e-2, 400, 0.0, 20)}),
                           .metrics = {metrics::accuracy(), metrics::top_k(3)},
                           .clip_norm = 1.0});
    auto batches = data::from_tensors(std::pair(x, y)).shuffle(64).batch(16);
    train::History h = loop.fit(batches, {.epochs = 40,
                                          .validation = batches,
                                          .progress = false,
                                          .callbacks = {train::early_stopping({.monitor = "val_loss", .patience = 5}),
                                                        train::checkpoint("runs/a", {.keep = 2}),
                                                        train::tensorboard("logs/a"), train::stop_on_nan()}});
    EXPECT(h.back().at("loss") < h.front().at("loss") / 2 && h.back().count("val_accuracy"));
    auto result = loop.evaluate(batches);
    EXPECT(result.at("accuracy") > 0.5 && loop.predict(data::from_tensors(x).batch(16)).shape() == Shape{64, 10});
    h.plot("history.svg");
  }
  {  // A run that is killed goes on with the bits it would have had: model, optimizer, data, random numbers.
    auto run = [&](int epochs, const char* folder) {
      random::seed(3);
      Net net;
      train::Loop loop(
          net, {.loss = sparse_softmax_cross_entropy, .optimizer = nn::SGD({.learning_rate = 0.05, .momentum = 0.9})});
      loop.fit(data::from_tensors(std::pair(x, y)).shuffle(64, {.seed = 5}).batch(16),
               {.epochs = epochs, .progress = false, .resume = folder});
      return variables(net).at("head/kernel").value();
    };
    std::filesystem::remove_all("whole"), std::filesystem::remove_all("parts");
    Tensor whole = run(4, "whole");
    run(2, "parts");
    EXPECT(array_equal(run(4, "parts"), whole));
  }
  {  // Estimators: canned models over feature columns, TrainSpec and EvalSpec, export for serving.
    using namespace data::features;
    Table iris = data::csv("iris.csv").table();  // beside the program, from tests/
    auto input = [&] { return data::from_table(iris, {.label = "species"}).shuffle(150).repeat().batch(32); };
    train::DnnClassifier estimator(
        {.columns = {numeric("sepal_length"), numeric("sepal_width"), numeric("petal_length"), numeric("petal_width")},
         .hidden = {16, 16},
         .classes = 3,
         .optimizer = nn::Adam({.learning_rate = 0.01}),
         .folder = "runs/iris"});
    auto result =
        train::train_and_evaluate(estimator, {.input = input, .max_steps = 500}, {.input = input, .steps = 10});
    EXPECT(result.at("accuracy") > 0.95);
    estimator.export_saved_model("served/iris");  // with a signature that takes the raw columns
    EXPECT(std::filesystem::exists("served/iris/1/saved_model.pb"));
  }
  std::filesystem::current_path("/");
  std::filesystem::remove_all(folder);
}
