// Lines for `rill debug`. libedit is opened at run time, by the interface that it shares with readline, as these few
// functions are stable: so the program works without it, and needs no headers.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iostream>

#include "debugger.h"

namespace command {
namespace {

std::function<std::vector<std::string>(const std::string&, bool)> complete_line;

struct Library {
  using Completer = char** (*)(const char*, int, int);
  using Generator = char* (*)(const char*, int);
  char* (*readline)(const char*) = nullptr;
  int (*add_history)(const char*) = nullptr;
  char** (*completion_matches)(const char*, Generator) = nullptr;
  Completer* completer = nullptr;
  int* completion_over = nullptr;

  Library() {
    void* opened = nullptr;
#ifndef RILL_NO_LIBEDIT
    for (const char* name : {"libedit.so.2", "libedit.so.0", "libedit.so", "libedit.3.dylib"})
      if (!opened) opened = dlopen(name, RTLD_NOW | RTLD_LOCAL);
#endif
    if (!opened) return;
    const auto find = [&](auto& to, const char* name) {
      to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(dlsym(opened, name));
    };
    find(readline, "readline");
    find(add_history, "add_history");
    find(completion_matches, "rl_completion_matches");
    find(completer, "rl_attempted_completion_function");
    find(completion_over, "rl_attempted_completion_over");
  }
  explicit operator bool() const { return readline && add_history; }
};
const Library& library() {
  static const Library l;
  return l;
}

std::vector<std::string> found;
char* next_match(const char*, int state) {
  return size_t(state) < found.size() ? strdup(found[size_t(state)].c_str()) : nullptr;
}
char** matches(const char* text, int start, int) {
  if (library().completion_over) *library().completion_over = 1;  // without file names
  found = complete_line(text, start == 0);
  return library().completion_matches(text, next_match);
}

}  // namespace

LineReader::LineReader(std::function<std::vector<std::string>(const std::string&, bool)> complete)
    : terminal_(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
  complete_line = std::move(complete);
  if (terminal_ && library() && library().completer && library().completion_matches) *library().completer = matches;
}
LineReader::~LineReader() { complete_line = nullptr; }

std::optional<std::string> LineReader::next(const std::string& prompt) {
  if (terminal_ && library()) {
    std::fflush(stdout);
    char* line = library().readline(prompt.c_str());
    if (!line) return std::nullopt;
    std::string text = line;
    std::free(line);
    if (!text.empty()) library().add_history(text.c_str());
    return text;
  }
  if (terminal_) std::cout << prompt << std::flush;
  std::string text;
  if (!std::getline(std::cin, text)) return std::nullopt;
  return text;
}

}  // namespace command
