// Text as a string of JSON, for libraries that write a few lines of it and link no parser.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace rill {

// In quotes. Control characters, which names and places do not have, become blanks.
inline std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += uint8_t(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

}  // namespace rill
