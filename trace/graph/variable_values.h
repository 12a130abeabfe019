// What the Variables of graphs hold and are called, for whoever writes a graph down: a file, or a graph with constants
// in their place.
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
  // The values that the Variables which these graphs, and those inside them, read or assign have now, all at one
  // moment: other threads may go on training. Throws rill::Error, under the name of `op`, where the function that is
  // traced on this thread has assigned one of them, whose value is not known then. Those among `paths` have the names
  // that they have there.
  VariableValues(std::string_view op, std::span<const Graph* const> graphs, const NamedVariables& paths,
                 const Where& where);
  // `v`: of one of these.
  const Tensor& of(const Shared<VariableState>& v) const { return values_.at(v.get()).value; }
  // The name of `v`, which no other has: of two Dense layers dense/kernel and dense_1/kernel, as in a checkpoint.
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
