// A file's bytes one after the other, unpacked where the file is a zlib or gzip stream.
#pragma once
#include <zlib.h>

#include <string>
#include <string_view>

#include "rill/serialize/records.h"

namespace rill {

// What zlib calls the two formats: the size of the window, 16 more for gzip's.
inline int window_bits(Compression c) { return c == Compression::gzip ? MAX_WBITS + 16 : MAX_WBITS; }

class ByteStream {
 public:
  // Throws rill::Error, under the name of `op`, where the file cannot be opened.
  ByteStream(const std::string& path, std::string_view op, const Where& where);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;

  // The first bytes of the file as they stand in it, up to 12: what it may be recognised by.
  std::string_view start() const { return std::string_view(packed_).substr(0, 12); }
  // Called once, before the first read, where the file is packed.
  void unpack(Compression how, const Where& where);

  // Appends up to `n` bytes, fewer at the end of the file alone. Memory grows as the bytes come.
  void read(std::string& out, size_t n, const Where& where);
  // Bytes that read() gave.
  int64_t offset() const { return offset_; }
  // How many bytes are left at most; more than any file has where that cannot be known, of a packed one or a pipe.
  int64_t left() const { return size_ < 0 ? INT64_MAX : size_ - offset_; }
  // Whether the packed file ended before its stream did.
  bool is_cut() const { return ended_ && inside_; }
  [[noreturn]] void reject(const std::string& what, const Where& where) const;

 private:
  bool refill(const Where& where);  // false at the end of the file
  size_t unpack_some(char* out, size_t n, const Where& where);

  std::string path_, op_;
  int fd_ = -1;
  std::string packed_;  // read from the file and not yet given out, from at_
  size_t at_ = 0;
  int64_t offset_ = 0, size_ = -1;
  bool is_packed_ = false, ended_ = false;
  bool inside_ = false;  // a packed stream that has not ended
  z_stream stream_ = {};
};

}  // namespace rill
