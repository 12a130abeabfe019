// The networks of examples/models at small sizes, each with a batch, a loss and what a user asks it: what
// test_ready_models.cpp trains and writes.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../../examples/models/bert.h"
#include "../../examples/models/dcgan.h"
#include "../../examples/models/diffusion_unet.h"
#include "../../examples/models/gpt2.h"
#include "../../examples/models/gru_text.h"
#include "../../examples/models/llama.h"
#include "../../examples/models/mobilenet_v3.h"
#include "../../examples/models/resnet.h"
#include "../../examples/models/unet.h"
#include "../../examples/models/vae.h"
#include "../../examples/models/vit.h"
#include "../../examples/models/whisper.h"

namespace ready {

using namespace rill;
using Batch = std::vector<Tensor>;

struct Network {
  std::string name;
  Batch batch;    // what it is trained on
  size_t inputs;  // how many of the batch's tensors a user gives
  double rate;
  NamedVariables variables;
  std::function<Tensor(const Batch&)> loss;   // of a call in training
  std::function<Tensor(const Batch&)> infer;  // of the inputs
};

// `loss` and `infer` are called with the model and the batch.
template <class Model, class Loss, class Infer>
Network network(std::string name, Model made, Batch batch, size_t inputs, double rate, Loss loss, Infer infer) {
  const auto model = std::make_shared<Model>(std::move(made));
  infer(*model, batch);  // makes the parameters
  return {std::move(name),
          std::move(batch),
          inputs,
          rate,
          variables(*model),
          [=](const Batch& b) { return loss(*model, b); },
          [=](const Batch& b) { return infer(*model, b); }};
}

inline Tensor images(const Shape& shape) { return random::normal(shape, {.key = random::Key(1)}); }
inline Tensor tokens(const Shape& shape, int64_t vocabulary) {
  return random::randint(0, vocabulary, shape, {.key = random::Key(2)});
}
inline Tensor classes(int64_t n, int64_t count) { return iota({n}) % count; }

// Images [batch, ...] and labels.
inline constexpr auto classifies = [](const auto& model, const Batch& b) {
  return mean(sparse_softmax_cross_entropy(model(b[0], nn::Mode::training), b[1]));
};
inline constexpr auto one_input = [](const auto& model, const Batch& b) { return model(b[0]); };
// Of a language model: each token says the next one.
inline constexpr auto says_next = [](const auto& model, const Batch& b) {
  const Tensor logits = model(b[0](all, slice(0, -1)), nn::Mode::training);
  return mean(sparse_softmax_cross_entropy(logits, b[0](all, slice(1, {}))));
};

inline std::vector<Network> vision() {
  std::vector<Network> found;
  const Tensor labels = classes(8, 4);
  found.push_back(network("resnet", models::ResNet<models::BasicBlock>({1, 1}, 4, 8), {images({8, 32, 32, 3}), labels},
                          1, 0.01, classifies, one_input));
  found.push_back(network("resnet_bottleneck", models::ResNet<models::Bottleneck>({1, 1}, 4, 8),
                          {images({8, 32, 32, 3}), labels}, 1, 0.01, classifies, one_input));
  found.push_back(network("mobilenet_v3", models::MobileNetV3(4, 5), {images({8, 32, 32, 3}), labels}, 1, 0.003,
                          classifies, one_input));
  found.push_back(network("vit",
                          models::ViT({.image = 16, .patch = 4, .width = 24, .layers = 2, .heads = 3, .classes = 4}),
                          {images({8, 16, 16, 3}), labels}, 1, 0.01, classifies, one_input));
  const Tensor picture = images({2, 16, 16, 1}), mask = (picture(all, all, all, 0) > 0).astype(i32);
  found.push_back(network("unet", models::UNet(2, 8, 2), {picture, mask}, 1, 0.01, classifies, one_input));
  return found;
}

inline std::vector<Network> texts() {
  std::vector<Network> found;
  const Tensor ids = tokens({4, 9}, 50);
  const Tensor mask = (iota({4, 9}, 1) < expand_dims(tensor({9, 5, 7, 2}), 1)).astype(i32);
  found.push_back(network(
      "bert", models::Bert({.vocabulary = 50, .longest = 16, .width = 16, .layers = 2, .heads = 2, .hidden = 32}),
      {ids, mask, classes(4, 4)}, 2, 0.01,
      [](const models::Bert& net, const Batch& b) {
        return mean(sparse_softmax_cross_entropy(net.pooled(b[0], b[1], nn::Mode::training), b[2]));
      },
      [](const models::Bert& net, const Batch& b) { return net.pooled(b[0], b[1]); }));
  found.push_back(network("gpt2", models::Gpt2({.vocabulary = 50, .longest = 16, .width = 16, .layers = 2, .heads = 2}),
                          {ids}, 1, 0.01, says_next, one_input));
  found.push_back(network(
      "llama", models::Llama({.vocabulary = 50, .width = 16, .layers = 2, .heads = 4, .kv_heads = 2, .hidden = 32}),
      {ids}, 1, 0.01, says_next, one_input));
  found.push_back(network(
      "whisper", models::Whisper({.vocabulary = 50, .mels = 8, .longest = 16, .width = 16, .layers = 2, .heads = 2}),
      {images({4, 20, 8}), ids}, 2, 0.01,
      [](const models::Whisper& net, const Batch& b) {
        const Tensor logits = net(b[0], b[1](all, slice(0, -1)), nn::Mode::training);
        return mean(sparse_softmax_cross_entropy(logits, b[1](all, slice(1, {}))));
      },
      [](const models::Whisper& net, const Batch& b) { return net(b[0], b[1]); }));
  found.push_back(network(
      "gru_text", models::GruText(50, 4, 8, 8), {ids, tensor({9, 5, 7, 2}), classes(4, 4)}, 2, 0.01,
      [](const models::GruText& net, const Batch& b) {
        return mean(sparse_softmax_cross_entropy(net(b[0], b[1], nn::Mode::training), b[2]));
      },
      [](const models::GruText& net, const Batch& b) { return net(b[0], b[1]); }));
  return found;
}

inline std::vector<Network> generators() {
  std::vector<Network> found;
  const Tensor real = images({4, 16, 16, 3});
  // The discriminator alone, on real and drawn images: its loss can only fall.
  const nn::Sequential generator = models::dcgan_generator(3, 4, 2);
  found.push_back(network(
      "dcgan_discriminator", models::dcgan_discriminator(4, 2), {real, images({4, 100})}, 1, 0.01,
      [generator](const nn::Sequential& net, const Batch& b) {
        const Tensor made = stop_gradient(generator(b[1]));
        return mean(softplus(-net(b[0], nn::Mode::training)) + softplus(net(made, nn::Mode::training)));
      },
      one_input));
  // The generator, whose images are to be those.
  found.push_back(network(
      "dcgan_generator", models::dcgan_generator(3, 4, 2), {images({4, 100}), tanh(real)}, 1, 0.01,
      [](const nn::Sequential& net, const Batch& b) { return mean_squared_error(net(b[0], nn::Mode::training), b[1]); },
      one_input));
  found.push_back(network(
      "vae", models::Vae(30, 20, 4), {(images({8, 30}) > 0).astype(f32)}, 1, 0.01,
      [](const models::Vae& net, const Batch& b) { return net.loss(b[0]); }, one_input));
  const models::DiffusionOptions small{.width = 8, .groups = 4, .widths = {1, 2}, .blocks = 1};
  found.push_back(network(
      "diffusion_unet", models::DiffusionUNet(small),
      {images({2, 8, 8, 3}), tensor({10, 500}), images({2, 8, 8, 3}) * 2}, 2, 0.01,
      [](const models::DiffusionUNet& net, const Batch& b) {
        return mean_squared_error(net(models::noisy(b[0], b[2], b[1]), b[1], nn::Mode::training), b[2]);
      },
      [](const models::DiffusionUNet& net, const Batch& b) { return net(b[0], b[1]); }));
  return found;
}

inline std::vector<Network> all_networks() {
  random::seed(1);
  std::vector<Network> found = vision();
  for (const auto& more : {texts(), generators()}) found.insert(found.end(), more.begin(), more.end());
  return found;
}

}  // namespace ready
