// export_profile: Chrome's trace events ("Trace Event Format", the Chromium project), Model Explorer's node data (its
// node_data_builder.py says what the keys mean), and TensorFlow's RunMetadata in an event file, for TensorBoard.
#include <filesystem>
#include <map>

#include <nlohmann/json.hpp>

#include "rill/ops/apply.h"
#include "rill/serialize/events.h"
#include "rill/serialize/files.h"
#include "rill/serialize/messages.h"
#include "rill/serialize/tensorboard/run_metadata.h"
#include "rill/serialize/viewers/html.h"
#include "rill/trace/graph/graph_names.h"
#include "rill/trace/profile.h"

namespace rill {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view profile_op = "export_profile";

// Names may contain any bytes; invalid UTF-8 is replaced, because JSON must be UTF-8.
std::string text_of(const Json& json) { return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::string to_chrome_trace(const Profile& p) {
  Json events = Json::array();
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"tid", 1}, {"args", {{"name", "rill"}}}});
  events.push_back({{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", 1}, {"args", {{"name", p.function}}}});
  for (const Profile::Span& span : p.spans) {
    const KernelProfile& k = p.kernels[size_t(span.kernel)];
    Json args = {{"output", k.output},
                 {"scope", k.scope},
                 {"source", k.where},
                 {"inside", k.inside},
                 {"calls", k.calls},
                 {"mean_us", k.calls ? 1e6 * k.seconds / double(k.calls) : 0.0},
                 {"bytes_read", k.bytes_read},
                 {"bytes_written", k.bytes_written},
                 {"percent_of_limit", k.percent_of_limit},
                 {"limit", k.compute_bound ? "compute" : "memory"}};
    if (k.flops > 0) args["flops"] = k.flops;
    events.push_back({{"name", k.name},
                      {"cat", "kernel"},
                      {"ph", "X"},
                      {"ts", 1e6 * span.start},
                      {"dur", 1e6 * span.seconds},
                      {"pid", 1},
                      {"tid", 1},
                      {"args", std::move(args)}});
  }
  return text_of({{"displayTimeUnit", "ns"}, {"traceEvents", std::move(events)}});
}

std::string to_node_data(const Profile& p) {
  const GraphNames names = name_graph(p.graph);
  Json results = Json::object();
  for (const KernelProfile& k : p.kernels)
    if (k.depth == 0)
      results[names.nodes[size_t(k.node)].id] = {{"value", k.calls ? 1e6 * k.seconds / double(k.calls) : 0.0}};
  Json gradient = Json::array();
  gradient.push_back({{"stop", 0}, {"bgColor", "#fff5d6"}});
  gradient.push_back({{"stop", 1}, {"bgColor", "#e8603c"}});
  Json all = Json::object();
  all[p.graph.name.empty() ? "graph" : p.graph.name] = {{"results", std::move(results)},
                                                        {"gradient", std::move(gradient)}};
  return text_of(all);
}

// The page of html.h, with the time of each node.
std::string to_html(const Profile& p) {
  std::map<int32_t, double> seconds;
  for (const KernelProfile& k : p.kernels)
    if (k.depth == 0) seconds[k.node] = k.calls ? k.seconds / double(k.calls) : 0.0;
  return html_page(p.graph, seconds);
}

std::string to_event_file(const Profile& p) {
  proto::Event graph = event_now(0);
  graph.set_graph_def(bytes_of(to_proto(p.graph)));
  const proto::Event stats = profile_event(p.function.empty() ? "profile" : p.function, p, 0);
  return record(version_event()) + record(bytes_of(graph)) + record(bytes_of(stats));
}

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() > end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

void export_profile(const Profile& p, const std::string& path, Where where) {
  CallerScope caller(where);
  EagerScope eager;  // constants are read, also when the call stands inside a function
  const std::filesystem::path file(path);
  const std::string extension = file.extension().string();
  if (path.empty())
    fail(profile_op, "the path is empty. name a file (.json, .nodes.json, .html) or a folder for TensorBoard", where);
  const bool is_folder = extension.size() < 2 || (extension[1] >= '0' && extension[1] <= '9');
  std::error_code error;  // such as no permission to look: writing says so
  if (std::filesystem::is_directory(file, error) || !file.has_filename() || is_folder)
    return write_file((file / event_file_name()).string(), to_event_file(p), profile_op, where);
  if (ends_with(path, ".nodes.json")) return write_file(path, to_node_data(p), profile_op, where);
  if (extension == ".json") return write_file(path, to_chrome_trace(p), profile_op, where);
  if (extension == ".html" || extension == ".htm") return write_file(path, to_html(p), profile_op, where);
  fail(profile_op,
       "'" + path + "': no format is known by '" + extension +
           "'. use .html (any browser), .nodes.json (Model Explorer), .json (Chrome, Perfetto) or a folder "
           "(TensorBoard)",
       where);
}

}  // namespace rill
