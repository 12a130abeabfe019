// vmap of control flow, shared by the batch rules of the nodes. The inner graphs are traced again, on batches. Values
// that are the same for all rows stay unbatched, so that a loop over a counter remains one loop.
//
// Where the condition differs from row to row, all branches run and each row selects its own result; a while_loop runs
// until every row is done, and finished rows keep their values. A row must not fail in code that it would not have run:
// assertions of a branch hold for the rows that take it, and finished rows run a step on the operands of an unfinished
// row.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "rill/autodiff/batching.h"
#include "rill/trace/control/control_nodes.h"

namespace rill {

using RowFlags = std::vector<char>;  // for each value, 1 if it is batched

inline Spec with_rows(Spec s, Dim size, size_t at = 0) {
  s.shape.insert(at, size);
  return s;
}
bool any_batched(std::span<const char> flags);
// The first `count` results: the node's own, without those that an enclosing tape has added.
inline Tensors first_results(const Tensors& out, size_t count) {
  return Tensors(out.begin(), out.begin() + long(count));
}
// A condition with one element a row, reshaped to broadcast against the batched tensor `like`.
Tensor condition_beside(const Tensor& by_row, const Tensor& like);

// Traces `body` into a graph that replaces `of`. Arguments have the given specs, those flagged in `in` with a batch
// axis in front. `body` sees single rows; results that differ between rows, and those flagged in `out` on entry, become
// batched, and `out` says on return which are. Cached by graph, `what`, flags and size; the size may be an open one of
// the enclosing trace.
using RowBody = Callback<std::vector<Tensor>(Batcher& batcher, std::span<const Tensor> rows)>;
std::shared_ptr<const InnerGraph> graph_of_row_body(const InnerGraph& of, std::string what, std::span<const Spec> specs,
                                                    const RowFlags& in, RowFlags& out, Dim size, const RowBody& body);
// The same, with the graph itself as the body.
std::shared_ptr<const InnerGraph> graph_of_rows(const InnerGraph& g, const RowFlags& in, RowFlags& out, Dim size);
std::vector<Spec> inputs_of(const Graph& g);

// While it lives, this thread runs a branch for all rows, though only `rows` (a bool a row) take it. It applies to
// calls made under the listener `outside`, and to no others.
class BranchRows {
 public:
  BranchRows(TraceListener* outside, Tensor rows);
  ~BranchRows();
  BranchRows(const BranchRows&) = delete;

 private:
  friend Tensor within_branch(const Tensor& by_row);
  TraceListener* const outside_;
  const Tensor rows_;
  const BranchRows* const outer_;
};
// `by_row`, restricted to the rows that take the branch that is running.
Tensor within_branch(const Tensor& by_row);

// --- Loops -----------------------------------------------------------------------------------------------------------

// Which carried values are batched: those that are at the start, and those that become so in a step. `first` is the
// index of the first carried value among the graph's results.
RowFlags carried_flags(const InnerGraph& step, RowFlags in, size_t carried, size_t first, Dim size);
// Operand `i`, batched if `flagged`, with the batch as axis `at`.
Tensor batched_operand(const BatchArgs& a, size_t i, bool flagged, int64_t at = 0);
// Moves the batch axis of stacked results, which is behind the axis of steps, to the front.
void batch_to_front(Tensors& out, std::span<const char> flags, size_t first);
// Replaces the operands of finished rows by those of the first unfinished row, so that the step is safe to run on them.
// The results of finished rows are not used.
void replace_done(Batcher& batcher, const Tensor& active, std::span<Tensor> operands);

}  // namespace rill
