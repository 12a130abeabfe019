// Error messages and the caller's source location.
#include "rill/tensor/error.h"

#include <fmt/format.h>

#include <optional>

#include "rill/tensor/callback.h"

namespace rill {

namespace {
thread_local constinit std::optional<Where> caller;
thread_local constinit const std::string* replayed = nullptr;

class PlacedError final : public Error {
 public:
  using Error::Error;
};
}  // namespace

CallerScope::CallerScope(const Where& where) : set_(!caller) {
  if (set_) caller = where;
}
CallerScope::~CallerScope() {
  if (set_) caller.reset();
}

Where caller_or(const Where& where) { return caller ? *caller : where; }

ReplayScope::ReplayScope(const std::string& place) : outer_(replayed) {
  if (!place.empty()) replayed = &place;
}
ReplayScope::~ReplayScope() { replayed = outer_; }

std::string place_of(const Where& where) { return replayed ? *replayed : to_string(caller_or(where)); }

std::string to_string(const Where& where) {
  if (where.line() == 0) return "";  // nobody's: Where()
  std::string_view file = where.file_name();
  if (size_t at = file.rfind('/'); at != file.npos) file.remove_prefix(at + 1);
  return fmt::format("{}:{}", file, where.line());
}

void fail(std::string_view op, std::string message, const Where& where) {
  const std::string place = place_of(where);
  throw Error(fmt::format("{}{}[{}] {}", place, place.empty() ? "" : ": ", op, message));
}

void detail::fail_empty_callable(std::string_view op, std::string_view what, const Where& where) {
  fail(op,
       fmt::format("{} is empty: a null pointer, or a std::function that holds nothing. give one that can be called",
                   what),
       where);
}

void fail_at(const std::string& place, const Error& e) {
  std::string_view text = e.what();
  size_t bracket = text.find(": [");
  if (place.empty() || bracket == text.npos || dynamic_cast<const PlacedError*>(&e)) throw;
  throw PlacedError(place + std::string(text.substr(bracket)));
}

}  // namespace rill
