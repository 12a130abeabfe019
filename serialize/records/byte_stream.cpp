// Reading by blocks, and zlib's inflate; see byte_stream.h.
#include "rill/serialize/records/byte_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rill/serialize/files.h"

namespace rill {
namespace {
constexpr size_t block = 1 << 18;
}

ByteStream::ByteStream(const std::string& path, std::string_view op, const Where& where) : path_(path), op_(op) {
  fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0) fail_file(op_, "cannot read", path_, where);
  struct stat status = {};
  if (fstat(fd_, &status) == 0 && S_ISREG(status.st_mode)) size_ = int64_t(status.st_size);
  try {
    refill(where);
  } catch (...) {
    close(fd_);
    throw;
  }
}

ByteStream::~ByteStream() {
  if (is_packed_) inflateEnd(&stream_);
  close(fd_);
}

void ByteStream::reject(const std::string& what, const Where& where) const {
  fail(op_,
       "'" + path_ + "' at byte " + std::to_string(offset_) + (is_packed_ ? " of what is unpacked" : "") + ": " + what,
       where);
}

void ByteStream::unpack(Compression how, const Where& where) {
  if (inflateInit2(&stream_, window_bits(how)) != Z_OK) reject("zlib cannot be started", where);
  is_packed_ = inside_ = true;
  size_ = -1;
}

bool ByteStream::refill(const Where& where) {
  if (ended_) return false;
  packed_.resize(block);
  at_ = 0;
  ssize_t n;
  do n = ::read(fd_, packed_.data(), block);
  while (n < 0 && errno == EINTR);
  packed_.resize(size_t(std::max<ssize_t>(n, 0)));
  if (n < 0) fail_file(op_, "cannot read", path_, where);
  ended_ = n == 0;
  return !ended_;
}

// Bytes unpacked into `out`, fewer than `n` at the end of the stream alone.
size_t ByteStream::unpack_some(char* out, size_t n, const Where& where) {
  stream_.next_out = reinterpret_cast<Bytef*>(out);
  stream_.avail_out = uInt(n);
  while (stream_.avail_out) {
    if (at_ == packed_.size() && !refill(where)) break;
    stream_.next_in = reinterpret_cast<Bytef*>(packed_.data() + at_);
    stream_.avail_in = uInt(packed_.size() - at_);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    at_ = packed_.size() - stream_.avail_in;
    if (status == Z_STREAM_END) {  // of one member: files may be put behind each other
      inside_ = false;
      if (at_ == packed_.size() && !refill(where)) break;
      inside_ = true;
      if (inflateReset(&stream_) != Z_OK) reject("zlib cannot be started again", where);
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      reject(std::string("the packed bytes are damaged: ") + (stream_.msg ? stream_.msg : "zlib cannot read them"),
             where);
    }
  }
  return n - stream_.avail_out;
}

void ByteStream::read(std::string& out, size_t n, const Where& where) {
  while (n) {
    const size_t old = out.size();
    size_t got;
    if (is_packed_) {
      out.resize(old + std::min(n, block));
      got = unpack_some(out.data() + old, out.size() - old, where);
      out.resize(old + got);
    } else {
      if (at_ == packed_.size() && !refill(where)) return;
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
