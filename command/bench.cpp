// rill bench MODEL: how fast a model is, on random inputs, and where the time goes.
#include <chrono>

#include "command.h"
#include "files.h"
#include "terminal.h"
#include "timing.h"

namespace command {
namespace {

using rill::Tensor;

struct BenchSettings {
  ModelChoice model;
  std::vector<std::string> shapes;
  int64_t batch = 1;
  double seconds = 3;
  bool profile = false;
};

// The time of a call, by kernel.
void print_profile(const rill::Model& model, const std::map<std::string, Tensor>& inputs) {
  std::vector<Tensor> arguments;
  for (const rill::ValueInfo& v : model.inputs())
    if (auto found = inputs.find(v.name); found != inputs.end()) arguments.push_back(found->second);
  const rill::Profile p = rill::detail::profile_graph(model.graph(inputs, rill::Where()), arguments, {});
  print("\n{}", rill::to_string(p));
}

int bench(const BenchSettings& settings) {
  const auto start = std::chrono::steady_clock::now();
  auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const rill::Model model = read_model(settings.model, false);
  const double loaded = seconds();
  InputOptions options;
  options.shapes = parse_shapes(model, settings.shapes);
  options.batch = settings.batch;
  options.random = true;
  const std::map<std::string, Tensor> inputs = read_inputs(model, options);
  const double before_first = seconds();
  model(inputs, rill::Where());
  const double first = seconds() - before_first;
  rill::jit::wait();
  const double compiled = seconds() - before_first;
  rill::reset_peak_memory("cpu:0");
  const std::vector<double> times = time_for([&] { model(inputs, rill::Where()); }, settings.seconds);

  print("{}  {} threads\n\n", bold(settings.model.path), rill::num_threads());
  Table table("<<");
  for (const auto& [name, x] : inputs) table.add({"input " + green(name), spec_text(x)});
  table.add({"load", seconds_text(loaded)});
  table.add({"first call", seconds_text(first)});
  table.add({"compiled after", seconds_text(compiled)});
  table.add({bold("a call"), summary_of(times)});
  if (settings.batch > 1)
    table.add({"throughput", fmt::format("{:.4g} items/s", double(settings.batch) / median_of(times))});
  if (const std::string instead = model.without_one_trace(); !instead.empty()) table.add({"a call", "it " + instead});
  table.add({"peak memory", bytes_text(double(rill::memory_stats("cpu:0").peak))});
  print("{}", table.text());
  if (settings.profile) print_profile(model, inputs);
  return succeeded;
}

}  // namespace

void add_bench(Program& program) {
  auto s = std::make_shared<BenchSettings>();
  CLI::App* sub =
      add(program, "bench", "how fast a model is, on random inputs",
          {"rill bench net.onnx", "rill bench net.onnx --batch 8", "rill bench net.onnx --shape x=1,3,224,224",
           "rill --threads 1 bench net.onnx --seconds 10 --profile"});
  add_model_options(sub, s->model);
  sub->add_option("--batch", s->batch, "the first size of each input, where the file leaves it open")
      ->check(CLI::Range(int64_t(1), int64_t(1) << 32))
      ->capture_default_str();
  add_list(sub, "--shape", s->shapes, "sizes of an input: x=1,3,224,224");
  sub->add_option("--seconds", s->seconds, "how long to measure")->check(number_in(1e-9, 1e9))->capture_default_str();
  sub->add_flag("--profile", s->profile, "and what each kernel takes of it");
  on_call(program, sub, [s] { return bench(*s); });
}

}  // namespace command
