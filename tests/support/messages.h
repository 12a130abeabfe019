// The message of an error, and what is written to stderr: for tests that check messages.
#pragma once
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <initializer_list>
#include <string>
#include <string_view>

#include "catch.h"

// The message of the exception that `f` throws, or "" if it throws nothing.
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

// Checks that `f` throws an error whose message has each of `parts`.
template <class F>
void says(F&& f, std::initializer_list<std::string_view> parts) {
  const std::string message = message_of(f);
  INFO("message: " << message);
  for (const std::string_view part : parts) {
    INFO("part: " << part);
    CHECK(has(message, part));
  }
}

// What `f` writes to stderr.
template <class F>
std::string stderr_of(F&& f) {
  std::fflush(stderr);
  std::FILE* file = std::tmpfile();
  int kept = dup(2);
  dup2(fileno(file), 2);
  f();
  std::fflush(stderr);
  dup2(kept, 2);
  close(kept);
  std::rewind(file);
  std::string text;
  for (int c; (c = std::fgetc(file)) != EOF;) text += char(c);
  std::fclose(file);
  return text;
}
