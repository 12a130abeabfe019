// See settings.h.
#include "rill/tensor/settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <set>

#include "rill/tensor/fork_mutex.h"

namespace rill::settings {

namespace {

constexpr std::string_view logged[] = {"passes", "kernels", "vmap", "cudnn", "placement"};

std::string_view value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

template <class Words>
bool contains(const Words& words, std::string_view word) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

}  // namespace

void report(const char* variable, const std::string& why) {
  static ForkMutex mutex;
  static auto& reported = *new std::set<std::string>;  // never destroyed: kernels are compiled while a program ends
  const std::lock_guard hold(mutex);
  if (!reported.insert(variable).second) return;
  const std::string line = fmt::format("rill: {}={}: {}\n", variable, value_of(variable), why);
  std::fputs(line.c_str(), stderr);
}

std::string text(const char* variable) { return std::string(value_of(variable)); }

std::string_view word(const char* variable, std::initializer_list<std::string_view> words) {
  const std::string_view value = value_of(variable);
  if (value.empty() || contains(words, value)) return value;
  report(variable,
         fmt::format("there is no such value, and this one is ignored. it may be {}", fmt::join(words, ", ")));
  return "";
}

bool is_on(const char* variable, bool otherwise) {
  const std::string_view value = word(variable, {"on", "off"});
  return value.empty() ? otherwise : value == "on";
}

std::string_view jit() { return word("RILL_JIT", {"off", "wait", "tiered"}); }

bool logs(std::string_view what) {
  constexpr const char* variable = "RILL_LOG";
  constexpr std::string_view between = ", ";
  const std::string_view list = value_of(variable);
  bool found = false;
  for (size_t at = list.find_first_not_of(between); at < list.size(); at = list.find_first_not_of(between, at)) {
    const std::string_view one = list.substr(at, list.find_first_of(between, at) - at);
    at += one.size();
    found |= one == what;
    if (!contains(logged, one))
      report(variable, fmt::format("nothing is logged as '{}'. a list may have {}", one, fmt::join(logged, ", ")));
  }
  return found;
}

}  // namespace rill::settings
