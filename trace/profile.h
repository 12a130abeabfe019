// Where the time and the memory of a traced function go: profile(f, x) runs it and says what each kernel took,
// memory_plan(f, x) says what it will hold at once.
//
//   std::cout << profile(step, x, y);                          // a table
//   export_profile(profile(step, x, y), "trace.json");         // for ui.perfetto.dev and chrome://tracing
//
// Both trace the callable once more for these arguments, and neither assigns a Variable or moves the random sequence.
#pragma once
#include <iosfwd>
#include <string>
#include <type_traits>
#include <vector>

#include "rill/trace/function.h"

#pragma GCC visibility push(default)

namespace rill {

// The limits of the machine. 0: measured once, when first needed (a third of a second): reading and writing
// memory in one pass over 64 MiB, and an f32 matrix product of 1024 x 1024 x 1024.
struct MachineLimits {
  double bytes_per_second = 0;
  double flops_per_second = 0;
};
MachineLimits measured_limits();

struct ProfileOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int runs = 10;  // after one that is not counted
  MachineLimits limits = {};
};

struct KernelProfile {
  std::string name;        // the op, or the ops that were fused: "multiply, add, tanh"
  std::string output;      // "f32[32,4]"
  std::string scope;       // from NameScope
  std::string where;       // the user's line, of the last op in it
  int32_t node = -1;       // in Profile::graph; of a kernel inside control flow, the node that holds it
  std::string inside;      // "scan body", "scan body, cond then": the control flow around it, from the outside; else ""
  int depth = 0;           // how many of these there are
  int64_t calls = 0;       // in all runs; 0 of a branch that was not taken
  double seconds = 0;      // of all calls; of control flow, with the kernels inside
  int64_t bytes_read = 0;  // a call: each operand once, however often its elements are read
  int64_t bytes_written = 0;  // a call
  double flops = 0;           // a call; 0 where not known. Known of matrix products and convolutions
  // Of the machine's memory or compute limit, whichever this kernel meets first. Above 100 where data stays in caches;
  // 0 of control flow.
  double percent_of_limit = 0;
  bool compute_bound = false;  // which of the two
};

struct Profile {
  // That a kernel ran, in the last run.
  struct Span {
    int kernel = -1;  // in `kernels`
    double start = 0, seconds = 0;
  };
  std::string function;
  std::string state;  // "compiled", or "eager kernels: " and why
  int runs = 0;
  double seconds = 0;  // of all runs, with what lies between the kernels
  MachineLimits limits;
  std::vector<KernelProfile> kernels;  // in program order, those inside control flow behind it; views are none
  std::vector<Span> spans;             // by start; of those inside control flow not more than 100 000
  Graph graph;                         // what ran
};
// A table, the longest kernel first; what is inside control flow stands indented below it.
std::string to_string(const Profile& p);
std::ostream& operator<<(std::ostream& out, const Profile& p);

// Writes a profile in the format that `path` asks for:
//
//   trace.json       Chrome's trace events: the last run on a time line, for ui.perfetto.dev
//   mlp.nodes.json   node data for Model Explorer: microseconds on the nodes that export_graph(profile.graph,
//                    "mlp.json") writes, control flow with all that is inside
//   mlp.html         the page of export_graph, with the time of each node as heat
//   logs/mlp         (no extension, or a folder that exists) a folder that TensorBoard reads: graph and RunMetadata,
//                    for "compute time" and "memory" in its graph view
//
// Makes missing folders; throws rill::Error for another extension and where the file cannot be written. It is in
// librill_io, as export_graph.
void export_profile(const Profile& p, const std::string& path, Where where = Where::current());

// The peak memory of a call.
struct MemoryUse {
  struct Value {
    std::string op;  // that made it; of fused ones all
    Spec spec;
    size_t bytes = 0;
    bool leaves = false;  // a result or an assigned value; else it lies in the arena
    std::string scope, where;
  };
  std::string function;
  size_t peak_bytes = 0;      // arena and results: what a call allocates
  size_t arena_bytes = 0;     // kept from call to call
  size_t unshared_bytes = 0;  // what the arena would be if no memory served twice
  size_t result_bytes = 0;    // of outputs and assigned values
  size_t over_variables = 0;  // of these: written over Variables' old values, where nobody else holds them
  size_t over_arguments = 0;  // and over arguments, where the caller gives them up: f(std::move(x))
  size_t input_bytes = 0;     // arguments, captured tensors and Variables, which are there already
  size_t constant_bytes = 0;
  int in_place = 0;           // results written over an operand
  std::string busiest;        // the op at which most is alive
  std::vector<Value> values;  // alive there, the largest first
};
std::string to_string(const MemoryUse& m);
std::ostream& operator<<(std::ostream& out, const MemoryUse& m);

namespace detail {

Profile profile_graph(Graph traced, const std::vector<Tensor>& arguments, const ProfileOptions& options);
MemoryUse memory_use(Graph traced);

inline ArgSpec graph_argument(const Tensor& t) { return {t.spec(), ""}; }
template <class T>
const T& graph_argument(const T& value) {  // which outlives the call that it is an argument of
  return value;                            // NOLINT(bugprone-return-const-ref-from-parameter)
}

class ArgumentTensors final : public LeafVisitor {
 public:
  void tensor(Tensor& t) override { tensors.push_back(t); }
  void constant(const void*, size_t) override {}
  std::vector<Tensor> tensors;
};

}  // namespace detail

// Runs f's traced form `options.runs` times on these arguments, with a timer around each kernel, once its
// kernels are compiled. Variables stay as they are; what a function prints is printed. Throws what tracing throws.
template <class R, class... A>
Profile profile(const Function<R(A...)>& f, const ProfileOptions& options, std::type_identity_t<A>... args) {
  std::tuple<std::decay_t<A>...> values(std::move(args)...);
  Graph g = std::apply([&](auto&... a) { return f.graph(detail::graph_argument(a)...); }, values);
  detail::ArgumentTensors arguments;
  walk(values, arguments);
  return detail::profile_graph(std::move(g), arguments.tensors, options);
}
template <class R, class... A>
Profile profile(const Function<R(A...)>& f, std::type_identity_t<A>... args) {
  return profile(f, ProfileOptions(), std::move(args)...);
}

// The memory of a call on such arguments, computed without running it, for the kernels that a call has once they are
// compiled.
template <class R, class... A>
MemoryUse memory_plan(const Function<R(A...)>& f, const std::type_identity_t<A>&... args) {
  return detail::memory_use(f.graph(detail::graph_argument(args)...));
}

}  // namespace rill

#pragma GCC visibility pop
