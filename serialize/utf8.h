// UTF-8, and the code points that it stands for.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace rill {

// The code points of `text`, or nothing where it is no UTF-8.
std::optional<std::u32string> from_utf8(std::string_view text);
inline bool is_utf8(std::string_view text) { return from_utf8(text).has_value(); }
// Whether `c` is a code point that text may hold.
constexpr bool is_code_point(char32_t c) { return c < 0xD800 || (c >= 0xE000 && c < 0x110000); }
void append_utf8(std::string& text, char32_t code_point);

}  // namespace rill

#pragma GCC visibility pop
