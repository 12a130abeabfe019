// Unpacking of zstd by libzstd; see byte_stream.h.
#include <zstd.h>

#include "rill/serialize/records/byte_stream.h"

namespace rill {

struct ZstdStream::Impl {
  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream{ZSTD_createDStream(), ZSTD_freeDStream};
};

ZstdStream::ZstdStream() : impl_(std::make_unique<Impl>()) {
  // What a file may ask for: 128 MiB of what was before, as the program zstd permits.
  if (impl_->stream) ZSTD_DCtx_setParameter(impl_->stream.get(), ZSTD_d_windowLogMax, 27);
}
ZstdStream::~ZstdStream() = default;
bool ZstdStream::is_known() { return true; }

std::string ZstdStream::unpack(std::string_view& in, char* out, size_t most, size_t& came) {
  came = 0;
  if (!impl_->stream) return "libzstd cannot be started";
  ZSTD_inBuffer from{in.data(), in.size(), 0};
  ZSTD_outBuffer to{out, most, 0};
  const size_t left = ZSTD_decompressStream(impl_->stream.get(), &to, &from);
  in.remove_prefix(from.pos);
  came = to.pos;
  if (ZSTD_isError(left)) return ZSTD_getErrorName(left);
  inside_ = left != 0;
  return "";
}

}  // namespace rill
