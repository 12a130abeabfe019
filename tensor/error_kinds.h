// Kinds of Error that code inside rill tells apart by type, never by text. An error that is thrown again with the
// caller's line, or a node's, holds the first one nested (std::throw_with_nested), so that its kind is still known.
#pragma once
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "rill/tensor/error.h"

namespace rill {

// Whether `e`, or an error that it was made of, is a `Kind`.
template <class Kind>
bool is_kind(const std::exception& e) {
  if (dynamic_cast<const Kind*>(&e)) return true;
  try {
    std::rethrow_if_nested(e);
  } catch (const std::exception& inner) {
    return is_kind<Kind>(inner);
  } catch (...) {  // what is no std::exception is of no kind
    return false;
  }
  return false;
}

// As fail(), but throws a `Kind`, which is made from its text.
template <class Kind>
[[noreturn]] void fail_as(std::string_view op, std::string message, const Where& where = Where::current()) {
  try {
    fail(op, std::move(message), where);
  } catch (const Error& e) {
    throw Kind(e.what());
  }
}

}  // namespace rill
