// A file's bytes one after the other, unpacked where the file is a zlib, gzip or zstd stream. It may be a pipe or the
// standard input, "-", and it may grow: behind its end, what has been written since is read.
#pragma once
#include <zlib.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "rill/serialize/files.h"
#include "rill/serialize/records.h"

#pragma GCC visibility push(default)

namespace rill {

// What zlib calls the two formats: the size of the window, 16 more for gzip's.
inline int window_bits(Compression c) { return c == Compression::gzip ? MAX_WBITS + 16 : MAX_WBITS; }

// How a file is packed that is read.
enum class Packing { none, zlib, gzip, zstd };
// By the first bytes: gzip's and zstd's marks, which no text has.
Packing packing_by_mark(std::string_view start);

// Frames of zstd as their bytes. A build without the library has it, and cannot make one.
class ZstdStream {
 public:
  ZstdStream();
  ~ZstdStream();
  ZstdStream(const ZstdStream&) = delete;
  static bool is_known();
  // Moves `in` behind what was taken, and says how many bytes came out, `most` at most. "" or what is wrong.
  std::string unpack(std::string_view& in, char* out, size_t most, size_t& came);
  bool is_inside() const { return inside_; }  // a frame that has not ended

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  bool inside_ = false;
};

class ByteStream {
 public:
  // Throws rill::Error, under the name of `op`, where the file cannot be opened.
  ByteStream(const std::string& path, std::string_view op, const Where& where);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;

  // The first bytes of the file as they stand in it, up to 12: what it may be recognised by. Before the first read.
  std::string_view start();
  // Called once, before the first read, where the file is packed. Where its bytes end before their stream does, reading
  // throws; with AtCut::end it is the end, and is_cut(): for a file that may still grow.
  enum class AtCut { error, end };
  void unpack(Packing how, const Where& where, AtCut at_cut = AtCut::error);

  // Appends up to `n` bytes, fewer at the end of the file alone. Memory grows as the bytes come.
  void read(std::string& out, size_t n, const Where& where);
  // Puts what is there by now into `to`, `n` bytes at most; waits for one at least, and gives 0 at the end.
  size_t some(char* to, size_t n, const Where& where);
  // Gives back what read() gave last: the next one begins with it.
  void unread(std::string bytes);
  // Bytes that read() gave.
  int64_t offset() const { return offset_; }
  // How many to ask for at once, `most` at most: few at the start, for most files are short and room is filled with zeros.
  size_t piece(size_t most) const { return std::min(std::max(first_piece, size_t(offset_)), most); }
  // Goes on at that byte: at once in a plain file; a packed one is unpacked up to there, from its start where that is
  // behind. Throws where there are fewer, and where a pipe would have to go back.
  void seek(int64_t offset, const Where& where);
  // Whether there may be as many more: not where the file is a plain one, and ends before.
  bool may_have(uint64_t bytes);
  // How many bytes a plain file has left.
  int64_t left() const { return size_ - offset_; }
  // Whether the packed file ended before its stream did.
  bool is_cut() const { return ended_ && inside_; }
  bool is_pipe() const { return file_.is_stream(); }
  bool is_packed() const { return packing_ != Packing::none; }
  // Throws "[op] 'path' at byte AT: what".
  [[noreturn]] void reject(const std::string& what, const Where& where) const;

 private:
  bool refill();  // false at the end of the file
  size_t unpack_some(char* out, size_t n, const Where& where);
  void inflate_some(char* out, size_t n, size_t& came, const Where& where);
  void start_unpacking(const Where& where);
  void move_file(int64_t to, const Where& where);

  std::string op_;
  FileReader file_;
  std::string packed_;  // read from the file and not yet given out, from at_
  size_t at_ = 0;
  std::string returned_;  // by unread()
  static constexpr size_t first_piece = 1 << 14;
  size_t next_piece_ = first_piece;  // of the file
  int64_t offset_ = 0, size_ = 0;
  Packing packing_ = Packing::none;
  AtCut at_cut_ = AtCut::error;
  bool ended_ = false;
  bool inside_ = false;  // a packed stream that has not ended
  z_stream stream_ = {};
  std::unique_ptr<ZstdStream> zstd_;
};

}  // namespace rill

#pragma GCC visibility pop
