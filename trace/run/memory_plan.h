// Memory planning: where the values of a graph are stored while it runs. Values that outlive the call (outputs,
// assigned variables) get their own buffers in each call; all others share one arena, at offsets computed here from
// their lifetimes. Elementwise results reuse an operand's memory if nothing reads it afterwards. An output may reuse
// the memory of an input that only the call holds: a variable's old value, or an argument that the caller has given up.
#pragma once
#include <vector>

#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

struct ValueLocation {
  enum class Kind : uint8_t {
    input,     // given by the caller
    constant,  // in the graph
    arena,     // at `offset` in the arena
    output,    // allocated in each call
    view       // an alias of another value: made in each call, because its base moves, or once (fixed_view)
  };
  Kind kind = Kind::arena;
  size_t offset = 0;
  // A view of an arena value or a constant: made once, with the frame, and not in each call.
  bool fixed_view = false;
  // For an output: the graph input whose memory it reuses in calls that are the only holder of that input's tensor;
  // else -1. The input is the old value of the assigned variable, or an argument. Each input is used once.
  int32_t over = -1;
};

struct MemoryPlan {
  std::vector<ValueLocation> locations;  // by value number
  std::vector<size_t> first;             // the number of a node's first value
  size_t arena_bytes = 0;
  size_t unshared_bytes = 0;  // the size of the arena if no memory were shared
  int in_place = 0;           // results that reuse an operand's memory

  size_t number(ValueId v) const { return first[size_t(v.node)] + size_t(v.index); }
};

MemoryPlan plan_memory(const Graph& g);

// The bytes of a dense tensor's elements.
inline size_t bytes_of(const Spec& s) { return size_t(s.shape.numel()) * size_of(s.dtype); }

}  // namespace rill

#pragma GCC visibility pop
