// A build without libzstd; see byte_stream.h.
#include "rill/serialize/records/byte_stream.h"

namespace rill {

struct ZstdStream::Impl {};
ZstdStream::ZstdStream() = default;
ZstdStream::~ZstdStream() = default;
bool ZstdStream::is_known() { return false; }
std::string ZstdStream::unpack(std::string_view&, char*, size_t, size_t&) { return "there is no libzstd"; }

}  // namespace rill
