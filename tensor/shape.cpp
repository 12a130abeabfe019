#include "rill/tensor/shape.h"

#include <fmt/format.h>

#include "rill/tensor/dim_table.h"
#include "rill/tensor/error.h"

namespace rill {

namespace {
std::string print(const Shape& s, bool open) {
  std::string out = "[";
  for (size_t i = 0; i < s.size(); ++i) {
    if (i) out += ',';
    out += open && s[i] == open_size ? "?" : std::to_string(s[i]);
  }
  return out + "]";
}
}  // namespace

void detail::BracketIndex::no_such_axis(size_t n, const char* what) const {
  fail(what, fmt::format("axis {} is out of bounds for array of dimension {}", index, n), where);
}

std::string to_string(const Shape& s) { return print(s, false); }
std::string with_open_sizes(const Shape& s) { return print(s, true); }

std::optional<Dim> broadcast_sizes(Dim a, Dim b) {
  if (a.is_open() == b.is_open()) {
    if (a.is_open() && a.number() == b.number()) return a;
    if (b == 1) return a;
    return a == 1 || a == b ? std::optional(b) : std::nullopt;
  }
  const Dim open = a.is_open() ? a : b, plain = a.is_open() ? b : a;
  if (plain == 1) return open;
  return open.hint() == 1 || open.hint() == plain.plain() ? std::optional(plain) : std::nullopt;
}

bool broadcast_into(Shape& acc, const Shape& s) {
  while (acc.size() < s.size()) acc.insert(0, 1);
  for (size_t i = 1; i <= s.size(); ++i) {
    Dim &a = acc[acc.size() - i], b = s[s.size() - i];
    if (const auto size = broadcast_sizes(a, b)) a = *size;
    else return false;
  }
  return true;
}

Strides contiguous_strides(const Shape& s) {
  Strides out(s.size(), 1);
  for (size_t i = s.size(); i-- > 1;) out[i - 1] = out[i] * s[i];
  return out;
}

}  // namespace rill
