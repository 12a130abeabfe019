// Attributes as a list of names and values, for exports, messages and hashes.
#pragma once
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rill/devices/params/attrs.h"

#pragma GCC visibility push(default)

namespace rill {

using AttrValue = std::variant<bool, int64_t, double, std::string, DType, Dims>;
using AttrList = std::vector<std::pair<std::string, AttrValue>>;

// The fields by name; empty if the op has none.
AttrList list_of(const AttrsView& a);

}  // namespace rill

#pragma GCC visibility pop
