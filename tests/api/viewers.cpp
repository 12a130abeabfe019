// Looking at a program: the graph of a traced training step for three viewers, and summaries for TensorBoard.
// test_viewers.py runs it and hands the files to the viewers.
#include <rill/rill.h>
#include <rill/serialize.h>
#include <rill/summary.h>

#include <filesystem>

#include "expect.h"
using namespace rill;

int main() {
  // A variable's name is a path, as an op's scope is.
  Variable w1(random::normal({8, 16}) * 0.1f, "layer1/w"), b1(zeros({16}), "layer1/b");
  Variable w2(random::normal({16, 4}) * 0.1f, "layer2/w"), b2(zeros({4}), "layer2/b");

  auto mlp = function("mlp",
                      [&](const Tensor& x, const Tensor& labels) {
                        Tensor hidden, probabilities;
                        {
                          NameScope layer("layer1");
                          hidden = maximum(matmul(x, w1) + b1, 0);
                        }
                        {
                          NameScope layer("layer2");
                          probabilities = softmax(matmul(hidden, w2) + b2, -1);
                        }
                        NameScope layer("loss");
                        return -mean(sum(labels * log(probabilities), -1));
                      },
                      {.signature = {spec(f32, {32, 8}, "x"), spec(f32, {32, 4}, "labels")}});
  Graph g = mlp.graph(spec(f32, {32, 8}), spec(f32, {32, 4}));
  export_graph(g, "viewers/mlp.dot");
  export_graph(g, "viewers/mlp.json");
  export_graph(g, "viewers/logs/mlp");
  export_graph(g, "viewers/mlp.pb");
  export_graph(g, "viewers/mlp.html");
  export_model(g, "viewers/mlp.onnx", {.outputs = {"loss"}});
  for (const char* file : {"viewers/mlp.dot", "viewers/mlp.json", "viewers/mlp.pb"})
    EXPECT(std::filesystem::file_size(file) > 500);

  auto step = function("step", [&](const Tensor& x, const Tensor& labels) {
    GradientTape tape;
    Tensor loss = mlp(x, labels);
    auto [dw1, dw2] = tape.gradient(loss, w1, w2);
    w1.assign_sub(0.5f * dw1);
    w2.assign_sub(0.5f * dw2);
    return loss;
  });
  summary::Writer log("viewers/logs/train");
  Tensor x = random::normal({32, 8}), labels = softmax(3 * random::normal({32, 4}), -1);
  summary::trace_on();
  Tensor first = step(x, labels);
  summary::trace_export("viewers/logs/train", "step", 0);
  for (int64_t i = 0; i < 20; ++i) {
    log.scalar("loss", step(x, labels), i);
    log.histogram("layer1/w", w1, i);
  }
  EXPECT(step(x, labels).item<float>() < first.item<float>());
  log.image("digits", random::uniform({2, 28, 28, 1}), 0);
  log.text("note", "**bold** words", 0);
  log.graph(g);
  log.flush();

  // All that a dashboard shows; a run of hyperparameters of its own.
  summary::Writer more("viewers/logs/more", {.asynchronous = true});
  more.hparams_config({{"rate", "how fast", {}, {{0., 1.}}}, {"kind", "", {"sgd", "adam"}}}, {{"loss", "the loss"}});
  more.hparams({{"rate", 0.5}, {"kind", "sgd"}, {"bias", true}});
  more.scalar("loss", 0.25, 1);
  more.image("unit", tensor({0.f, 0.5f, 1.f, 2.f}).reshape({1, 2, 2, 1}), 0);
  more.image("largest", tensor({0.f, 0.5f, 1.f, 2.f}).reshape({1, 2, 2, 1}), 0,
             {.scale = summary::ImageScale::largest});
  more.audio("sound", sin(arange(0.f, 800.f) * 0.1f).reshape({800, 1}), 8000, 0);
  more.pr_curve("curve", tensor({true, false, true, true, false}), tensor({0.9f, 0.4f, 0.35f, 1.f, 0.f}), 0,
                {.thresholds = 11});
  more.histogram("values", arange(0.f, 100.f), 0);
  more.embedding("a/words", tensor({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.5f}}),
                 {.metadata = {{"word", {"x", "y", "z"}}, {"count", {"1", "2", "3"}}}, .sprites = zeros({3, 4, 5, 1})});
  summary::Writer("viewers/logs/more").embedding("blanks", zeros({3, 2}), {.metadata = {{"word", {"", "a", " "}}}});
  more.profile("step", profile(step, x, labels), 0);
  more.hparams_end();
  more.flush();

  // Where the time goes, on the same graphs.
  Profile p = profile(step, x, labels);
  export_graph(p.graph, "viewers/step.json");
  export_profile(p, "viewers/step.nodes.json");
  export_profile(p, "viewers/trace.json");
  export_profile(p, "viewers/step.html");
  export_profile(p, "viewers/logs/profile");
}
