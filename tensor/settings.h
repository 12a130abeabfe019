// What the environment's RILL_ variables say. All of them are read here, and docs/performance.md lists them all. A value
// that a variable does not take is reported once on stderr, and is as if it were not set.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace rill::settings {

// The variable's text: a path, most often. "" where it is not set.
std::string text(const char* variable);
// Which of these words the variable is; "" where it is not set.
std::string_view word(const char* variable, std::initializer_list<std::string_view> words);
// Whether the variable is "on" or "off"; `otherwise` where it is not set.
bool is_on(const char* variable, bool otherwise);
// RILL_JIT: "off", "wait", "tiered", or "".
std::string_view jit();
// Whether RILL_LOG, a list as "passes,kernels", names it.
bool logs(std::string_view what);
// Reports that a variable's value is of no use, once for each variable.
void report(const char* variable, const std::string& why);

}  // namespace rill::settings

#pragma GCC visibility pop
