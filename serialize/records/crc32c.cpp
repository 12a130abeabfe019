// CRC-32C: by the instruction that processors with SSE4.2 have, else eight bytes a step by eight tables ("slicing by 8",
// M. Kounavis and F. Berry, 2005).
#include <array>
#include <bit>
#include <cstring>

#include "rill/serialize/records.h"

namespace rill {
namespace {

static_assert(std::endian::native == std::endian::little, "eight bytes are read as one number");
using Tables = std::array<std::array<uint32_t, 256>, 8>;

// tables[k][b]: the remainder of byte b with k zero bytes behind it, by the reversed Castagnoli polynomial.
constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t c = b;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1;
    tables[0][b] = c;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t b = 0; b < 256; ++b) {
      const uint32_t before = tables[k - 1][b];
      tables[k][b] = tables[0][before & 0xFF] ^ before >> 8;
    }
  return tables;
}
constexpr Tables tables = make_tables();

// Eight bytes at a time by `step`, the rest one by one.
template <class Step>
[[gnu::always_inline]] inline uint32_t remainder_of(std::string_view bytes, Step step) {
  uint32_t c = ~0u;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t eight;
    std::memcpy(&eight, bytes.data(), 8);
    c = step(c, eight);
  }
  for (char b : bytes) c = tables[0][(c ^ uint8_t(b)) & 0xFF] ^ c >> 8;
  return ~c;
}

uint32_t by_tables(std::string_view bytes) {
  return remainder_of(bytes, [](uint32_t c, uint64_t eight) {
    eight ^= c;
    c = 0;
    for (size_t k = 0; k < 8; ++k) c ^= tables[7 - k][eight >> 8 * k & 0xFF];
    return c;
  });
}

#ifdef __x86_64__
struct Instruction {
  [[gnu::target("sse4.2")]] uint32_t operator()(uint32_t c, uint64_t eight) const {
    return uint32_t(__builtin_ia32_crc32di(c, eight));
  }
};
[[gnu::target("sse4.2")]] uint32_t by_instruction(std::string_view bytes) { return remainder_of(bytes, Instruction()); }
#endif

}  // namespace

uint32_t crc32c(std::string_view bytes) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("sse4.2")) return by_instruction(bytes);
#endif
  return by_tables(bytes);
}

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t c = crc32c(bytes);
  return (c >> 15 | c << 17) + 0xA282EAD8u;
}

}  // namespace rill
