// The file `checkpoint` of a folder: TensorFlow's CheckpointState, as protobuf's text.
#pragma once
#include <string>
#include <vector>

#include "rill/tensor/error.h"

namespace rill {

struct CheckpointList {
  std::string latest;
  std::vector<std::string> all;    // oldest first
  std::vector<double> timestamps;  // seconds since 1970, one each, or none
  double last_preserved = 0;
};

std::string to_text(const CheckpointList& list);
// Fields that are not known are left out. Throws rill::Error, with the line, where it is no such text.
CheckpointList read_list(const std::string& text, const std::string& path, std::string_view op, const Where& where);

}  // namespace rill
