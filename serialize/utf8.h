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

// Whether a file begins with the mark of UTF-16, which no UTF-8 begins with, and what its readers say then.
constexpr bool is_utf16(std::string_view file) { return file.starts_with("\xFF\xFE") || file.starts_with("\xFE\xFF"); }
inline constexpr const char* is_utf16_text =
    "the text is UTF-16, as spreadsheets save \"Unicode text\". save it as UTF-8 (\"CSV UTF-8\")";

}  // namespace rill

#pragma GCC visibility pop
