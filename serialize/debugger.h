// debug::dump(): every value that a traced function or eager calls compute, written into a folder, to be looked at
// afterwards: by `rill debug FOLDER` (docs/debugger.md), by TensorBoard's Debugger V2, by Dump below.
//
//   auto watched = debug::dump(f, "dumps");              // calls of `watched` are dumped
//   Tensor y = watched(x);
//   {
//     auto scope = debug::dump("dumps", {.tensors = true, .when = debug::has_inf_or_nan});
//     ...                                                // what this thread runs until the end of the block
//   }
//
// What is dumped is what the ordinary run computes, bit for bit. While it is watched a function runs node by node on
// the eager kernels, so that no value hides in a fused kernel, and each value is read once more: a step takes as long
// as an eager one and a pass over all its values, and with `tensors` the time that the disk takes.
//
// The format is that of TensorFlow's Debugger V2 (serialize/proto/debug_event.proto): files tfdbg_events.* of records,
// with the graphs, the source files, the calls and the health of the values. What it has no field for, such as the least
// number, stands in fields that other readers skip; so do elements, for which it has one, but TensorBoard hangs at it.
// Tensors above `largest` are .npy files beside it, because a record is one message in memory for every reader, and
// TensorBoard reads all of them to look for NaNs.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rill/tensor/callback.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill::debug {

// What the numbers of a tensor are like. Complex numbers count as NaN, infinite, zero, or else as positive; their least
// and greatest are magnitudes. Strings have a size alone.
struct Health {
  int64_t size = 0;
  int64_t negative_infinite = 0, positive_infinite = 0, nan = 0;
  int64_t negative = 0, zero = 0, positive = 0;            // finite ones
  double least = 0, greatest = 0, mean = 0, variance = 0;  // of the finite ones; 0 where there are none
  int64_t finite() const { return negative + zero + positive; }
  bool has_inf_or_nan() const { return negative_infinite + positive_infinite + nan > 0; }
};
// Throws rill::Error where the tensor is undefined or has no elements yet.
Health health_of(const Tensor& t, Where where = Where::current());

// A value that is about to be dumped, for conditions.
struct DumpedTensor {
  std::string_view node, op, scope;  // "layer1/relu_2", "relu", "layer1"; of an eager call the node is the op
  int output = 0;                    // which of its values
  int64_t step = 0;
  const Tensor& value;
  const Health& health;
};
using DumpCondition = Callback<bool(const DumpedTensor&)>;
// A condition: the value has a NaN or an infinity.
inline bool has_inf_or_nan(const DumpedTensor& t) { return t.health.has_inf_or_nan(); }

struct DumpOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool tensors = false;  // all elements; else each value's Health
  // Which steps: calls of dump(f, ...), scopes that one Dumper opens, steps of training, each from 0; empty: all.
  std::vector<int64_t> steps = {};
  // Which values, by patterns, of which one has to match; `*` stands for any characters, `?` for one. Empty: all.
  std::vector<std::string> functions = {};  // traced functions by name; with any, eager calls are left out
  std::vector<std::string> ops = {}, scopes = {}, nodes = {};
  // A step is kept, whole, where one of its values meets this; until its end it is held in memory. None: all are.
  DumpCondition when = {};
  bool matching_only = false;             // of a step that is kept, only the values that meet it
  int64_t largest = int64_t(16) << 20;    // bytes of a tensor above which it is a file of its own
  std::vector<std::string> sources = {};  // folders with source files, besides that of the caller and the current one
};

// A folder that dumps go into. A dump that it holds already is replaced when the first scope opens, for Debugger V2
// shows one in a folder. Any number of threads may have scopes of one Dumper.
class Dumper {
 public:
  explicit Dumper(std::string folder, DumpOptions options = {}, Where where = Where::current());
  // Copies share the folder and its count of steps; a move is a copy, so that what was moved from is whole.
  Dumper(const Dumper&) = default;
  Dumper& operator=(const Dumper&) = default;
  // Whether a scope of that step would dump anything.
  bool wants(int64_t step) const;
  const std::string& folder() const&;
  std::string folder() const&& { return folder(); }

 private:
  friend class DumpScope;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// While it lives, what this thread runs is dumped, as one step: the next one, or the one that is said.
class DumpScope {
 public:
  explicit DumpScope(const Dumper& dumper, std::optional<int64_t> step = {}, Where where = Where::current());
  // Ends the step. What the disk refuses is told on stderr: call close() to have it thrown.
  ~DumpScope();
  DumpScope(const DumpScope&) = delete;
  // Ends the step. Throws rill::Error where something could not be written. Whether it was kept.
  bool close(Where where = Where::current());

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What this thread runs until the scope ends, as step 0.
[[nodiscard]] inline DumpScope dump(const std::string& folder, const DumpOptions& options = {},
                                    Where where = Where::current()) {
  return DumpScope(Dumper(folder, options, where), 0, where);
}

// f, each call of which is a step that is dumped.
template <class F>
class Dumped {
 public:
  Dumped(F f, const Dumper& dumper, Where where) : f_(std::move(f)), dumper_(dumper), where_(where) {}
  template <class... A>
  auto operator()(A&&... arguments) const {
    DumpScope scope(dumper_, {}, where_);
    if constexpr (std::is_void_v<std::invoke_result_t<const F&, A...>>) {
      f_(std::forward<A>(arguments)...);
      scope.close(where_);
    } else {
      auto result = f_(std::forward<A>(arguments)...);
      scope.close(where_);
      return result;
    }
  }
  const F& function() const& { return f_; }
  F function() const&& { return f_; }

 private:
  F f_;
  Dumper dumper_;
  Where where_;
};
template <class F>
  requires(!std::is_convertible_v<F, std::string>)
Dumped<std::decay_t<F>> dump(F&& f, const std::string& folder, const DumpOptions& options = {},
                             Where where = Where::current()) {
  return {std::forward<F>(f), Dumper(folder, options, where), where};
}

// --- Reading ---------------------------------------------------------------------------------------------------------

struct DumpNode {
  int graph = 0;
  std::string name, op, scope, attributes;
  std::string file, function;        // the user's line: "mlp.cpp", and what was called there
  int64_t line = 0;                  // 0: not known
  std::vector<std::string> inputs;   // "node:0" of the same graph
  std::vector<std::string> outputs;  // "f32[2,3]"
  int count = 0;                     // of its values
};

struct DumpGraph {
  std::string id, name;
  int outer = -1;                    // the graph that it is inside of, by number
  std::string inside;                // and the node there that runs it
  std::vector<std::string> results;  // "node:0"
  std::vector<int> nodes;
  std::map<std::string, int> by_name;
};

// A value at one moment.
struct DumpValue {
  int node = 0, output = 0;
  int64_t step = 0, call = 0;
  int time = 0;  // 1, 2, ... in a loop, whose nodes run again in one call
  DType dtype = DType::f32;
  Shape shape;
  Health health;
  bool has_tensor = false;
  std::array<int64_t, 3> place = {};  // where its tensor is, for Dump::tensor()
  std::string path;
};

// The call of a traced function or of an op.
struct DumpCall {
  std::string name;
  int graph = -1;  // of an op none
  int64_t step = 0, number = 0;
  std::vector<int64_t> inputs, outputs;  // ids of tensors
  std::string file;
  int64_t line = 0;
};

// A folder that was dumped, on this machine or another, by rill or by TensorFlow. Eager calls are nodes of graph 0, whose
// name is "".
class Dump {
 public:
  // Throws rill::Error where the folder holds no dump, or its files are damaged. What a program that is still running, or
  // was killed, has not written whole is left out.
  explicit Dump(const std::string& folder, Where where = Where::current());

  // What was read.
  const std::string& folder() const& { return folder_; }
  // The graphs of traced functions, behind that of eager calls.
  const std::vector<DumpGraph>& graphs() const& { return graphs_; }
  // Of all graphs, by the numbers that values and graphs have.
  const std::vector<DumpNode>& nodes() const& { return nodes_; }
  // In the order in which they ended.
  const std::vector<DumpCall>& calls() const& { return calls_; }
  // By call, and in it in the order in which they were computed.
  const std::vector<DumpValue>& values() const& { return values_; }
  // "layer1/relu:0"; of a second graph's "train_step/layer1/relu:0" where the first has one of that name.
  std::string name_of(const DumpValue& v) const;
  // The elements. Throws rill::Error where the dump has the health alone.
  Tensor tensor(const DumpValue& v, Where where = Where::current()) const;
  // The lines of a source file; none where the dump does not have it.
  const std::vector<std::string>& source(const std::string& file) const&;
  const std::map<std::string, std::vector<std::string>>& sources() const& { return sources_; }
  // Of a temporary these are copies, for it may be gone when they are looked at.
  std::string folder() const&& { return folder_; }
  std::vector<DumpGraph> graphs() const&& { return graphs_; }
  std::vector<DumpNode> nodes() const&& { return nodes_; }
  std::vector<DumpCall> calls() const&& { return calls_; }
  std::vector<DumpValue> values() const&& { return values_; }
  std::vector<std::string> source(const std::string& file) const&& { return source(file); }
  std::map<std::string, std::vector<std::string>> sources() const&& { return sources_; }

 private:
  friend class DumpReading;
  std::string folder_, prefix_;
  std::vector<DumpGraph> graphs_;
  std::vector<DumpNode> nodes_;
  std::vector<DumpCall> calls_;
  std::vector<DumpValue> values_;
  std::map<std::string, std::vector<std::string>> sources_;
  struct Readers;
  std::shared_ptr<Readers> readers_;  // of the files that hold elements: they stay open
};

}  // namespace rill::debug

#pragma GCC visibility pop
