// rill run MODEL: a model, or a part of it, on inputs from files.
#include <rill/trace/graph/graph_names.h>

#include <algorithm>

#include "command.h"
#include "files.h"
#include "terminal.h"
#include "timing.h"

namespace command {
namespace {

using rill::Tensor;

struct RunSettings {
  ModelChoice model;
  std::string out;
  InputOptions inputs;
  std::vector<std::string> shapes, fetches;
  bool steps = false, time = false;
  int64_t repeat = 1, seed = 1;
};

// In the order in which they are printed.
using Outputs = std::vector<std::pair<std::string, Tensor>>;

Outputs run_parts(const rill::Graph& g, const std::map<std::string, Tensor>& inputs,
                  const std::vector<std::string>& fetches) {
  const rill::GraphFeeds feeds(inputs.begin(), inputs.end());
  const std::vector<Tensor> values = g.run(feeds, {fetches.begin(), fetches.end()}, rill::Where());
  Outputs out;
  for (size_t i = 0; i < fetches.size(); ++i) out.emplace_back(fetches[i], values[i]);
  return out;
}

Outputs run_model(const rill::Model& model, const std::map<std::string, Tensor>& inputs) {
  std::map<std::string, Tensor> all = model(inputs, rill::Where());
  Outputs out;
  for (const rill::ValueInfo& v : model.outputs())
    if (auto found = all.extract(v.name)) out.emplace_back(v.name, found.mapped());
  for (const auto& [name, x] : all) out.emplace_back(name, x);  // those of sequences
  return out;
}

// "-1.2 to 3.4, mean 0.1", for numbers.
std::string range_of(const Tensor& x) {
  if (x.size() == 0 || !(rill::is_floating(x.dtype()) || rill::is_integer(x.dtype()))) return "";
  const Tensor y = x.astype(rill::f64);
  return fmt::format("{:.4g} to {:.4g}, mean {:.4g}", rill::min(y).item<double>(), rill::max(y).item<double>(),
                     rill::mean(y).item<double>());
}

// Prints a line for each node as it runs: its name, its result, and the result's range.
void run_steps(const rill::Graph& g, const std::map<std::string, Tensor>& inputs) {
  const rill::GraphNames names = rill::name_graph(g);
  rill::GraphRun run(g, rill::GraphFeeds(inputs.begin(), inputs.end()), {}, rill::Where());
  Table table("<<<<");
  while (run.step()) {
    const auto i = size_t(run.node());
    for (size_t k = 0; k < g.nodes()[i].outputs.size(); ++k) {
      const Tensor& x = run.value(rill::ValueId{run.node(), int32_t(k)});
      table.add({k ? "" : fmt::format("%{}", i), k ? "" : green(names.nodes[i].id), spec_text(x), range_of(x)});
    }
  }
  print("{}", table.text(0));
}

void show(const Outputs& outputs) {
  for (const auto& [name, x] : outputs) print("{}  {}\n{}\n", green(name), dim(spec_text(x)), rill::to_string(x));
}

int run(RunSettings settings) {
  if (settings.repeat > 1 && settings.steps) throw UsageError("--steps runs once, and --repeat many times");
  if (settings.steps && !(settings.out.empty() && settings.fetches.empty()))
    throw UsageError("--steps prints what each node gives: it takes no --outputs and no --fetch");
  if (!settings.out.empty()) require_tensor_file(settings.out, settings.fetches.size());
  const rill::Model model = read_model(settings.model, false);
  if (!settings.out.empty() && settings.fetches.empty()) require_tensor_file(settings.out, model.outputs().size());
  rill::random::seed(uint64_t(settings.seed));
  settings.inputs.shapes = parse_shapes(model, settings.shapes);
  const std::map<std::string, Tensor> inputs = read_inputs(model, settings.inputs);
  if (settings.steps) {
    run_steps(model.graph(inputs, rill::Where()), inputs);
    return succeeded;
  }
  const bool parts = !settings.fetches.empty();
  const rill::Graph g = parts ? model.graph(inputs, rill::Where()) : rill::Graph();
  Outputs outputs;
  auto call = [&] { outputs = parts ? run_parts(g, inputs, settings.fetches) : run_model(model, inputs); };
  if (settings.repeat > 1) {  // the first, which traces, is not timed
    call();
    rill::jit::wait();
  }
  const std::vector<double> seconds = time_calls(call, settings.repeat);
  if (settings.out.empty()) {
    show(outputs);
  } else {
    if (ends_in(settings.out, {".npy"}) && outputs.size() == 1)
      rill::save(settings.out, outputs[0].second, {}, rill::Where());
    else rill::save(settings.out, rill::NamedTensors(outputs.begin(), outputs.end()), {}, rill::Where());
    note(fmt::format("{} tensors in {}", outputs.size(), settings.out));
  }
  if (settings.time) note(settings.repeat > 1 ? summary_of(seconds) : "first call " + seconds_text(seconds[0]));
  return succeeded;
}

}  // namespace

void add_run(Program& program) {
  auto s = std::make_shared<RunSettings>();
  CLI::App* sub = add(program, "run", "run a model on inputs from files",
                      {"rill run net.onnx --inputs x.npz --outputs y.npz", "rill run net.onnx --input x=x.npy",
                       "rill run digits.onnx --input t10k-images-idx3-ubyte.gz[0:5]     # rows 0 to 4",
                       "rill run digits.onnx --input images=digit.png", "rill run net.onnx --input ids=data.npz:tokens",
                       "rill run net.onnx --random --repeat 100 --time --outputs y.npz",
                       "rill run net.onnx --inputs x.npz --fetch layer1/relu          # a value inside",
                       "rill run net.onnx --inputs x.npz --steps                      # node by node"});
  add_model_options(sub, s->model);
  add_list(sub, "--inputs", s->inputs.files, "files with tensors by the names of inputs: .npz, .safetensors, .npy");
  add_list(sub, "--input", s->inputs.single,
           "NAME=FILE: a tensor from .npy, .npz, .safetensors, .csv, .png or IDX; FILE[2:5] takes rows, "
           "FILE:NAME one of several tensors; of a model with one input, FILE is enough");
  sub->add_flag("--random", s->inputs.random, "random numbers for the inputs that no file gives");
  sub->add_option("--seed", s->seed, "of --random")->capture_default_str();
  add_list(sub, "--shape", s->shapes, "sizes of a random input: x=1,3,224,224");
  sub->add_flag("--cast", s->inputs.cast, "convert numbers to what the model takes");
  sub->add_option("-o,--outputs", s->out,
                  "where to put the outputs: .npz, .safetensors, or .npy for one; without, they are printed");
  add_list(sub, "--fetch", s->fetches, "values to compute instead of the outputs: names as viewers show them, or %3");
  sub->add_flag("--steps", s->steps, "run node by node and print what each gives");
  sub->add_option("--repeat", s->repeat, "how often to run")->check(CLI::Range(int64_t(1), int64_t(1000000000)));
  sub->add_flag("--time", s->time, "say how long it took, on the standard error");
  on_call(program, sub, [s] { return run(*s); });
}

}  // namespace command
