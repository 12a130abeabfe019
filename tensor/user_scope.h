// UserScope: where a function of rill's calls back into the user's code.
#pragma once
#include <string_view>
#include <type_traits>

#include "rill/tensor/error.h"

#pragma GCC visibility push(default)

namespace rill {

// While one of these lives, no CallerScope of outside counts: what happens is the user's doing, at the user's own lines,
// and a decision by an open size is one that the user's code made.
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
// While a layer runs: one of the user's is the user's code; one of rill's is a part of the model that holds it.
template <class Layer>
using UserScopeOf = std::conditional_t<is_of_nn<Layer>(), NoScope, UserScope>;

}  // namespace detail

}  // namespace rill

#pragma GCC visibility pop
