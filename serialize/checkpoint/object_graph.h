// The graph of objects that TensorFlow writes into its checkpoints: a path of attributes from the model on leads to
// each variable, whose entry may have another name.
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

  // Empty where the file has no such graph, or one that cannot be read: names are not worth a failure.
  explicit ObjectGraph(const BundleReader& file);

  // The object that `node` has under that name; none where it has no such, or `node` is none.
  int child(int node, std::string_view name) const;
  // The entry of the variable that `node` is; "" where it is none. A variable of several paths is saved once.
  std::string entry(int node) const;
  // Entries by the names that their variables had in the program; "" for a name of several variables.
  std::map<std::string, std::string> full_names() const;

 private:
  const BundleReader& file_;
  proto::TrackableObjectGraph graph_;
};

}  // namespace rill

#pragma GCC visibility pop
