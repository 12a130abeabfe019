// TFRecord, the framing of TensorFlow's event (and data) files, and EventFile, which appends to one. A record is
//
//   uint64 length | uint32 masked_crc(length) | bytes | uint32 masked_crc(bytes)
//
// all little-endian; the sums are CRC-32C (Castagnoli, RFC 3720), masked as TensorFlow's lib/hash/crc32c.h does.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rill/tensor/error.h"

#pragma GCC visibility push(default)

namespace rill {

// CRC-32C of `bytes`; crc32c("123456789") == 0xE3069283.
uint32_t crc32c(std::string_view bytes);

// `bytes` as one record.
std::string record(std::string_view bytes);

// The records of a file. A last record that is cut short, as when its writer was killed, is left out; throws
// rill::Error, naming the record, where a checksum is wrong.
std::vector<std::string> read_records(const std::string& path, Where where = Where::current());

// "events.out.tfevents.<seconds>.<host>.<process>.<count>": sorts by time, and no two are alike on one machine.
std::string event_file_name();

// An event file of its own in a folder, made when constructed. Each event goes out in one system call, so that a
// program that is killed leaves whole events behind, and a viewer sees them at once.
class EventFile {
 public:
  // Makes `folder` where it is missing. Throws rill::Error, under the name of `op`, where the file cannot be made.
  EventFile(const std::string& folder, std::string_view op, const Where& where);
  ~EventFile();
  EventFile(const EventFile&) = delete;

  // Appends one encoded Event. Throws rill::Error where the disk refuses; what was half written is taken back.
  void append(std::string_view event, const Where& where);
  // Returns when all that was appended has reached the disk.
  void flush(const Where& where);
  const std::string& path() const { return path_; }

 private:
  std::string op_, path_;
  int fd_ = -1;
  int64_t size_ = 0;  // of the whole records in it
};

}  // namespace rill

#pragma GCC visibility pop
