// Writing files so that a reader never meets half of one, reading files that may be anything, and a lock for those that
// change a file together.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rill/tensor/callback.h"
#include "rill/tensor/error.h"

#pragma GCC visibility push(default)

namespace rill {

// Makes `folder` and those above it where they are missing. Throws rill::Error, under the name of `op`.
void make_folders(const std::string& folder, std::string_view op, const Where& where);

// What is written where a link stands: the file that it leads to, or a file in the place of the link.
enum class Links { follow, replace };

// A file that is written piece by piece, and that stands under its name, whole, from commit() on. Without that nothing
// is left of it: until then it has no name where the file system can do that, else another one in the same folder,
// which stays where the process is killed. All throw rill::Error under the name of `op`, text that outlives this.
class FileWriter {
 public:
  // Makes the folders that are missing.
  FileWriter(const std::string& path, std::string_view op, const Where& where, Links links = Links::follow);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;

  void write(std::string_view bytes);
  // Gives it that other name at once, for a library that writes there by itself, and may put another file in its place.
  const std::string& part();
  // Flushes it to the disk and gives it its name, in place of what had that.
  void commit();

 private:
  [[noreturn]] void fail_here(int reason) const;
  void open_named();
  void open_unnamed();
  void give_name();
  void close_part();

  std::string path_, part_;  // part_: "" while it has no name
  std::string_view op_;
  Where where_;
  int fd_ = -1;
  std::optional<unsigned> mode_;  // of the file that it replaces
  bool written_ = false;          // by write()
};

// A folder that is written under another name beside `path`, and takes its place at once with commit(), so that whoever
// reads there, also after a kill, finds the old one or the new one. Without commit() nothing is left of it. Where the
// file system cannot exchange two names, a kill may leave the old one under that other name.
class FolderWriter {
 public:
  FolderWriter(const std::string& path, std::string_view op, const Where& where);
  ~FolderWriter();
  FolderWriter(const FolderWriter&) = delete;

  const std::string& part() const { return part_; }  // where to write
  // What else the old folder holds stays in the new one; `replaced` says what does not, of a path inside it.
  void commit(const Callback<bool(const std::string&)>& replaced);

 private:
  void keep_others(const Callback<bool(const std::string&)>& replaced) const;

  std::string path_, part_;
  std::string_view op_;
  Where where_;
};

// What a reader can do with: files, whose bytes have places, or also pipes and devices, which give them once, and "-",
// the standard input. To open a pipe takes until somebody opens its other end.
enum class Accepts { files, streams };

// A file as it was when it was opened, also when another takes its name later. Its bytes are read by place, or from the
// first to the last, which is all that a stream can do.
class FileReader {
 public:
  FileReader(const std::string& path, std::string_view op, const Where& where, Accepts accepts = Accepts::files);
  // A part of a file that is in memory already; `path` says of which. It has no descriptor, and is not mapped.
  FileReader(std::string bytes, std::string path, std::string_view op, const Where& where);
  ~FileReader();
  FileReader(const FileReader&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // 0 of a stream
  bool is_stream() const { return stream_; }
  // The size that the file has by now.
  uint64_t size_now() const;
  // The next bytes, from where the last call ended, into `to`: how many, at most `most`. 0 at the end, behind which a
  // later call may find more. Throws where the system cannot read.
  size_t next(char* to, size_t most);
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
  int fd_ = -1;  // none where `bytes_` holds it
  std::string bytes_;
  uint64_t size_ = 0;
  bool stream_ = false;
};

// Puts `bytes` into `path`, whose folders are made: written under another name in the same folder, flushed to the disk
// and moved. Throws rill::Error, under the name of `op`, and leaves nothing behind, where that cannot be done.
void write_file(const std::string& path, std::string_view bytes, std::string_view op, const Where& where,
                Links links = Links::follow);

// ".onnx": what the name of a file ends in, in lower case. "" where there is none.
std::string extension_of(const std::string& path);

// All of a file. Throws rill::Error, under the name of `op`, where it cannot be read.
std::string read_file(const std::string& path, std::string_view op, const Where& where,
                      Accepts accepts = Accepts::files);

// Whether a file of this name is one that a FileWriter has not committed. Its writer may run on another machine that
// shares the folder, where nobody here can see whether it still does; so a file that is old counts as abandoned.
bool is_part_name(std::string_view name);

// While it lives, no other thread or process has a FolderLock of the folder: for those that read a file of it, change
// and replace it. Waits until it has it; does nothing where the folder cannot be opened or its file system has no
// locks.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;

 private:
  int fd_;
};

// "[op] what 'path': the system's reason", thrown; reads errno.
[[noreturn]] void fail_file(std::string_view op, const char* what, const std::string& path, const Where& where);

}  // namespace rill

#pragma GCC visibility pop
