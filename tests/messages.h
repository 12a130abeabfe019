// What an error says: for the tests that read messages.
#pragma once
#include <string>
#include <string_view>

#include "rill/tensor/error.h"

// The message of the rill::Error that `f` throws, or "" if it throws none.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const rill::Error& e) {
    return e.what();
  }
  return "";
}
inline bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }
