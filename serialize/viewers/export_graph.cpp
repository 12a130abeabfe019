// export_graph: which format a path asks for, and its bytes on the disk. The formats are in dot.cpp, html.cpp,
// model_explorer.cpp and graph_def.cpp.
#include "rill/ops/apply.h"
#include "rill/trace/export.h"

#include <filesystem>

#include "rill/serialize/events.h"
#include "rill/serialize/files.h"
#include "rill/serialize/graph_formats.h"
#include "rill/serialize/messages.h"

namespace rill {
namespace {

constexpr std::string_view op = "export_graph";

// ".svg", ".json": a dot and a letter, so that "run-0.1" and "2024.05" are names of folders.
bool is_extension(const std::string& text) { return text.size() > 1 && !(text[1] >= '0' && text[1] <= '9'); }

std::string event_file(const Graph& g) {
  proto::Event event = event_now(0);
  event.set_graph_def(to_graph_def(g));
  return record(version_event()) + record(bytes_of(event));
}

}  // namespace

void export_graph(const Graph& g, const std::string& path, Where where) {
  CallerScope caller(where);
  EagerScope eager;  // constants are read, also when the call stands inside a function
  std::filesystem::path p(path);
  const std::string extension = extension_of(path);
  if (path.empty())
    fail(op, "the path is empty. name a file (.html, .dot, .json, .pb) or a folder for TensorBoard", where);
  std::error_code error;  // such as no permission to look: writing says so
  if (std::filesystem::is_directory(p, error) || !p.has_filename() || !is_extension(extension))
    return write_file((p / event_file_name()).string(), event_file(g), op, where);
  if (extension == ".dot" || extension == ".gv") return write_file(path, to_dot(g), op, where);
  if (extension == ".json") return write_file(path, to_model_explorer(g), op, where);
  if (extension == ".html" || extension == ".htm") return write_file(path, to_html(g), op, where);
  if (extension == ".pb") return write_file(path, to_graph_def(g), op, where);
  fail(op,
       "'" + path + "': no format is known by '" + extension +
           "'. use .html (any browser), .dot or .gv (Graphviz), .json (Model Explorer), .pb (GraphDef) or a folder "
           "(TensorBoard)",
       where);
}

}  // namespace rill
