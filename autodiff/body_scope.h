// BodyScope: marks code that runs inside a body: in a branch, in a step of a loop, in recompute() or in a traced
// function that is called. To a tape outside a body is one step, traced or eager, and reads an entire table even if it
// looks up rows of it: else whether a gradient is sparse would depend on tracing.
#pragma once

namespace rill::detail {

extern thread_local constinit int open_bodies;  // on this thread; in tape.cpp

class BodyScope {
 public:
  BodyScope() { ++open_bodies; }
  ~BodyScope() { --open_bodies; }
  BodyScope(const BodyScope&) = delete;
};

}  // namespace rill::detail
