// See state.h: integers of seven bits a byte, as protobuf's, signed ones folded; texts behind their length.
#include "rill/data/state.h"

#include <fmt/format.h>

namespace rill::data {

void StateWriter::number(int64_t n) {
  uint64_t u = (uint64_t(n) << 1) ^ uint64_t(n >> 63);
  for (; u >= 0x80; u >>= 7) bytes += char(u | 0x80);
  bytes += char(u);
}
void StateWriter::text(std::string_view s) {
  number(int64_t(s.size()));
  bytes += s;
}

namespace {
[[noreturn]] void fail_damaged() {
  fail("Iterator.restore",
       "these bytes are no state that save() of this pipeline gave: they end too early, or say what cannot be");
}
}  // namespace

int64_t StateReader::number() {
  uint64_t u = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) fail_damaged();
    const auto byte = uint8_t(rest_[0]);
    rest_.remove_prefix(1);
    u |= uint64_t(byte & 0x7F) << shift;
    if (byte < 0x80) return int64_t(u >> 1) ^ -int64_t(u & 1);
  }
  fail_damaged();
}
int64_t StateReader::count(int64_t most) {
  const int64_t n = number();
  if (n < 0 || n > most) fail_damaged();
  return n;
}
std::string_view StateReader::text() {
  const int64_t n = count(int64_t(rest_.size()));
  const std::string_view s = rest_.substr(0, size_t(n));
  rest_.remove_prefix(size_t(n));
  return s;
}

}  // namespace rill::data
