// WAV, for audio summaries.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#pragma GCC visibility push(default)

namespace rill {

// A WAV file (RIFF, 16-bit PCM) of `samples`: frames x channels numbers from -1 to 1, which are clipped; NaN is
// silence. Throws rill::Error where channels or rate are not in 1..32767 and 1..2^31 - 1, where a second takes 4 GiB or
// more, or the file would.
std::string encode_wav(std::span<const float> samples, int channels, int64_t sample_rate);

}  // namespace rill

#pragma GCC visibility pop
