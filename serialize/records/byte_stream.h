// A file's bytes one after the other, unpacked where the file is a zlib or gzip stream. It may be a pipe, and it may
// grow: behind its end, what has been written since is read.
#pragma once
#include <zlib.h>

#include <string>
#include <string_view>

#include "rill/serialize/files.h"
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

  // The first bytes of the file as they stand in it, up to 12: what it may be recognised by. Before the first read.
  std::string_view start();
  // Called once, before the first read, where the file is packed.
  void unpack(Compression how, const Where& where);

  // Appends up to `n` bytes, fewer at the end of the file alone. Memory grows as the bytes come.
  void read(std::string& out, size_t n, const Where& where);
  // Gives back what read() gave last: the next one begins with it.
  void unread(std::string bytes);
  // Bytes that read() gave.
  int64_t offset() const { return offset_; }
  // Whether there may be as many more: not where the file is a plain one, and ends before.
  bool may_have(uint64_t bytes);
  // How many bytes a plain file has left.
  int64_t left() const { return size_ - offset_; }
  // Whether the packed file ended before its stream did.
  bool is_cut() const { return ended_ && inside_; }
  [[noreturn]] void reject(const std::string& what, const Where& where) const;

 private:
  bool refill();  // false at the end of the file
  size_t unpack_some(char* out, size_t n, const Where& where);

  std::string op_;
  FileReader file_;
  std::string packed_;  // read from the file and not yet given out, from at_
  size_t at_ = 0;
  std::string returned_;  // by unread()
  int64_t offset_ = 0, size_ = 0;
  bool is_packed_ = false, ended_ = false;
  bool inside_ = false;  // a packed stream that has not ended
  z_stream stream_ = {};
};

}  // namespace rill
