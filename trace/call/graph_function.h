// GraphFunction: a traced graph without its callable, which is called as the Function it was traced from would be, with
// the same cache of instances, tiers and gradients. Models read from files are GraphFunctions.
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

  // Runs the graph, assigning its Variables, and returns the results. `arguments`: one per argument of the graph, of
  // its dtype and shape (open sizes may have any value). Throws rill::Error for other arguments, and for sizes that
  // violate a guard of the trace.
  std::vector<Tensor> operator()(std::vector<Tensor> arguments, const Where& where);

  const std::string& name() const { return core_.name(); }
  const FunctionCore::OpenGraph& traced() const { return traced_; }
  // The specs of arguments and results; open sizes are `any`.
  const std::vector<ArgSpec>& arguments() const { return arguments_; }
  std::vector<Spec> results() const;
  // As those of Function.
  int trace_count() const { return core_.trace_count(); }
  std::string explain() const { return core_.explain(); }
  // The graph that a call with these arguments runs, before any pass. Throws NotOpen if they violate a guard.
  Graph graph_for(const std::vector<Tensor>& arguments) const;

  // Checks a graph that comes from a file: infers each node again, for the sizes that the trace was made with, and
  // throws rill::Error if the results differ from those that the graph states.
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
