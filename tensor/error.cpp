// Error messages and the caller's place.
#include "rill/tensor/error.h"

#include <fmt/format.h>

#include <optional>

namespace rill {

namespace {
thread_local constinit std::optional<Where> caller;
}

CallerScope::CallerScope(const Where& where) : set_(!caller) {
  if (set_) caller = where;
}
CallerScope::~CallerScope() {
  if (set_) caller.reset();
}

Where caller_or(const Where& where) { return caller ? *caller : where; }

std::string to_string(const Where& where) {
  std::string_view file = where.file_name();
  if (size_t at = file.rfind('/'); at != file.npos) file.remove_prefix(at + 1);
  return fmt::format("{}:{}", file, where.line());
}

void fail(std::string_view op, std::string message, const Where& where) {
  throw Error(fmt::format("{}: [{}] {}", to_string(caller_or(where)), op, message));
}

}  // namespace rill
