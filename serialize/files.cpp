// Files by way of POSIX calls, for fsync and O_EXCL; see files.h.
#include "rill/serialize/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace rill {
namespace {

// Writes all of `bytes`; false, with errno set, where the system refuses.
bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    bytes.remove_prefix(size_t(n));
  }
  return true;
}

// A name in the same folder that no other process or thread uses, and that no viewer takes for one of its files.
std::string temporary_name(const std::filesystem::path& path) {
  static std::atomic<unsigned> count{0};
  std::string name = ".rill-" + std::to_string(getpid()) + "-" + std::to_string(count++) + ".part";
  return (path.parent_path() / name).string();
}

}  // namespace

void fail_file(std::string_view op, const char* what, const std::string& path, const Where& where) {
  fail(op, std::string(what) + " '" + path + "': " + std::strerror(errno), where);
}

void make_folders(const std::string& folder, std::string_view op, const Where& where) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (std::filesystem::is_directory(folder)) return;
  errno = error ? error.value() : ENOTDIR;
  fail_file(op, "cannot make the folder", folder, where);
}

void write_file(const std::string& path, std::string_view bytes, std::string_view op, const Where& where) {
  make_folders(std::filesystem::path(path).parent_path().string(), op, where);
  std::string part = temporary_name(path);
  int fd = open(part.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  if (fd < 0) fail_file(op, "cannot write", path, where);
  bool done = write_all(fd, bytes) && fsync(fd) == 0;
  int reason = errno;
  if (close(fd) != 0 && done) done = false, reason = errno;
  if (done && rename(part.c_str(), path.c_str()) != 0) done = false, reason = errno;
  if (done) return;
  unlink(part.c_str());
  errno = reason;
  fail_file(op, "cannot write", path, where);
}

std::string read_file(const std::string& path, std::string_view op, const Where& where) {
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_file(op, "cannot read", path, where);
  std::string bytes;
  char block[1 << 16];
  for (;;) {
    ssize_t n = read(fd, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      int reason = errno;
      close(fd);
      errno = reason;
      if (n < 0) fail_file(op, "cannot read", path, where);
      return bytes;
    }
    bytes.append(block, size_t(n));
  }
}

}  // namespace rill
