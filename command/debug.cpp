// rill debug: inspects dumps of values, and models as they run. debugger.h describes a session.
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <iostream>

#include "debugger.h"
#include "files.h"
#include "terminal.h"

namespace command {
namespace {

struct DebugSettings {
  ModelChoice model;
  InputOptions inputs;
  std::vector<std::string> shapes, lines, sources;
  std::string dump;
  int64_t seed = 1;
};

bool is_dump(const std::string& path) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error))
    if (entry.path().filename().string().starts_with("tfdbg_events.")) return true;
  return false;
}

// A temporary folder of this process, removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(std::filesystem::temp_directory_path() / fmt::format("rill-debug-{}", getpid())) {}
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::unique_ptr<Debugger> session_of_model(DebugSettings& s, const std::string& folder) {
  auto model = std::make_shared<const rill::Model>(read_model(s.model, false));
  rill::random::seed(uint64_t(s.seed));
  s.inputs.shapes = parse_shapes(*model, s.shapes);
  const auto inputs = std::make_shared<const std::map<std::string, rill::Tensor>>(read_inputs(*model, s.inputs));
  const auto run = [model, inputs](const std::string& to) {
    const rill::debug::Dumper dumper(to, {.tensors = true}, rill::Where());
    rill::debug::DumpScope scope(dumper, 0, rill::Where());
    (*model)(*inputs, rill::Where());
    scope.close(rill::Where());
  };
  auto steps = std::make_unique<rill::GraphRun>(model->graph(*inputs, rill::Where()),
                                                rill::GraphFeeds(inputs->begin(), inputs->end()),
                                                std::vector<rill::GraphValue>(), rill::Where());
  return std::make_unique<Debugger>(run, folder, std::move(steps));
}

// Executes a line and prints its errors; returns whether to continue.
bool carry_out(Debugger& debugger, const std::string& line, bool& failed_once) {
  try {
    return debugger.run_line(line);
  } catch (const std::exception& e) {
    std::fflush(stdout);
    fmt::print(stderr, "rill: {}\n", visible_lines(without_function(e.what())));
    failed_once = true;
    return true;
  }
}

int debug(DebugSettings s) {
  const TemporaryFolder temporary;
  std::unique_ptr<Debugger> debugger;
  if (is_dump(s.model.path)) {
    if (!s.inputs.files.empty() || !s.inputs.single.empty() || s.inputs.random)
      throw UsageError(fmt::format("'{}' is a dump, which takes no inputs", s.model.path));
    debugger = std::make_unique<Debugger>(std::make_unique<rill::debug::Dump>(s.model.path, rill::Where()));
  } else {
    debugger = session_of_model(s, s.dump.empty() ? temporary.path() : s.dump);
  }
  debugger->add_sources(s.sources);
  bool failed_once = false;
  if (!s.lines.empty()) {
    for (const std::string& line : s.lines)
      if (!carry_out(*debugger, line, failed_once)) break;
    return failed_once ? failed : succeeded;
  }
  LineReader reader([&](const std::string& begun, bool first) { return debugger->completions(begun, first); });
  print("{}", debugger->greeting());
  while (const std::optional<std::string> line = reader.next("rill> "))
    if (!carry_out(*debugger, *line, failed_once)) break;
  return failed_once && !reader.is_terminal() ? failed : succeeded;
}

}  // namespace

void add_debug(Program& program) {
  auto s = std::make_shared<DebugSettings>();
  CLI::App* sub =
      add(program, "debug", "look into the values of a dump, or of a model as it runs",
          {"rill debug dumps/nan                                  # what debug::dump() wrote",
           "rill debug net.onnx --inputs x.npz                    # then: run, or step",
           "rill debug dumps/nan -c 'lt -f has_inf_or_nan' -c 'ni layer1/log'",
           "rill debug net.onnx --random --dump dumps/net -c run  # for TensorBoard: tensorboard --logdir dumps/net"});
  sub->add_option("PATH", s->model.path,
                  "the folder of a dump; or a model: .onnx, .rill, .pb, the folder of a SavedModel")
      ->required();
  add_signature_options(sub, s->model);
  add_list(sub, "-c,--command", s->lines, "a line to carry out, instead of asking for lines");
  add_list(sub, "--sources", s->sources, "a folder with source files that the dump does not have");
  add_list(sub, "--inputs", s->inputs.files, "of a model: files with tensors by the names of inputs");
  add_list(sub, "--input", s->inputs.single, "of a model: NAME=FILE, as of `rill run`");
  sub->add_flag("--random", s->inputs.random, "of a model: random numbers for the inputs that no file gives");
  sub->add_option("--seed", s->seed, "of --random")->capture_default_str();
  add_list(sub, "--shape", s->shapes, "sizes of a random input: x=1,3,224,224");
  sub->add_flag("--cast", s->inputs.cast, "convert numbers to what the model takes");
  sub->add_option("--dump", s->dump, "of a model: where `run` dumps to, and leaves it; else a temporary folder");
  on_call(program, sub, [s] { return debug(*s); });
}

}  // namespace command
