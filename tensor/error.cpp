// Error messages, the caller's source location, and the name scopes.
#include "rill/tensor/error.h"

#include <fmt/format.h>

#include <exception>
#include <optional>

#include "rill/tensor/callback.h"
#include "rill/tensor/later_errors.h"
#include "rill/tensor/per_thread.h"
#include "rill/tensor/user_scope.h"

namespace rill {

namespace {
struct Caller {
  Where where;
  const char* function;
};
thread_local constinit std::optional<Caller> caller;
thread_local constinit const std::string *replayed = nullptr, *replayed_function = nullptr;
thread_local constinit PerThread<std::string> scope_name;

class PlacedError : public Error {
 public:
  using Error::Error;
};

// "random::normal" of "rill::Tensor rill::random::normal(const Shape&, ...)", "Embedding" of "... rill::nn::Embedding::
// operator()(...) const", "Variable.assign" of "... rill::Variable::assign(...)"; what is no function of the user's
// (in an unnamed namespace, a lambda) gives "". A name without parentheses stays as it is.
std::string plain_name(std::string_view text) {
  constexpr std::string_view call = "operator()";
  const size_t called = text.find(call), open = text.find('(', called == text.npos ? 0 : called + call.size());
  if (open == text.npos) return std::string(text);
  size_t end = called == text.npos ? open : called, begin = end, depth = 0;
  for (; begin > 0 && (depth || text[begin - 1] != ' '); --begin) {
    depth += text[begin - 1] == '>';
    depth -= text[begin - 1] == '<' && depth;
  }
  for (const std::string_view helper : {"{anonymous}", "lambda", "detail::", "impl::", "Impl::"})
    if (text.substr(begin, end - begin).find(helper) != text.npos) return "";
  std::string name, part;
  bool in_class = false;
  auto take = [&] {
    const bool is_namespace = part == "rill" || part == "nn";
    if (!part.empty() && !is_namespace && part != name)  // a constructor's class is there already
      name += (name.empty() ? "" : in_class ? "." : "::") + part, in_class = part[0] >= 'A' && part[0] <= 'Z';
    part.clear();
  };
  for (const char c : text.substr(begin, end - begin)) {
    depth += c == '<';
    if (c == ':') take();
    else if (!depth && c != '*' && c != '&') part += c;
    depth -= c == '>' && depth;
  }
  take();
  return name;
}

// The text between the line and the message: "[op]", "[Embedding] at 'words', in [gather]".
std::string context(std::string_view op, std::string_view function, std::string_view scope) {
  const auto member = [](std::string_view whole, std::string_view part, bool last) {
    if (whole.size() <= part.size() || !(last ? whole.ends_with(part) : whole.starts_with(part))) return false;
    const char between = whole[last ? whole.size() - part.size() - 1 : part.size()];
    return between == '.' || between == ':';
  };
  // Either part of Variable.assign is enough.
  const bool same = function == op || member(function, op, true) || member(function, op, false);
  std::string text = function.empty() || same ? "" : fmt::format("[{}]", function);
  if (!scope.empty()) text += fmt::format("{}at '{}'", text.empty() ? "" : " ", scope);
  if (!text.empty()) text += scope.empty() ? " in " : ", in ";
  return text + fmt::format("[{}]", op);
}

// what() ends at a zero byte, which a name from a file may hold.
std::string with_place(const std::string& place, const std::string& text) {
  std::string message = place.empty() ? text : place + ": " + text;
  for (size_t at = 0; (at = message.find('\0', at)) != message.npos;) message.replace(at, 1, "\\x00");
  return message;
}

// "[op] message" under the caller's names.
std::string in_context(std::string_view text, std::string_view function, std::string_view scope) {
  const size_t end = text.find("] ");
  if (text[0] != '[' || end == text.npos) return std::string(text);
  return context(text.substr(1, end - 1), function, scope) + std::string(text.substr(end + 1));
}
}  // namespace

CallerScope::CallerScope(const Where& where, const char* function) : set_(!caller) {
  if (set_) caller = {where, function};
}
CallerScope::~CallerScope() {
  if (set_) caller.reset();
}

UserScope::UserScope()
    : where_(caller ? caller->where : Where()), function_(caller ? caller->function : ""), any_(caller.has_value()) {
  caller.reset();
}
UserScope::~UserScope() {
  if (any_) caller = {where_, function_};
}

Where caller_or(const Where& where) { return caller ? caller->where : where; }

std::string called_function() {
  if (replayed_function) return *replayed_function;
  return caller ? plain_name(caller->function) : "";
}

NameScope::NameScope(std::string_view name) : outer_length_(scope_name->size()) {
  std::string& scope = *scope_name;
  scope.reserve(outer_length_ + 1 + name.size());  // if this throws, nothing has changed
  if (!scope.empty() && !name.empty()) scope += '/';
  scope += name;
}
NameScope::~NameScope() { scope_name->resize(outer_length_); }
const std::string& current_scope() { return *scope_name; }

ReplayScope::ReplayScope(const std::string& place, const std::string& function)
    : outer_(replayed), outer_function_(replayed_function) {
  if (!place.empty()) replayed = &place, replayed_function = &function;
}
ReplayScope::~ReplayScope() { replayed = outer_, replayed_function = outer_function_; }

std::string place_of(const Where& where) {
  if (replayed) return *replayed;
  // A loop asks for the same line over and over.
  struct Last {
    Where where;
    std::string text;
  };
  thread_local constinit PerThread<Last> kept;
  Last& last = *kept;
  const Where here = caller_or(where);
  if (here.file_name() != last.where.file_name() || here.line() != last.where.line())
    last.text = to_string(here), last.where = here;
  return last.text;
}

namespace {
// Whether a file belongs to rill or to the standard library. A call may come through one: std::optional::emplace, say,
// cannot pass on its caller. No line is better than such a line.
bool is_inside(std::string_view file) {
  if (file.find("/c++/") != file.npos || file.find("include/rill/") != file.npos) return true;
  constexpr std::string_view here = "tensor/error.cpp", mine = __FILE__;
  const std::string_view root = mine.substr(0, mine.size() - here.size());
  if (!file.starts_with(root)) return false;
  file.remove_prefix(root.size());
  for (const std::string_view room :
       {"tensor/", "devices/", "ops/", "autodiff/", "trace/", "serialize/", "nn/", "data/"})
    if (file.starts_with(room)) return true;
  return false;
}
}  // namespace

std::string to_string(const Where& where) {
  if (where.line() == 0) return "";  // Where() has no line
  std::string_view file = where.file_name();
  if (is_inside(file)) return "";
  if (size_t at = file.rfind('/'); at != file.npos) file.remove_prefix(at + 1);
  return fmt::format("{}:{}", file, where.line());
}

void fail(std::string_view op, std::string message, const Where& where) {
  const std::string place = place_of(where);
  // Without a line, the caller that adds it adds the context as well: fail_placed(), fail_at().
  const std::string named = place.empty() ? fmt::format("[{}]", op) : context(op, called_function(), *scope_name);
  throw Error(with_place(place, named + " " + message));
}

void fail_placed(std::string_view text, const Where& where) {
  std::throw_with_nested(Error(with_place(place_of(where), in_context(text, called_function(), *scope_name))));
}

void detail::fail_empty_callable(std::string_view op, std::string_view what, const Where& where) {
  fail(op,
       fmt::format("{} is empty: a null pointer, or a std::function that holds nothing. give one that can be called",
                   what),
       where);
}

void fail_at(const Origin& origin, const Error& e) {
  std::string_view text = e.what();
  const size_t bracket = text.starts_with('[') ? 0 : text.find(": [");
  if (origin.place.empty() || bracket == text.npos || dynamic_cast<const PlacedError*>(&e)) throw;
  text.remove_prefix(bracket ? bracket + 2 : 0);
  std::throw_with_nested(PlacedError(origin.place + ": " + in_context(text, origin.function, origin.scope)));
}

// --- Errors that are found later ---

thread_local constinit const StartedFrom* StartedFrom::now_ = nullptr;

std::string StartedFrom::beginning(std::string_view op) {
  for (const StartedFrom* from = now_; from; from = from->outer_) {
    if (const Origin* o = from->origin_; o && !o->place.empty())
      return with_place(o->place, context(op, o->function, o->scope) + " ");
    if (!from->where_) continue;
    if (const std::string place = place_of(*from->where_); !place.empty())
      return with_place(place, context(op, called_function(), *scope_name) + " ");
  }
  const std::string place = place_of(Where());
  return place.empty() ? fmt::format("[{}] ", op)
                       : with_place(place, context(op, called_function(), *scope_name) + " ");
}

void fail_later(const std::string& text) { throw PlacedError(with_place("", text)); }

}  // namespace rill
