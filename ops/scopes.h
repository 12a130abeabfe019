// Where a call stands: under which names, and whether it is being traced.
#pragma once
#include <string>
#include <string_view>

#include "rill/tensor/error.h"

namespace rill {

// False inside a function that is being traced.
bool executing_eagerly();
// Throws where `size` may be one that the signature of the function being traced leaves open (may_be_open, apply.h):
// `why` is a clause, "the padding depends on ...".
void require_closed(std::string_view op, int64_t size, std::string_view why, const Where& where);

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
