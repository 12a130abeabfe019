// For the tests of .rill files: tensors to give, and calls of what was read.
#pragma once
#include <map>
#include <vector>

#include "graph_programs.h"
#include "rill/rill.h"
#include "rill/serialize.h"

namespace rill_files {

using namespace rill;

using graph_programs::data;
using graph_programs::List;

// Calls by position.
inline List call(const Model& m, const List& in) {
  std::map<std::string, Tensor> named;
  for (size_t k = 0; k < in.size(); ++k) named[m.inputs()[k].name] = in[k];
  const auto out = m(named);
  List results;
  for (const ValueInfo& v : m.outputs()) results.push_back(out.at(v.name));
  return results;
}

}  // namespace rill_files
