// How what rill gives is held to what a judge says, and what a traced call gives to what an eager one gave.
#pragma once
#include <string>

#include "cases.h"

namespace oracle {

// What differs first or most, "" where nothing does.
std::string difference(const Values& got, const std::vector<Expected>& want);
// The same for bits.
std::string difference(const Values& got, const Values& eager);

}  // namespace oracle
