// Random bits on the CPU: one Philox block in each 64-bit vector lane. Blocks are independent, so the result does not
// depend on the number of threads or the vector width.
#include <algorithm>

#include "rill/devices/kernel/targets.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/philox.h"
#include "rill/devices/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/elementwise/random.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Writes blocks [first, first + n) to `out`, four words each; returns how many it made: a multiple of a vector.
int64_t philox_blocks(uint64_t seed, uint64_t draw, uint64_t first, int64_t n, uint32_t* out) {
#if HWY_TARGET == HWY_SCALAR
  (void)seed, (void)draw, (void)first, (void)n, (void)out;
  return 0;
#else
  const hn::ScalableTag<uint64_t> d;
  const hn::Repartition<uint32_t, decltype(d)> words;
  const int64_t lanes = hn::Lanes(d);
  const auto low = hn::Set(d, 0xFFFFFFFFu);
  const auto times = [&](auto x, uint32_t m) {  // uses only the low half of each lane
    return hn::MulEven(hn::BitCast(words, x), hn::BitCast(words, hn::Set(d, m)));
  };
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto c0 = hn::Add(hn::Set(d, first + uint64_t(i)), hn::Iota(d, 0));
    auto c1 = hn::ShiftRight<32>(c0);
    auto c2 = hn::Set(d, draw);
    auto c3 = hn::Set(d, draw >> 32);
    uint32_t k0 = uint32_t(seed), k1 = uint32_t(seed >> 32);
    for (int r = 0; r < philox::rounds; ++r) {
      const auto p0 = times(c0, philox::multiplier0), p1 = times(c2, philox::multiplier1);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(d, k0));
      c1 = p1;
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(d, k1));
      c3 = p0;
      k0 += philox::weyl0;
      k1 += philox::weyl1;
    }
    const auto front = hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1));
    const auto back = hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3));
    HWY_ALIGN uint64_t f[hn::MaxLanes(d)], b[hn::MaxLanes(d)], pairs[2 * hn::MaxLanes(d)];
    hn::Store(front, d, f);
    hn::Store(back, d, b);
    for (int64_t j = 0; j < lanes; ++j) pairs[2 * j] = f[j], pairs[2 * j + 1] = b[j];
    hwy::CopyBytes<sizeof(pairs)>(pairs, out + 4 * i);
  }
  return i;
#endif
}

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(philox_blocks);

void random_words(uint64_t seed, uint64_t draw, uint64_t first, int64_t n, uint32_t* out) {
  const auto make = HWY_DYNAMIC_DISPATCH(philox_blocks);
  const auto part_of_block = [&](uint64_t word, int64_t count) {  // words of one block
    const philox::Counter words = philox::block_of(seed, draw, word / 4);
    out = std::copy_n(words.begin() + long(word % 4), count, out);
  };
  const uint64_t end = first + uint64_t(n);
  if (first % 4 != 0 && first < end) {
    const int64_t count = std::min<int64_t>(4 - int64_t(first % 4), n);
    part_of_block(first, count);
    first += uint64_t(count);
  }
  const int64_t made = make(seed, draw, first / 4, int64_t(end - first) / 4, out);
  out += 4 * made;
  for (first += uint64_t(4 * made); first < end; first += 4)
    part_of_block(first, std::min<int64_t>(4, int64_t(end - first)));
}

void random_bits(const KernelArgs& args) {
  const Tensor& key = args.input(0);
  const uint64_t seed = args.in_data<uint64_t>(0)[0], draw = args.in_data<uint64_t>(0)[key.strides()[0]];
  const int64_t n = args.output().size();
  uint32_t* out = args.out_data<uint32_t>();
  parallel_for((n + 3) / 4, 1 << 13, [&](int64_t begin, int64_t end) {
    random_words(seed, draw, uint64_t(4 * begin), std::min(4 * end, n) - 4 * begin, out + 4 * begin);
  });
}

}  // namespace rill::cpu
#endif
