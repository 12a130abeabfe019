// See named_map.h.
#include "rill/tensor/named_map.h"

#include <fmt/format.h>

namespace rill::detail {

std::string some_of(const std::vector<std::string>& names) {
  constexpr size_t most = 8;
  std::string text;
  for (size_t i = 0; i < names.size() && i < most; ++i)
    text += fmt::format("{}{}", i ? ", " : "", names[i].empty() ? "''" : names[i]);
  if (names.size() > most) text += fmt::format(", ... ({} in all)", names.size());
  return text.empty() ? "none" : text;
}

void fail_no_such_name(std::string_view name, const std::vector<std::string>& names, const Where& where) {
  fail("at", fmt::format("there is no '{}'. the names are: {}", name, some_of(names)), where);
}

}  // namespace rill::detail
