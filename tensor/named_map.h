// NamedMap: what a file holds, by name. It is a std::map, whose at() says which names there are where the one asked for
// is not among them, as rill::Error and with the caller's line.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rill/tensor/error.h"

#pragma GCC visibility push(default)

namespace rill {

namespace detail {
// The first of these, for an error.
std::string some_of(const std::vector<std::string>& names);
[[noreturn]] void fail_no_such_name(std::string_view name, const std::vector<std::string>& names, const Where& where);
}  // namespace detail

template <class T>
class NamedMap : public std::map<std::string, T> {
  using Map = std::map<std::string, T>;

 public:
  using Map::Map;
  NamedMap() = default;
  NamedMap(Map all) : Map(std::move(all)) {}

  // What is there under `name`. Throws rill::Error, with the names that there are, where nothing is.
  const T& at(const std::string& name, Where where = Where::current()) const {
    if (const auto found = this->find(name); found != this->end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [key, value] : *this) names.push_back(key);
    detail::fail_no_such_name(name, names, where);
  }
  T& at(const std::string& name, Where where = Where::current()) {
    return const_cast<T&>(std::as_const(*this).at(name, where));
  }
};

}  // namespace rill

#pragma GCC visibility pop
