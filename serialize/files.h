// Writing files so that a reader never meets half of one, and reading files that may be anything.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "rill/tensor/error.h"

namespace rill {

// Makes `folder` and those above it where they are missing. Throws rill::Error, under the name of `op`.
void make_folders(const std::string& folder, std::string_view op, const Where& where);

// A file that is written piece by piece under another name in the same folder, and that stands under its own name,
// whole, from commit() on. Without that nothing is left of it. All throw rill::Error under the name of `op`, text that
// outlives this.
class FileWriter {
 public:
  // Makes the folders that are missing.
  FileWriter(const std::string& path, std::string_view op, const Where& where);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;

  void write(std::string_view bytes);
  // Where it is written meanwhile: for a library that writes there by itself. It may put another file in its place.
  const std::string& part() const { return part_; }
  // Flushes it to the disk and gives it its name, in place of what had that.
  void commit();

 private:
  [[noreturn]] void fail_here(int reason) const;
  void close_part();

  std::string path_, part_;
  std::string_view op_;
  Where where_;
  int fd_ = -1;
  bool written_ = false;  // by write()
};

// A file as it was when it was opened, also when another takes its name later. Its bytes are read by place.
class FileReader {
 public:
  FileReader(const std::string& path, std::string_view op, const Where& where);
  ~FileReader();
  FileReader(const FileReader&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  // Another descriptor of the file that was opened, for a library that reads by one, and closes it.
  int duplicate() const;
  // Puts `bytes` bytes from the place `at` on into `to`; throws where the file has fewer.
  void read(uint64_t at, void* to, uint64_t bytes) const;
  // The same as text, for which there is room in memory.
  std::string read(uint64_t at, uint64_t bytes) const;
  // Throws unless `bytes` bytes lie from `at` on; `what` they would be.
  void require(uint64_t at, uint64_t bytes, std::string_view what) const;
  // The whole file as memory that is read from the disk where it is touched. What is written into it, nobody else sees.
  // Another file that takes the name changes nothing; one that is cut short while it is mapped ends the process.
  std::shared_ptr<char> map() const;
  // Throws "[op] 'path' at byte AT: what"; the second knows no place.
  [[noreturn]] void reject(uint64_t at, const std::string& what) const;
  [[noreturn]] void reject(const std::string& what) const;

 private:
  std::string path_;
  std::string_view op_;
  Where where_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

// Puts `bytes` into `path`, whose folders are made: written under another name in the same folder, flushed to the disk
// and moved. Throws rill::Error, under the name of `op`, and leaves nothing behind, where that cannot be done.
void write_file(const std::string& path, std::string_view bytes, std::string_view op, const Where& where);

// All of a file. Throws rill::Error, under the name of `op`, where it cannot be read.
std::string read_file(const std::string& path, std::string_view op, const Where& where);

// Whether `name`, of a file in a folder, is that of a FileWriter whose process has ended without committing it.
bool is_abandoned_part(const std::string& name);

// "[op] what 'path': the system's reason", thrown; reads errno.
[[noreturn]] void fail_file(std::string_view op, const char* what, const std::string& path, const Where& where);

}  // namespace rill
