// What recompute() keeps, and how a trace notes which of its values are to be computed again: recompute.h has the
// public functions.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "rill/devices/params/attrs.h"
#include "rill/tensor/shared.h"

#pragma GCC visibility push(default)

namespace rill {

class Op;  // ops/op.h

enum class Kept : uint8_t { nothing, products };
// Only the arguments are kept; everything else is computed again.
inline constexpr Kept save_nothing = Kept::nothing;
// The results of matrix products and convolutions are kept too; cheap ops are computed again.
inline constexpr Kept save_products = Kept::products;

// The values that recompute() keeps beside the arguments.
struct RecomputePolicy {
  RecomputePolicy(Kept kept = save_nothing) : kept(kept) {}
  // Whether the results of this call are kept.
  bool keeps(const Op& op, AttrsView attrs) const;
  // Whether no call is kept.
  bool keeps_nothing() const { return kept == Kept::nothing && names.empty(); }

  Kept kept;
  std::vector<std::string> names = {};  // of named()
};
// Keeps the values with one of these names from named(), and nothing else.
RecomputePolicy save_only(std::vector<std::string> names);

// How recompute_chain() cuts a chain of layers.
struct ChainOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int64_t segments = 0;  // 0: about sqrt(layers)
  RecomputePolicy policy = {};
};

namespace detail {

// The nodes that one call of recompute(f) computes while it is traced share it (Node::region).
struct RecomputeRegion {
  RecomputePolicy policy;
};

// The marks of nodes while they are traced: the region in which this thread is, and whether it is walking backward.
struct TraceMarks {
  const Shared<const RecomputeRegion>* region = nullptr;
  bool backward = false;
};
extern thread_local constinit TraceMarks trace_marks;

// Sets other marks, for its lifetime.
class MarkScope {
 public:
  explicit MarkScope(TraceMarks now) : before_(std::exchange(trace_marks, now)) {}
  ~MarkScope() { trace_marks = before_; }
  MarkScope(const MarkScope&) = delete;

 private:
  const TraceMarks before_;
};

}  // namespace detail
}  // namespace rill

#pragma GCC visibility pop
