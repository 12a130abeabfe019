// Trains a network that distinguishes three species of iris by the sizes of their flowers, and writes it to a file,
// which classify.cpp reads. Start reading at main().
//
// usage: train iris.csv iris.rill
#include <rill/data.h>
#include <rill/nn.h>
#include <rill/rill.h>
#include <rill/serialize.h>

#include <cstdio>
#include <exception>

using namespace rill;

struct Flowers {
  Tensor sizes;    // f32[n,4], in cm
  Tensor species;  // i64[n], an index into the names
};

Flowers take_rows(const Flowers& all, const Tensor& rows) {
  return {take(all.sizes, rows, 0), take(all.species, rows, 0)};
}

// Scales each size to mean 0 and deviation 1 over the training rows, and scores the species.
struct Network {
  Tensor centre, deviation;
  nn::Sequential layers;

  Network(const Tensor& training_sizes, int64_t species)
      : centre(mean(training_sizes, 0)),
        deviation(stddev(training_sizes, 0)),
        layers(nn::Dense(4, 16, {.activation = relu, .name = "hidden"}), nn::Dense(16, species, {.name = "logits"})) {}

  Tensor operator()(const Tensor& sizes, nn::Mode mode = nn::Mode::inference) const {
    return layers((sizes - centre) / deviation, mode);
  }
};

void train(const Network& network, const Flowers& training, const Flowers& validation) {
  const std::vector<Variable> parameters = network.layers.parameters();
  nn::Adam adam({.learning_rate = 0.01});
  auto train_step = [&](const Tensor& sizes, const Tensor& species) {
    GradientTape tape;
    const Tensor loss = mean(sparse_softmax_cross_entropy(network(sizes, nn::Mode::training), species));
    adam.apply_gradients(tape.gradient(loss, parameters), parameters);
    return loss;
  };
  // `any`: one trace serves batches of every size, such as the last one of an epoch.
  auto step = function("step", train_step, {.signature = {spec(f32, {any, 4}), spec(i64, {any})}});
  auto accuracy = [&](const Flowers& flowers) {
    return mean(argmax(network(flowers.sizes), -1) == flowers.species).item<double>();
  };

  const auto batches = data::from_tensors(training).shuffle({.seed = 3}).batch(32);
  for (int epoch = 1; epoch <= 30; ++epoch) {
    double loss = 0;
    auto pass = batches.iterator({.epoch = uint64_t(epoch)});  // each epoch has its own order
    while (const auto batch = pass.next())
      loss += step(batch->sizes, batch->species).item<double>() / double(*batches.size());
    if (epoch % 10 == 0)
      std::printf("epoch %d: loss %.2f, accuracy %.2f, validation %.2f\n", epoch, loss, accuracy(training),
                  accuracy(validation));
  }
}

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: train iris.csv iris.rill\n");
    return 2;
  }
  const Table table = read_csv(argv[1]);
  // `names` has each species once, `indices` the index of each row's species.
  const Unique species = strings::unique(table.at("species"));
  const Tensor names = species.values, indices = species.inverse;
  const Flowers all{table.stacked({"sepal_length", "sepal_width", "petal_length", "petal_width"}), indices};

  random::seed(3);
  const Tensor shuffled = random::permutation(all.sizes.dim(0));
  const Flowers training = take_rows(all, shuffled(slice(0, 120)));
  const Flowers validation = take_rows(all, shuffled(slice(120, none)));
  const Network network(training.sizes, names.size());
  train(network, training, validation);

  // The function for the other program: from sizes to the name of the species, and its probability.
  auto classify = [&](const Tensor& sizes) {
    const Tensor probabilities = softmax(network(sizes), -1);
    return std::pair(take(names, argmax(probabilities, -1), 0), max(probabilities, -1));
  };
  export_model(function("classify", classify, {.signature = {spec(f32, {any, 4}, "sizes")}}), argv[2],
               {.outputs = {"species", "probability"}});
  std::printf("written: %s\n", argv[2]);
} catch (const std::exception& e) {
  std::fprintf(stderr, "train: %s\n", e.what());
  return 1;
}
