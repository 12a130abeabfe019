// Open sizes: one trace for many concrete sizes. The callable is traced with the concrete sizes of a call, as symbolic
// Dims (tensor/dim.h); `instantiate` rebuilds that graph for other sizes without running the callable: attributes are
// evaluated from the expressions in them, and output shapes are inferred again. Where a guard fails for these sizes
// (the callable might have behaved differently), or a shape differs from the trace's expression for it, NotOpen is
// thrown, and the function traces the call itself.
#pragma once
#include <span>
#include <stdexcept>
#include <vector>

#include "rill/tensor/dim_table.h"
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

// The graph cannot serve these sizes; the message says why and where in the user's source.
class NotOpen : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  NotOpen(const DimTable& dims, const DimTable::Guard& failed)
      : std::runtime_error("the trace was made for " + dims.text(failed)), guard(&failed) {}
  NotOpen(const Error& rejected) : std::runtime_error(rejected.what()), is_wrong(true) {}
  const DimTable::Guard* guard = nullptr;  // of the table, where one failed
  bool is_wrong = false;  // an op rejects what it is given, as it would where the callable is called with these sizes
};

// `traced` for concrete sizes, one a symbol of `dims`; `at_any_cost` also for those of which a guard says no more than that
// another trace would be cheaper: for a model, which has no other.
Graph instantiate(const Graph& traced, const DimTable& dims, std::span<const int64_t> sizes, bool at_any_cost = false);

// Attributes with other sizes: those that `of` gives for the ones in them.
class DimRewriter final : public AttrRewriter {
 public:
  explicit DimRewriter(Callback<Dim(Dim)> of) : of_(std::move(of)) {}
  void field(const char* name, Dim& v) override;
  void field(const char* name, Dims& v) override;
  void field(const char* name, FillValue& v, DType dtype) override;

 private:
  Callback<Dim(Dim)> of_;
};

// Whether an attribute of `n`, or a size of what it gives, is open.
bool has_open_sizes(const Node& n);

// `traced` for people to read: sizes that are open, or made from one that is, are `open_size`, printed as '?'.
Graph with_open_sizes(const Graph& traced);

// Whether a size that node `n` of `g` reads, gives or has in the graphs inside it is open_size: such a node runs for
// the sizes of a call alone.
bool holds_open_size(const Graph& g, const Node& n);

}  // namespace rill

#pragma GCC visibility pop
