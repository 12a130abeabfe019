// Protobuf's text form, `field: value` and `field { ... }`, for the small files in which TensorFlow and TensorBoard
// keep it: the list of checkpoints, the projector's configuration. The protobuf that rill links has no reader of it.
// https://protobuf.dev/reference/protobuf/textformat-spec/
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "rill/tensor/error.h"

namespace rill {

struct TextField {
  enum class Kind { word, text, message };  // a number or a name; what stood in quotes; fields of its own
  std::string name;
  Kind kind = Kind::word;
  std::string value = "";              // of a text without its quotes and escapes
  std::vector<TextField> fields = {};  // of a message
};

// The fields in the order of the text; a list, [1, 2], is as many fields of one name. Throws rill::Error, under the
// name of `op`, with the line of `path` and `expected`, what the file should be, where `text` is none such.
std::vector<TextField> read_text_fields(std::string_view text, const std::string& path, std::string_view expected,
                                        std::string_view op, const Where& where);
// A line for each, those of messages moved in by two more spaces.
std::string to_text(const std::vector<TextField>& fields, int spaces = 0);

}  // namespace rill
