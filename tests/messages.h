// What an error says: for the tests that read messages.
#pragma once
#include <exception>
#include <string>
#include <string_view>

// The message of what `f` throws, or "" if it throws nothing.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}
inline bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }
