// export_profile: Chrome's trace events ("Trace Event Format", the Chromium project), Model Explorer's node data (its
// node_data_builder.py says what the keys mean), and TensorFlow's RunMetadata in an event file, for TensorBoard.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>

#include <nlohmann/json.hpp>

#include "rill/ops/apply.h"
#include "rill/serialize/events.h"
#include "rill/serialize/files.h"
#include "rill/serialize/graph_names.h"
#include "rill/serialize/messages.h"
#include "rill/trace/profile.h"

namespace rill {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view op = "export_profile";

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

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

proto::RunMetadata run_metadata(const Profile& p) {
  proto::RunMetadata run;
  const GraphNames names = name_graph(p.graph);
  const int64_t now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  std::map<std::string, proto::DeviceStepStats*> devices;
  std::vector<double> start(p.kernels.size());
  for (const Profile::Span& span : p.spans) start[size_t(span.kernel)] = span.start;
  for (const KernelProfile& k : p.kernels) {
    if (k.depth > 0) continue;  // in the time of the node that holds it
    const Node& n = p.graph.nodes()[size_t(k.node)];
    const std::string device = n.outputs.empty() ? "cpu:0" : to_string(n.outputs[0].device);
    proto::DeviceStepStats*& of_device = devices[device];
    if (!of_device) {
      of_device = run.mutable_step_stats()->add_dev_stats();
      of_device->set_device("/device:CPU:" + device.substr(device.find(':') + 1));
    }
    proto::NodeExecStats& s = *of_device->add_node_stats();
    const int64_t begin = now + nanoseconds(start[size_t(&k - p.kernels.data())]);
    const int64_t length = nanoseconds(k.calls ? k.seconds / double(k.calls) : 0);
    s.set_node_name(names.nodes[size_t(k.node)].id);
    s.set_timeline_label(k.name);
    s.set_all_start_micros(begin / 1000);
    s.set_scheduled_micros(begin / 1000);
    s.set_op_end_rel_micros(std::max<int64_t>(1, (length + 500) / 1000));  // the viewer leaves out what took none
    s.set_all_end_rel_micros(s.op_end_rel_micros());
    s.set_all_start_nanos(begin);
    s.set_op_end_rel_nanos(length);
    s.set_all_end_rel_nanos(length);
  }
  proto::RunMetadata::FunctionGraphs& graphs = *run.add_function_graphs();
  *graphs.mutable_pre_optimization_graph() = to_proto(p.graph);
  *graphs.add_partition_graphs() = graphs.pre_optimization_graph();
  return run;
}

std::string to_event_file(const Profile& p) {
  proto::Event graph = event_now(0), stats = event_now(0);
  graph.set_graph_def(bytes_of(to_proto(p.graph)));
  proto::Summary::Value& value = *stats.mutable_summary()->add_value();
  value.set_tag(p.function.empty() ? "profile" : p.function);
  // What TensorFlow's summary.run_metadata writes; the content is its version.
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("graph_run_metadata");
  value.mutable_metadata()->mutable_plugin_data()->set_content("1");
  value.mutable_metadata()->set_data_class(proto::DATA_CLASS_BLOB_SEQUENCE);
  value.mutable_tensor()->set_dtype(proto::DT_STRING);
  value.mutable_tensor()->mutable_tensor_shape();
  value.mutable_tensor()->add_string_val(bytes_of(run_metadata(p)));
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
  if (path.empty()) fail(op, "the path is empty. name a file (.json, .nodes.json) or a folder for TensorBoard", where);
  const bool is_folder = extension.size() < 2 || (extension[1] >= '0' && extension[1] <= '9');
  if (std::filesystem::is_directory(file) || !file.has_filename() || is_folder)
    return write_file((file / event_file_name()).string(), to_event_file(p), op, where);
  if (ends_with(path, ".nodes.json")) return write_file(path, to_node_data(p), op, where);
  if (extension == ".json") return write_file(path, to_chrome_trace(p), op, where);
  fail(op,
       "'" + path + "': no format is known by '" + extension +
           "'. use .nodes.json (Model Explorer), .json (Chrome, Perfetto) or a folder (TensorBoard)",
       where);
}

}  // namespace rill
