// Error messages and the caller's place.
#include "rill/tensor/error.h"

#include <fmt/format.h>

#include <optional>

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
  std::string_view file = where.file_name();
  if (size_t at = file.rfind('/'); at != file.npos) file.remove_prefix(at + 1);
  return fmt::format("{}:{}", file, where.line());
}

void fail(std::string_view op, std::string message, const Where& where) {
  throw Error(fmt::format("{}: [{}] {}", place_of(where), op, message));
}

void fail_at(const std::string& place, const Error& e) {
  std::string_view text = e.what();
  size_t bracket = text.find(": [");
  if (place.empty() || bracket == text.npos || dynamic_cast<const PlacedError*>(&e)) throw;
  throw PlacedError(place + std::string(text.substr(bracket)));
}

}  // namespace rill
