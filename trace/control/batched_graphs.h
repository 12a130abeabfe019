// vmap of control flow: the inner graphs are traced again, on batches. What rows do not differ in stays as it is, so
// that a loop over a counter is a loop still. What the batch rules of the nodes share.
//
// Where rows differ in the condition, all branches run and each row takes its own; a while_loop runs until all rows are
// done, and those that are keep what they have. A row is not to fail at what it would not run: a branch's checks are of
// the rows that take it, and a step runs, for rows that are done, on the operands of one that goes on.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "rill/autodiff/batching.h"
#include "rill/trace/control/control_nodes.h"

namespace rill {

using RowFlags = std::vector<char>;  // by value, 1: it has the batch

inline Spec with_rows(Spec s, Dim size, size_t at = 0) {
  s.shape.insert(at, size);
  return s;
}
bool any_batched(std::span<const char> flags);
// As many as the node has outputs; what a tape outside has added goes.
inline Tensors first_results(const Tensors& out, size_t count) {
  return Tensors(out.begin(), out.begin() + long(count));
}
// A condition, a number a row, as what broadcasts against `like`, which has the batch.
Tensor condition_beside(const Tensor& by_row, const Tensor& like);

// What `body` makes of arguments of these specs, of which `in` have the batch, as a graph in place of `of`. Its results
// are rows; those that differ, and those of `out`, are given with the batch, and `out` says which. Made once for each
// graph, `what`, flags and size, which may be an open one of a trace.
using RowBody = Callback<std::vector<Tensor>(Batcher& batcher, std::span<const Tensor> rows)>;
std::shared_ptr<const InnerGraph> graph_of_row_body(const InnerGraph& of, std::string what, std::span<const Spec> specs,
                                                    const RowFlags& in, RowFlags& out, Dim size, const RowBody& body);
// The same of the graph itself.
std::shared_ptr<const InnerGraph> graph_of_rows(const InnerGraph& g, const RowFlags& in, RowFlags& out, Dim size);
std::vector<Spec> inputs_of(const Graph& g);

// The rows that run what this thread runs for all rows: those that take a branch. `outside`: who listens where the
// batch's calls are made; under others it says nothing.
class TakingScope {
 public:
  TakingScope(TraceListener* outside, Tensor rows);
  ~TakingScope();
  TakingScope(const TakingScope&) = delete;

 private:
  friend Tensor also_taking(const Tensor& by_row);
  TraceListener* const outside_;
  const Tensor rows_;
  const TakingScope* const outer_;
};
// Those of `by_row` that are among them.
Tensor also_taking(const Tensor& by_row);

// --- Loops -----------------------------------------------------------------------------------------------------------

// Which carried values differ: those that do at first, and those that a step makes so of others. `first`: of the
// graph's results, where the carried ones begin.
RowFlags carried_flags(const InnerGraph& step, RowFlags in, size_t carried, size_t first, Dim size);
// Operands with the batch where `flagged` says so; `at` is the axis where it then stands.
Tensor batched_operand(const BatchArgs& a, size_t i, bool flagged, int64_t at = 0);
// Stacked results have the batch behind the axis of steps.
void batch_to_front(Tensors& out, std::span<const char> flags, size_t first);
// The operands of a step: those of rows that are done are the ones of the first row that goes on, which the step may
// run on; what it gives of them is not used.
void replace_done(Batcher& batcher, const Tensor& active, std::span<Tensor> operands);

}  // namespace rill
