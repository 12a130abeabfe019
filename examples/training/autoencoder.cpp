// Digits of 28x28 pixels encoded by sixteen numbers and decoded again. Next to the error is that of the best linear
// code of the same size, the first sixteen principal components, computed here by svd().
#include "example.h"

using namespace rill;

struct Autoencoder {
  nn::Sequential encoder{nn::Dense(256, {.activation = relu}), nn::Dense(64, {.activation = relu}), nn::Dense(16)};
  nn::Sequential decoder{nn::Dense(64, {.activation = relu}), nn::Dense(256, {.activation = relu}),
                         nn::Dense(784, {.activation = sigmoid})};
  Tensor operator()(const Tensor& x, const nn::Call& call = {}) const { return decoder(encoder(x, call), call); }
};

// Test images by the components of the training images.
static double linear_error(const Tensor& train, const Tensor& test) {
  const Tensor middle = mean(train, 0);
  const Tensor components = linalg::svd(train - middle, {.full_matrices = false}).vh(slice(0, 16));
  const Tensor code = matmul(test - middle, transpose(components));
  return mean(square(matmul(code, components) + middle - test)).item<double>();
}

// Draws a digit with characters.
static void draw(const Tensor& image) {
  const std::vector<float> pixels = image.to_vector<float>();
  for (size_t row = 2; row < 26; row += 2) {
    for (size_t column = 2; column < 26; ++column) std::putchar(" .:+#@"[int(pixels[row * 28 + column] * 5.99f)]);
    std::putchar('\n');
  }
}

static void run() {
  const data::Mnist mnist = data::load_mnist(example::data_file(""));
  const auto input = [](const Tensor& images) { return images.astype(f32).reshape({-1, 784}) / 255; };
  const Tensor train = input(mnist.train_images), test = input(mnist.test_images);

  // Its input is its target.
  Autoencoder model;
  train::Loop loop(model, {.loss = mean_squared_error, .optimizer = nn::Adam({.learning_rate = 1e-3})});
  auto batches = data::from_tensors(std::pair(train, train)).shuffle({.seed = 1}).batch(64);
  loop.fit(batches, {.epochs = example::quick ? 1 : 30,
                     .steps_per_epoch = example::quick ? std::optional<int64_t>(3) : std::nullopt,
                     .progress = false});
  const double error = loop.evaluate(data::from_tensors(std::pair(test, test)).batch(250)).at("loss");
  example::print("mean square of 16 numbers", error,
                 "principal components: " + std::to_string(linear_error(train, test)).substr(0, 6));
  draw(test(0));
  draw(model(test(slice(0, 1)))(0));
}

int main(int argc, char** argv) { return example::main(argc, argv, run); }
