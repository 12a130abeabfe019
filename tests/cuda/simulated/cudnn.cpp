// A libcudnn.so.9 that computes by plain loops, on the simulated driver's streams and memory, and rejects what
// the real one would: attributes that a descriptor does not have, or of another type or number, descriptors that
// are not finalised, tensors that do not match, operands that are missing, less aligned than their tensors say
// or too small, a workspace that is missing.
//
// Its engines are a list of traps: the first ones are fast, but not deterministic, or have fewer digits, or need more
// workspace than there is, and a program that promises exact results must skip them. It supports nothing if
// the batch is 7, if channels are neither first nor last in memory, and if a test says so.
//
// Every graph is written to RILL_SIMULATED_TEXTS as a .cudnn file: the real cuDNN makes plans of them
// (test_cudnn_graphs.cpp).
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "convolve.h"
#include "shared.h"

namespace {

enum Status { success = 0, bad_value = 2000, not_finalised = 2004, not_supported = 3000, execution_failed = 5000 };
// Types of attributes.
enum Type {
  t_handle = 0,
  t_data = 1,
  t_int64 = 3,
  t_float = 4,
  t_double = 5,
  t_pointer = 6,
  t_mode = 7,
  t_heuristic = 8,
  t_note = 11,
  t_descriptor = 15,
  t_behavior = 19,
  t_char = 24
};

std::atomic<bool> refuses = false;
std::atomic<long> wrong_calls = 0, plans_made = 0, plans_restored = 0, executions = 0;
thread_local std::string last_error;

int wrong(const std::string& what) {
  ++wrong_calls;
  last_error = what;
  std::fprintf(stderr, "simulated cuDNN: %s\n", what.c_str());
  return bad_value;
}
int unsupported(const char* what) {
  last_error = what;
  return not_supported;
}
#define REQUIRE(condition) \
  if (!(condition)) return wrong(#condition)

size_t bytes_of(int type) {
  switch (type) {
    case t_char: return 1;
    case t_handle:
    case t_int64:
    case t_double:
    case t_pointer:
    case t_descriptor: return 8;
    default: return 4;
  }
}

// --- Descriptors ---

struct Attribute {
  int type;
  int64_t count;
  std::vector<char> bytes;
};
struct Descriptor {
  int kind;
  bool finalised = false;
  std::map<int, Attribute> attributes;
  // The finalised objects:
  std::shared_ptr<Operation> operation;
  std::string text;  // of graphs
  int engine = -1;
  int64_t workspace = 0;
};
struct Handle {
  void* stream = nullptr;
};

struct Rule {
  int type;
  int64_t least, most;
};
using Rules = std::map<int, Rule>;
Rules operation_rules(int first) {
  Rules r{{first, {t_float, 1, 1}}, {first + 1, {t_float, 1, 1}}};
  for (int i = 2; i < 6; ++i) r[first + i] = {t_descriptor, 1, 1};
  return r;
}
// The attributes that may be set; all must be, except for those in `optional`.
const Rules* rules_of(int kind) {
  static const std::map<int, Rules> all{
      {k_convolution,
       {{100, {t_data, 1, 1}},
        {101, {t_mode, 1, 1}},
        {102, {t_int64, 1, 3}},
        {103, {t_int64, 1, 3}},
        {104, {t_int64, 1, 3}},
        {105, {t_int64, 1, 3}},
        {106, {t_int64, 1, 1}}}},
      {k_heuristics, {{200, {t_heuristic, 1, 1}}, {201, {t_descriptor, 1, 1}}}},
      {k_plan, {{400, {t_handle, 1, 1}}, {401, {t_descriptor, 1, 1}}, {405, {t_char, 1, 1 << 20}}}},
      {k_forward, operation_rules(700)},
      {k_data_gradient, operation_rules(706)},
      {k_filter_gradient, operation_rules(712)},
      {k_graph, {{800, {t_handle, 1, 1}}, {801, {t_descriptor, 1, 1}}}},
      {k_tensor,
       {{900, {t_int64, 1, 1}},
        {901, {t_data, 1, 1}},
        {902, {t_int64, 4, 5}},
        {903, {t_int64, 4, 5}},
        {906, {t_int64, 1, 1}}}},
      {k_operands, {{1000, {t_int64, 1, 64}}, {1001, {t_pointer, 1, 64}}, {1003, {t_pointer, 1, 1}}}},
      {k_engine, {}},
      {k_config, {}},
  };
  const auto found = all.find(kind);
  return found == all.end() ? nullptr : &found->second;
}

template <class T>
std::vector<T> list(const Descriptor& d, int name) {
  const Attribute& a = d.attributes.at(name);
  std::vector<T> values(size_t(a.count));
  std::memcpy(values.data(), a.bytes.data(), a.bytes.size());
  return values;
}
template <class T>
T one(const Descriptor& d, int name) {
  return list<T>(d, name)[0];
}

bool all_at_least(const std::vector<int64_t>& values, int64_t least) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v >= least; });
}

Tensor tensor_of(const Descriptor& d) {
  return {one<int>(d, 901), one<int64_t>(d, 900), one<int64_t>(d, 906), list<int64_t>(d, 902), list<int64_t>(d, 903)};
}
int finalise_tensor(const Descriptor& d) {
  const Tensor t = tensor_of(d);
  REQUIRE(t.type == d_f32 || t.type == d_f64 || t.type == d_f16 || t.type == d_bf16);
  REQUIRE(t.alignment >= int64_t(t.element()) && (t.alignment & (t.alignment - 1)) == 0);
  REQUIRE(t.sizes.size() == t.strides.size());
  REQUIRE(all_at_least(t.sizes, 1) && all_at_least(t.strides, 1));
  return success;
}

int finalise_convolution(const Descriptor& d) {
  const auto axes = size_t(one<int64_t>(d, 106));
  REQUIRE(one<int>(d, 101) == 1);  // not flipped
  for (const int name : {102, 103, 104, 105}) REQUIRE(list<int64_t>(d, name).size() == axes);
  REQUIRE(all_at_least(list<int64_t>(d, 102), 1) && all_at_least(list<int64_t>(d, 103), 1));
  REQUIRE(all_at_least(list<int64_t>(d, 104), 0) && all_at_least(list<int64_t>(d, 105), 0));
  return success;
}

int finalise_operation(Descriptor& d) {
  const int first = d.kind == k_forward ? 700 : d.kind == k_data_gradient ? 706 : 712;
  const Descriptor* parts[4];
  for (int i = 0; i < 4; ++i) {
    parts[i] = one<Descriptor*>(d, first + 2 + i);
    REQUIRE(parts[i] && parts[i]->finalised && parts[i]->kind == (i == 0 ? k_convolution : k_tensor));
  }
  Operation o;
  o.kind = d.kind;
  o.how = {one<int>(*parts[0], 100), list<int64_t>(*parts[0], 103), list<int64_t>(*parts[0], 102),
           list<int64_t>(*parts[0], 105), list<int64_t>(*parts[0], 104)};
  o.w = tensor_of(*parts[1]), o.x = tensor_of(*parts[2]), o.y = tensor_of(*parts[3]);
  const bool is_double = o.x.type == d_f64;
  REQUIRE(o.how.compute == (is_double ? d_f64 : d_f32));
  const int number = is_double ? t_double : t_float;
  REQUIRE(d.attributes.at(first).type == number && d.attributes.at(first + 1).type == number);
  REQUIRE((is_double ? one<double>(d, first) : double(one<float>(d, first))) == 1);
  REQUIRE((is_double ? one<double>(d, first + 1) : double(one<float>(d, first + 1))) == 0);
  REQUIRE(o.w.type == o.x.type && o.y.type == o.x.type);
  const size_t axes = o.how.strides.size();
  for (const Tensor* t : {&o.w, &o.x, &o.y}) REQUIRE(t->sizes.size() == axes + 2);
  REQUIRE(o.x.sizes[0] == o.y.sizes[0] && o.w.sizes[0] == o.y.sizes[1]);
  REQUIRE(o.x.sizes[1] % o.w.sizes[1] == 0 && o.y.sizes[1] % (o.x.sizes[1] / o.w.sizes[1]) == 0);
  for (size_t a = 0; a < axes; ++a) {
    const int64_t reach = (o.w.sizes[a + 2] - 1) * o.how.dilations[a],
                  room = o.x.sizes[a + 2] + o.how.before[a] + o.how.after[a] - 1 - reach;
    REQUIRE(room >= 0 && o.y.sizes[a + 2] == room / o.how.strides[a] + 1);
  }
  std::set<int64_t> ids{o.w.id, o.x.id, o.y.id};
  REQUIRE(ids.size() == 3);
  d.operation = std::make_shared<Operation>(o);
  return success;
}

// --- Graphs as texts: a line for each descriptor, as in Graph::text() of rill ---

void describe(Descriptor* d, std::vector<Descriptor*>& seen, std::string& text) {
  if (std::find(seen.begin(), seen.end(), d) != seen.end()) return;
  std::string line = std::to_string(d->kind);
  for (const auto& [name, a] : d->attributes) {
    if (a.type == t_handle) continue;
    line += " " + std::to_string(name) + ":" + std::to_string(a.type) + ":";
    for (int64_t i = 0; i < a.count; ++i) {
      if (i > 0) line += ",";
      if (a.type == t_descriptor) {
        auto* part = list<Descriptor*>(*d, name)[size_t(i)];
        describe(part, seen, text);
        line += std::to_string(std::find(seen.begin(), seen.end(), part) - seen.begin());
      } else if (a.type == t_float) line += std::to_string(int64_t(list<float>(*d, name)[size_t(i)]));
      else if (a.type == t_double) line += std::to_string(int64_t(list<double>(*d, name)[size_t(i)]));
      else if (bytes_of(a.type) == 8) line += std::to_string(list<int64_t>(*d, name)[size_t(i)]);
      else line += std::to_string(list<int>(*d, name)[size_t(i)]);
    }
  }
  seen.push_back(d);
  text += line + "\n";
}

int finalise_graph(Descriptor& d) {
  auto* operation = one<Descriptor*>(d, 801);
  REQUIRE(one<Handle*>(d, 800));
  REQUIRE(operation && operation->finalised && operation->operation);
  d.operation = operation->operation;
  std::vector<Descriptor*> seen;
  describe(&d, seen, d.text);
  if (const char* kept = std::getenv("RILL_SIMULATED_TEXTS"))
    std::ofstream(std::string(kept) + "/" + std::to_string(std::hash<std::string>()(d.text)) + ".cudnn") << d.text;
  return success;
}

// --- Engines ---

struct Engine {
  int mode;  // of the heuristics that return it
  std::vector<int> notes;
  int64_t workspace;
  bool may_finalise;
  std::vector<int> behavior = {};
};
const Engine engines[] = {
    {3, {4}, 0, true},                // not deterministic
    {3, {1}, 0, true},                // rounds operands
    {3, {2}, 0, true},                // sums in halves
    {3, {5, 8}, 0, true},             // Winograd
    {3, {3}, 0, true},                // Fourier
    {3, {}, int64_t(1) << 40, true},  // wants all memory
    {3, {}, 0, true, {0}},            // compiled at run time
    {3, {}, 0, false},                // has its own limits
    {3, {0}, 1024, true},             // tensor cores
    {2, {}, 0, true},                 // the one that always works
};
constexpr int engine_count = int(sizeof engines / sizeof *engines);

bool is_supported(const Operation& o) {
  if (refuses || o.x.sizes[0] == 7 || o.how.before != o.how.after) return false;
  const bool last = !o.x.has_channels_at(false);
  return o.x.has_channels_at(last) && o.y.has_channels_at(last) && o.w.has_channels_at(last);
}
std::vector<int> engines_for(const Descriptor& heuristics) {
  std::vector<int> found;
  const auto* graph = one<Descriptor*>(heuristics, 201);
  if (!is_supported(*graph->operation)) return found;
  for (int i = 0; i < engine_count; ++i)
    if (engines[i].mode == one<int>(heuristics, 200)) found.push_back(i);
  return found;
}

int finalise_heuristics(Descriptor& d) {
  const auto* graph = one<Descriptor*>(d, 201);
  REQUIRE(graph && graph->finalised && graph->kind == k_graph);
  REQUIRE(one<int>(d, 200) == 3 || one<int>(d, 200) == 2);
  d.operation = graph->operation;
  d.text = graph->text;
  return success;
}

// The text of a plan: its engine and the graph.
std::shared_ptr<Operation> parse_operation(std::istream& text) {
  std::vector<std::unique_ptr<Descriptor>> all;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    auto d = std::make_unique<Descriptor>();
    words >> d->kind;
    for (std::string word; words >> word;) {
      std::istringstream numbers(word);
      int name = 0;
      char between = 0;
      Attribute a{0, 0, {}};
      numbers >> name >> between >> a.type;
      for (int64_t v = 0; numbers >> between >> v; ++a.count) {
        if (a.type == t_descriptor && (v < 0 || v >= int64_t(all.size()))) return nullptr;
        const float f = float(v);
        const double g = double(v);
        const int i = int(v);
        const void* p = a.type == t_descriptor ? static_cast<const void*>(&all[size_t(v)]) : &v;
        if (a.type == t_float) p = &f;
        else if (a.type == t_double) p = &g;
        else if (bytes_of(a.type) == 4) p = &i;
        a.bytes.insert(a.bytes.end(), static_cast<const char*>(p), static_cast<const char*>(p) + bytes_of(a.type));
      }
      d->attributes[name] = a;
    }
    if (d->kind == k_graph) return all.empty() ? nullptr : all.back()->operation;
    d->finalised = true;
    if (d->kind >= k_forward && d->kind <= k_data_gradient && finalise_operation(*d) != success) return nullptr;
    all.push_back(std::move(d));
  }
  return nullptr;
}

int finalise_plan(Descriptor& d) {
  REQUIRE(d.attributes.count(400) && one<Handle*>(d, 400));
  REQUIRE(d.attributes.count(401) + d.attributes.count(405) == 1);
  if (d.attributes.count(405)) {
    const auto text = list<char>(d, 405);
    std::istringstream in(std::string(text.begin(), text.end()));
    std::string word;
    in >> word >> d.engine;
    in.ignore();
    if (word != "simulated" || d.engine < 0 || d.engine >= engine_count) return unsupported("this is no plan");
    d.operation = parse_operation(in);
    if (!d.operation) return unsupported("this plan is damaged");
    if (std::getenv("RILL_SIMULATED_CUDNN_FORGETS")) return unsupported("this plan is another version's");
    ++plans_restored;
    d.text = std::string(text.begin(), text.end());
  } else {
    const auto* config = one<Descriptor*>(d, 401);
    REQUIRE(config && config->finalised && config->kind == k_config);
    d.engine = config->engine;
    d.operation = config->operation;
    if (!engines[d.engine].may_finalise) return unsupported("this engine has limits of its own");
    d.text = "simulated " + std::to_string(d.engine) + "\n" + config->text;
    if (engines[d.engine].workspace < 1 << 20) ++plans_made;
  }
  d.workspace = engines[d.engine].workspace;
  return success;
}

int finalise_operands(const Descriptor& d) {
  const auto ids = list<int64_t>(d, 1000);
  REQUIRE(std::set<int64_t>(ids.begin(), ids.end()).size() == ids.size());
  REQUIRE(list<void*>(d, 1001).size() == ids.size());
  return success;
}

}  // namespace

extern "C" {

// For tests: whether everything is refused from now on; the counts since the last call.
void rill_simulated_cudnn_refuse(bool all) { refuses = all; }
long rill_simulated_cudnn_count(const char* what) {
  const std::string name = what;
  return (name == "wrong"      ? wrong_calls
          : name == "made"     ? plans_made
          : name == "restored" ? plans_restored
                               : executions)
      .exchange(0);
}

size_t cudnnGetVersion() { return 90800; }
const char* cudnnGetErrorString(int status) {
  return status == execution_failed ? "CUDNN_STATUS_EXECUTION_FAILED"
         : status >= not_supported  ? "CUDNN_STATUS_NOT_SUPPORTED"
                                    : "CUDNN_STATUS_BAD_PARAM";
}
void cudnnGetLastErrorString(char* text, size_t bytes) { std::snprintf(text, bytes, "%s", last_error.c_str()); }

int cudnnCreate(Handle** handle) {
  if (simulated_failure("cudnnCreate")) return execution_failed;
  *handle = new Handle;
  return success;
}
int cudnnSetStream(Handle* handle, void* stream) {
  handle->stream = stream;
  return success;
}

int cudnnBackendCreateDescriptor(int kind, Descriptor** d) {
  if (!rules_of(kind)) return wrong("a descriptor that rill does not make: " + std::to_string(kind));
  *d = new Descriptor{};
  (*d)->kind = kind;
  return success;
}
int cudnnBackendDestroyDescriptor(Descriptor* d) {
  delete d;
  return success;
}

int cudnnBackendSetAttribute(Descriptor* d, int name, int type, int64_t count, const void* from) {
  REQUIRE(d && from && !d->finalised);
  const Rules& rules = *rules_of(d->kind);
  const auto rule = rules.find(name);
  if (rule == rules.end()) return wrong("an attribute that rill does not set: " + std::to_string(name));
  const bool fits = type == rule->second.type || (rule->second.type == t_float && type == t_double);
  REQUIRE(fits && count >= rule->second.least && count <= rule->second.most);
  const auto* bytes = static_cast<const char*>(from);
  d->attributes[name] = {type, count, {bytes, bytes + size_t(count) * bytes_of(type)}};
  return success;
}

int cudnnBackendFinalize(Descriptor* d) {
  REQUIRE(d && !d->finalised && d->kind != k_engine && d->kind != k_config);
  if (d->kind != k_plan)
    for (const auto& [name, rule] : *rules_of(d->kind))
      if (!d->attributes.count(name)) return wrong("an attribute is missing: " + std::to_string(name));
  const int status = d->kind == k_tensor        ? finalise_tensor(*d)
                     : d->kind == k_convolution ? finalise_convolution(*d)
                     : d->kind == k_graph       ? finalise_graph(*d)
                     : d->kind == k_heuristics  ? finalise_heuristics(*d)
                     : d->kind == k_plan        ? finalise_plan(*d)
                     : d->kind == k_operands    ? finalise_operands(*d)
                                                : finalise_operation(*d);
  d->finalised = status == success;
  return status;
}

int cudnnBackendGetAttribute(Descriptor* d, int name, int type, int64_t most, int64_t* count, void* to) {
  REQUIRE(d && d->finalised && count && (to || most == 0));
  const auto give = [&](int of_type, const auto& values) -> int {
    REQUIRE(type == of_type);
    *count = int64_t(values.size());
    const size_t n = size_t(std::min(*count, most)) * sizeof values[0];
    if (n > 0) std::memcpy(to, values.data(), n);
    return success;
  };
  if (d->kind == k_heuristics && name == 202) {
    REQUIRE(type == t_descriptor);
    const std::vector<int> found = engines_for(*d);
    *count = int64_t(found.size());
    for (size_t i = 0; i < size_t(std::min(*count, most)); ++i) {
      Descriptor* config = static_cast<Descriptor**>(to)[i];
      REQUIRE(config && config->kind == k_config);
      config->engine = found[i], config->operation = d->operation, config->text = d->text, config->finalised = true;
    }
    return success;
  }
  if (d->kind == k_config && name == 300) {
    REQUIRE(type == t_descriptor && most == 1);
    Descriptor* engine = *static_cast<Descriptor**>(to);
    REQUIRE(engine && engine->kind == k_engine);
    engine->engine = d->engine, engine->finalised = true, *count = 1;
    return success;
  }
  if (d->kind == k_engine && name == 1303) return give(t_note, engines[d->engine].notes);
  if (d->kind == k_engine && name == 1305) return give(t_behavior, engines[d->engine].behavior);
  if (d->kind == k_plan && name == 402) return give(t_int64, std::vector<int64_t>{d->workspace});
  if (d->kind == k_plan && name == 405) return give(t_char, d->text);
  return wrong("an attribute that rill does not read: " + std::to_string(name));
}

int cudnnBackendExecute(Handle* handle, Descriptor* plan, Descriptor* pack) {
  if (simulated_failure("cudnnBackendExecute")) return execution_failed;
  REQUIRE(handle && handle->stream);
  REQUIRE(plan && plan->kind == k_plan && plan->finalised && pack && pack->kind == k_operands && pack->finalised);
  const Operation& o = *plan->operation;
  const auto ids = list<int64_t>(*pack, 1000);
  const auto pointers = list<char*>(*pack, 1001);
  REQUIRE(ids.size() == 3);
  const Tensor* tensors[] = {&o.w, &o.x, &o.y};
  char* at[3];
  for (int i = 0; i < 3; ++i) {
    const auto found = std::find(ids.begin(), ids.end(), tensors[i]->id);
    REQUIRE(found != ids.end());
    at[i] = pointers[size_t(found - ids.begin())];
    REQUIRE(at[i] && reinterpret_cast<uintptr_t>(at[i]) % uint64_t(tensors[i]->alignment) == 0);
  }
  char* workspace = one<char*>(*pack, 1003);
  const auto needed = size_t(plan->workspace);
  REQUIRE(needed == 0 || (workspace && reinterpret_cast<uintptr_t>(workspace) % 16 == 0));
  ++executions;
  return simulated_work(handle->stream, [=, o = *plan->operation]() -> int {
    char *w = simulated_memory(at[0], o.w.bytes()), *x = simulated_memory(at[1], o.x.bytes()),
         *y = simulated_memory(at[2], o.y.bytes()), *own = needed ? simulated_memory(workspace, needed) : nullptr;
    if (!w || !x || !y || (needed && !own)) return 700;  // CUDA_ERROR_ILLEGAL_ADDRESS
    if (own) std::memset(own, 0x5a, needed);
    Convolved(o).run(w, x, y, o.kind == k_forward ? y : o.kind == k_data_gradient ? x : w);
    return 0;
  });
}
}
