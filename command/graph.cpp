// rill graph MODEL -o FILE: the model's graph for a viewer.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "command.h"
#include "files.h"
#include "terminal.h"

namespace command {
namespace {

struct GraphSettings {
  ModelChoice model;
  std::string out;
  std::vector<std::string> shapes;
  bool optimize = false;
};

// `path` quoted for a shell.
std::string quoted(const std::string& path) {
  std::string text = "'";
  for (const char c : path) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// Runs Graphviz. The picture gets its final name once it is complete.
void write_picture(const rill::Graph& g, const std::string& path, const std::string& format) {
  const std::string beside = fmt::format("{}.{}.dot", path, getpid()), part = fmt::format("{}.{}.part", path, getpid());
  rill::export_graph(g, beside, rill::Where());
  const std::string line = fmt::format("dot -T{} -o {} {}", format, quoted(part), quoted(beside));
  const int status = std::system(line.c_str());
  std::error_code none;
  std::filesystem::remove(beside, none);
  if (status != 0) {
    std::filesystem::remove(part, none);
    throw std::runtime_error(fmt::format(
        "'{}' is drawn by Graphviz, and its program `dot` {}. .dot, .html and .json need no other program", path,
        status == -1 || WEXITSTATUS(status) == 127 ? "is not installed (apt-get install graphviz)" : "has failed"));
  }
  std::filesystem::rename(part, path);
}

int write(const GraphSettings& settings) {
  const bool picture = ends_in(settings.out, {".svg", ".png", ".pdf"});
  const rill::Model model = read_model(settings.model, true);
  rill::Graph g = graph_of(model, parse_shapes(model, settings.shapes));
  if (settings.optimize) g = rill::optimize(std::move(g));
  if (settings.out.empty()) {
    print("{}", rill::to_string(g));
    return succeeded;
  }
  if (picture) write_picture(g, settings.out, extension_of(settings.out).substr(1));
  else rill::export_graph(g, settings.out, rill::Where());
  note(fmt::format("{} nodes in {}", count_text(int64_t(g.nodes().size())), settings.out));
  return succeeded;
}

}  // namespace

void add_graph(Program& program) {
  auto settings = std::make_shared<GraphSettings>();
  CLI::App* sub =
      add(program, "graph", "the model's graph for a viewer",
          {"rill graph net.onnx -o net.html     # a page for any browser",
           "rill graph net.onnx -o net.json     # Model Explorer", "rill graph net.onnx -o net.svg      # by Graphviz",
           "rill graph net.onnx -o logs/net     # TensorBoard", "rill graph net.onnx | less          # as text"});
  add_model_options(sub, settings->model);
  sub->add_option(
      "-o,--output", settings->out,
      ".html, .dot, .json, .pb, a folder for TensorBoard, or by Graphviz .svg, .png, .pdf; without, text on "
      "the standard output");
  add_list(sub, "--shape", settings->shapes, "sizes of an input that the file leaves open: x=1,3,224,224");
  sub->add_flag("--optimize", settings->optimize,
                "as it is run: constants folded, equal nodes merged (needs all sizes)");
  on_call(program, sub, [settings] { return write(*settings); });
}

}  // namespace command
