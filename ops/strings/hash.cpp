// FarmHash's Fingerprint64 (Pike 2014, "FarmHash", with which TensorFlow hashes strings): for up to 16, 32, 64 bytes by
// a formula each, for longer strings in blocks of 64.
#include <fmt/format.h>

#include <bit>
#include <string_view>
#include <utility>

#include "rill/ops/creation.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/strings.h"
#include "rill/ops/strings/records.h"
#include "rill/ops/strings/string_maps.h"

namespace rill::strings {
namespace {

constexpr uint64_t k0 = 0xc3a5c85c97cb3127, k1 = 0xb492b66fbe98f273, k2 = 0x9ae16a3b2f90404f;

// Little endian, on every machine.
template <class T>
uint64_t word(const char* p) {
  uint64_t v = 0;
  for (size_t i = sizeof(T); i-- > 0;) v = v << 8 | uint8_t(p[i]);
  return v;
}
uint64_t eight(const char* p) { return word<uint64_t>(p); }
uint64_t folded(uint64_t v) { return v ^ v >> 47; }
uint64_t rotated(uint64_t v, int by) { return std::rotr(v, by); }

uint64_t mix(uint64_t u, uint64_t v, uint64_t factor) {
  const uint64_t a = folded((u ^ v) * factor);
  return folded((v ^ a) * factor) * factor;
}

uint64_t hash_up_to_16(std::string_view text) {
  const char* s = text.data();
  const uint64_t n = text.size(), factor = k2 + n * 2;
  if (n >= 8) {
    const uint64_t a = eight(s) + k2, b = eight(s + n - 8);
    return mix(rotated(b, 37) * factor + a, (rotated(a, 25) + b) * factor, factor);
  }
  if (n >= 4) return mix(n + (word<uint32_t>(s) << 3), word<uint32_t>(s + n - 4), factor);
  if (n == 0) return k2;
  const uint32_t y = uint32_t(uint8_t(s[0])) + (uint32_t(uint8_t(s[n >> 1])) << 8),
                 z = uint32_t(n) + (uint32_t(uint8_t(s[n - 1])) << 2);
  return folded(y * k2 ^ z * k0) * k2;
}

uint64_t hash_up_to_32(std::string_view text) {
  const char* s = text.data();
  const uint64_t n = text.size(), factor = k2 + n * 2, a = eight(s) * k1, b = eight(s + 8),
                 c = eight(s + n - 8) * factor, d = eight(s + n - 16) * k2;
  return mix(rotated(a + b, 43) + rotated(c, 30) + d, a + rotated(b + k2, 18) + c, factor);
}

uint64_t hash_up_to_64(std::string_view text) {
  const char* s = text.data();
  const uint64_t n = text.size(), factor = k2 + n * 2, a = eight(s) * k2, b = eight(s + 8),
                 c = eight(s + n - 8) * factor, d = eight(s + n - 16) * k2;
  const uint64_t y = rotated(a + b, 43) + rotated(c, 30) + d, z = mix(y, a + rotated(b + k2, 18) + c, factor);
  const uint64_t e = eight(s + 16) * factor, f = eight(s + 24), g = (y + eight(s + n - 32)) * factor,
                 h = (z + eight(s + n - 24)) * factor;
  return mix(rotated(e + f, 43) + rotated(g, 30) + h, e + rotated(f + a, 18) + g, factor);
}

using Pair = std::pair<uint64_t, uint64_t>;

// 32 bytes and two seeds.
Pair hash_32(const char* s, uint64_t a, uint64_t b) {
  const uint64_t w = eight(s), x = eight(s + 8), y = eight(s + 16), z = eight(s + 24);
  a += w;
  b = rotated(b + a + z, 21);
  const uint64_t first = a;
  a += x + y;
  b += rotated(a, 44);
  return {a + z, b + first};
}

// The state between blocks.
struct State {
  uint64_t x, y, z;
  Pair v, w;

  // With another factor, and some terms nine times, for the last block.
  void take(const char* s, uint64_t factor, uint64_t times) {
    x = rotated(x + y + v.first + eight(s + 8), 37) * factor;
    y = rotated(y + v.second + eight(s + 48), 42) * factor;
    x ^= w.second * times;
    y += v.first * times + eight(s + 40);
    z = rotated(z + w.first, 33) * factor;
    v = hash_32(s, v.second * factor, x + w.first);
    w = hash_32(s + 32, z + w.second, y + eight(s + 16));
    std::swap(z, x);
  }
};

uint64_t hash_blocks(std::string_view text) {
  const char* s = text.data();
  const uint64_t n = text.size();
  constexpr uint64_t seed = 81;
  State t{seed * k2 + eight(s), seed * k1 + 113, 0, {0, 0}, {0, 0}};
  t.z = folded(t.y * k2 + 113) * k2;
  const uint64_t full_blocks = (n - 1) / 64 * 64, rest = (n - 1) & 63;
  for (uint64_t at = 0; at < full_blocks; at += 64) t.take(s + at, k1, 1);
  const uint64_t factor = k1 + ((t.z & 0xff) << 1);
  t.w.first += rest;
  t.v.first += t.w.first;
  t.w.first += t.v.first;
  t.take(s + n - 64, factor, 9);
  return mix(mix(t.v.first, t.w.first, factor) + folded(t.y) * k0 + t.z, mix(t.v.second, t.w.second, factor) + t.x,
             factor);
}

// TensorFlow's FingerprintCat64 (core/platform/fingerprint.h): joins two fingerprints, as MurmurHash does.
uint64_t chained(uint64_t first, uint64_t next) {
  constexpr uint64_t factor = 0xc6a4a7935bd1e995;
  uint64_t all = first ^ factor;
  all ^= folded(next * factor) * factor;
  all *= factor;
  return folded(folded(all) * factor);
}

}  // namespace

uint64_t farm_hash(std::string_view text) {
  return text.size() <= 16   ? hash_up_to_16(text)
         : text.size() <= 32 ? hash_up_to_32(text)
         : text.size() <= 64 ? hash_up_to_64(text)
                             : hash_blocks(text);
}

Tensor fingerprint(const Tensor& x, Where where) {
  CallerScope caller(where);
  if (is_later(x)) return apply1(fingerprint_op, {&x}, {}, where);
  return mapped<uint64_t>("fingerprint", x, where, farm_hash);
}

Tensor to_hash_bucket(const Tensor& x, int64_t buckets, Where where) {
  CallerScope caller(where);
  require_option(buckets > 0, "to_hash_bucket", "buckets", buckets, "at least 1", where);
  if (is_later(x)) return apply1(hash_bucket_op, {&x}, BucketParams{buckets}, where);
  return mapped<int64_t>("to_hash_bucket", x, where,
                         [=](std::string_view s) { return farm_hash(s) % uint64_t(buckets); });
}

Tensor to_cross_bucket(const std::vector<Tensor>& parts, int64_t buckets, uint64_t key, Where where) {
  CallerScope caller(where);
  require_option(buckets > 0, "to_cross_bucket", "buckets", buckets, "at least 1", where);
  if (parts.empty()) fail("to_cross_bucket", "there are no tensors to cross", where);
  bool later = false;
  for (const Tensor& t : parts) later |= is_later(t);
  if (later) {
    std::vector<Tensor> here;
    for (const Tensor& t : parts) here.push_back(t.to(Device(), where));
    std::vector<const Tensor*> in;
    for (const Tensor& t : here) in.push_back(&t);
    return apply1(cross_bucket_op, Operands(in.data(), in.size()), CrossParams{buckets, int64_t(key)}, where);
  }
  Shape shape;
  std::vector<Tensor> prints;  // an integer is its own fingerprint
  for (const Tensor& t : parts) {
    require_known("to_cross_bucket", t, where);
    if (t.dtype() != DType::string && !is_integer(t.dtype()))
      fail("to_cross_bucket", fmt::format("an operand is {} and must be of strings or integers", to_string(t.spec())),
           where);
    shape = broadcast_shapes(shape, t.shape(), where);
    const EagerScope eager;
    prints.push_back(t.dtype() == DType::string ? fingerprint(t, where) : t.astype(DType::u64, where));
  }
  std::vector<Elements<uint64_t>> all;
  for (const Tensor& t : prints) all.emplace_back(t, shape);
  return made<int64_t>(shape, [&](int64_t i) {
    uint64_t print = key;
    for (const auto& part : all) print = chained(print, part[i]);
    return int64_t(print % uint64_t(buckets));
  });
}

}  // namespace rill::strings
