// GraphFunction: a traced graph that is called as the Function it was traced from is, without the callable: through the
// same cache of instances, tiers and gradients. Files are read into these.
#pragma once
#include <atomic>
#include <string>
#include <vector>

#include "rill/tensor/fork_mutex.h"
#include "rill/trace/function.h"

#pragma GCC visibility push(default)

namespace rill {

class GraphFunction {
 public:
  // `traced`: as FunctionCore::trace_open() gives it. Nothing is checked here; see check().
  GraphFunction(std::string name, FunctionCore::OpenGraph traced, const Where& where);
  GraphFunction(const GraphFunction&) = delete;

  // The results, and the Variables assigned. `arguments`: one an argument of the graph, of its dtype and shape (sizes
  // that are open in the graph: any). Throws rill::Error for others, and for sizes that the trace does not serve.
  std::vector<Tensor> operator()(std::vector<Tensor> arguments, const Where& where);

  const std::string& name() const { return core_.name(); }
  const FunctionCore::OpenGraph& traced() const { return traced_; }
  // What the arguments and results are; open sizes are `any`.
  const std::vector<ArgSpec>& arguments() const { return arguments_; }
  std::vector<Spec> results() const;
  // As Function's.
  int trace_count() const { return core_.trace_count(); }
  std::string explain() const { return core_.explain(); }
  // The graph that a call on arguments of these specs runs, before any pass. NotOpen where the trace does not serve
  // them.
  Graph graph_for(const std::vector<Tensor>& arguments) const;

  // Throws rill::Error unless the graph, which a file may have made of anything, is sound: each node is inferred again
  // and must give what it says, for the sizes that the trace was made with.
  void check() const;

 private:
  class Body;
  std::vector<Tensor> run(const std::vector<Tensor>& arguments) const;
  void check_arguments(const std::vector<Tensor>& arguments, const Where& where) const;
  void adopt(const Where& where);

  FunctionCore::OpenGraph traced_;
  std::vector<ArgSpec> arguments_;
  FunctionCore core_;
  UserCodeMutex adopting_;
  std::atomic<bool> adopted_ = false;
};

}  // namespace rill

#pragma GCC visibility pop
