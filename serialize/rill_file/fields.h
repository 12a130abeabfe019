// Reading fields of JSON that may hold anything.
#pragma once
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <limits>
#include <string>

#include "rill/tensor/error.h"

namespace rill::rill_file {

using json = nlohmann::ordered_json;

[[noreturn]] inline void reject(const std::string& what) { fail("graph.json", what, Where()); }

inline const json& field(const json& object, const char* name) {
  if (!object.is_object()) reject(fmt::format("expected an object with the field '{}'", name));
  const auto at = object.find(name);
  if (at == object.end()) reject(fmt::format("the field '{}' is missing", name));
  return *at;
}
inline const json* find(const json& object, const char* name) {
  if (!object.is_object()) reject(fmt::format("expected an object, which may have the field '{}'", name));
  const auto at = object.find(name);
  return at == object.end() ? nullptr : &*at;
}
inline const json& list(const json& object, const char* name) {
  const json& v = field(object, name);
  if (!v.is_array()) reject(fmt::format("'{}': expected a list", name));
  return v;
}
inline int64_t whole(const json& v, int64_t least, int64_t most, const char* what) {
  if (!v.is_number_integer()) reject(fmt::format("expected {}, a whole number", what));
  const bool huge = v.is_number_unsigned() && v.get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max());
  const int64_t n = huge ? 0 : v.get<int64_t>();
  if (huge || n < least || n > most)
    reject(fmt::format("{} is {}, and must be in [{}, {}]", what, v.dump(), least, most));
  return n;
}
// An index into something of `size` elements.
inline size_t index(const json& v, size_t size, const char* what) {
  if (size == 0) reject(fmt::format("{} names one of none", what));
  return size_t(whole(v, 0, int64_t(size) - 1, what));
}
inline const std::string& text(const json& v, const char* what) {
  if (!v.is_string()) reject(fmt::format("expected {}, a text", what));
  return v.get_ref<const std::string&>();
}
inline std::string text_or(const json& object, const char* name, const char* otherwise) {
  const json* v = find(object, name);
  return v ? text(*v, name) : otherwise;
}
inline bool flag(const json& object, const char* name) {
  const json* v = find(object, name);
  if (v && !v->is_boolean()) reject(fmt::format("'{}': expected true or false", name));
  return v && v->get<bool>();
}

}  // namespace rill::rill_file
