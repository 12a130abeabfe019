// Text from users and files, as it is shown in messages and listings.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace rill {

// `text` in one line: control characters are written \n, \t, \r or as \x1b, and those in `marked` behind a backslash.
std::string one_line(std::string_view text, std::string_view marked = "");

// "1 kernel", "2 kernels".
std::string counted(int64_t n, std::string_view noun);

}  // namespace rill

#pragma GCC visibility pop
