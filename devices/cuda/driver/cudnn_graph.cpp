// Builds cuDNN's descriptors and chooses an engine; see cudnn_graph.h. Start at make_plan.
#include "rill/devices/cuda/driver/cudnn_graph.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <sstream>
#include <utility>

#include "rill/tensor/error.h"

namespace rill::cuda::dnn {

namespace {

// The library does not support something. It is no error: then there is no plan.
struct Refusal {
  std::string why;
};
void require(int status, const char* call) {
  if (status != 0) throw Refusal{failure(status, call)};
}
#define RILL_CUDNN(call, ...) require(library().call(__VA_ARGS__), #call)

// --- Attributes ---

size_t bytes_of(Type t) {
  switch (t) {
    case Type::boolean:
    case Type::character: return 1;
    case Type::handle:
    case Type::int64:
    case Type::f64:
    case Type::pointer:
    case Type::descriptor: return 8;
    default: return 4;
  }
}
template <class T>
void append(std::vector<char>& bytes, T x) {
  bytes.insert(bytes.end(), reinterpret_cast<const char*>(&x), reinterpret_cast<const char*>(&x) + sizeof x);
}
// In the form that the library reads.
std::vector<char> values_of(const Setting& s, const std::vector<OwnedDescriptor>& parts) {
  std::vector<char> bytes;
  for (const int64_t v : s.values) {
    if (s.type == Type::descriptor) append(bytes, parts[size_t(v)].get());
    else if (s.type == Type::f32) append(bytes, float(v));
    else if (s.type == Type::f64) append(bytes, double(v));
    else if (bytes_of(s.type) == 8) append(bytes, v);
    else if (bytes_of(s.type) == 4) append(bytes, int32_t(v));
    else append(bytes, char(v));
  }
  return bytes;
}

void set(const OwnedDescriptor& d, Name name, Type type, const void* value, int64_t count = 1) {
  RILL_CUDNN(cudnnBackendSetAttribute, d.get(), name, type, count, value);
}
void set(const OwnedDescriptor& d, Name name, const OwnedDescriptor& part) {
  const Descriptor value = part.get();
  set(d, name, Type::descriptor, &value);
}
void finalize(const OwnedDescriptor& d) { RILL_CUDNN(cudnnBackendFinalize, d.get()); }

template <class T>
std::vector<T> get(const OwnedDescriptor& d, Name name, Type type) {
  int64_t count = 0;
  RILL_CUDNN(cudnnBackendGetAttribute, d.get(), name, type, 0, &count, nullptr);
  std::vector<T> values(size_t(std::max<int64_t>(count, 0)));
  if (count > 0) RILL_CUDNN(cudnnBackendGetAttribute, d.get(), name, type, count, &count, values.data());
  values.resize(size_t(std::clamp<int64_t>(count, 0, int64_t(values.size()))));
  return values;
}

// --- From a graph to a plan ---

std::vector<OwnedDescriptor> descriptors(const Graph& g, const Target& target) {
  std::vector<OwnedDescriptor> all;
  for (const Part& part : g.parts()) {
    OwnedDescriptor d(part.kind);
    for (const Setting& s : part.settings) {
      const std::vector<char> values = values_of(s, all);
      set(d, s.name, s.type, values.data(), int64_t(s.values.size()));
    }
    if (part.kind == Kind::graph && target.handle) set(d, Name::graph_handle, Type::handle, &target.handle);
    finalize(d);
    all.push_back(std::move(d));
  }
  return all;
}

// In the library's order, the best first.
std::vector<OwnedDescriptor> configs(const OwnedDescriptor& graph, int mode, const Target& target) {
  const OwnedDescriptor heuristics(Kind::heuristics);
  set(heuristics, Name::heuristics_graph, graph);
  set(heuristics, Name::heuristics_mode, Type::heuristic_mode, &mode);
  if (target.device) set(heuristics, Name::heuristics_device, Type::descriptor, &target.device);
  finalize(heuristics);
  int64_t count = 0;
  RILL_CUDNN(cudnnBackendGetAttribute, heuristics.get(), Name::heuristics_results, Type::descriptor, 0, &count,
             nullptr);
  std::vector<OwnedDescriptor> all;
  std::vector<Descriptor> filled;
  for (int64_t i = 0; i < count; ++i) {
    all.emplace_back(Kind::engine_config);
    filled.push_back(all.back().get());
  }
  if (count > 0)
    RILL_CUDNN(cudnnBackendGetAttribute, heuristics.get(), Name::heuristics_results, Type::descriptor, count, &count,
               filled.data());
  all.resize(size_t(std::clamp<int64_t>(count, 0, int64_t(all.size()))));
  return all;
}

// Winograd's and Fourier's algorithms spread an infinity over a complete tile, and lose digits. Compiling engines at
// run time takes seconds for each shape and process.
bool is_usable(const OwnedDescriptor& config, const Graph& g) {
  const OwnedDescriptor engine(Kind::engine);
  Descriptor filled = engine.get();
  int64_t count = 0;
  RILL_CUDNN(cudnnBackendGetAttribute, config.get(), Name::config_engine, Type::descriptor, 1, &count, &filled);
  for (const Behavior b : get<Behavior>(engine, Name::engine_behavior, Type::behavior))
    if (b == Behavior::compiles) return false;
  const auto notes = get<Note>(engine, Name::engine_notes, Type::note);
  return std::none_of(notes.begin(), notes.end(), [&](Note n) {
    return n == Note::tensor_cores ? g.without_tensor_cores : n <= Note::winograd_13x13;
  });
}

void finish(Plan& p, const Target& target) {
  if (target.handle) set(p.plan, Name::plan_handle, Type::handle, &target.handle);
  else set(p.plan, Name::plan_device, Type::descriptor, &target.device);
  finalize(p.plan);
  p.workspace_bytes = size_t(get<int64_t>(p.plan, Name::plan_workspace, Type::int64).at(0));
}

}  // namespace

OwnedDescriptor::OwnedDescriptor(Kind kind) { RILL_CUDNN(cudnnBackendCreateDescriptor, kind, &descriptor_); }
OwnedDescriptor::~OwnedDescriptor() {
  if (descriptor_) library().cudnnBackendDestroyDescriptor(descriptor_);
}

std::unique_ptr<Plan> make_plan(const Graph& g, const Target& target, size_t most_workspace, std::string& why) try {
  auto p = std::make_unique<Plan>();
  p->parts = descriptors(g, target);
  why = "no engine is deterministic, exact and compiled";
  for (const int mode : {heuristics_a, heuristics_fallback})
    for (OwnedDescriptor& config : configs(p->parts.back(), mode, target)) {
      if (!is_usable(config, g)) continue;
      try {
        p->plan = OwnedDescriptor(Kind::plan);
        set(p->plan, Name::plan_config, config);
        finish(*p, target);
      } catch (const Refusal& r) {  // an engine's own limits: the next one may have others
        why = r.why;
        continue;
      }
      if (p->workspace_bytes > most_workspace) {
        why = fmt::format("an engine needs {} bytes of workspace", p->workspace_bytes);
        continue;
      }
      const auto text = get<char>(p->plan, Name::plan_text, Type::character);
      p->text.assign(text.begin(), text.end());
      p->parts.push_back(std::move(config));
      return p;
    }
  return nullptr;
} catch (const Refusal& r) {
  why = r.why;
  return nullptr;
}

std::unique_ptr<Plan> restore_plan(const std::string& text, const Target& target) try {
  auto p = std::make_unique<Plan>();
  p->plan = OwnedDescriptor(Kind::plan);
  set(p->plan, Name::plan_text, Type::character, text.data(), int64_t(text.size()));
  finish(*p, target);
  return p;
} catch (const Refusal&) {
  return nullptr;
}

int execute(Handle handle, const Plan& plan, const std::vector<void*>& operands, void* workspace) try {
  const OwnedDescriptor pack(Kind::operands);
  std::vector<int64_t> ids(operands.size());
  std::iota(ids.begin(), ids.end(), 1);
  set(pack, Name::operands_ids, Type::int64, ids.data(), int64_t(ids.size()));
  set(pack, Name::operands_pointers, Type::pointer, operands.data(), int64_t(operands.size()));
  set(pack, Name::operands_workspace, Type::pointer, &workspace);
  finalize(pack);
  return library().cudnnBackendExecute(handle, plan.plan.get(), pack.get());
} catch (const Refusal& r) {
  fail("cuda", r.why, Where());
}

OwnedDescriptor device_of(const std::string& text) try {
  OwnedDescriptor d(Kind::device);
  set(d, Name::device_text, Type::character, text.data(), int64_t(text.size()));
  finalize(d);
  return d;
} catch (const Refusal& r) {
  fail("cuda", r.why, Where());
}

// --- Graphs ---

int64_t Graph::add(Part part) {
  parts_.push_back(std::move(part));
  return int64_t(parts_.size()) - 1;
}

int64_t Graph::tensor(int type, std::vector<int64_t> sizes, std::vector<int64_t> strides, int64_t alignment) {
  return add({Kind::tensor,
              {{Name::tensor_alignment, Type::int64, {alignment}},
               {Name::tensor_type, Type::data_type, {type}},
               {Name::tensor_sizes, Type::int64, std::move(sizes)},
               {Name::tensor_strides, Type::int64, std::move(strides)},
               {Name::tensor_id, Type::int64, {++operands_}}}});
}

void Graph::convolution(Kind kind, int64_t x, int64_t w, int64_t y, const Window& window) {
  const int64_t how = add({Kind::convolution,
                           {{Name::convolution_compute, Type::data_type, {window.compute}},
                            {Name::convolution_mode, Type::convolution_mode, {cross_correlation}},
                            {Name::convolution_dilations, Type::int64, window.dilations},
                            {Name::convolution_strides, Type::int64, window.strides},
                            {Name::convolution_pads_after, Type::int64, window.pads},
                            {Name::convolution_pads_before, Type::int64, window.pads},
                            {Name::convolution_axes, Type::int64, {int64_t(window.strides.size())}}}});
  const Name first = kind == Kind::forward         ? Name::forward_alpha
                     : kind == Kind::data_gradient ? Name::data_gradient_alpha
                                                   : Name::filter_gradient_alpha;
  const auto name = [&](int i) { return Name(int(first) + i); };  // all three have the same ones, in this order
  const Type number = window.compute == f64 ? Type::f64 : Type::f32;
  operations_.push_back(add({kind,
                             {{name(0), number, {1}},
                              {name(1), number, {0}},
                              {name(2), Type::descriptor, {how}},
                              {name(3), Type::descriptor, {w}},
                              {name(4), Type::descriptor, {x}},
                              {name(5), Type::descriptor, {y}}}}));
  add({Kind::graph, {{Name::graph_operations, Type::descriptor, operations_}}});
}

std::string Graph::text() const {
  std::string all = without_tensor_cores ? "exact\n" : "";
  for (const Part& part : parts_) {
    all += std::to_string(int(part.kind));
    for (const Setting& s : part.settings)
      all += fmt::format(" {}:{}:{}", int(s.name), int(s.type), fmt::join(s.values, ","));
    all += '\n';
  }
  return all;
}

Graph Graph::parse(const std::string& text) {
  Graph g;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line == "exact") {
      g.without_tensor_cores = true;
      continue;
    }
    std::istringstream words(line);
    int kind = 0;
    if (!(words >> kind)) fail("cuda", "this is no graph for cuDNN: " + line, Where());
    Part part{Kind(kind), {}};
    g.operands_ += part.kind == Kind::tensor;
    for (std::string word; words >> word;) {
      std::istringstream numbers(word);
      int name = 0, type = 0;
      char between = 0;
      numbers >> name >> between >> type;
      Setting s{Name(name), Type(type), {}};
      for (int64_t value = 0; numbers >> between >> value;) s.values.push_back(value);
      part.settings.push_back(std::move(s));
    }
    g.parts_.push_back(std::move(part));
  }
  return g;
}

}  // namespace rill::cuda::dnn
