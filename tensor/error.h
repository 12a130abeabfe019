// The one exception that rill throws, and the caller's place in every message.
// A message reads `file.cpp:12: [op] what is wrong (values). likely fix.`
#pragma once
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)

namespace rill {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The caller's place: the last, defaulted parameter of every public function.
using Where = std::source_location;

// While one of these lives, errors and graph nodes name `where`, the user's line, and not the line inside rill of the
// call that a composite function makes. The outermost wins.
class CallerScope {
 public:
  explicit CallerScope(const Where& where);
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;

 private:
  bool set_;
};
// The user's place: the outermost CallerScope's, or `where` itself.
Where caller_or(const Where& where);
// "file.cpp:12", the file without its folders.
std::string to_string(const Where& where);

// While one of these lives, `place` ("file.cpp:12") is the caller's place, whatever CallerScope says: a graph's nodes
// are run through the public functions again. `place` must outlive it; an empty one changes nothing.
class ReplayScope {
 public:
  explicit ReplayScope(const std::string& place);
  ~ReplayScope();
  ReplayScope(const ReplayScope&) = delete;

 private:
  const std::string* outer_;
};
// The caller's place as text: the innermost ReplayScope's, else caller_or(where).
std::string place_of(const Where& where);

// Throws Error("file.cpp:12: [op] message"). `where` gives way to the outermost CallerScope.
[[noreturn]] void fail(std::string_view op, std::string message, const Where& where = Where::current());
// Throws `e` again with `place` in place of its own. One that was placed so before stays as it is: the innermost graph
// knows the line.
[[noreturn]] void fail_at(const std::string& place, const Error& e);

}  // namespace rill

#pragma GCC visibility pop
