// Compares rill's results with a judge's, and a traced call's with an eager one's.
#pragma once
#include <string>

#include "cases.h"

namespace oracle {

// The first or largest difference, "" if there is none.
std::string difference(const Values& got, const std::vector<Expected>& want);
// The same for bits.
std::string difference(const Values& got, const Values& eager);

}  // namespace oracle
