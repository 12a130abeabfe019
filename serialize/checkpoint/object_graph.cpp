#include "rill/serialize/checkpoint/object_graph.h"

#include <algorithm>

#include "rill/serialize/messages.h"

namespace rill {

ObjectGraph::ObjectGraph(const BundleReader& file) : file_(file) {
  if (!file.contains(key) || !file.is_known(key) || file.spec(key).dtype != DType::string) return;
  const auto texts = file.read(key).to_vector<std::string>();
  if (texts.size() != 1 || !parse(texts[0], graph_)) graph_.Clear();
}

int ObjectGraph::child(int node, std::string_view name) const {
  if (node < 0 || node >= graph_.nodes_size()) return none;
  for (const auto& child : graph_.nodes(node).children())
    if (child.local_name() == name && child.node_id() < graph_.nodes_size()) return std::max(child.node_id(), none);
  return none;
}

std::string ObjectGraph::entry(int node) const {
  if (node < 0 || node >= graph_.nodes_size() || graph_.nodes(node).attributes_size() != 1) return {};
  const std::string& key = graph_.nodes(node).attributes(0).checkpoint_key();
  return file_.contains(key) ? key : std::string();
}

std::map<std::string, std::string> ObjectGraph::full_names() const {
  std::map<std::string, std::string> names;
  for (const auto& node : graph_.nodes())
    for (const auto& a : node.attributes()) {
      if (a.full_name().empty() || !file_.contains(a.checkpoint_key())) continue;
      const auto [at, fresh] = names.emplace(a.full_name(), a.checkpoint_key());
      if (!fresh && at->second != a.checkpoint_key()) at->second.clear();
    }
  return names;
}

}  // namespace rill
