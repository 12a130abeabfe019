// What a Model holds, whichever format it came from: how it is run, and its traced form.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <span>

#include "rill/serialize/model.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/trace/call/graph_function.h"

namespace rill {

namespace rill_file {
struct Package;  // rill_file/package.h
}

class Model::Impl {
 public:
  // One a name: no tensor for what is absent, one for a tensor, any number for a sequence.
  using Given = std::vector<std::vector<Tensor>>;
  struct Result {
    bool absent = false, sequence = false;
    std::vector<Tensor> tensors;
  };
  using Results = std::vector<Result>;

  std::string name;
  std::vector<ValueInfo> inputs, outputs;
  NamedMap<Variable> variables;
  std::map<std::string, std::string> metadata;  // of the file; "doc" is what it says about itself, for people
  // Runs the model on values by the order of `inputs`. `needs_values` says of an error of that in a trace that the
  // model can only be run op by op.
  Callback<Results(const Given&)> run;
  bool (*needs_values)(const Error&) = nullptr;
  Function<Results(Given)> traced;
  // Traced anew for each combination of sizes: where `traced`, whose sizes are open as the file says, is not possible.
  Function<Results(Given)> traced_each;
  // Of a .rill file: the trace that it holds, which `run` calls, and all functions of the file.
  std::shared_ptr<GraphFunction> loaded = nullptr;
  Shared<rill_file::Package> package = nullptr;

  // Sets `traced`, once all else is there.
  void trace(const Where& where);
  // What is traced: one for each input that is not optional, as the file describes it, or as `given` does where that
  // has any. Throws as Model::graph() does.
  std::vector<ArgSpec> signature(std::span<const ArgSpec> given, const Where& where) const;
  Results call(const Given& given, const Where& where);
  Given arrange(const std::map<std::string, Tensor>& by_name, const Where& where) const;
  // Whether a tape of this thread wants gradients of a call, and they flow through a loop that may take any number of
  // steps: a trace keeps what a gradient reads for so many steps as it has a bound for, ops that run one by one for
  // all.
  bool wants_endless_gradient(const Given& given, const Where& where);
  std::string op_by_op_because() const;
  void run_op_by_op(const std::string& because);
  // Why each combination of sizes has a trace of its own, or "".
  std::string each_size_because() const;
  // The function that calls are traced by.
  const Function<Results(Given)>& tracing() const { return each_size_.load() ? traced_each : traced; }
  // Goes on to the next way to run it, after one in which `e`, thrown by a call, says that values must be known.
  void give_up_on(const Error& e);
  // The graph of a call.
  Graph graph(const Given& given, const Where& where);
  bool endless() const { return endless_; }
  // The whole trace of a function that was read from a .rill file; throws for other models.
  FunctionCore::OpenGraph traced_whole(const Where& where) const;

 private:
  // Whether the file leaves sizes open.
  bool has_open_sizes() const;

  std::atomic<bool> op_by_op_{false}, each_size_{false};
  std::atomic<bool> endless_{false};  // a trace has such a loop
  std::atomic<int> seen_traces_{0};   // that have been searched for one
  mutable ForkMutex mutex_;
  std::string because_, each_because_;
};

}  // namespace rill
