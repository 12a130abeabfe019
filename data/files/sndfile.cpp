// Audio by libsndfile, which reads from memory by callbacks. See sound.h.
#include <fmt/format.h>
#include <sndfile.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "rill/data/files/sound.h"
#include "rill/devices/registry.h"

namespace rill::data::detail {
namespace {

struct Memory {
  std::string_view bytes;
  sf_count_t at = 0;
};

SF_VIRTUAL_IO memory_calls() {
  SF_VIRTUAL_IO io = {};
  io.get_filelen = [](void* m) { return sf_count_t(static_cast<Memory*>(m)->bytes.size()); };
  io.seek = [](sf_count_t offset, int from, void* m) {
    auto& memory = *static_cast<Memory*>(m);
    const sf_count_t size = sf_count_t(memory.bytes.size());
    const sf_count_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? memory.at : size;
    memory.at = std::clamp<sf_count_t>(base + offset, 0, size);
    return memory.at;
  };
  io.read = [](void* to, sf_count_t n, void* m) {
    auto& memory = *static_cast<Memory*>(m);
    n = std::min(n, sf_count_t(memory.bytes.size()) - memory.at);
    std::memcpy(to, memory.bytes.data() + memory.at, size_t(n));
    memory.at += n;
    return n;
  };
  io.write = [](const void*, sf_count_t, void*) { return sf_count_t(0); };
  io.tell = [](void* m) { return static_cast<Memory*>(m)->at; };
  return io;
}

}  // namespace

Sound read_by_library(std::string_view bytes, const SoundFile& file) {
  check_ogg(bytes, file);
  Memory memory{bytes};
  SF_VIRTUAL_IO io = memory_calls();
  SF_INFO info = {};
  const std::unique_ptr<SNDFILE, decltype(&sf_close)> in(sf_open_virtual(&io, SFM_READ, &info, &memory), sf_close);
  if (!in) file.reject(std::string("is no audio file that libsndfile reads: ") + sf_strerror(nullptr));
  if (info.channels < 1 || info.channels > 1024 || info.samplerate < 1)
    file.reject(fmt::format("{} channels at {} frames a second", info.channels, info.samplerate));
  // Memory grows with the samples: the header of a damaged file is not trusted.
  std::vector<float> samples;
  std::vector<float> piece(1 << 16);
  const sf_count_t frames_each = sf_count_t(piece.size()) / info.channels;
  for (sf_count_t n = 1; n > 0;) {
    n = sf_readf_float(in.get(), piece.data(), frames_each);
    samples.insert(samples.end(), piece.begin(), piece.begin() + std::max<sf_count_t>(n, 0) * info.channels);
  }
  if (sf_error(in.get()) != SF_ERR_NO_ERROR)
    file.reject(fmt::format("after {} frames: {}", samples.size() / size_t(info.channels), sf_strerror(in.get())));
  const auto frames = int64_t(samples.size() / size_t(info.channels));
  if (info.frames > frames && info.frames != SF_COUNT_MAX)
    file.reject(fmt::format("has {} frames of the {} that it says. the file is cut", frames, info.frames));
  Tensor t = empty_tensor(Spec{Shape{frames, int64_t(info.channels)}, DType::f32, false, Device()});
  if (!samples.empty()) std::memcpy(t.mutable_rep()->data, samples.data(), samples.size() * sizeof(float));
  return {std::move(t), info.samplerate};
}

}  // namespace rill::data::detail
