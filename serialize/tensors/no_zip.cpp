// .npz files of a build without the zip feature.
#include "rill/serialize/tensors/formats.h"

namespace rill {

namespace {
constexpr const char* missing =
    "this build of rill was made without libzip (-Dzip=enabled; apt-get install libzip-dev), which .npz needs. "
    "use .safetensors";
}

void save_npz(const SaveRequest& request, const NamedTensors&) { request.reject(missing); }
NamedTensors load_npz(const LoadRequest& request) { request.file.reject(missing); }

}  // namespace rill
