#include "rill/tensor/shape.h"

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
std::string to_string(const Shape& s) { return print(s, false); }
std::string with_open_sizes(const Shape& s) { return print(s, true); }

bool broadcast_into(Shape& acc, const Shape& s) {
  while (acc.size() < s.size()) acc.insert(0, 1);
  for (size_t i = 1; i <= s.size(); ++i) {
    Dim &a = acc[acc.size() - i], b = s[s.size() - i];
    if (b == 1) continue;
    if (a == 1) a = b;  // where both are 1 too, so that an open size stays one
    else if (a != b) return false;
  }
  return true;
}

Strides contiguous_strides(const Shape& s) {
  Strides out(s.size(), 1);
  for (size_t i = s.size(); i-- > 1;) out[i - 1] = out[i] * s[i];
  return out;
}

}  // namespace rill
