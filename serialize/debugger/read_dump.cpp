// Reading dumps. Start at DumpReading::run.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <unordered_map>

#include "debug_event.pb.h"
#include "rill/serialize/checkpoint/bundle.h"
#include "rill/serialize/debugger.h"
#include "rill/serialize/messages.h"
#include "rill/serialize/records.h"
#include "rill/serialize/save.h"
#include "rill/serialize/tensorflow/in/interpreter.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/tensor/limits.h"
#include "rill/tensor/moved_from.h"

namespace rill::debug {

namespace fs = std::filesystem;

class DumpReading {
 public:
  DumpReading(Dump& dump, const Where& where) : dump_(dump), where_(where) {}

  void run() {
    find_files();
    eager_graph();
    each("source_files", [this](const proto::DebugEvent& e) { add_source(e.source_file()); });
    each("stack_frames", [this](const proto::DebugEvent& e) { add_frame(e.stack_frame_with_id()); });
    each("graphs", [this](const proto::DebugEvent& e) {
      if (e.has_debugged_graph()) add_graph(e.debugged_graph());
      if (e.has_graph_op_creation()) add_node(e.graph_op_creation());
    });
    each("graph_execution_traces", [this](const proto::DebugEvent& e) { add_trace(e); });
    each("execution", [this](const proto::DebugEvent& e) { add_execution(e); });
    const auto earlier = [](const auto& a, const auto& b) { return a.call < b.call; };
    std::stable_sort(dump_.values_.begin(), dump_.values_.end(), earlier);
    std::map<std::tuple<int64_t, int, int>, int> times;
    for (DumpValue& v : dump_.values_) v.time = ++times[{v.call, v.node, v.output}];
  }

  static std::string path_of(const Dump& dump, std::string_view ending) {
    return fmt::format("{}/{}.{}", dump.folder_, dump.prefix_, ending);
  }

 private:
  [[noreturn]] void reject(const std::string& what) const {
    fail("debug::Dump", fmt::format("'{}': {}", dump_.folder_, what), where_);
  }

  void find_files() {
    constexpr std::string_view ending = ".metadata";
    std::vector<std::string> found;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(dump_.folder_, error))
      if (const std::string name = entry.path().filename().string();
          name.starts_with("tfdbg_events.") && name.ends_with(ending))
        found.push_back(name.substr(0, name.size() - ending.size()));
    if (found.empty()) reject(error ? error.message() : "there are no files tfdbg_events.*.metadata in this folder");
    std::sort(found.begin(), found.end());
    dump_.prefix_ = found.back();
  }

  void eager_graph() {
    dump_.graphs_.emplace_back();
    graph_by_id_[""] = 0;
  }

  template <class F>
  void each(std::string_view ending, const F& take) {
    const std::string path = path_of(dump_, ending);
    RecordReader in(path, {.cut_end = true}, where_);
    ending_ = ending;
    std::string bytes;
    for (;;) {
      place_ = in.place();
      if (!in.next(bytes, where_)) return;
      proto::DebugEvent event;
      if (!parse(bytes, event)) reject(fmt::format("record {} of the file .{} is damaged", place_.number, ending));
      take(event);
    }
  }

  void add_source(const proto::SourceFile& s) {
    files_.push_back(s.file_path());
    std::vector<std::string>& lines = dump_.sources_[s.file_path()];
    if (lines.empty()) lines.assign(s.lines().begin(), s.lines().end());
  }
  void add_frame(const proto::StackFrameWithId& f) { frames_[f.id()] = f.file_line_col(); }

  // The user's line: of an entire stack, as TensorFlow writes them, the innermost line whose source is in the dump.
  void set_place(const proto::CodeLocation& c, std::string& file, int64_t& line, std::string* function) const {
    for (const std::string& id : c.stack_frame_ids()) {
      const auto at = frames_.find(id);
      if (at == frames_.end()) continue;
      const auto index = size_t(at->second.file_index());
      if (index >= files_.size() || at->second.line() <= 0) continue;
      file = files_[index];
      line = at->second.line();
      if (function) *function = at->second.func();
    }
  }

  void add_graph(const proto::DebuggedGraph& g) {
    if (graph_by_id_.contains(g.graph_id())) return;
    graph_by_id_[g.graph_id()] = int(dump_.graphs_.size());
    DumpGraph graph;
    graph.id = g.graph_id();
    graph.name = g.graph_name();
    if (const auto at = graph_by_id_.find(g.outer_context_id()); at != graph_by_id_.end() && at->second)
      graph.outer = at->second;
    graph.inside = g.inside();
    graph.results.assign(g.results().begin(), g.results().end());
    dump_.graphs_.push_back(std::move(graph));
  }

  int add(int graph, DumpNode node) {
    const int number = int(dump_.nodes_.size());
    node.graph = graph;
    dump_.graphs_[size_t(graph)].nodes.push_back(number);
    dump_.graphs_[size_t(graph)].by_name.emplace(node.name, number);
    dump_.nodes_.push_back(std::move(node));
    return number;
  }

  void add_node(const proto::GraphOpCreation& o) {
    const auto graph = graph_by_id_.find(o.graph_id());
    if (graph == graph_by_id_.end() || !graph->second) reject(fmt::format("the graph of '{}' is missing", o.op_name()));
    DumpNode n;
    n.name = o.op_name();
    n.op = o.op_type();
    n.scope = o.scope();
    n.attributes = o.attributes();
    set_place(o.code_location(), n.file, n.line, &n.function);
    n.inputs.assign(o.input_names().begin(), o.input_names().end());
    n.outputs.assign(o.outputs().begin(), o.outputs().end());
    n.count = o.num_outputs();
    add(graph->second, std::move(n));
  }

  void add_trace(const proto::DebugEvent& e) {
    const proto::GraphExecutionTrace& t = e.graph_execution_trace();
    const auto graph = graph_by_id_.find(t.tfdbg_context_id());
    if (graph == graph_by_id_.end()) reject(fmt::format("the graph of a value of '{}' is missing", t.op_name()));
    const auto& names = dump_.graphs_[size_t(graph->second)].by_name;
    const auto node = names.find(t.op_name());
    if (node == names.end()) reject(fmt::format("the node '{}' of a value is missing", t.op_name()));
    DumpValue v;
    v.node = node->second;
    v.output = t.output_slot();
    v.step = e.step();
    v.call = t.call();
    describe(v, t.tensor_debug_mode(), t.tensor_proto(), t.has_health() ? &t.health() : nullptr, -1);
    dump_.values_.push_back(std::move(v));
  }

  void add_execution(const proto::DebugEvent& e) {
    const proto::Execution& x = e.execution();
    DumpCall call;
    call.name = x.op_type();
    call.step = e.step();
    call.number = x.call() ? x.call() : int64_t(dump_.calls_.size());
    call.inputs.assign(x.input_tensor_ids().begin(), x.input_tensor_ids().end());
    call.outputs.assign(x.output_tensor_ids().begin(), x.output_tensor_ids().end());
    set_place(x.code_location(), call.file, call.line, nullptr);
    if (const auto at = graph_by_id_.find(x.graph_id()); at != graph_by_id_.end() && at->second)
      call.graph = at->second;
    if (call.graph >= 0) {
      const std::vector<std::string>& results = dump_.graphs_[size_t(call.graph)].results;
      for (size_t k = 0; k < std::min(results.size(), call.outputs.size()); ++k) made_[call.outputs[k]] = results[k];
    } else {
      add_eager(e, call);
    }
    dump_.calls_.push_back(std::move(call));
  }

  void add_eager(const proto::DebugEvent& e, const DumpCall& call) {
    const proto::Execution& x = e.execution();
    DumpNode n;
    n.op = x.op_type();
    n.name = fmt::format("{}_{}", x.op_type(), call.number);
    n.file = call.file;
    n.line = call.line;
    if (!x.code_location().stack_frame_ids().empty()) set_place(x.code_location(), n.file, n.line, &n.function);
    for (const int64_t id : call.inputs) {
      const auto at = made_.find(id);
      n.inputs.push_back(at == made_.end() ? fmt::format("(tensor {})", id) : at->second);
    }
    n.count = x.num_outputs();
    const std::string name = n.name;
    const int node = add(0, std::move(n));
    for (int k = 0; k < x.tensor_protos_size(); ++k) {
      if (k < x.output_tensor_ids_size()) made_[x.output_tensor_ids(k)] = fmt::format("{}:{}", name, k);
      DumpValue v;
      v.node = node;
      v.output = k;
      v.step = e.step();
      v.call = call.number;
      describe(v, x.tensor_debug_mode(), x.tensor_protos(k), k < x.health_size() ? &x.health(k) : nullptr, k);
      dump_.nodes_[size_t(node)].outputs.push_back(fmt::format("{}{}", name_of_dtype(v), to_string(v.shape)));
      dump_.values_.push_back(std::move(v));
    }
  }
  static std::string_view name_of_dtype(const DumpValue& v) { return name(v.dtype); }

  void describe(DumpValue& v, proto::TensorDebugMode mode, const proto::TensorProto& p, const proto::RillHealth* more,
                int which) {
    v.has_tensor = mode == proto::FULL_TENSOR;
    v.place = {place_.number, place_.offset, which};
    if (more && more->counts_size() == 6) {
      from_proto(more->dtype(), v.dtype);
      for (const int64_t d : more->shape()) v.shape.push_back(d);
      if (!has_sound_size(Spec{v.shape, v.dtype, false, Device()}))
        reject(fmt::format("record {} of the file .{} has a shape that no tensor has", place_.number, ending_));
      v.path = more->file();
      v.has_tensor |= !v.path.empty() || more->has_elements();
      take_counts(v.health, [&](int k) { return more->counts(k); });
      if (more->finite_size() == 4) {
        v.health.least = more->finite(0);
        v.health.greatest = more->finite(1);
        v.health.mean = more->finite(2);
        v.health.variance = more->finite(3);
      }
      v.health.size = v.dtype == DType::string ? v.shape.numel() : size_of_counts(v.health);
    } else if (v.has_tensor) {  // of TensorFlow
      const Tensor t = tensorflow_in::read_tensor(p, "a value of the dump");
      v.dtype = t.dtype();
      v.shape = t.shape();
      v.health = health_of(t);
    } else {
      take_summary(v, mode, p);
    }
  }

  template <class F>
  static void take_counts(Health& h, const F& count) {
    h.negative_infinite = count(0), h.positive_infinite = count(1), h.nan = count(2);
    h.negative = count(3), h.zero = count(4), h.positive = count(5);
  }
  static int64_t size_of_counts(const Health& h) {
    return h.negative_infinite + h.positive_infinite + h.nan + h.finite();
  }

  // Health numbers written by TensorFlow.
  void take_summary(DumpValue& v, proto::TensorDebugMode mode, const proto::TensorProto& p) const {
    if (p.dtype() != proto::DT_DOUBLE) return;
    const std::vector<double> x = tensorflow_in::read_tensor(p, "a summary of the dump").to_vector<double>();
    const auto number = [&](size_t k) { return k < x.size() && std::fabs(x[k]) < 1e18 ? int64_t(x[k]) : 0; };
    if (mode == proto::FULL_HEALTH) {
      from_proto(proto::DataType(int(number(2))), v.dtype);
      v.health.size = number(4);
      take_counts(v.health, [&](int k) { return number(size_t(5 + k)); });
    } else if (mode == proto::CONCISE_HEALTH) {
      v.health.size = number(1);
      v.health.negative_infinite = number(2), v.health.positive_infinite = number(3), v.health.nan = number(4);
    } else if (mode == proto::CURT_HEALTH) {
      v.health.nan = number(1);
    } else if (mode == proto::SHAPE) {
      from_proto(proto::DataType(int(number(1))), v.dtype);
      v.health.size = number(3);
    }
  }

  Dump& dump_;
  const Where where_;
  std::string ending_;
  RecordPlace place_;
  std::vector<std::string> files_;
  std::map<std::string, proto::FileLineCol> frames_;
  std::map<std::string, int> graph_by_id_;
  std::unordered_map<int64_t, std::string> made_;  // by the id of a tensor: "relu_3:0"
};

struct Dump::Readers {
  ForkMutex mutex;
  std::map<std::string, RecordReader> open;
  // Reads the record at `place` into `bytes`. False if there is none.
  bool read(const std::string& path, const RecordPlace& place, std::string& bytes, const Where& where) {
    const std::lock_guard lock(mutex);
    auto at = open.find(path);
    if (at == open.end()) at = open.try_emplace(path, path, RecordReaderOptions(), where).first;
    at->second.go_to(place, where);
    return at->second.next(bytes, where);
  }
};

Dump::Dump(const std::string& folder, Where where) : folder_(folder), readers_(std::make_shared<Readers>()) {
  DumpReading(*this, where).run();
}

std::string Dump::name_of(const DumpValue& v) const {
  if (size_t(v.node) >= nodes_.size())
    fail("Dump.name_of", "the value is none of this dump, or the dump was moved from");
  const DumpNode& n = nodes_[size_t(v.node)];
  bool twice = false;
  for (size_t g = 0; g < size_t(n.graph); ++g) twice |= graphs_[g].by_name.contains(n.name);
  return fmt::format("{}{}:{}", twice ? graphs_[size_t(n.graph)].name + "/" : "", n.name, v.output);
}

Tensor Dump::tensor(const DumpValue& v, Where where) const {
  Readers& readers = owned(readers_, "Dump.tensor", where);
  if (!v.has_tensor)
    fail("Dump.tensor",
         fmt::format("the dump has the health of '{}' alone. dump with {{.tensors = true}} for the elements",
                     name_of(v)),
         where);
  if (!v.path.empty()) {
    if (v.path.find("..") != v.path.npos || v.path.starts_with('/'))
      fail("Dump.tensor", fmt::format("'{}' is no file of the dump", v.path), where);
    const NamedTensors read = load(folder_ + "/" + v.path, {}, where);
    if (read.size() != 1) fail("Dump.tensor", fmt::format("'{}' is no file of the dump", v.path), where);
    return read.begin()->second;
  }
  const bool eager = v.place[2] >= 0;
  const std::string path = DumpReading::path_of(*this, eager ? "execution" : "graph_execution_traces");
  std::string bytes;
  proto::DebugEvent event;
  if (!readers.read(path, {v.place[0], v.place[1]}, bytes, where) || !parse(bytes, event))
    fail("Dump.tensor", fmt::format("'{}' is damaged", path), where);
  const proto::Execution& x = event.execution();
  const proto::GraphExecutionTrace& t = event.graph_execution_trace();
  const int k = int(std::max<int64_t>(v.place[2], 0));
  if (eager && k >= x.tensor_protos_size()) fail("Dump.tensor", fmt::format("'{}' is damaged", path), where);
  const proto::RillHealth more = !eager ? t.health() : k < x.health_size() ? x.health(k) : proto::RillHealth();
  const proto::TensorProto& of_tensorflow = eager ? x.tensor_protos(k) : t.tensor_proto();
  return tensorflow_in::read_tensor(more.has_elements() ? more.elements() : of_tensorflow, name_of(v));
}

const std::vector<std::string>& Dump::source(const std::string& file) const& {
  static const std::vector<std::string> none;
  const auto at = sources_.find(file);
  return at == sources_.end() ? none : at->second;
}

}  // namespace rill::debug
