// Decodes blocks of quantised numbers, after ggml-quants.c's description of each type: small integers q, scales d and
// offsets m; a number is d q + m.
#include "rill/devices/number_blocks.h"

#include <cmath>
#include <cstring>

namespace rill {
namespace {

float half(const uint8_t* in) {
  Half h;
  h.bits = uint16_t(in[0] | in[1] << 8);
  return h;
}

// --- Blocks of 32: d, with an offset or symmetric --------------------------------------------------------------------

// 4 bits, and a fifth in `high` if that is not null; the first 16 numbers in the low halves of the bytes.
void decode_nibbles(const uint8_t* in, const uint8_t* high, float d, int zero, float m, float* out) {
  uint32_t fifth = 0;
  if (high) std::memcpy(&fifth, high, 4);
  for (int i = 0; i < 16; ++i) {
    const int low = (in[i] & 15) | int(fifth >> i & 1) << 4;
    const int top = in[i] >> 4 | int(fifth >> (i + 16) & 1) << 4;
    out[i] = d * float(low - zero) + m;
    out[i + 16] = d * float(top - zero) + m;
  }
}
void decode_q4_0(const uint8_t* in, float* out) { decode_nibbles(in + 2, nullptr, half(in), 8, 0, out); }
void decode_q4_1(const uint8_t* in, float* out) { decode_nibbles(in + 4, nullptr, half(in), 0, half(in + 2), out); }
void decode_q5_0(const uint8_t* in, float* out) { decode_nibbles(in + 6, in + 2, half(in), 16, 0, out); }
void decode_q5_1(const uint8_t* in, float* out) { decode_nibbles(in + 8, in + 4, half(in), 0, half(in + 2), out); }
void decode_q8_0(const uint8_t* in, float* out) {
  const float d = half(in);
  for (int i = 0; i < 32; ++i) out[i] = d * float(int8_t(in[2 + i]));
}

// --- Blocks of 256: parts with small scales of their own, relative to the block's scale ------------------------------

// 2 bits: scales and offsets of 16 parts in 4 bits each.
void decode_q2_k(const uint8_t* in, float* out) {
  const uint8_t* q = in + 16;
  const float d = half(in + 80), m = half(in + 82);
  for (int i = 0; i < 256; ++i) {
    const uint8_t scale = in[i / 16];
    const int bits = q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    out[i] = d * float(scale & 15) * float(bits) - m * float(scale >> 4);
  }
}

// 3 bits, the third stored separately: 16 scales of 6 bits around 32.
void decode_q3_k(const uint8_t* in, float* out) {
  const uint8_t *high = in, *q = in + 32, *scales = in + 96;
  const float d = half(in + 108);
  for (int i = 0; i < 256; ++i) {
    const int part = i / 16;
    const int low = part < 8 ? scales[part] & 15 : scales[part - 8] >> 4;
    const int top = scales[8 + part % 4] >> (part / 4 * 2) & 3;
    const int bits = q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
    const int third = high[i % 32] >> (i / 32) & 1;
    out[i] = d * float((low | top << 4) - 32) * float(bits - (third ? 0 : 4));
  }
}

// The scale and the offset, of 6 bits each, of one of 8 parts: 12 bytes for all.
void scale_and_offset(const uint8_t* in, int part, int& scale, int& offset) {
  if (part < 4) {
    scale = in[part] & 63;
    offset = in[part + 4] & 63;
  } else {
    scale = (in[part + 4] & 15) | in[part - 4] >> 6 << 4;
    offset = in[part + 4] >> 4 | in[part] >> 6 << 4;
  }
}

// 4 bits, and a fifth in `high` if that is not null.
void decode_4_or_5_bits(const uint8_t* in, const uint8_t* high, const uint8_t* q, float* out) {
  const float d = half(in), m = half(in + 2);
  for (int part = 0; part < 8; ++part) {
    int scale = 0, offset = 0;
    scale_and_offset(in + 4, part, scale, offset);
    for (int i = 0; i < 32; ++i) {
      const int bits = q[part / 2 * 32 + i] >> (part % 2 * 4) & 15;
      const int fifth = high ? high[i] >> part & 1 : 0;
      out[part * 32 + i] = d * float(scale) * float(bits | fifth << 4) - m * float(offset);
    }
  }
}
void decode_q4_k(const uint8_t* in, float* out) { decode_4_or_5_bits(in, nullptr, in + 16, out); }
void decode_q5_k(const uint8_t* in, float* out) { decode_4_or_5_bits(in, in + 16, in + 48, out); }

// 6 bits around 32, two of them stored separately: 16 scales of 8 bits.
void decode_q6_k(const uint8_t* in, float* out) {
  const uint8_t *low = in, *high = in + 128, *scales = in + 192;
  const float d = half(in + 208);
  for (int i = 0; i < 256; ++i) {
    const int half_block = i / 128, quarter = i % 128 / 32, k = i % 32;
    const int bits = low[half_block * 64 + quarter % 2 * 32 + k] >> (quarter / 2 * 4) & 15;
    const int top = high[half_block * 32 + k] >> (quarter * 2) & 3;
    out[i] = d * float(int8_t(scales[i / 16])) * float((bits | top << 4) - 32);
  }
}

// --- Numbers from a table, of 4 bits ---------------------------------------------------------------------------------

constexpr int8_t uneven[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int8_t twice_e2m1[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

void look_up_nibbles(const uint8_t* in, const int8_t* table, float d, float* out) {
  for (int i = 0; i < 16; ++i) {
    out[i] = d * float(table[in[i] & 15]);
    out[i + 16] = d * float(table[in[i] >> 4]);
  }
}
void decode_iq4_nl(const uint8_t* in, float* out) { look_up_nibbles(in + 2, uneven, half(in), out); }
// 8 scales of 6 bits around 32.
void decode_iq4_xs(const uint8_t* in, float* out) {
  const float d = half(in);
  for (int part = 0; part < 8; ++part) {
    const int low = in[4 + part / 2] >> (part % 2 * 4) & 15, top = (in[2] | in[3] << 8) >> (part * 2) & 3;
    look_up_nibbles(in + 8 + part * 16, uneven, d * float((low | top << 4) - 32), out + part * 32);
  }
}
// OCP's microscaling: a power of two for 32 numbers; the table has their doubles.
void decode_mxfp4(const uint8_t* in, float* out) {
  look_up_nibbles(in + 1, twice_e2m1, std::ldexp(1.f, in[0] - 128), out);
}

// --- -1, 0 and 1 -----------------------------------------------------------------------------------------------------

// Five to a byte, which is the base-3 fraction 0.abcde; the last 16 numbers four to a byte.
void decode_tq1_0(const uint8_t* in, float* out) {
  const float d = half(in + 52);
  const auto digit = [](uint8_t byte, int which) {
    for (; which > 0; --which) byte = uint8_t(byte * 3);
    return float((byte * 3 >> 8) - 1);
  };
  for (int i = 0; i < 160; ++i) out[i] = d * digit(in[i % 32], i / 32);
  for (int i = 0; i < 80; ++i) out[160 + i] = d * digit(in[32 + i % 16], i / 16);
  for (int i = 0; i < 16; ++i) out[240 + i] = d * digit(in[48 + i % 4], i / 4);
}
void decode_tq2_0(const uint8_t* in, float* out) {
  const float d = half(in + 64);
  for (int i = 0; i < 256; ++i) out[i] = d * float((in[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) - 1);
}

constexpr GgufType types[] = {{0, "f32", DType::f32, 1, 4},
                              {1, "f16", DType::f16, 1, 2},
                              {2, "q4_0", DType::f32, 32, 18, decode_q4_0},
                              {3, "q4_1", DType::f32, 32, 20, decode_q4_1},
                              {6, "q5_0", DType::f32, 32, 22, decode_q5_0},
                              {7, "q5_1", DType::f32, 32, 24, decode_q5_1},
                              {8, "q8_0", DType::f32, 32, 34, decode_q8_0},
                              {10, "q2_k", DType::f32, 256, 84, decode_q2_k},
                              {11, "q3_k", DType::f32, 256, 110, decode_q3_k},
                              {12, "q4_k", DType::f32, 256, 144, decode_q4_k},
                              {13, "q5_k", DType::f32, 256, 176, decode_q5_k},
                              {14, "q6_k", DType::f32, 256, 210, decode_q6_k},
                              {20, "iq4_nl", DType::f32, 32, 18, decode_iq4_nl},
                              {23, "iq4_xs", DType::f32, 256, 136, decode_iq4_xs},
                              {24, "i8", DType::i8, 1, 1},
                              {25, "i16", DType::i16, 1, 2},
                              {26, "i32", DType::i32, 1, 4},
                              {27, "i64", DType::i64, 1, 8},
                              {28, "f64", DType::f64, 1, 8},
                              {30, "bf16", DType::bf16, 1, 2},
                              {34, "tq1_0", DType::f32, 256, 54, decode_tq1_0},
                              {35, "tq2_0", DType::f32, 256, 66, decode_tq2_0},
                              {39, "mxfp4", DType::f32, 32, 17, decode_mxfp4}};

}  // namespace

const GgufType* gguf_type(uint32_t code) {
  for (const GgufType& t : types)
    if (t.code == code) return &t;
  return nullptr;
}
const GgufType* gguf_type(std::string_view name) {
  for (const GgufType& t : types)
    if (t.name == name) return &t;
  return nullptr;
}

}  // namespace rill
