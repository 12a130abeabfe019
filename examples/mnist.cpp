// Trains a convolutional network on handwritten digits: eager ops, a GradientTape, and a training step that `function`
// traces once and replays. `mnist --help` lists the options; start reading at train(). digits.h has the network.
//
// The data are IDX files, as the MNIST database has them; examples/data holds 4,000 digits to train on and 1,000 to
// test.
#include <rill/data.h>
#include <rill/nn.h>
#include <rill/rill.h>
#include <rill/serialize.h>
#include <rill/summary.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <optional>

#include "digits.h"
#include "report.h"

using namespace rill;

struct Settings {
  std::string data = MNIST_DATA;
  std::string logs = "logs/mnist";
  std::string checkpoint;
  std::string device;
  bool eager = false;
  int epochs = 5, batch = 64, threads = 0;
  double rate = 1e-3;
  uint64_t seed = 1;
};

// How many of the rows of `logits` are largest at the label.
Tensor count_right(const Tensor& logits, const Tensor& labels) { return sum(argmax(logits, -1) == labels.astype(i64)); }

// One batch through the model: the mean loss, and how many digits were told right.
using Step = std::function<std::pair<Tensor, Tensor>(const Tensor& images, const Tensor& labels)>;
using Predict = std::function<Tensor(const Tensor& images)>;

// The class of every test image.
std::vector<int64_t> predict_all(const Predict& predict, const Tensor& images) {
  std::vector<int64_t> classes;
  constexpr int64_t batch = 500;
  for (int64_t i = 0; i < images.dim(0); i += batch) {
    const Tensor part = images(slice(i, std::min<int64_t>(i + batch, images.dim(0))));
    for (int64_t c : predict(part).to_vector<int64_t>()) classes.push_back(c);
  }
  return classes;
}

struct Epoch {
  double loss = 0, right = 0;  // sums over digits
  double seconds = 0;
};

Epoch train_epoch(const Step& step, const data::Mnist& digits, data::Batches& batches, ProgressBar& bar) {
  const int64_t count = digits.train_images.dim(0);
  int64_t done = 0;
  Epoch epoch;
  const auto start = std::chrono::steady_clock::now();
  while (done < count) {
    const Tensor chosen = batches.next();
    done += chosen.size();
    const auto [loss, right] = step(take(digits.train_images, chosen, 0), take(digits.train_labels, chosen, 0));
    epoch.loss += loss.item<double>() * double(chosen.size());
    epoch.right += right.item<double>();
    epoch.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const double seen = double(done);
    bar.show(done, count, epoch.loss / seen, seen / epoch.seconds);
  }
  return epoch;
}

void train(const Settings& settings) {
  if (settings.threads > 0) set_num_threads(settings.threads);
  if (!settings.device.empty()) set_default_device(settings.device);
  random::seed(settings.seed);
  const data::Mnist digits = data::load_mnist(settings.data);
  const double train_count = double(digits.train_images.dim(0)), test_count = double(digits.test_images.dim(0));
  std::printf("%.0f digits to train on, %.0f to test, of %s; %s; %s, %d threads\n", train_count, test_count,
              settings.data.c_str(), settings.eager ? "eager" : "traced", to_string(default_device()).c_str(),
              num_threads());

  const nn::Sequential model = make_model(digits.train_images.dim(1), digits.train_images.dim(2));
  const std::vector<Variable> parameters = model.parameters();
  // The rate falls along a cosine to a twentieth: small steps at the end settle what larger ones left astir.
  const double steps = settings.epochs * std::ceil(train_count / settings.batch);
  nn::Adam adam({.learning_rate = nn::cosine_decay(settings.rate, steps, 0.05)});

  auto train_step = [&](const Tensor& images, const Tensor& labels) {
    GradientTape tape;
    const Tensor logits = model(to_input(images), nn::Mode::training);
    const Tensor loss = mean(sparse_softmax_cross_entropy(logits, labels));
    adam.apply_gradients(tape.gradient(loss, parameters), parameters);
    return std::pair(loss, count_right(logits, labels));
  };
  auto classify = [&](const Tensor& images) { return argmax(model(to_input(images)), -1); };
  Step step = train_step;
  Predict predict = classify;
  if (!settings.eager) {
    step = function("train_step", train_step);
    predict = function("predict", classify);
  }

  // With what a checkpoint has, a run that was stopped goes on with the bits that it would have had.
  data::Batches batches(digits.train_images.dim(0), settings.batch);
  std::optional<CheckpointManager> manager;
  if (!settings.checkpoint.empty())
    manager.emplace(Checkpoint{{"model", model}, {"adam", adam}, {"random", random::generator()}, {"batches", batches}},
                    settings.checkpoint);
  if (manager && manager->restore_if_any()) std::printf("goes on from %s\n", manager->latest().c_str());

  std::optional<summary::Writer> log;
  if (!settings.logs.empty()) log.emplace(settings.logs);
  if (log && !settings.eager) summary::trace_on();

  std::vector<int64_t> classes;
  const std::vector<int64_t> truth = digits.test_labels.to_vector<int64_t>();
  double seconds = 0;
  for (int epoch = int(batches.epoch()) + 1; epoch <= settings.epochs; ++epoch) {
    ProgressBar bar("epoch " + std::to_string(epoch) + "/" + std::to_string(settings.epochs));
    const Epoch result = train_epoch(step, digits, batches, bar);
    classes = predict_all(predict, digits.test_images);
    const double right = result.right / train_count, test_right = share_right(classes, truth);
    bar.finish(result.loss / train_count, right, test_right, train_count / result.seconds, result.seconds);
    seconds += result.seconds;
    if (manager) manager->save(epoch);
    if (!log) continue;
    if (epoch == 1 && !settings.eager) log->traces("mnist", 0);
    log->scalar("loss", result.loss / train_count, epoch);
    log->scalar("accuracy/train", right, epoch);
    log->scalar("accuracy/test", test_right, epoch);
    log->scalar("images_per_second", train_count / result.seconds, epoch);
  }
  if (classes.empty()) classes = predict_all(predict, digits.test_images);  // all epochs were done before
  if (settings.epochs > 0) print_confusion(classes, truth);
  std::printf("\ntest accuracy %.2f %% after %d epochs, %.2f s of training\n", 100 * share_right(classes, truth),
              settings.epochs, seconds);
  if (log) std::printf("for TensorBoard: %s\n", settings.logs.c_str());
}

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Trains a convolutional network on handwritten digits.");
  app.add_option("--data", settings.data, "folder of the four MNIST files, gzipped or not")->capture_default_str();
  app.add_option("--logdir", settings.logs, "folder for TensorBoard's event file; \"\" writes none")
      ->capture_default_str();
  app.add_option(
      "--checkpoint", settings.checkpoint,
      "folder for a checkpoint after each epoch; a run that finds one there goes on from it, and export_digits "
      "makes a model of it");
  app.add_option("--device", settings.device, "where to train: cpu:0, gpu:0; without it gpu:0 where there is one");
  app.add_flag("--eager", settings.eager, "run every op at once, without tracing the training step");
  app.add_option("--epochs", settings.epochs, "passes over the training digits")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--batch", settings.batch, "digits a step")->check(CLI::Range(1, 1000000))->capture_default_str();
  app.add_option("--lr", settings.rate, "learning rate of Adam at the start")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", settings.seed, "seed of weights, order and dropout")->capture_default_str();
  app.add_option("--threads", settings.threads, "threads an op may use; 0: one a core")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 1;
  }
  try {
    train(settings);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "\nmnist: %s\n", e.what());
    return 1;
  }
}
