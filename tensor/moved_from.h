// What a handle that was moved from says. For the .cpp files of classes that own what they hold; those that share it are
// copied where they are moved, so that both can be used.
#pragma once
#include <string_view>

#include "rill/tensor/error.h"

namespace rill {

// What `held` points to. Throws where that is gone, as `type`, the class that owned it.
template <class P>
auto& owned(const P& held, std::string_view type, const Where& where) {
  if (!held) fail(type, "it was moved from: another one has what it had. use that one", where);
  return *held;
}

}  // namespace rill
