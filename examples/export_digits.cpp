// Exports the network that mnist has trained as a model that runs without either program:
//
//   mnist --checkpoint digits
//   export_digits digits digits.onnx
//   rill run digits.onnx --input digit.png
#include <rill/rill.h>
#include <rill/serialize.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

#include "digits.h"

using namespace rill;

// From u8[n,height,width] to the digits, and the probability of each class.
void export_classifier(const std::string& checkpoint, const std::string& path, int64_t height, int64_t width) {
  const nn::Sequential model = make_model(height, width);
  const std::string latest = latest_checkpoint(checkpoint);
  if (latest.empty()) throw std::runtime_error("there is no checkpoint in " + checkpoint);
  // The optimizer and the progress of training, which are in the checkpoint too, are only needed for training.
  Checkpoint{{"model", model}}.restore(latest, {.allow_extra = true});
  const auto classify = [&](const Tensor& images) {
    const Tensor probabilities = softmax(model(to_input(images)), -1);
    return std::pair(argmax(probabilities, -1), probabilities);
  };
  const ArgSpec images = spec(u8, {any, height, width}, "images");
  export_model(function("digits", classify, {.signature = {images}}), path, {.outputs = {"digit", "probabilities"}});
  std::printf("the model: %s\n", path.c_str());
}

int main(int argc, char** argv) {
  std::string checkpoint, path;
  int64_t height = 28, width = 28;
  CLI::App app("Exports the digit classifier that mnist has trained.");
  app.add_option("checkpoint", checkpoint, "folder that mnist was given as --checkpoint")->required();
  app.add_option("model", path, "file to write, such as digits.onnx or digits.rill")->required();
  app.add_option("--height", height, "rows of an image")->check(CLI::Range(4, 4096))->capture_default_str();
  app.add_option("--width", width, "columns of an image")->check(CLI::Range(4, 4096))->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 1;
  }
  try {
    export_classifier(checkpoint, path, height, width);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "export_digits: %s\n", e.what());
    return 1;
  }
}
