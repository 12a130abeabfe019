// See variable_names.h.
#include "rill/trace/graph/variable_names.h"

#include <algorithm>
#include <set>
#include <vector>

#include "rill/ops/state/variable_state.h"
#include "rill/trace/graph/unique_names.h"

namespace rill {
namespace {

// "dense" of "dense/kernel"; empty if there is no scope.
std::string outermost(const std::string& name) {
  const size_t slash = name.find('/');
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

// A number for the layer that made each Variable: a layer makes its Variables one after the other, and never two
// of one name. The order in which a graph reads them would not distinguish two layers whose calls interleave.
std::map<const VariableState*, int> layers_of(std::vector<VariableState*> states) {
  std::ranges::sort(states, {}, [](const VariableState* v) { return v->id; });
  struct Layer {
    int number;
    std::set<std::string> names;
  };
  std::map<std::string, Layer> open;  // the last one of each outermost scope
  std::map<const VariableState*, int> result;
  int count = 0;
  for (const VariableState* v : states) {
    const auto [at, is_new] = open.try_emplace(outermost(v->name), Layer{count, {}});
    if (is_new) ++count;
    else if (at->second.names.contains(v->name)) at->second = {count++, {}};
    at->second.names.insert(v->name);
    result[v] = at->second.number;
  }
  return result;
}

}  // namespace

std::map<const VariableState*, std::string> unique_names(std::span<VariableState* const> states,
                                                         const NamedVariables& paths) {
  std::map<const VariableState*, std::string> names;
  UniqueNames taken;
  for (const auto& [path, v] : paths) {
    if (!names.try_emplace(&v.state(), path).second) continue;
    taken.take(path);
    for (size_t end = path.find('/'); end != path.npos; end = path.find('/', end + 1)) taken.take(path.substr(0, end));
  }
  std::vector<VariableState*> others;
  std::set<std::string> own;
  for (VariableState* v : states)
    if (!names.contains(v)) others.push_back(v), own.insert(v->name);
  const bool distinct = own.size() == others.size() && std::ranges::none_of(own, [&](auto& n) { return taken.has(n); });
  const std::map<const VariableState*, int> layers = layers_of(others);
  std::map<int, std::string> scopes;  // of each layer
  for (const VariableState* v : others) {
    const std::string scope = outermost(v->name);
    if (distinct || scope.empty()) {
      names[v] = taken.add(v->name);
      continue;
    }
    const auto [at, is_new] = scopes.try_emplace(layers.at(v));
    if (is_new) at->second = taken.add(scope);
    names[v] = taken.add(at->second + v->name.substr(scope.size()));
  }
  return names;
}

}  // namespace rill
