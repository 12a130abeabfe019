// WAV files: RIFF chunks, and samples as integers or floats. https://www.mmsp.ece.mcgill.ca/Documents/AudioFormats/WAVE/WAVE.html
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "rill/data/files/sound.h"
#include "rill/devices/registry.h"
#include "rill/serialize/tensors/elements.h"

namespace rill::data::detail {
namespace {

uint32_t wav_number(std::string_view bytes, size_t at, size_t width) {
  return uint32_t(little_endian(bytes.data() + at, width));
}

struct WavFormat {
  uint32_t kind = 0, channels = 0, rate = 0, bits = 0, frame_bytes = 0;
};
constexpr uint32_t pcm = 1, floats = 3, extensible = 0xFFFE;

WavFormat read_wav_format(std::string_view chunk, size_t at, const SoundFile& file) {
  if (chunk.size() < 16) file.reject(at, fmt::format("a format of {} bytes. expected 16 or more", chunk.size()));
  WavFormat f{wav_number(chunk, 0, 2), wav_number(chunk, 2, 2), wav_number(chunk, 4, 4), wav_number(chunk, 14, 2),
              wav_number(chunk, 12, 2)};
  if (f.kind == extensible && chunk.size() >= 26) f.kind = wav_number(chunk, 24, 2);
  const bool sound = (f.kind == pcm && (f.bits == 8 || f.bits == 16 || f.bits == 24 || f.bits == 32)) ||
                     (f.kind == floats && (f.bits == 32 || f.bits == 64));
  if (!sound) return {};  // libsndfile may know it
  if (f.rate == 0) file.reject(at, "0 samples a second");
  if (f.channels < 1 || f.frame_bytes != f.channels * f.bits / 8)
    file.reject(at, fmt::format("frames of {} bytes for {} channels of {} bits", f.frame_bytes, f.channels, f.bits));
  return f;
}

// Whether the samples go on to the end of the file, for the program that wrote it did not know how many there would be:
// it wrote to a pipe (ffmpeg says 2^32 - 1, arecord 2^31, sox 2^31 - 4096), or was killed before it filled the lengths in.
// None in a file whose own length is right are none, whatever stands behind them.
bool has_open_end(std::string_view bytes, size_t length, size_t left) {
  constexpr size_t head = 8, unknown = 0xFFFFFFFF;
  const size_t whole = wav_number(bytes, 4, 4);
  if (length == 0) return whole == unknown || whole + head < bytes.size();
  return length > left && (length == unknown || length == 0x80000000 || length == 0x7FFFF000);
}

float wav_sample(const char* at, const WavFormat& f) {
  if (f.kind == floats && f.bits == 32) {
    const uint32_t bits = wav_number({at, 4}, 0, 4);
    float x = 0;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  }
  if (f.kind == floats) {
    const uint64_t bits = wav_number({at, 8}, 0, 4) | uint64_t(wav_number({at, 8}, 4, 4)) << 32;
    double x = 0;
    std::memcpy(&x, &bits, sizeof x);
    return float(x);
  }
  switch (f.bits) {
    case 8: return float(int(uint8_t(*at)) - 128) / 128;  // alone without a sign
    case 16: return float(int16_t(wav_number({at, 2}, 0, 2))) / 32768;
    case 24: return float(int32_t(wav_number({at, 3}, 0, 3) << 8) >> 8) / 8388608;
    default: return float(double(int32_t(wav_number({at, 4}, 0, 4))) / 2147483648.0);
  }
}

}  // namespace

std::optional<Sound> read_wav(std::string_view bytes, const SoundFile& file) {
  if (bytes.size() < 12 || !bytes.starts_with("RIFF") || bytes.substr(8, 4) != "WAVE") return {};
  WavFormat format;
  for (size_t at = 12; bytes.size() - std::min(at, bytes.size()) >= 8;) {
    const std::string_view id = bytes.substr(at, 4);
    const size_t length = wav_number(bytes, at + 4, 4), left = bytes.size() - at - 8;
    const bool is_data = id == "data";
    const bool open_end = is_data && has_open_end(bytes, length, left);
    if (length > left && !open_end)
      file.reject(at, fmt::format("a part of {} bytes, and {} are left. the file is cut", length, left));
    const std::string_view chunk = bytes.substr(at + 8, open_end ? left : length);
    if (id == "fmt ") {
      format = read_wav_format(chunk, at, file);
      if (format.channels == 0) return {};
    } else if (is_data) {
      if (format.channels == 0) file.reject(at, "samples before the format that says how they lie");
      const auto frames = int64_t(chunk.size() / format.frame_bytes);
      Tensor t = empty_tensor(Spec{Shape{frames, int64_t(format.channels)}, DType::f32, false, Device()});
      auto* out = reinterpret_cast<float*>(t.mutable_rep()->data);
      const size_t width = format.bits / 8;
      for (int64_t i = 0; i < frames * int64_t(format.channels); ++i)
        out[i] = wav_sample(chunk.data() + size_t(i) * width, format);
      return Sound{std::move(t), int64_t(format.rate)};
    }
    at += 8 + length + length % 2;
  }
  file.reject(bytes.size(), "ends before its samples. the file is cut");
}

}  // namespace rill::data::detail
