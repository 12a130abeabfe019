// Trains a convolutional network on handwritten digits by train::Loop. `mnist --help` lists the options; start reading at
// run(). digits.h has the network, report.h what is printed.
//
// The data are IDX files, as in the MNIST database; examples/data holds 4,000 digits to train on and 1,000 to
// test.
#include <rill/data.h>
#include <rill/nn.h>
#include <rill/rill.h>
#include <rill/train.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

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

using Batches = data::Dataset<std::pair<Tensor, Tensor>>;

// The digits of one of the files, as examples {image, label}.
Batches examples(const Tensor& images, const Tensor& labels) {
  return data::from_tensors(std::pair(to_input(images), labels));
}

void run(const Settings& settings) {
  if (settings.threads > 0) set_num_threads(settings.threads);
  if (!settings.device.empty()) set_default_device(settings.device);
  random::seed(settings.seed);
  const data::Mnist digits = data::load_mnist(settings.data);
  const int64_t train_count = digits.train_images.dim(0), test_count = digits.test_images.dim(0);
  std::printf("%lld digits to train on, %lld to test, of %s; %s; %s, %d threads\n", (long long)train_count,
              (long long)test_count, settings.data.c_str(), settings.eager ? "eager" : "traced",
              to_string(default_device()).c_str(), num_threads());
  const Batches train_set =
      examples(digits.train_images, digits.train_labels).shuffle({.seed = settings.seed}).batch(settings.batch);
  const Batches test_set = examples(digits.test_images, digits.test_labels).batch(500);

  nn::Sequential model = make_model(digits.train_images.dim(1), digits.train_images.dim(2));
  // The rate falls along a cosine to a twentieth: small steps at the end reduce the noise of larger ones.
  const double steps = settings.epochs * double(*train_set.size());
  train::Loop loop(model, {.loss = sparse_softmax_cross_entropy,
                           .optimizer = nn::Adam({.learning_rate = nn::cosine_decay(settings.rate, steps, 0.05)}),
                           .metrics = {metrics::accuracy()},
                           .traced = !settings.eager});

  Report report(train_count, settings.checkpoint);
  std::vector<train::Callback> callbacks{report};
  if (!settings.logs.empty()) callbacks.push_back(train::tensorboard(settings.logs));
  // From a checkpoint, an interrupted run continues with the same bits as an uninterrupted one.
  const train::History history = loop.fit(train_set, {.epochs = settings.epochs,
                                                      .validation = test_set,
                                                      .progress = false,
                                                      .callbacks = callbacks,
                                                      .resume = settings.checkpoint});

  const Tensor classes = argmax(loop.predict(test_set), -1);
  print_confusion(classes.to_vector<int64_t>(), digits.test_labels.to_vector<int64_t>());
  std::printf("\ntest accuracy %.2f %% after %d epochs, %.2f s of training\n", 100 * history.back().at("val_accuracy"),
              settings.epochs, report.seconds());
  if (!settings.logs.empty()) std::printf("for TensorBoard: %s\n", settings.logs.c_str());
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
    run(settings);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "\nmnist: %s\n", e.what());
    return 1;
  }
}
