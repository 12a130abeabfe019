// Audio files as samples. WAV is read always; FLAC, Ogg, MP3, AIFF and others by libsndfile (the feature `audio`). They
// need librill_io.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "rill/data/files/paths.h"
#include "rill/data/files/text.h"

#pragma GCC visibility push(default)

namespace rill {

// The samples of an audio file, f32 [frames, channels], mostly in [-1, 1], and the sampling rate. `bytes`: the file as
// a string tensor of one element. Integer samples of b bits are divided by 2^(b-1). Throws rill::Error, which names the
// byte, if it is damaged or truncated, and if this build cannot read its format.
std::pair<Tensor, int64_t> decode_audio(const Tensor& bytes, Where where = Where::current());
// The same of a file, which the error names. "-" is the standard input.
std::pair<Tensor, int64_t> read_audio(const std::string& path, Where where = Where::current());

}  // namespace rill

namespace rill::data {

// The files as {samples, rate}, one an element, in order; by number too, so that shuffles are exact.
//
//   data::audio("speech/**/*.flac").map([](const Tensor& x, int64_t rate) { return mean(x, 1); }).padded_batch(16);
Dataset<std::pair<Tensor, int64_t>> audio(const Paths& paths, Where where = Where::current());

}  // namespace rill::data

#pragma GCC visibility pop
