// BodyScope: marks what runs inside a body, that is in a branch, in a step of a loop, in recompute() or in a traced
// function that is called. To a tape outside a body is one step, traced or eager, and takes the whole of a table even
// where it looks up rows of it: else whether a gradient is sparse would depend on tracing.
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
