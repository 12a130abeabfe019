// The 44 bytes of a RIFF header, and samples; see wav_audio.h.
#include "rill/serialize/wav_audio.h"

#include <algorithm>
#include <cmath>

#include "rill/tensor/error.h"

namespace rill {
namespace {

void put(std::string& out, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += char(value >> 8 * i & 0xFF);
}

}  // namespace

std::string encode_wav(std::span<const float> samples, int channels, int64_t sample_rate) {
  constexpr int64_t most = (int64_t(1) << 32) - 64;
  if (channels < 1 || channels > 65535 / 2 || sample_rate < 1 || sample_rate > INT32_MAX ||
      int64_t(samples.size()) > most / 2 || int64_t(samples.size()) % channels ||
      sample_rate * channels * 2 > UINT32_MAX)
    fail("encode_wav", "cannot write " + std::to_string(samples.size()) + " samples of " + std::to_string(channels) +
                           " channels at " + std::to_string(sample_rate) + " Hz");
  const uint32_t bytes = uint32_t(samples.size() * 2), c = uint32_t(channels), rate = uint32_t(sample_rate);
  std::string out = "RIFF";
  put(out, 36 + bytes, 4);
  out += "WAVEfmt ";
  put(out, 16, 4);  // of the format that follows
  put(out, 1, 2);   // PCM
  put(out, c, 2);
  put(out, rate, 4);
  put(out, rate * c * 2, 4);  // bytes a second
  put(out, c * 2, 2);         // bytes a frame
  put(out, 16, 2);            // bits a sample
  out += "data";
  put(out, bytes, 4);
  out.reserve(out.size() + bytes);
  for (float v : samples) {
    const float scaled = std::isnan(v) ? 0.f : std::round(v * 32768.f);
    put(out, uint32_t(int32_t(std::clamp(scaled, -32768.f, 32767.f))), 2);
  }
  return out;
}

}  // namespace rill
