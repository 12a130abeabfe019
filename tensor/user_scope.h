// UserScope: marks a call from rill into the user's code.
#pragma once
#include <string_view>
#include <type_traits>

#include "rill/tensor/error.h"

#pragma GCC visibility push(default)

namespace rill {

// While it lives, enclosing CallerScopes do not count: errors name the user's own lines, and tests of open sizes count
// as the user's.
class UserScope {
 public:
  UserScope();
  ~UserScope();
  UserScope(const UserScope&) = delete;

 private:
  Where where_;
  const char* function_;
  bool any_;
};

namespace detail {

// Whether a class is of rill/nn, by its name.
template <class Layer>
consteval bool is_of_nn() {
  return std::string_view(__PRETTY_FUNCTION__).find("Layer = rill::nn::") != std::string_view::npos;
}
struct NoScope {
  NoScope() {}  // so that one of these is used, to compilers that look
};
// Lives while a layer runs. A layer of the user's is user code; one of rill's is part of the model that contains it.
template <class Layer>
using UserScopeOf = std::conditional_t<is_of_nn<Layer>(), NoScope, UserScope>;

}  // namespace detail

}  // namespace rill

#pragma GCC visibility pop
