// Examples as programs write them, read straight from their bytes into tensors. See parse_examples().
#pragma once
#include <map>
#include <span>
#include <string>

#include "rill/serialize/examples.h"

namespace rill {

// The fixed features of all examples, on the default device. False, and then nothing is said of why, where one is not
// encoded in the usual order, lacks a feature, or has another number or kind of elements: who reads messages tells.
bool parse_quickly(std::span<const std::string> examples, const std::map<std::string, FeatureSpec>& features,
                   ParsedExamples& out);

}  // namespace rill
