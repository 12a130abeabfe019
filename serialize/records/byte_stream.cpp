// Reading by blocks, and zlib's inflate; see byte_stream.h.
#include "rill/serialize/records/byte_stream.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace rill {
namespace {
constexpr size_t largest_piece = 1 << 18;
}

Packing packing_by_mark(std::string_view start) {
  if (start.starts_with("\x1f\x8b")) return Packing::gzip;
  if (start.starts_with("\x28\xB5\x2F\xFD")) return Packing::zstd;  // RFC 8878
  return Packing::none;
}

ByteStream::ByteStream(const std::string& path, std::string_view op, const Where& where)
    : op_(op), file_(path, op, where, Accepts::streams), size_(int64_t(file_.size())) {}

ByteStream::~ByteStream() {
  if (packing_ == Packing::zlib || packing_ == Packing::gzip) inflateEnd(&stream_);
}

void ByteStream::reject(const std::string& what, const Where& where) const {
  fail(op_,
       "'" + file_.path() + "' at byte " + std::to_string(offset_) + (is_packed() ? " of what is unpacked" : "") +
           ": " + what,
       where);
}

std::string_view ByteStream::start() {
  while (packed_.size() < 12 && refill()) {
  }
  return std::string_view(packed_).substr(0, 12);
}

void ByteStream::unpack(Packing how, const Where& where, AtCut at_cut) {
  if (how == Packing::zstd && !ZstdStream::is_known())
    reject("is packed by zstd, which this build of rill does not unpack: it lacks the arrow feature, and so libzstd",
           where);
  packing_ = how;
  at_cut_ = at_cut;
  start_unpacking(where);
}

void ByteStream::start_unpacking(const Where& where) {
  inside_ = true;
  if (packing_ == Packing::zstd) {
    zstd_ = std::make_unique<ZstdStream>();
  } else {
    stream_ = {};
    const int bits = window_bits(packing_ == Packing::gzip ? Compression::gzip : Compression::zlib);
    if (inflateInit2(&stream_, bits) != Z_OK) {
      packing_ = Packing::none;
      reject("zlib cannot be started", where);
    }
  }
}

bool ByteStream::may_have(uint64_t bytes) {
  if (is_packed() || file_.is_stream()) return true;
  if (left() < 0 || uint64_t(left()) < bytes) size_ = int64_t(file_.size_now());
  return left() >= 0 && uint64_t(left()) >= bytes;
}

bool ByteStream::refill() {
  packed_.erase(0, std::exchange(at_, 0));
  const size_t old = packed_.size();
  packed_.resize(old + next_piece_);
  const size_t n = file_.next(packed_.data() + old, next_piece_);
  next_piece_ = std::min(2 * next_piece_, largest_piece);
  packed_.resize(old + n);
  ended_ = n == 0;
  return !ended_;
}

// What zlib makes of the bytes at hand. Members of a gzip file may be put behind each other.
void ByteStream::inflate_some(char* out, size_t n, size_t& came, const Where& where) {
  if (!std::exchange(inside_, true) && inflateReset(&stream_) != Z_OK) reject("zlib cannot be started again", where);
  const size_t most = std::min<size_t>(n, 1 << 30);  // zlib counts in 32 bits
  stream_.next_out = reinterpret_cast<Bytef*>(out);
  stream_.avail_out = uInt(most);
  stream_.next_in = reinterpret_cast<Bytef*>(packed_.data() + at_);
  stream_.avail_in = uInt(packed_.size() - at_);
  const int status = inflate(&stream_, Z_NO_FLUSH);
  at_ = packed_.size() - stream_.avail_in;
  came = most - stream_.avail_out;
  if (status == Z_STREAM_END) inside_ = false;
  else if (status != Z_OK && status != Z_BUF_ERROR)
    reject(std::string("the packed bytes are damaged: ") + (stream_.msg ? stream_.msg : "zlib cannot read them"),
           where);
}

// Bytes unpacked into `out`: 0 at the end of the file alone.
size_t ByteStream::unpack_some(char* out, size_t n, const Where& where) {
  for (;;) {
    if (at_ == packed_.size() && !refill()) {
      if (inside_ && at_cut_ == AtCut::error)
        reject("the packed bytes end before their stream does. the file is not complete", where);
      return 0;
    }
    size_t came = 0;
    if (packing_ == Packing::zstd) {
      std::string_view in = std::string_view(packed_).substr(at_);
      const std::string wrong = zstd_->unpack(in, out, n, came);
      at_ = packed_.size() - in.size();
      inside_ = zstd_->is_inside();
      if (!wrong.empty()) reject("the packed bytes are damaged: " + wrong, where);
    } else {
      inflate_some(out, n, came, where);
    }
    if (came) return came;
  }
}

void ByteStream::unread(std::string bytes) {
  offset_ -= int64_t(bytes.size());
  returned_.insert(0, bytes);
}

size_t ByteStream::some(char* to, size_t n, const Where& where) {
  size_t got = 0;
  if (!returned_.empty()) {
    got = std::min(n, returned_.size());
    returned_.copy(to, got);
    returned_.erase(0, got);
  } else if (is_packed()) {
    got = unpack_some(to, n, where);
  } else if (at_ < packed_.size()) {
    got = std::min(n, packed_.size() - at_);
    packed_.copy(to, got, at_);
    at_ += got;
  } else if (n >= largest_piece) {
    got = file_.next(to, n);
  } else if (refill()) {
    return some(to, n, where);
  }
  offset_ += int64_t(got);
  return got;
}

void ByteStream::read(std::string& out, size_t n, const Where& where) {
  while (n) {
    const size_t old = out.size(), most = std::min(n, largest_piece);
    out.resize(old + most);
    size_t got = 0;
    try {
      got = some(out.data() + old, most, where);
    } catch (...) {
      out.resize(old);
      throw;
    }
    out.resize(old + got);
    if (!got) return;
    n -= got;
  }
}

void ByteStream::move_file(int64_t to, const Where& where) {
  const int fd = file_.duplicate();  // of one file, and so of one position
  const bool moved = lseek(fd, off_t(to), SEEK_SET) == off_t(to);
  close(fd);
  if (!moved) reject("cannot go to byte " + std::to_string(to) + ": it is a pipe, which gives its bytes once", where);
  packed_.clear(), returned_.clear();
  at_ = 0;
  ended_ = false;
}

void ByteStream::seek(int64_t offset, const Where& where) {
  if (!is_packed() && !file_.is_stream()) {
    size_ = int64_t(file_.size_now());
    if (offset > size_)
      reject("expected to go to byte " + std::to_string(offset) + ", and it has " + std::to_string(size_), where);
    move_file(offset, where);
    offset_ = offset;
    return;
  }
  if (offset < offset_) {
    move_file(0, where);
    offset_ = 0;
    if (packing_ == Packing::zlib || packing_ == Packing::gzip) inflateEnd(&stream_);
    if (is_packed()) start_unpacking(where);
  }
  std::string dropped(std::min<size_t>(largest_piece, size_t(offset - offset_)), '\0');
  while (offset_ < offset)
    if (!some(dropped.data(), std::min<size_t>(dropped.size(), size_t(offset - offset_)), where))
      reject("expected to go to byte " + std::to_string(offset) + ", and it ends", where);
}

}  // namespace rill
