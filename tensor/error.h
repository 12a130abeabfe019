// The one exception that rill throws, and where a call stands, which every message says.
// A message reads `file.cpp:12: [op] what is wrong (values). likely fix.` Where the op is part of a function that the
// user called, or stands under a name, these come first: `file.cpp:12: [Embedding] at 'decoder/words', in [gather]
// ...`
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

// While one of these lives, errors and graph nodes name `where`, the user's line, and the function that opens it, and
// not the line inside rill of the call that this composite function makes. The outermost wins. `function` is what
// function_name() of a Where says, or a plain name; it must outlive the scope.
class CallerScope {
 public:
  explicit CallerScope(const Where& where, const char* function = Where::current().function_name());
  ~CallerScope();
  CallerScope(const CallerScope&) = delete;

 private:
  bool set_;
};
// The user's place: the outermost CallerScope's, or `where` itself.
Where caller_or(const Where& where);
// "file.cpp:12", the file without its folders.
std::string to_string(const Where& where);
// The function of rill's that the user called, by the outermost CallerScope: "attention", "Embedding",
// "random::normal". Empty where there is none, or only a helper's.
std::string called_function();

// While it lives, graph nodes and Variables made on this thread are named "outer/name/...".
class NameScope {
 public:
  [[nodiscard]] explicit NameScope(std::string_view name);
  ~NameScope();
  NameScope(const NameScope&) = delete;

 private:
  size_t outer_length_;
};
// "layer1/dense", or "".
const std::string& current_scope();

// While one of these lives, `place` ("file.cpp:12") and `function` are the caller's, whatever CallerScope says: a
// graph's nodes are run through the public functions again. Both must outlive it; an empty place changes nothing.
class ReplayScope {
 public:
  ReplayScope(const std::string& place, const std::string& function);
  ~ReplayScope();
  ReplayScope(const ReplayScope&) = delete;

 private:
  const std::string *outer_, *outer_function_;
};
// The caller's place as text: the innermost ReplayScope's, else caller_or(where).
std::string place_of(const Where& where);

// Throws Error("file.cpp:12: [op] message"). `where` gives way to the outermost CallerScope.
[[noreturn]] void fail(std::string_view op, std::string message, const Where& where = Where::current());
// Where a node of a graph was made.
struct Origin {
  const std::string &place, &function, &scope;
};
// Throws `e`, which comes out of a node, again with the node's origin in place of its own. One that was placed so
// before stays as it is: the innermost graph knows best.
[[noreturn]] void fail_at(const Origin& origin, const Error& e);
// Throws `text`, "[op] message", an error's that knew no line, with the caller's.
[[noreturn]] void fail_placed(std::string_view text, const Where& where);

}  // namespace rill

#pragma GCC visibility pop
