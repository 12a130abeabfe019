// Shared by the readers of audio files. Not installed.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "rill/tensor/tensor.h"

namespace rill::data::detail {

struct Sound {
  Tensor samples;  // f32 [frames, channels], on the host
  int64_t rate = 0;
};

// For messages.
struct SoundFile {
  std::string op, name;  // "'path'", or "" of bytes
  const Where& where;
  [[noreturn]] void reject(size_t at, const std::string& what) const;
  [[noreturn]] void reject(const std::string& what) const;
};

// Nothing where the bytes are no WAV file, or one of a format that libsndfile may know.
std::optional<Sound> read_wav(std::string_view bytes, const SoundFile& file);
// Throws if the bytes are an Ogg file that is damaged, or whose codebooks would fill the memory.
void check_ogg(std::string_view bytes, const SoundFile& file);
// By libsndfile.
Sound read_by_library(std::string_view bytes, const SoundFile& file);

}  // namespace rill::data::detail
