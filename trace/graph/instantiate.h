// Open sizes: one trace for many concrete sizes. The callable is traced with the concrete sizes of a call, as symbolic
// Dims (tensor/dim.h); `instantiate` rebuilds that graph for other sizes without running the callable: attributes are
// evaluated from the expressions in them, and output shapes are inferred again. If a guard fails for these sizes
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

// The graph does not apply to these sizes; the message says why and where in the user's source.
class NotOpen : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  NotOpen(const DimTable& dims, const DimTable::Guard& failed)
      : std::runtime_error("the trace was made for " + dims.text(failed)), guard(&failed) {}
  NotOpen(const Error& rejected) : std::runtime_error(rejected.what()), is_wrong(true) {}
  const DimTable::Guard* guard = nullptr;  // in the table, if a guard failed
  bool is_wrong = false;  // an op rejects its operands, as it would if the callable were called with these sizes
};

// `traced` for concrete sizes, one for each symbol of `dims`. With `at_any_cost`, guards that only say that another
// trace would be faster are ignored: for a model, which has no other.
Graph instantiate(const Graph& traced, const DimTable& dims, std::span<const int64_t> sizes, bool at_any_cost = false);

// Attributes with other sizes: `of` returns the replacement of each.
class DimRewriter final : public AttrRewriter {
 public:
  explicit DimRewriter(Callback<Dim(Dim)> of) : of_(std::move(of)) {}
  void field(const char* name, Dim& v) override;
  void field(const char* name, Dims& v) override;
  void field(const char* name, FillValue& v, DType dtype) override;

 private:
  Callback<Dim(Dim)> of_;
};

// Whether an attribute of `n`, or a size of its outputs, is open.
bool has_open_sizes(const Node& n);

// `traced` for people to read: open sizes, and sizes computed from them, are `open_size`, printed as '?'.
Graph with_open_sizes(const Graph& traced);

// Whether a size of an operand or output of node `n` of `g`, or in its inner graphs, is open_size: such a node can only
// run for the sizes of a call.
bool holds_open_size(const Graph& g, const Node& n);

}  // namespace rill

#pragma GCC visibility pop
