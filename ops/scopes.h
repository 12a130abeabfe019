// Name scopes, and whether a function is being traced.
#pragma once
#include <string>
#include <string_view>

#include "rill/tensor/error.h"

#pragma GCC visibility push(default)

namespace rill {

// False inside a function that is being traced.
bool executing_eagerly();

// While it lives, graph nodes and Variables made on this thread are named "outer/name/...".
class NameScope {
 public:
  explicit NameScope(std::string_view name);
  ~NameScope();
  NameScope(const NameScope&) = delete;

 private:
  size_t outer_length_;
};
// "layer1/dense", or "".
const std::string& current_scope();

}  // namespace rill

#pragma GCC visibility pop
