// NamedMap: the contents of a file, by name. A std::map whose at() throws rill::Error with the caller's line and the
// existing names where a name is missing.
#pragma once
#include <concepts>
#include <initializer_list>
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
// A value of a map of T, and no iterator.
template <class A, class T>
concept ValueOf = std::convertible_to<A, T> && !requires(A a) { *a; };
}  // namespace detail

template <class T>
class NamedMap : public std::map<std::string, T> {
  using Map = std::map<std::string, T>;

 public:
  using Map::Map;
  NamedMap() = default;
  NamedMap(Map all) : Map(std::move(all)) {}
  // {{"a", x}, {"b", y}}. Throws where a name is given twice, of which a std::map would drop the second value.
  NamedMap(std::initializer_list<typename Map::value_type> all, Where where = Where::current()) {
    for (const auto& [name, value] : all)
      if (!this->emplace(name, value).second)
        fail("NamedMap", "the name '" + name + "' is given twice. each value has a name of its own", where);
  }
  // Values without names: do not compile, and say what does.
  template <detail::ValueOf<T> A>
  NamedMap(A, A) {
    static_assert(!sizeof(A), "the values of a map have names, as the tensors of save() do: {{\"x\", x}, {\"y\", y}}");
  }
  template <detail::ValueOf<T> A, class... More>
  NamedMap(A, A, A, More...) {
    static_assert(!sizeof(A), "the values of a map have names, as the tensors of save() do: {{\"x\", x}, {\"y\", y}}");
  }

  // The value of `name`. Throws rill::Error, with the existing names, if there is none.
  const T& at(const std::string& name, Where where = Where::current()) const& {
    if (const auto found = this->find(name); found != this->end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [key, value] : *this) names.push_back(key);
    detail::fail_no_such_name(name, names, where);
  }
  T& at(const std::string& name, Where where = Where::current()) & {
    return const_cast<T&>(std::as_const(*this).at(name, where));
  }
  // Of a temporary, load(path).at("w"), the value itself, for the map may be gone when it is looked at.
  T at(const std::string& name, Where where = Where::current()) && { return std::move(this->at(name, where)); }
};

}  // namespace rill

#pragma GCC visibility pop
