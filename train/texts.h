// Several texts as one, for what callbacks remember: any bytes, behind their number. Not installed.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "rill/tensor/error.h"

namespace rill::train {

inline std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& t : texts) all += fmt::format("{}:", t.size()) + t;
  return all;
}
// What joined() was given. Throws, under the name of `op`, where that is damaged.
inline std::vector<std::string> split(std::string_view all, std::string_view op, const Where& where) {
  std::vector<std::string> texts;
  while (!all.empty()) {
    const size_t colon = all.find(':');
    size_t n = 0;
    for (char c : all.substr(0, std::min(colon, size_t(20)))) n = n * 10 + size_t(c - '0');
    if (colon == std::string_view::npos || n > all.size() - colon - 1)
      fail(op, "the state of the run to resume is damaged", where);
    texts.emplace_back(all.substr(colon + 1, n));
    all.remove_prefix(colon + 1 + n);
  }
  return texts;
}

}  // namespace rill::train
