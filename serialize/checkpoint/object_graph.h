// The graph of objects that TensorFlow writes into its checkpoints: a path of attributes, starting from the model,
// leads to each variable, whose entry may have another name.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "rill/serialize/checkpoint/bundle.h"

#pragma GCC visibility push(default)

namespace rill {

class ObjectGraph {
 public:
  static constexpr int root = 0, none = -1;
  static constexpr const char* key = "_CHECKPOINTABLE_OBJECT_GRAPH";  // the entry that it is read from

  // Empty if the file has no such graph, or an unreadable one: names are not worth a failure.
  explicit ObjectGraph(const BundleReader& file);

  // The object that `node` has under that name; -1 if there is none, or `node` is -1.
  int child(int node, std::string_view name) const;
  // The entry of the variable at `node`; "" if it is not one. A variable with several paths is saved once.
  std::string entry(int node) const;
  // Entries by the names that their variables had in the program; "" for a name of several variables.
  std::map<std::string, std::string> full_names() const;

 private:
  const BundleReader& file_;
  proto::TrackableObjectGraph graph_;
};

}  // namespace rill

#pragma GCC visibility pop
