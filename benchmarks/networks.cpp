// The rows onnx_*: networks of tests/fixtures/onnx/networks.py by import_model, with constant weights. run.py creates
// their files in the folder that RILL_BENCH_NETWORKS names; peers/peer_onnxruntime.py runs the same ones.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;
using benchmark::State;

namespace {

constexpr int64_t tokens = 128;

// Random images, token numbers, and masks that hide nothing.
Tensor example(const ValueInfo& v, int64_t batch) {
  Shape shape;
  for (size_t i = 0; i < v.shape.size(); ++i)
    shape.push_back(v.shape[i].is_open() || v.shape[i] < 0 ? Dim(i == 0 ? batch : tokens) : Dim(v.shape[i]));
  if (v.dtype == f32) return random::normal(shape);
  if (v.name.find("mask") != std::string::npos) return ones(shape, v.dtype);
  return (iota(shape, 1) * 37 % 5000).astype(v.dtype);
}

void network(State& state, const std::string& name, int64_t batch) {
  const char* folder = std::getenv("RILL_BENCH_NETWORKS");
  if (!folder) return state.SkipWithError("RILL_BENCH_NETWORKS does not say where the networks are");
  const Model net = import_model(std::string(folder) + "/" + name + ".onnx", {.trainable = false});
  std::map<std::string, Tensor> inputs;
  for (const ValueInfo& v : net.inputs()) inputs[v.name] = example(v, batch);
  net(inputs);  // traces and compiles
  for (auto _ : state) {
    auto result = net(inputs);
    benchmark::DoNotOptimize(result);
  }
}

#define NETWORK(name)                                                   \
  void onnx_##name(State& state) { network(state, #name, 1); }          \
  void onnx_##name##_batch8(State& state) { network(state, #name, 8); } \
  BENCHMARK(onnx_##name)->UseRealTime()->Unit(benchmark::kMicrosecond); \
  BENCHMARK(onnx_##name##_batch8)->UseRealTime()->Unit(benchmark::kMicrosecond)

NETWORK(resnet50);
NETWORK(mobilenet_v3);
NETWORK(bert);
NETWORK(gpt);
NETWORK(lstm);
NETWORK(keywords);

}  // namespace

BENCHMARK_MAIN();
