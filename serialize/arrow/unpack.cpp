// Compressed buffers of Arrow files, by liblz4 and libzstd.
#include <fmt/format.h>
#include <lz4frame.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "rill/serialize/arrow/columns.h"

namespace rill::arrow {
namespace {

constexpr size_t step = size_t(1) << 20;

// Makes space for some more bytes, no more than are expected, and returns how many.
size_t grow(std::string& out, size_t used, int64_t expected) {
  out.resize(std::min(size_t(expected), used + std::max(step, used)));
  return out.size() - used;
}

std::string unpack_lz4(std::string_view packed, int64_t expected, const Source& source) {
  LZ4F_dctx* context = nullptr;
  if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION))) source.reject("liblz4 cannot be started");
  const std::unique_ptr<LZ4F_dctx, decltype(&LZ4F_freeDecompressionContext)> free(context,
                                                                                  LZ4F_freeDecompressionContext);
  std::string out;
  size_t used = 0;
  while (!packed.empty() && used < size_t(expected)) {
    size_t room = grow(out, used, expected), taken = packed.size();
    const size_t left = LZ4F_decompress(context, out.data() + used, &room, packed.data(), &taken, nullptr);
    if (LZ4F_isError(left)) source.reject(fmt::format("a buffer is no LZ4 frame: {}", LZ4F_getErrorName(left)));
    used += room;
    packed.remove_prefix(taken);
    if (room == 0 && taken == 0) break;
  }
  out.resize(used);
  return out;
}

std::string unpack_zstd(std::string_view packed, int64_t expected, const Source& source) {
  const std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> context(ZSTD_createDStream(), ZSTD_freeDStream);
  if (!context) source.reject("libzstd cannot be started");
  std::string out;
  size_t used = 0;
  ZSTD_inBuffer in{packed.data(), packed.size(), 0};
  while (used < size_t(expected)) {
    const size_t room = grow(out, used, expected), before = in.pos;
    ZSTD_outBuffer to{out.data() + used, room, 0};
    const size_t left = ZSTD_decompressStream(context.get(), &to, &in);
    if (ZSTD_isError(left)) source.reject(fmt::format("a buffer is no zstd frame: {}", ZSTD_getErrorName(left)));
    used += to.pos;
    if (to.pos == 0 && in.pos == before) break;
  }
  out.resize(used);
  return out;
}

}  // namespace

std::string unpack(std::string_view packed, format::Codec codec, int64_t expected, const Source& source) {
  if (expected < 0) source.reject(fmt::format("a compressed buffer of {} bytes", expected));
  if (codec != format::Codec_lz4_frame && codec != format::Codec_zstd)
    source.reject(fmt::format("is compressed by a method ({}) that rill does not know", int(codec)));
  std::string out =
      codec == format::Codec_zstd ? unpack_zstd(packed, expected, source) : unpack_lz4(packed, expected, source);
  if (int64_t(out.size()) != expected)
    source.reject(fmt::format("a compressed buffer holds {} bytes, and should hold {}", out.size(), expected));
  return out;
}

}  // namespace rill::arrow
