// Reading by blocks, and zlib's inflate; see byte_stream.h.
#include "rill/serialize/records/byte_stream.h"

#include <algorithm>
#include <utility>

namespace rill {
namespace {
constexpr size_t block = 1 << 18;
}

ByteStream::ByteStream(const std::string& path, std::string_view op, const Where& where)
    : op_(op), file_(path, op, where, Accepts::streams), size_(int64_t(file_.size())) {}

ByteStream::~ByteStream() {
  if (is_packed_) inflateEnd(&stream_);
}

void ByteStream::reject(const std::string& what, const Where& where) const {
  fail(op_,
       "'" + file_.path() + "' at byte " + std::to_string(offset_) + (is_packed_ ? " of what is unpacked" : "") + ": " +
           what,
       where);
}

std::string_view ByteStream::start() {
  while (packed_.size() < 12 && refill()) {
  }
  return std::string_view(packed_).substr(0, 12);
}

void ByteStream::unpack(Compression how, const Where& where) {
  if (inflateInit2(&stream_, window_bits(how)) != Z_OK) reject("zlib cannot be started", where);
  is_packed_ = inside_ = true;
}

bool ByteStream::may_have(uint64_t bytes) {
  if (is_packed_ || file_.is_stream()) return true;
  if (left() < 0 || uint64_t(left()) < bytes) size_ = int64_t(file_.size_now());
  return left() >= 0 && uint64_t(left()) >= bytes;
}

bool ByteStream::refill() {
  packed_.erase(0, std::exchange(at_, 0));
  const size_t old = packed_.size();
  packed_.resize(old + block);
  const size_t n = file_.next(packed_.data() + old, block);
  packed_.resize(old + n);
  ended_ = n == 0;
  return !ended_;
}

// Bytes unpacked into `out`, fewer than `n` at the end of the stream alone.
size_t ByteStream::unpack_some(char* out, size_t n, const Where& where) {
  stream_.next_out = reinterpret_cast<Bytef*>(out);
  stream_.avail_out = uInt(n);
  while (stream_.avail_out) {
    if (at_ == packed_.size() && !refill()) break;
    if (!std::exchange(inside_, true) && inflateReset(&stream_) != Z_OK) reject("zlib cannot be started again", where);
    stream_.next_in = reinterpret_cast<Bytef*>(packed_.data() + at_);
    stream_.avail_in = uInt(packed_.size() - at_);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    at_ = packed_.size() - stream_.avail_in;
    if (status == Z_STREAM_END) {  // of one member: files may be put behind each other
      inside_ = false;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      reject(std::string("the packed bytes are damaged: ") + (stream_.msg ? stream_.msg : "zlib cannot read them"),
             where);
    }
  }
  return n - stream_.avail_out;
}

void ByteStream::unread(std::string bytes) {
  offset_ -= int64_t(bytes.size());
  returned_.insert(0, bytes);
}

void ByteStream::read(std::string& out, size_t n, const Where& where) {
  while (n) {
    const size_t old = out.size();
    size_t got;
    if (!returned_.empty()) {
      got = std::min(n, returned_.size());
      out.append(returned_, 0, got);
      returned_.erase(0, got);
    } else if (is_packed_) {
      out.resize(old + std::min(n, block));
      got = unpack_some(out.data() + old, out.size() - old, where);
      out.resize(old + got);
    } else {
      if (at_ == packed_.size() && !refill()) return;
      got = std::min(n, packed_.size() - at_);
      out.append(packed_, at_, got);
      at_ += got;
    }
    if (!got) return;
    n -= got;
    offset_ += int64_t(got);
  }
}

}  // namespace rill
