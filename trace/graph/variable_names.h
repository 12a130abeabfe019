// The names of Variables in a file: unique, and by the same rule as variables(model), so that a checkpoint and an
// exported model of one network agree. Start at unique_names().
#pragma once
#include <map>
#include <span>
#include <string>

#include "rill/ops/names.h"

namespace rill {

// `states`: in the order in which the graphs read them. Those in `paths` have their names there.
std::map<const VariableState*, std::string> unique_names(std::span<VariableState* const> states,
                                                         const NamedVariables& paths);

}  // namespace rill
