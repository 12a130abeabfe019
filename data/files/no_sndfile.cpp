// A build without libsndfile; see sound.h.
#include "rill/data/files/sound.h"

namespace rill::data::detail {

Sound read_by_library(std::string_view, const SoundFile& file) {
  file.reject(
      "is no WAV file of integers or floats, and this build of rill reads no others: it lacks the feature "
      "audio (libsndfile)");
}

}  // namespace rill::data::detail
