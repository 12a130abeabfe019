// The values and names of the Variables of graphs, for code that writes a graph to a file, or replaces them by
// constants.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "rill/ops/names.h"
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

class VariableValues {
 public:
  // The current values of the Variables that these graphs, and those inside them, read or assign, all at one
  // moment: other threads may go on training. Throws rill::Error, under the name of `op`, if the function that is
  // being traced on this thread has assigned one of them, whose value is then unknown. Those in `paths` have their
  // names there.
  VariableValues(std::string_view op, std::span<const Graph* const> graphs, const NamedVariables& paths,
                 const Where& where);
  // `v`: one of these.
  const Tensor& of(const Shared<VariableState>& v) const { return values_.at(v.get()).value; }
  // The unique name of `v`: for two Dense layers dense/kernel and dense_1/kernel, as in a checkpoint.
  const std::string& name_of(const Shared<VariableState>& v) const { return values_.at(v.get()).name; }

 private:
  struct Held {
    Tensor value;
    std::string name;
  };
  std::map<VariableState*, Held> values_;
};

// freeze() of graph.h, with these values of its Variables.
Graph freeze(const Graph& g, const VariableValues& values, const Where& where);

}  // namespace rill

#pragma GCC visibility pop
