// Handwritten digits by a small residual network: 4,000 to train on, 1,000 to test, from MNIST. Digits are shifted by
// up to two pixels while training, which compensates for their small number.
#include "example.h"

using namespace rill;

struct Block {
  nn::Conv2D one, two;
  nn::BatchNorm norm_one, norm_two;
  explicit Block(int64_t channels)
      : one(channels, {3}, {.padding = "same", .use_bias = false}),
        two(channels, {3}, {.padding = "same", .use_bias = false}) {}
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    const Tensor h = relu(norm_one(one(x, call), call));
    return relu(x + norm_two(two(h, call), call));
  }
  RILL_LAYER(Block, one, two, norm_one, norm_two)
};

struct ResNet {
  nn::Conv2D stem{32, {3}, {.padding = "same", .use_bias = false}};
  nn::BatchNorm norm;
  Block first{32};
  nn::Conv2D wider{64, {3}, {.strides = {2}, .padding = "same", .activation = relu}};
  Block second{64}, third{64};
  nn::Dropout drop{0.3};
  nn::Dense head{10};

  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const {
    Tensor h = max_pool(relu(norm(stem(x, call), call)), {2, 2});
    h = third(second(wider(first(h, call), call), call), call);
    return head(drop(mean(h, {1, 2}), call), call);
  }
};

static void run() {
  const data::Mnist mnist = data::load_mnist(example::data_file(""));
  const auto input = [](const Tensor& images) { return expand_dims(images.astype(f32) / 255, -1); };
  // Each digit has its own shift; the draws depend on the seed, the epoch and the digit's index.
  const auto moved = [](const Tensor& image, const Tensor& label) {
    return std::pair(images::random_crop(pad(image, {{2, 2}, {2, 2}, {0, 0}}), {28, 28}), label);
  };
  const int64_t epochs = example::quick ? 1 : 18, batch = 64;
  auto train_set = data::from_tensors(std::pair(input(mnist.train_images), mnist.train_labels))
                       .shuffle({.seed = 1})
                       .map(moved, {.seed = 2})
                       .take(example::quick ? 2 * batch : 4000)
                       .batch(batch);
  auto test_set = data::from_tensors(std::pair(input(mnist.test_images), mnist.test_labels)).batch(250);

  ResNet net;
  train::Loop loop(net, {.loss = sparse_softmax_cross_entropy,
                         .optimizer = nn::AdamW({.learning_rate = nn::cosine_decay(3e-3, double(epochs * 63), 0.0, 60),
                                                 .weight_decay = 0.02}),
                         .metrics = {metrics::accuracy()}});
  loop.fit(train_set, {.epochs = epochs, .validation = test_set, .validation_every = 6});
  example::print("accuracy on the thousand", loop.evaluate(test_set).at("accuracy"), "Keras, the same network: 0.987");
}

int main(int argc, char** argv) { return example::main(argc, argv, run); }
