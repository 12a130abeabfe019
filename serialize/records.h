// TFRecord, the framing of TensorFlow's data and event files. A record is
//
//   uint64 length | uint32 masked_crc(length) | bytes | uint32 masked_crc(bytes)
//
// all little-endian; the sums are CRC-32C (Castagnoli, RFC 3720), masked as TensorFlow's lib/hash/crc32c.h does. A file
// is such records, or all of them in one zlib or gzip stream. examples.h has what the records usually hold.
//
//   RecordWriter out("train.tfrecord", {.compression = Compression::gzip});
//   out.write(make_example({{"label", tensor({3})}}));
//   out.close();
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rill/tensor/error.h"
#include "rill/tensor/shape.h"

#pragma GCC visibility push(default)

namespace rill {

// CRC-32C of `bytes`; crc32c("123456789") == 0xE3069283.
uint32_t crc32c(std::string_view bytes);
// A sum of bytes that themselves hold sums would cancel out: TensorFlow stores it rotated, and a constant added.
uint32_t masked_crc32c(std::string_view bytes);

// `bytes` as one record.
std::string record(std::string_view bytes);

// How the file is packed: TensorFlow's "", "ZLIB" and "GZIP".
enum class Compression { none, zlib, gzip };

struct RecordWriterOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Compression compression = Compression::none;
  int level = 6;  // 1 fast to 9 small; 0 packs nothing
};

// Writes a file of records; one of that name is replaced. Not for several threads at once.
class RecordWriter {
 public:
  // Makes the folders that are missing. Throws rill::Error where the file cannot be made.
  explicit RecordWriter(const std::string& path, RecordWriterOptions options = {}, Where where = Where::current());
  // Closes the file, as far as the disk takes it: call close() to be told otherwise.
  ~RecordWriter();
  RecordWriter(RecordWriter&&) noexcept;
  RecordWriter& operator=(RecordWriter&&) noexcept;

  // Appends a record. Throws rill::Error where the disk refuses; then it is not written, and may be given again.
  void write(std::string_view bytes, Where where = Where::current());
  // Returns when all that was written has reached the disk. In a packed file it costs some bytes.
  void flush(Where where = Where::current());
  // flush(), and the end: nothing can be written after it.
  void close(Where where = Where::current());

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct RecordReaderOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // No record is believed to be longer: what a small packed file can make a reader allocate.
  int64_t largest = int64_t(1) << 30;
  // Takes a last record that is cut short for the end, as of a file that is still written; else it is an error. In both
  // cases a later call reads it, once it is whole.
  bool cut_end = false;
};

// Where a record begins: how many are before it, and the byte of what is unpacked.
struct RecordPlace {
  int64_t number = 0, offset = 0;
};

// Reads a file, a pipe, or "-", the standard input, record by record; it finds out by itself whether and how it is packed
// (zlib, gzip, zstd). A file may grow while
// it is read, as TensorBoard reads those of a run: next() goes on where it found the end. Not for several threads at
// once.
class RecordReader {
 public:
  // Throws rill::Error where the file cannot be opened.
  explicit RecordReader(const std::string& path, RecordReaderOptions options = {}, Where where = Where::current());
  ~RecordReader();
  RecordReader(RecordReader&&) noexcept;
  RecordReader& operator=(RecordReader&&) noexcept;

  // Puts the next record into `bytes`; false at the end, behind which a later call finds what was written since. Throws
  // rill::Error, which names the file, the place in what is unpacked of it and the record, where a checksum is wrong, a
  // length is impossible or the file ends too early.
  bool next(std::string& bytes, Where where = Where::current());
  // Goes past the next record, of which only the length is checked; false at the end.
  bool skip(Where where = Where::current());
  // That of the next record; and goes to one that this file's reader gave: at once in a plain file, in a packed one by
  // unpacking it up to there.
  RecordPlace place() const;
  void go_to(const RecordPlace& place, Where where = Where::current());

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The records of a file, packed or not. A last record that is cut short, as when its writer was killed, is left out;
// throws rill::Error, naming the record, where a checksum is wrong.
std::vector<std::string> read_records(const std::string& path, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
