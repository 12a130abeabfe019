// The file `checkpoint` of a folder: TensorFlow's CheckpointState, as protobuf's text.
#pragma once
#include <string>
#include <vector>

#include "rill/tensor/error.h"

namespace rill {

struct CheckpointList {
  std::string latest;
  std::vector<std::string> all;    // oldest first
  std::vector<double> timestamps;  // seconds since 1970, one for each, or none
  double last_preserved = 0;
};

std::string to_text(const CheckpointList& list);
// Unknown fields are ignored. Throws rill::Error, with the line, if it is not valid text of this kind.
CheckpointList read_list(const std::string& text, const std::string& path, std::string_view op, const Where& where);

}  // namespace rill
