// The networks of examples/models: a step of training has the same bits traced and eagerly, steps make the loss fall, and
// full sizes have the number of parameters that was published. test_ready_models.py has the files written that it hands
// to onnxruntime and TensorFlow.
#include <cstdlib>

#include "../../examples/models/names.h"
#include "catch.h"
#include "ready_models.h"
#include "rill/serialize.h"

using namespace rill;

namespace {

int64_t parameters_of(const NamedVariables& variables) {
  int64_t n = 0;
  for (const auto& [path, v] : variables)
    if (v.trainable()) n += v.shape().numel();
  return n;
}

template <class Model>
int64_t built(Model model, const ArgSpec& x) {
  nn::build(model, x);
  return parameters_of(variables(model));
}
template <class Model>
int64_t built(Model model, const ArgSpec& x, const ArgSpec& y) {
  nn::build(model, x, y);
  return parameters_of(variables(model));
}

// What tests/oracle/weights.py makes of Keras's layers.
struct KerasNet {
  nn::Conv2D stem{4, {3}, {.padding = "same"}};
  nn::BatchNorm norm{{.epsilon = 1e-3}};
  nn::Dense head{5};
  Tensor operator()(const Tensor& x) const { return head(nn::Flatten()(relu(norm(stem(x))))); }
};

}  // namespace

TEST_CASE("a ready network learns, traced as eagerly") {
  for (ready::Network& net : ready::all_networks()) {
    INFO(net.name);
    nn::Adam adam({.learning_rate = net.rate});
    const auto step = function("step", [&](const ready::Batch& batch) {
      GradientTape tape;
      const Tensor loss = net.loss(batch);
      adam.minimize(loss, tape, net.variables, {.unconnected = Unconnected::none});
      return loss;
    });
    random::seed(2);
    const double first = step(net.batch).item<double>();
    CHECK(step.verify(net.batch).difference == "");
    for (int i = 0; i < 15; ++i) step(net.batch);
    const double last = step(net.batch).item<double>();
    CHECK(last < 0.9 * first);
    CHECK(step.trace_count() == 1);
  }
}

TEST_CASE("a ready network infers, traced as eagerly, and a batch of any size") {
  for (const ready::Network& net : ready::all_networks()) {
    INFO(net.name);
    const ready::Batch inputs(net.batch.begin(), net.batch.begin() + int64_t(net.inputs));
    const auto infer = function("infer", net.infer);
    CHECK(infer.verify(inputs).difference == "");
    ready::Batch one;
    for (const Tensor& x : inputs) one.push_back(x(slice(0, 1)));
    CHECK(allclose(infer(one), infer(inputs)(slice(0, 1)), {.rtol = 1e-4, .atol = 1e-5}));
  }
}

TEST_CASE("GPT-2 with a cache says what it says of all tokens at once") {
  random::seed(3);
  const models::Gpt2 net({.vocabulary = 50, .longest = 16, .width = 16, .layers = 2, .heads = 2});
  const Tensor ids = ready::tokens({2, 7}, 50), whole = net(ids);
  std::vector<nn::KeyValueCache> caches(2);
  CHECK(allclose(net.decode(ids(all, slice(0, 4)), caches, 0), whole(all, 3), {.rtol = 1e-4, .atol = 1e-5}));
  for (int64_t i = 4; i < 7; ++i)
    CHECK(allclose(net.decode(ids(all, slice(i, i + 1)), caches, i), whole(all, i), {.rtol = 1e-4, .atol = 1e-5}));
}

TEST_CASE("a ready network of full size has the published number of parameters") {
  const ArgSpec image = spec(f32, {any, 224, 224, 3}), ids = spec(i32, {any, 8});
  const nn::Initializer fast = nn::constant(0);                 // of tables
  CHECK(built(models::resnet18(1000), image) == 11'689'512);    // torchvision
  CHECK(built(models::resnet50(1000), image) == 25'557'032);    // torchvision
  CHECK(built(models::MobileNetV3(1000), image) == 2'542'856);  // torchvision's mobilenet_v3_small
  CHECK(built(models::ViT(), image) == 5'717'416);              // timm's vit_tiny_patch16_224
  CHECK(built(models::DiffusionUNet(), spec(f32, {any, 32, 32, 3}), spec(i32, {any})) == 35'746'307);  // the paper's
  CHECK(parameters_of(variables(models::Vae())) == 652'824);                              // torch's examples/vae
  CHECK(built(models::dcgan_generator(), spec(f32, {any, 100})) == 3'576'704);            // torch's tutorial
  CHECK(built(models::dcgan_discriminator(), spec(f32, {any, 64, 64, 3})) == 2'765'568);  // the same
  // all-MiniLM-L6-v2, with its pooler; GPT-2 of 124 million; SmolLM-135M.
  const models::Bert mini({.width = 384, .layers = 6, .heads = 12, .hidden = 1536, .initializer = fast});
  CHECK(built(mini, ids, ids) == 22'713'216);
  CHECK(built(models::Gpt2({.initializer = fast}), ids) == 124'439'808);
  CHECK(built(models::Llama({.initializer = fast}), ids) == 134'515'008);
}

// tests/oracle/weights.py writes them.
TEST_CASE("weights of torch, transformers and Keras, by their names, give what they give there") {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  const std::string folder = std::string(root ? root : ".") + "/tests/fixtures/weights/";
  const auto check = [&](const std::string& name, auto model, const std::vector<WeightRule>& rules, const auto& call,
                         const std::string& file) {
    INFO(name);
    const WeightsReport report = load_weights(model, folder + file, {.rules = rules});
    CHECK(report.loaded.size() == variables(model).size());
    const NamedTensors numbers = load(folder + name + ".npz");
    CHECK(allclose(call(model, numbers), numbers.at("y"), {.rtol = 1e-5, .atol = 1e-5}));
  };
  const auto of_x = [](const auto& model, const NamedTensors& n) { return model(n.at("x0")); };
  check("resnet", models::ResNet<models::BasicBlock>({1, 2}, 5, 4), models::resnet_of_torchvision(), of_x,
        "resnet.safetensors");
  check("resnet_bottleneck", models::ResNet<models::Bottleneck>({1, 1}, 5, 4), models::resnet_of_torchvision(), of_x,
        "resnet_bottleneck.safetensors");
  check(
      "bert", models::Bert({.vocabulary = 50, .longest = 12, .width = 16, .layers = 2, .heads = 2, .hidden = 24}),
      models::bert_of_transformers(),
      [](const models::Bert& net, const NamedTensors& n) { return net.pooled(n.at("x0"), n.at("x1")); },
      "bert.safetensors");
  check("gpt2", models::Gpt2({.vocabulary = 50, .longest = 12, .width = 16, .layers = 2, .heads = 2}),
        models::gpt2_of_transformers("transformer."), of_x, "gpt2.safetensors");
  check("llama", models::Llama({.vocabulary = 50, .width = 16, .layers = 2, .heads = 4, .kv_heads = 2, .hidden = 24}),
        models::llama_of_transformers(), of_x, "llama.safetensors");
  check("keras", KerasNet(),
        {{"net/norm/gamma", "norm/scale"},
         {"net/norm/beta", "norm/offset"},
         {"net/norm/moving_mean", "norm/mean"},
         {"net/norm/moving_variance", "norm/variance"},
         {"net/*", "*"}},
        of_x, "keras");
}

// By test_ready_models.py.
TEST_CASE("the ready networks are written", "[.]") {
  const std::string folder = std::getenv("RILL_MODELS_FOLDER");
  for (const ready::Network& net : ready::all_networks()) {
    const ready::Batch inputs(net.batch.begin(), net.batch.begin() + int64_t(net.inputs));
    std::vector<ArgSpec> signature;
    NamedTensors numbers;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Shape shape = inputs[i].shape();
      shape[0] = any;
      signature.push_back(spec(inputs[i].dtype(), shape, "x" + std::to_string(i)));
      numbers.emplace(signature.back().name, inputs[i]);
    }
    const auto infer = function("infer", net.infer);
    numbers.emplace("output", infer(inputs));
    save(folder + "/" + net.name + ".npz", numbers);
    const ExportOptions options{.signature = signature, .variables = net.variables};
    export_model(infer, folder + "/" + net.name + ".onnx", options);
    export_model(infer, folder + "/" + net.name, options);
    CHECK(import_model(folder + "/" + net.name + ".onnx").inputs().size() == inputs.size());
  }
}
