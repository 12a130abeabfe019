// Products with numbers in blocks (ops/blocks.h): a few rows of the weights at a time are decoded to f32, stay in the
// cache, and are multiplied by the kernels of f32. So each element has the same bits as with all weights in f32.
#include <algorithm>
#include <cstring>
#include <vector>

#include "rill/devices/cpu/product/gemm.h"
#include "rill/devices/number_blocks.h"
#include "rill/devices/params/block_params.h"
#include "rill/devices/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/product/block_products.cpp"
#include "rill/devices/kernel/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef RILL_ROW_DECODERS
#define RILL_ROW_DECODERS
namespace rill::cpu {
// Decodes `blocks` consecutive blocks.
using DecodeBlocks = void (*)(const uint8_t* in, int64_t blocks, float* out);
struct RowDecoders {
  DecodeBlocks q4_0, q8_0, q4_k, q6_k;
};
}  // namespace rill::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace rill::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes: every loop below runs over a multiple of that.
using Floats = hn::CappedTag<float, 16>;
using Integers = hn::RebindToSigned<Floats>;

HWY_INLINE float scale_at(const uint8_t* in) {
  Half h;
  h.bits = uint16_t(in[0] | in[1] << 8);
  return h;
}
HWY_INLINE auto octets(const uint8_t* in) {
  return hn::PromoteTo(Integers(), hn::LoadU(hn::Rebind<uint8_t, Floats>(), in));
}
HWY_INLINE int64_t lanes() { return int64_t(hn::Lanes(Floats())); }
template <class V>
HWY_INLINE auto floats(V q) {
  return hn::ConvertTo(Floats(), q);
}

void decode_q8_0(const uint8_t* in, int64_t blocks, float* out) {
  for (int64_t b = 0; b < blocks; ++b, in += 34, out += 32) {
    const auto d = hn::Set(Floats(), scale_at(in));
    const auto* q = reinterpret_cast<const int8_t*>(in + 2);
    for (int64_t i = 0; i < 32; i += lanes()) {
      const auto numbers = hn::PromoteTo(Integers(), hn::LoadU(hn::Rebind<int8_t, Floats>(), q + i));
      hn::StoreU(hn::Mul(d, floats(numbers)), Floats(), out + i);
    }
  }
}

void decode_q4_0(const uint8_t* in, int64_t blocks, float* out) {
  const auto four_bits = hn::Set(Integers(), 15), middle = hn::Set(Integers(), 8);
  const auto zero = hn::Zero(Floats());  // added as in the plain decoder, where it is an offset: no zero is negative
  for (int64_t b = 0; b < blocks; ++b, in += 18, out += 32) {
    const auto d = hn::Set(Floats(), scale_at(in));
    for (int64_t i = 0; i < 16; i += lanes()) {
      const auto q = octets(in + 2 + i);
      const auto low = hn::Sub(hn::And(q, four_bits), middle), high = hn::Sub(hn::ShiftRight<4>(q), middle);
      hn::StoreU(hn::Add(hn::Mul(d, floats(low)), zero), Floats(), out + i);
      hn::StoreU(hn::Add(hn::Mul(d, floats(high)), zero), Floats(), out + 16 + i);
    }
  }
}

void decode_q4_k(const uint8_t* in, int64_t blocks, float* out) {
  const auto four_bits = hn::Set(Integers(), 15);
  for (int64_t b = 0; b < blocks; ++b, in += 144, out += 256) {
    const float d = scale_at(in), m = scale_at(in + 2);
    const uint8_t* scales = in + 4;
    for (int part = 0; part < 8; ++part) {
      const bool first = part < 4;
      const int scale = first ? scales[part] & 63 : (scales[part + 4] & 15) | scales[part - 4] >> 6 << 4;
      const int offset = first ? scales[part + 4] & 63 : scales[part + 4] >> 4 | scales[part] >> 6 << 4;
      const auto factor = hn::Set(Floats(), d * float(scale)), less = hn::Set(Floats(), m * float(offset));
      for (int64_t i = 0; i < 32; i += lanes()) {
        const auto q = octets(in + 16 + part / 2 * 32 + i);
        const auto bits = part % 2 ? hn::ShiftRight<4>(q) : hn::And(q, four_bits);
        hn::StoreU(hn::Sub(hn::Mul(factor, floats(bits)), less), Floats(), out + part * 32 + i);
      }
    }
  }
}

template <int quarter>
HWY_INLINE void quarter_of_q6_k(const uint8_t* low, const uint8_t* high, const int8_t* scales, float d, float* out) {
  for (int64_t i = 0; i < 32; i += lanes()) {
    const auto factor = hn::Set(Floats(), d * float(scales[quarter * 2 + i / 16]));
    const auto four =
        hn::And(hn::ShiftRight<quarter / 2 * 4>(octets(low + quarter % 2 * 32 + i)), hn::Set(Integers(), 15));
    const auto two = hn::And(hn::ShiftRight<quarter * 2>(octets(high + i)), hn::Set(Integers(), 3));
    const auto q = hn::Sub(hn::Or(four, hn::ShiftLeft<4>(two)), hn::Set(Integers(), 32));
    hn::StoreU(hn::Mul(factor, floats(q)), Floats(), out + quarter * 32 + i);
  }
}
void decode_q6_k(const uint8_t* in, int64_t blocks, float* out) {
  for (int64_t b = 0; b < blocks; ++b, in += 210)
    for (int half = 0; half < 2; ++half, out += 128) {
      const uint8_t *low = in + half * 64, *high = in + 128 + half * 32;
      const auto* scales = reinterpret_cast<const int8_t*>(in + 192) + half * 8;
      const float d = scale_at(in + 208);
      quarter_of_q6_k<0>(low, high, scales, d, out);
      quarter_of_q6_k<1>(low, high, scales, d, out);
      quarter_of_q6_k<2>(low, high, scales, d, out);
      quarter_of_q6_k<3>(low, high, scales, d, out);
    }
}

RowDecoders row_decoders() { return {decode_q4_0, decode_q8_0, decode_q4_k, decode_q6_k}; }

}  // namespace rill::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(row_decoders);

namespace {

struct Decoder {
  const GgufType& type;
  DecodeBlocks fast = nullptr;

  explicit Decoder(AttrsView attrs) : type(*gguf_type(uint32_t(attrs.as<BlockParams>().type))) {
    static const RowDecoders decoders = HWY_DYNAMIC_DISPATCH(row_decoders)();
    if (type.name == "q4_0") fast = decoders.q4_0;
    if (type.name == "q8_0") fast = decoders.q8_0;
    if (type.name == "q4_k") fast = decoders.q4_k;
    if (type.name == "q6_k") fast = decoders.q6_k;
  }
  void run(const uint8_t* in, int64_t blocks, float* out) const {
    if (fast) return fast(in, blocks, out);
    for (int64_t i = 0; i < blocks; ++i, in += type.block_bytes, out += type.block) type.decode(in, out);
  }
};

}  // namespace

void from_blocks(const KernelArgs& args) {
  const Decoder decoder(args.attrs);
  const int64_t blocks = args.output().size() / decoder.type.block;
  const auto* in = args.in_data<uint8_t>(0);
  float* out = args.out_data<float>();
  parallel_for(blocks, 1 + 65536 / decoder.type.block, [&](int64_t begin, int64_t end) {
    decoder.run(in + begin * decoder.type.block_bytes, end - begin, out + begin * decoder.type.block);
  });
}

void block_matmul(const KernelArgs& args) {
  const Tensor& out = args.output();
  if (out.size() == 0) return;
  const Decoder decoder(args.attrs);
  const int64_t n = args.input(1).shape()[0], m = out.size() / n, k = args.input(0).shape().back(),
                blocks = k / decoder.type.block, bytes = blocks * decoder.type.block_bytes;
  if (k == 0) return void(std::memset(args.out_data<float>(), 0, size_t(out.size()) * sizeof(float)));
  const auto* x = args.in_data<float>(0);
  const auto* rows = args.in_data<uint8_t>(1);
  float* y = args.out_data<float>();
  // How many rows of the weights stay in a cache: for a vector, a multiple of what its kernel computes at once.
  // The last panel also has the remainder, so that it is never one row alone, whose sum gemm_dots() would divide.
  const int64_t panel_rows =
      m == 1 ? std::clamp<int64_t>(16384 / k / 16, 1, 4) * 16 : std::clamp<int64_t>(65536 / k, 32, 128);
  const int64_t panels = std::max<int64_t>(1, n / panel_rows);
  parallel_for(panels, 1 + worth_a_thread / (panel_rows * k), [&](int64_t begin, int64_t end) {
    std::vector<float> numbers(size_t(2 * panel_rows * k)), part(m == 1 ? 0 : size_t(m * 2 * panel_rows));
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * panel_rows, count = (p + 1 == panels ? n : first + panel_rows) - first;
      for (int64_t r = 0; r < count; ++r) decoder.run(rows + (first + r) * bytes, blocks, &numbers[size_t(r * k)]);
      const Gemm g{m, count, k, k, 1, 1, k};
      if (m == 1) {
        gemm_dots(g, x, numbers.data(), y + first);
        continue;
      }
      gemm_blocked(GemmProduct<float>{g, x, numbers.data(), part.data()});
      for (int64_t i = 0; i < m; ++i)
        std::memcpy(y + i * n + first, &part[size_t(i * count)], size_t(count) * sizeof(float));
    }
  });
}

}  // namespace rill::cpu
#endif
