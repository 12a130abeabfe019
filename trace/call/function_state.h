// The state of a FunctionCore: its traces, each with its executables. function.cpp looks them up, function_traces.cpp
// makes them.
#pragma once
#include <mutex>
#include <optional>

#include "rill/ops/state/variable_state.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/trace/call/function_key.h"
#include "rill/trace/call/graph_call.h"
#include "rill/trace/call/open_pattern.h"
#include "rill/trace/call/variable_set.h"
#include "rill/trace/function.h"

namespace rill {

// One traced graph, ready to run for given values of its open sizes (most traces have none).
struct FunctionCore::Instance {
  OpenPattern::Sizes sizes;
  std::shared_ptr<GraphCall> graph;
  VariableSet variables;  // of the graph
  Shared<void> prototype;
  uint64_t last_used = 0;
};

struct FunctionCore::Trace {
  FunctionKey key;  // its leaves have specs, but no data
  int number = 0;
  std::string reason;
  size_t traced_nodes = 0;
  uint64_t last_used = 0;
  std::vector<Shared<Instance>> instances;  // one, where no size is open
  // Where sizes are open:
  OpenPattern open;
  Graph traced;
  std::shared_ptr<DimTable> dims;  // its symbolic sizes
  Shared<void> prototype;
  // The variables that it reads or assigns, with whether tapes watched them, their dtype and device; `freezes` is the
  // value of freeze_count at which that was last true.
  struct Watched {
    Shared<VariableState> variable;
    std::optional<bool> trained;  // none of a graph from a file, which serves both
    DType dtype;
    Device device;
  };
  std::vector<Watched> watched;
  uint64_t freezes = 0;

  // Gives `core` a trace that was made elsewhere, as if the first call had made it.
  static void adopt(FunctionCore& core, const Shared<Trace>& t, const Where& where);

  // Whether none has been frozen, unfrozen, cast or moved since. Called with the mutex held.
  bool watches_as_before() {
    const uint64_t now = freeze_count.load(std::memory_order_relaxed);
    if (freezes == now) return true;
    for (const Watched& w : watched)
      if ((w.trained && w.variable->trains() != *w.trained) || w.variable->spec.dtype != w.dtype ||
          !(w.variable->spec.device == w.device))
        return false;
    freezes = now;
    return true;
  }
  // Whether a call with these arguments can use this trace; if so, sets `sizes` to the values of the open sizes.
  bool serves(const FunctionKey& k, OpenPattern::Sizes& sizes) const {
    if (open.empty()) return key.matches(k);
    return key.matches_but_sizes(k) && open.fits(key.leaves, k.leaves, sizes);
  }
};

struct FunctionCore::State {
  ForkMutex mutex;        // guards what follows; never held while a callable or a pass runs
  UserCodeMutex tracing;  // one thread traces at a time; calls with a cached trace do not wait for it
  std::vector<Shared<Trace>> traces;
  Shared<Trace> latest;
  std::vector<OpenHistory> histories;  // which sizes have changed, for relax_shapes
  std::vector<Shared<Trace>> refused;  // open patterns that could not be traced; `reason` says why
  int traced = 0;
  uint64_t clock = 0;
  bool warned = false, warned_refusal = false;
};

// The graph's inputs, in order: arguments and captured tensors; VariableCall fills in those of variables. Arguments are
// moved, so that one that the caller has given up has no other owner.
std::vector<Tensor> gather_inputs(const Graph& g, std::vector<Tensor>& arguments);

}  // namespace rill
