// One NodeExecStats for each kernel that is a node of the graph; see run_metadata.h.
#include "rill/serialize/tensorboard/run_metadata.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "rill/trace/graph/graph_names.h"

namespace rill {
namespace {

// What the node's results take. The viewer adds up `memory`, and shows the shapes of `output`.
void add_memory(proto::NodeExecStats& s, const Node& node, const std::string& device) {
  int64_t total = 0;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const Spec& spec = node.outputs[i];
    int64_t bytes = int64_t(size_of(spec.dtype));
    for (int64_t size : spec.shape) bytes *= std::max<int64_t>(size, 0);  // an open size: not known, so nothing
    total += bytes;
    proto::NodeOutput& output = *s.add_output();
    output.set_slot(int32_t(i));
    proto::TensorDescription& tensor = *output.mutable_tensor_description();
    tensor.set_dtype(to_proto(spec.dtype));
    *tensor.mutable_shape() = to_proto(spec.shape);
    tensor.mutable_allocation_description()->set_requested_bytes(bytes);
    tensor.mutable_allocation_description()->set_allocated_bytes(bytes);
    tensor.mutable_allocation_description()->set_allocator_name(device);
  }
  proto::AllocatorMemoryUsed& memory = *s.add_memory();
  memory.set_allocator_name(device);
  memory.set_total_bytes(total);
  memory.set_peak_bytes(total);
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
    add_memory(s, n, device);
  }
  proto::RunMetadata::FunctionGraphs& graphs = *run.add_function_graphs();
  *graphs.mutable_pre_optimization_graph() = to_proto(p.graph);
  *graphs.add_partition_graphs() = graphs.pre_optimization_graph();
  return run;
}

}  // namespace

proto::Event profile_event(const std::string& name, const Profile& p, int64_t step) {
  proto::Event event = event_now(step);
  proto::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(name);
  // What TensorFlow's summary.run_metadata writes; the content is its version. Without a class: TensorBoard makes a
  // list of one of the scalar, and gives it the class.
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("graph_run_metadata");
  value.mutable_metadata()->mutable_plugin_data()->set_content("1");
  value.mutable_tensor()->set_dtype(proto::DT_STRING);
  value.mutable_tensor()->mutable_tensor_shape();
  value.mutable_tensor()->add_string_val(bytes_of(run_metadata(p)));
  return event;
}

}  // namespace rill
