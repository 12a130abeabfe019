// See dump_files.h.
#include "rill/serialize/debugger/dump_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>

#include "rill/devices/params/attr_list.h"
#include "rill/ops/op.h"
#include "rill/ops/ops.h"
#include "rill/serialize/files.h"
#include "rill/serialize/records.h"
#include "rill/serialize/save.h"

namespace rill::debug {

namespace fs = std::filesystem;

namespace {

std::string name_of_host() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0 || !name[0]) return "localhost";
  return name;
}

proto::DebugEvent event_at(int64_t step) {
  proto::DebugEvent e;
  e.set_wall_time(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count());
  e.set_step(step);
  return e;
}

constexpr const char* endings[] = {"metadata", "source_files", "stack_frames",
                                   "graphs",   "execution",    "graph_execution_traces"};

void take_away_dump(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().filename().string().starts_with("tfdbg_events.")) fs::remove(entry.path(), ignored);
  const fs::path tensors = fs::path(folder) / "tensors";
  for (const auto& entry : fs::directory_iterator(tensors, ignored))
    if (entry.path().filename().string().starts_with("tfdbg_")) fs::remove(entry.path(), ignored);
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  return lines;
}

}  // namespace

// --- Files -----------------------------------------------------------------------------------------------------------

DumpFile::DumpFile(std::string path, const Where& where) : path_(std::move(path)), where_(where) {
  fd_ = open(path_.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_file("debug::dump", "cannot write", path_, where_);
}
DumpFile::~DumpFile() { ::close(fd_); }
void DumpFile::add(std::string_view bytes) { waiting_ += record(bytes); }
void DumpFile::flush() {
  std::string_view rest = waiting_;
  while (!rest.empty()) {
    const ssize_t n = ::write(fd_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int reason = errno;
      waiting_.erase(0, waiting_.size() - rest.size());  // a later flush continues there
      errno = reason;
      fail_file("debug::dump", "cannot write", path_, where_);
    }
    rest.remove_prefix(size_t(n));
  }
  waiting_.clear();
}

DumpFiles::DumpFiles(const std::string& folder, std::vector<std::string> sources, const Where& where)
    : folder_(folder), host_(name_of_host()), sources_(std::move(sources)), where_(where) {
  make_folders(folder, "debug::dump", where);
  take_away_dump(folder);
  prefix_ = fmt::format("tfdbg_events.{}.{}.{}", std::time(nullptr), host_, getpid());
  std::replace(prefix_.begin(), prefix_.end(), '/', '_');
  for (const char* ending : endings) files_.emplace_back(fmt::format("{}/{}.{}", folder, prefix_, ending), where);
  proto::DebugEvent e = event_at(0);
  e.mutable_debug_metadata()->set_tensorflow_version("rill " RILL_VERSION);
  e.mutable_debug_metadata()->set_file_version("debug.Event:1");
  e.mutable_debug_metadata()->set_tfdbg_run_id(prefix_);
  write(metadata, e);
  flush();
}

void DumpFiles::flush() {
  for (DumpFile& file : files_) file.flush();
}

proto::DebugEvent DumpFiles::event(int64_t step, int64_t call, proto::Execution e) {
  e.set_call(call);
  proto::DebugEvent event = event_at(step);
  *event.mutable_execution() = std::move(e);
  return event;
}
proto::DebugEvent DumpFiles::event(int64_t step, int64_t call, proto::GraphExecutionTrace t) {
  t.set_call(call);
  proto::DebugEvent event = event_at(step);
  *event.mutable_graph_execution_trace() = std::move(t);
  return event;
}

std::string DumpFiles::write_tensor(const Tensor& t) {
  const std::string name = fmt::format("tensors/tfdbg_{}.npy", tensors_++);
  save(folder_ + "/" + name, t, {}, where_);
  return name;
}

// --- Source locations ------------------------------------------------------------------------------------------------

// A node has the name of its file without folders; it is looked for beside the caller's file, and in the given folders.
int DumpFiles::source(const std::string& file, const Where& where) {
  const auto [at, is_new] = files_known_.try_emplace(file, int(files_known_.size()));
  if (!is_new) return at->second;
  std::vector<fs::path> folders{"."};
  for (const Where& w : {where, where_}) {
    const fs::path folder = fs::path(w.file_name()).parent_path();
    folders.push_back(folder);
    // "../src" is relative to where the compiler ran, a build folder; the program may run above it.
    fs::path inner;
    for (const fs::path& part : folder)
      if (part != "..") inner /= part;
    folders.push_back(inner);
  }
  folders.insert(folders.end(), sources_.begin(), sources_.end());
  proto::DebugEvent e = event_at(0);
  proto::SourceFile& p = *e.mutable_source_file();
  p.set_file_path(file);
  p.set_host_name(host_);
  for (const fs::path& folder : folders) {
    const std::vector<std::string> lines = lines_of(folder / file);
    for (const std::string& line : lines) p.add_lines(line);
    if (!lines.empty()) break;
  }
  write(source_files, e);
  return at->second;
}

proto::CodeLocation DumpFiles::place(const std::string& place, const std::string& function, const Where& where) {
  proto::CodeLocation p;
  p.set_host_name(host_);
  const size_t colon = place.rfind(':');
  const std::string file = colon == place.npos ? "unknown" : place.substr(0, colon);
  const int64_t line = colon == place.npos ? 0 : std::atoll(place.c_str() + colon + 1);
  const int index = source(file, where);
  std::string& id = frames_[{index, line, function}];
  if (id.empty()) {
    id = fmt::format("frame-{}", frames_.size());  // no underscore: TensorBoard joins ids with them
    proto::DebugEvent e = event_at(0);
    proto::StackFrameWithId& f = *e.mutable_stack_frame_with_id();
    f.set_id(id);
    f.mutable_file_line_col()->set_file_index(index);
    f.mutable_file_line_col()->set_line(int32_t(line));
    f.mutable_file_line_col()->set_func(function);
    write(stack_frames, e);
  }
  p.add_stack_frame_ids(id);
  return p;
}

int DumpFiles::device(Device d) {
  const std::string name = to_string(d);
  const auto [at, is_new] = devices_.try_emplace(name, int(devices_.size()));
  if (is_new) {
    proto::DebugEvent e = event_at(0);
    e.mutable_debugged_device()->set_device_name(name);
    e.mutable_debugged_device()->set_device_id(at->second);
    write(graphs, e);
  }
  return at->second;
}

// --- Graphs ----------------------------------------------------------------------------------------------------------

const KnownGraph& DumpFiles::known(const Graph& g, const KnownGraph* outer, int32_t inside) {
  std::deque<Written>& here = graphs_[&g];
  const auto is_last = [&](const Written& w) {
    return w.name == g.name && w.trace == g.trace && w.nodes == g.nodes().size();
  };
  if (!here.empty() && is_last(here.back())) return here.back().known;
  here.push_back({g.name, g.trace, g.nodes().size(), {}});
  KnownGraph& k = here.back().known;
  k.id = fmt::format("graph-{}", graph_count_++);
  k.names = name_graph(g).nodes;
  for (const Node& n : g.nodes()) {
    k.ids.push_back(next_id_);
    next_id_ += int64_t(n.outputs.size());
  }
  write_graph(g, k, outer, inside);
  return k;
}

namespace {
std::string text_of(const AttrList& attrs) {
  std::string text;
  for (const auto& [name, value] : attrs)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", name, to_string(value));
  return text;
}
std::string op_of_node(const Graph& g, size_t node) {
  for (const GraphInput& in : g.inputs)
    if (in.node == int32_t(node))
      return in.kind == GraphInput::Kind::variable   ? "variable"
             : in.kind == GraphInput::Kind::captured ? "captured"
                                                     : "argument";
  return std::string(g.nodes()[node].op_name());
}
}  // namespace

void DumpFiles::write_graph(const Graph& g, const KnownGraph& known, const KnownGraph* outer, int32_t inside) {
  const auto value_name = [&](ValueId v) { return fmt::format("{}:{}", known.names[size_t(v.node)].id, v.index); };
  proto::DebugEvent e = event_at(0);
  proto::DebuggedGraph& p = *e.mutable_debugged_graph();
  p.set_graph_id(known.id);
  p.set_graph_name(g.name);
  if (outer) p.set_outer_context_id(outer->id);
  if (outer && inside >= 0) p.set_inside(outer->names[size_t(inside)].id);
  for (const ValueId v : g.outputs) p.add_results(value_name(v));
  write(graphs, e);
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    const Node& n = g.nodes()[i];
    proto::DebugEvent made = event_at(0);
    proto::GraphOpCreation& o = *made.mutable_graph_op_creation();
    o.set_op_type(op_of_node(g, i));
    o.set_op_name(known.names[i].id);
    o.set_graph_name(g.name);
    o.set_graph_id(known.id);
    if (!n.outputs.empty()) o.set_device_name(to_string(n.outputs[0].device));
    for (const ValueId v : n.inputs) o.add_input_names(value_name(v));
    o.set_num_outputs(int32_t(n.outputs.size()));
    *o.mutable_code_location() = place(n.where, n.function, where_);
    for (size_t k = 0; k < n.outputs.size(); ++k) o.add_output_tensor_ids(int32_t(known.ids[i] + int64_t(k)));
    if (n.kind == Node::Kind::op) o.set_attributes(text_of(list_of(n.attrs)));
    o.set_scope(n.scope);
    for (const Spec& s : n.outputs) o.add_outputs(to_string(s));
    write(graphs, made);
  }
}

// --- Health ----------------------------------------------------------------------------------------------------------

namespace {

// Elements as numbers: for complex ones the magnitudes, which are NaN or infinite if a part is.
std::vector<double> numbers_of(const Tensor& t) {
  const Tensor host = t.to(Device());
  if (is_complex(t.dtype())) return abs(host.astype(DType::c128)).to_vector<double>();
  return host.astype(DType::f64).to_vector<double>();
}

void count(Health& h, double x) {
  if (std::isnan(x)) ++h.nan;
  else if (std::isinf(x)) ++(x < 0 ? h.negative_infinite : h.positive_infinite);
  else ++(x < 0 ? h.negative : x > 0 ? h.positive : h.zero);
}

}  // namespace

Health health_of(const Tensor& t, Where where) {
  require_defined("debug::health_of", t, "the tensor", where);
  if (t.is_symbolic()) fail("debug::health_of", "a function that is being traced has no numbers yet", where);
  Health h;
  h.size = t.size();
  if (t.dtype() == DType::string) return h;
  double sum = 0;
  const std::vector<double> numbers = numbers_of(t);
  for (const double x : numbers) {
    const int64_t before = h.finite();
    count(h, x);
    if (h.finite() == before) continue;
    h.least = before ? std::min(h.least, x) : x;
    h.greatest = before ? std::max(h.greatest, x) : x;
    sum += x;
  }
  if (!h.finite()) return h;
  h.mean = sum / double(h.finite());
  for (const double x : numbers)
    if (std::isfinite(x)) h.variance += (x - h.mean) * (x - h.mean);
  h.variance /= double(h.finite());
  return h;
}

void fill_health(proto::RillHealth& p, const Tensor& t, const Health& h) {
  p.set_dtype(to_proto(t.dtype()));
  for (const int64_t d : t.shape()) p.add_shape(d);
  for (const int64_t n : {h.negative_infinite, h.positive_infinite, h.nan, h.negative, h.zero, h.positive})
    p.add_counts(n);
  if (h.finite())
    for (const double x : {h.least, h.greatest, h.mean, h.variance}) p.add_finite(x);
}

proto::TensorDebugMode fill_summary(proto::TensorProto& p, const Tensor& t, const Health& h, int64_t id, int device) {
  const auto dtype = double(to_proto(t.dtype()));
  std::vector<double> numbers;
  const bool is_text = t.dtype() == DType::string;
  if (is_text) {
    numbers = {double(id), dtype, double(t.ndim()), double(t.size())};
    for (int k = std::max(0, t.ndim() - 6); k < t.ndim(); ++k) numbers.push_back(double(t.dim(k)));
    numbers.resize(10);
  } else {
    numbers = {double(id), double(device), dtype, double(t.ndim()), double(h.size)};
    for (const int64_t n : {h.negative_infinite, h.positive_infinite, h.nan, h.negative, h.zero, h.positive})
      numbers.push_back(double(n));
  }
  p.set_dtype(proto::DT_DOUBLE);
  p.mutable_tensor_shape()->add_dim()->set_size(int64_t(numbers.size()));
  p.set_tensor_content(numbers.data(), numbers.size() * sizeof(double));
  return is_text ? proto::SHAPE : proto::FULL_HEALTH;
}

}  // namespace rill::debug
