// See utf8.h.
#include "rill/serialize/utf8.h"

#include <cstdint>

namespace rill {

std::optional<std::u32string> from_utf8(std::string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const auto first = uint8_t(text[i++]);
    const int more = first < 0x80 ? 0 : first < 0xC0 ? -1 : first < 0xE0 ? 1 : first < 0xF0 ? 2 : first < 0xF8 ? 3 : -1;
    if (more < 0 || text.size() - i < size_t(more)) return {};
    char32_t c = more == 0 ? first : first & (0x3F >> more);
    for (int k = 0; k < more; ++k, ++i) {
      if ((uint8_t(text[i]) & 0xC0) != 0x80) return {};
      c = c << 6 | (uint8_t(text[i]) & 0x3F);
    }
    constexpr char32_t least[] = {0, 0x80, 0x800, 0x10000};  // a longer form than needed is none
    if (c < least[more] || !is_code_point(c)) return {};
    out += c;
  }
  return out;
}

void append_utf8(std::string& text, char32_t c) {
  if (c < 0x80) {
    text += char(c);
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  text += char((0xFF00 >> (more + 1) & 0xFF) | c >> (6 * more));
  for (int k = more; k-- > 0;) text += char(0x80 | (c >> (6 * k) & 0x3F));
}

}  // namespace rill
