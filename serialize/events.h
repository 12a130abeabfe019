// EventFile, which appends to one of TensorBoard's event files; these are files of records (records.h), each an encoded
// Event.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "rill/serialize/records.h"

#pragma GCC visibility push(default)

namespace rill {

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
