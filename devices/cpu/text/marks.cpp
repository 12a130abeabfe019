// See marks.h. Each bit stands for a byte. The prefix sum of quotes and the extraction of bit positions are from J.
// Langdale, D. Lemire: Parsing gigabytes of JSON per second, 2019.
#include "rill/devices/cpu/text/marks.h"

#include <algorithm>
#include <cstring>
#include <tuple>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/text/marks.cpp"
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using MarkTag = hn::CappedTag<uint8_t, 64>;
using MarkVec = hn::Vec<MarkTag>;

// The bits of 64 bytes that are `a`, or `b`.
template <class Equal>
HWY_INLINE uint64_t bits_where(const uint8_t* from, const Equal& equal) {
  const MarkTag d;
  const size_t lanes = hn::Lanes(d);
  uint64_t bits = 0;
  for (size_t i = 0; i < 64; i += lanes) {
    uint8_t part[8] = {};
    hn::StoreMaskBits(d, equal(hn::LoadU(d, from + i)), part);
    uint64_t word = 0;
    std::memcpy(&word, part, sizeof word);
    bits |= word << i;
  }
  return bits;
}

// Bit i: whether an odd number of the bits up to it are set.
HWY_INLINE uint64_t parity_up_to(uint64_t bits) {
  for (int by = 1; by < 64; by *= 2) bits ^= bits << by;
  return bits;
}

// The remainder of a text, less than 64 bytes, padded with zeros.
struct MarkBlock {
  uint8_t buffer[64];
  const uint8_t* operator()(const uint8_t* from, size_t n) {
    if (n >= 64) return from;
    std::memset(buffer, 0, sizeof buffer);
    std::memcpy(buffer, from, n);
    return buffer;
  }
};

RowScan scan_rows(const uint8_t* text, size_t n, uint8_t quote, int64_t most) {
  const MarkTag d;
  const MarkVec q = hn::Set(d, quote), lf = hn::Set(d, '\n'), cr = hn::Set(d, '\r');
  MarkBlock block;
  RowScan found;
  uint64_t inside = 0, after_end = 1, after_cr = 0;  // `inside` has all bits or none, the others one bit
  int64_t lines = 0;
  for (size_t at = 0; at < n && found.rows < most; at += 64) {
    const uint8_t* const p = block(text + at, n - at);
    const uint64_t quotes = bits_where(p, [&](MarkVec x) HWY_ATTR { return hn::Eq(x, q); });
    const uint64_t within = parity_up_to(quotes) ^ inside;
    inside = uint64_t(0) - (within >> 63);
    const uint64_t feeds = bits_where(p, [&](MarkVec x) HWY_ATTR { return hn::Eq(x, lf); });
    const uint64_t returns = bits_where(p, [&](MarkVec x) HWY_ATTR { return hn::Eq(x, cr); }) & ~within;
    const uint64_t pairs = feeds & (returns << 1 | after_cr);  // the second bytes of "\r\n"
    const uint64_t all = returns | (feeds & ~within), old_after_end = after_end;
    uint64_t ends = all & ~(all << 1 | old_after_end);
    if (n - at <= 64 && returns >> (n - at - 1) & 1) ends &= ~(uint64_t(1) << (n - at - 1));
    after_end = all >> 63, after_cr = returns >> 63;
    if (ends) {
      int64_t count = hwy::PopCount(ends);
      if (found.rows + count > most) {
        while (found.rows + count > most)
          ends &= ~(uint64_t(1) << (63 - hwy::Num0BitsAboveMS1Bit_Nonzero64(ends))), --count;
      }
      found.rows += count;
      const int last = 63 - int(hwy::Num0BitsAboveMS1Bit_Nonzero64(ends));
      const size_t after_line = at + size_t(last) + 1;
      const bool pair = p[last] == '\r' && after_line < n && text[after_line] == '\n';
      const uint64_t up_to = ~uint64_t(0) >> (63 - last);
      found.bytes = after_line + pair;
      found.lines =
          lines + hwy::PopCount(feeds & up_to) + hwy::PopCount(returns & up_to) - hwy::PopCount(pairs & up_to);
    }
    lines += hwy::PopCount(feeds) + hwy::PopCount(returns) - hwy::PopCount(pairs);
  }
  return found;
}

HWY_INLINE uint32_t* put_positions(uint64_t bits, uint32_t at, uint32_t* to) {
  const size_t count = hwy::PopCount(bits);
  const auto put = [&](size_t from, size_t end) HWY_ATTR {
    for (size_t i = from; i < end; ++i) {
      to[i] = at + uint32_t(hwy::Num0BitsBelowLS1Bit_Nonzero64(bits | uint64_t(1) << 63));
      bits &= bits - 1;
    }
  };
  put(0, 8);  // possibly more than there are: a loop of fixed length is predicted
  if (count > 8) put(8, 16);
  if (count > 16) put(16, count);
  return to + count;
}

size_t find_marks(const uint8_t* text, size_t n, uint8_t delimiter, uint8_t quote, uint32_t* positions) {
  const MarkTag d;
  const MarkVec q = hn::Set(d, quote), lf = hn::Set(d, '\n'), cr = hn::Set(d, '\r'), comma = hn::Set(d, delimiter);
  MarkBlock block;
  uint32_t* to = positions;
  uint64_t inside = 0;
  for (size_t at = 0; at < n; at += 64) {
    const uint8_t* const p = block(text + at, n - at);
    const uint64_t quotes = bits_where(p, [&](MarkVec x) HWY_ATTR { return hn::Eq(x, q); });
    const uint64_t within = quotes || inside ? parity_up_to(quotes) ^ inside : 0;
    inside = uint64_t(0) - (within >> 63);
    const uint64_t others = bits_where(
        p, [&](MarkVec x) HWY_ATTR { return hn::Or(hn::Or(hn::Eq(x, lf), hn::Eq(x, cr)), hn::Eq(x, comma)); });
    to = put_positions(quotes | (others & ~within), uint32_t(at), to);
  }
  return size_t(to - positions);
}

auto make_mark_loops() { return std::tuple(&scan_rows, &find_marks); }

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(make_mark_loops);

namespace {
auto mark_loops() {
  static const auto loops = HWY_DYNAMIC_DISPATCH(make_mark_loops)();
  return loops;
}
const uint8_t* as_bytes(const char* text) { return reinterpret_cast<const uint8_t*>(text); }
}  // namespace

RowScan scan_rows(const char* text, size_t n, char quote, int64_t most) {
  return std::get<0>(mark_loops())(as_bytes(text), n, uint8_t(quote), most);
}
size_t find_marks(const char* text, size_t n, char delimiter, char quote, uint32_t* positions) {
  return std::get<1>(mark_loops())(as_bytes(text), n, uint8_t(delimiter), uint8_t(quote), positions);
}

}  // namespace rill::cpu
#endif
