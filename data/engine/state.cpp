// See state.h: integers as varints, as protobuf's, signed ones zigzag encoded; texts after their length.
#include "rill/data/state.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/devices/registry.h"

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

void fail_damaged() {
  fail("Iterator.restore",
       "these bytes are no state that save() of this pipeline gave: they end too early, or say what cannot be");
}

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

void save_tensor(const Tensor& t, StateWriter& w) {
  w.number(t.defined());
  if (!t.defined()) return;
  w.number(int64_t(t.dtype())), w.number(t.ndim());
  for (Dim d : t.shape()) w.number(int64_t(d));
  if (t.dtype() == DType::string) {
    for (const std::string& s : t.to_vector<std::string>()) w.text(s);
  } else {
    const Tensor host = t.to(Device()).contiguous();
    w.text({host.rep()->data, size_t(host.size()) * size_of(host.dtype())});
  }
}

Tensor read_tensor(StateReader& r) {
  if (r.count(1) == 0) return {};
  const auto dtype = DType(r.count(int64_t(DType::string)));
  Shape shape;
  for (int64_t n = r.count(64); n > 0; --n) shape.push_back(r.count());
  Tensor t = empty_tensor(Spec{shape, dtype, false, Device()});
  if (dtype == DType::string) {
    auto* const texts = reinterpret_cast<std::string*>(t.rep()->data);
    for (int64_t i = 0; i < int64_t(t.size()); ++i) texts[i] = r.text();
  } else {
    const std::string_view bytes = r.text();
    if (bytes.size() != size_t(t.size()) * size_of(dtype)) fail_damaged();
    std::copy(bytes.begin(), bytes.end(), t.rep()->data);
  }
  return t.to(default_device());
}

}  // namespace rill::data
