// Text from users and files, as it is shown in messages and listings.
#pragma once
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace rill {

// `text` in one line: control characters are written \n, \t, \r or as \x1b, and those in `marked` behind a backslash.
std::string one_line(std::string_view text, std::string_view marked = "");

}  // namespace rill

#pragma GCC visibility pop
