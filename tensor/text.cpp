#include "rill/tensor/text.h"

#include <fmt/format.h>

namespace rill {

std::string one_line(std::string_view text, std::string_view marked) {
  std::string line;
  for (const char c : text) {
    if (marked.find(c) != marked.npos) line += {'\\', c};
    else if (c == '\n') line += "\\n";
    else if (c == '\t') line += "\\t";
    else if (c == '\r') line += "\\r";
    else if (uint8_t(c) < 0x20 || c == 0x7F) line += fmt::format("\\x{:02x}", uint8_t(c));
    else line += c;
  }
  return line;
}

std::string counted(int64_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

}  // namespace rill
