// Files by way of POSIX calls, for fsync, O_EXCL and mmap; see files.h.
#include "rill/serialize/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <tuple>
#include <utility>

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

std::string path_of_descriptor(int fd) { return "/proc/thread-self/fd/" + std::to_string(fd); }

// What `path` is a link to, or itself: a link stays one when the file is written.
std::string target_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  const std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

// Makes the names in it outlive the machine. Where the system cannot do that, the file is whole all the same.
void flush_folder(const std::filesystem::path& folder) {
  int fd = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

}  // namespace

void fail_file(std::string_view op, const char* what, const std::string& path, const Where& where) {
  fail(op, std::string(what) + " '" + path + "': " + std::strerror(errno), where);
}

void make_folders(const std::string& folder, std::string_view op, const Where& where) {
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::error_code unknown;  // such as no permission to look
  if (std::filesystem::is_directory(folder, unknown)) return;
  errno = error ? error.value() : ENOTDIR;
  fail_file(op, "cannot make the folder", folder, where);
}

// --- Writing ---------------------------------------------------------------------------------------------------------

FileWriter::FileWriter(const std::string& path, std::string_view op, const Where& where, Links links)
    : path_(links == Links::follow ? target_of(path) : path), op_(op), where_(where) {
  make_folders(std::filesystem::path(path_).parent_path().string(), op, where);
  struct stat before = {};
  const bool exists = stat(path_.c_str(), &before) == 0;
  if (exists && !S_ISREG(before.st_mode) && !S_ISDIR(before.st_mode))  // of folders the system speaks, at the end
    fail(op, "cannot write '" + path + "': it is a device or a pipe, which a file would replace", where);
  open_unnamed();
  if (fd_ < 0) open_named();
  if (exists && S_ISREG(before.st_mode)) mode_ = before.st_mode & 07777;
}

// Leaves fd_ as it is where the file system has no such files, or nothing would give it a name later.
void FileWriter::open_unnamed() {
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  fd_ = open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (fd_ >= 0 && access(path_of_descriptor(fd_).c_str(), F_OK) != 0) close(std::exchange(fd_, -1));
}

// A program in another container may have this process's number, and one that was killed may have left its file.
void FileWriter::open_named() {
  do part_ = temporary_name(path_), fd_ = open(part_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  while (fd_ < 0 && errno == EEXIST);
  if (fd_ < 0) part_.clear(), fail_here(errno);
}

void FileWriter::give_name() {
  const std::string from = path_of_descriptor(fd_);
  int status = 0;
  do part_ = temporary_name(path_), status = linkat(AT_FDCWD, from.c_str(), AT_FDCWD, part_.c_str(), AT_SYMLINK_FOLLOW);
  while (status != 0 && errno == EEXIST);
  if (status != 0) part_.clear(), fail_here(errno);
}

const std::string& FileWriter::part() {
  if (part_.empty()) give_name();
  return part_;
}

FileWriter::~FileWriter() { close_part(); }

void FileWriter::close_part() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  if (!part_.empty()) unlink(part_.c_str());
  part_.clear();
}

void FileWriter::fail_here(int reason) const {
  errno = reason;
  fail_file(op_, "cannot write", path_, where_);
}

void FileWriter::write(std::string_view bytes) {
  written_ = true;
  if (!write_all(fd_, bytes)) fail_here(errno);
}

void FileWriter::commit() {
  if (!written_ && !part_.empty()) {  // another may have put its file there
    close(fd_);
    fd_ = open(part_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) fail_here(errno);
  }
  if (mode_) std::ignore = fchmod(fd_, *mode_);
  if (fsync(fd_) != 0) fail_here(errno);
  if (part_.empty()) give_name();
  if (close(std::exchange(fd_, -1)) != 0) fail_here(errno);
  if (rename(part_.c_str(), path_.c_str()) != 0) fail_here(errno);
  part_.clear();
  flush_folder(std::filesystem::path(path_).parent_path());
}

void write_file(const std::string& path, std::string_view bytes, std::string_view op, const Where& where, Links links) {
  FileWriter file(path, op, where, links);
  file.write(bytes);
  file.commit();
}

// --- Folders ---------------------------------------------------------------------------------------------------------

namespace {

namespace fs = std::filesystem;

// The same file under another name too, or a copy where the file system has no such names.
void copy_entry(const fs::path& from, const fs::path& to, std::error_code& error) {
  if (fs::is_symlink(from, error)) return fs::copy_symlink(from, to, error);
  if (fs::is_directory(from, error)) return void(fs::create_directories(to, error));
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to, error);
}

// Gives each of two folders the name of the other: at once, or, where the system cannot do that, one after the other.
int exchange_names(const std::string& a, const std::string& b) {
  if (renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
  const std::string aside = temporary_name(b);
  if (rename(b.c_str(), aside.c_str()) != 0) return -1;
  if (rename(a.c_str(), b.c_str()) == 0) return rename(aside.c_str(), a.c_str());
  const int reason = errno;
  std::ignore = rename(aside.c_str(), b.c_str());
  errno = reason;
  return -1;
}

}  // namespace

FolderWriter::FolderWriter(const std::string& path, std::string_view op, const Where& where)
    : path_(target_of(fs::path(path).has_filename() ? path : fs::path(path).parent_path().string())),
      op_(op),
      where_(where) {
  make_folders(fs::path(path_).parent_path().string(), op, where);
  int status = 0;
  do part_ = temporary_name(path_), status = mkdir(part_.c_str(), 0777);
  while (status != 0 && errno == EEXIST);
  if (status != 0) fail_file(op, "cannot make the folder", std::exchange(part_, {}), where);
}

FolderWriter::~FolderWriter() {
  std::error_code none;
  if (!part_.empty()) fs::remove_all(part_, none);
}

void FolderWriter::keep_others(const Callback<bool(const std::string&)>& replaced) const {
  std::error_code error;
  for (fs::recursive_directory_iterator at(path_, error), end; !error && at != end; at.increment(error)) {
    const fs::path name = at->path().lexically_relative(path_);
    if (replaced(name.string()) || fs::exists(fs::symlink_status(part_ / name, error))) continue;
    copy_entry(at->path(), part_ / name, error);
    if (error) break;
  }
  if (error) errno = error.value(), fail_file(op_, "cannot keep what is in the folder", path_, where_);
}

void FolderWriter::commit(const Callback<bool(const std::string&)>& replaced) {
  struct stat before = {};
  const bool exists = stat(path_.c_str(), &before) == 0;
  if (exists && !S_ISDIR(before.st_mode)) errno = ENOTDIR, fail_file(op_, "cannot write", path_, where_);
  if (exists) {
    keep_others(replaced);
    std::ignore = chmod(part_.c_str(), before.st_mode & 07777);
  }
  flush_folder(part_);
  const int status = exists ? exchange_names(part_, path_) : rename(part_.c_str(), path_.c_str());
  if (status != 0) fail_file(op_, "cannot write", path_, where_);
  if (!exists) part_.clear();  // else what has this name now is the old one, which goes
  flush_folder(fs::path(path_).parent_path());
}

bool is_part_name(
    std::string_view name) {  // .rill-NUMBER-NUMBER.part, and the six letters that libzip adds for its own
  constexpr std::string_view start = ".rill-", end = ".part";
  constexpr size_t added = 7;
  if (name.size() > added && name[name.size() - added] == '.' && !name.ends_with(end)) name.remove_suffix(added);
  if (name.size() <= start.size() + end.size() || !name.starts_with(start) || !name.ends_with(end)) return false;
  name = name.substr(start.size(), name.size() - start.size() - end.size());
  const size_t dash = name.find('-');
  return dash > 0 && dash != name.npos && dash + 1 < name.size() && name.find_first_not_of("0123456789") == dash &&
         name.find_first_not_of("0123456789", dash + 1) == name.npos;
}

FolderLock::FolderLock(const std::string& folder)
    : fd_(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  while (fd_ >= 0 && flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

FolderLock::~FolderLock() {
  if (fd_ < 0) return;
  flock(fd_, LOCK_UN);  // a child that was forked meanwhile holds the descriptor too
  close(fd_);
}

// --- Reading ---------------------------------------------------------------------------------------------------------

// Where it accepts files alone it does not wait for the writer of a pipe.
FileReader::FileReader(const std::string& path, std::string_view op, const Where& where, Accepts accepts)
    : path_(path), op_(op), where_(where) {
  const bool streams = accepts == Accepts::streams;
  fd_ = streams && path == "-" ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                               : open(path.c_str(), O_RDONLY | O_CLOEXEC | (streams ? 0 : O_NONBLOCK));
  if (fd_ < 0) fail_file(op, "cannot read", path, where);
  struct stat facts = {};
  const bool known = fstat(fd_, &facts) == 0;
  stream_ = known && !S_ISREG(facts.st_mode) && !S_ISDIR(facts.st_mode);
  if (known && S_ISREG(facts.st_mode)) size_ = uint64_t(facts.st_size);
  if (known && (S_ISREG(facts.st_mode) || (stream_ && streams))) return;
  const int reason = known ? S_ISDIR(facts.st_mode) ? EISDIR : 0 : errno;
  close(fd_);
  errno = reason;
  if (reason) fail_file(op, "cannot read", path, where);
  reject("is a device or a pipe. expected a file");
}

FileReader::FileReader(std::string bytes, std::string path, std::string_view op, const Where& where)
    : path_(std::move(path)), op_(op), where_(where), bytes_(std::move(bytes)), size_(bytes_.size()) {}

FileReader::~FileReader() {
  if (fd_ >= 0) close(fd_);
}

int FileReader::duplicate() const {
  const int fd = fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) fail_file(op_, "cannot read", path_, where_);
  return fd;
}

void FileReader::reject(uint64_t at, const std::string& what) const {
  fail(op_, "'" + path_ + "' at byte " + std::to_string(at) + ": " + what, where_);
}
void FileReader::reject(const std::string& what) const { fail(op_, "'" + path_ + "': " + what, where_); }

void FileReader::require(uint64_t at, uint64_t bytes, std::string_view what) const {
  if (at <= size_ && bytes <= size_ - at) return;
  const uint64_t left = at < size_ ? size_ - at : 0;
  reject(std::min(at, size_), "expected " + std::string(what) + " of " + std::to_string(bytes) +
                                  (bytes == 1 ? " byte, and " : " bytes, and ") + std::to_string(left) +
                                  " are left. the file is truncated or is none of this format");
}

void FileReader::read(uint64_t at, void* to, uint64_t bytes) const {
  require(at, bytes, "a piece");
  auto* out = static_cast<char*>(to);
  if (fd_ < 0) return void(bytes_.copy(out, bytes, at));
  while (bytes) {
    ssize_t n = pread(fd_, out, bytes, off_t(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_file(op_, "cannot read", path_, where_);
    if (n == 0) reject(at, "the file was cut short while it was read");
    out += n;
    at += uint64_t(n);
    bytes -= uint64_t(n);
  }
}

std::string FileReader::read(uint64_t at, uint64_t bytes) const {
  require(at, bytes, "a piece");
  std::string text(bytes, '\0');
  read(at, text.data(), bytes);
  return text;
}

std::shared_ptr<char> FileReader::map() const {
  const size_t size = size_;
  if (size == 0) return nullptr;
  // Written to where an op reuses the memory of a tensor that nobody else holds: such pages become the process's own.
  void* p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd_, 0);
  if (p == MAP_FAILED) fail_file(op_, "cannot map", path_, where_);
  return {static_cast<char*>(p), [size](char* memory) { munmap(memory, size); }};
}

uint64_t FileReader::size_now() const {
  struct stat facts = {};
  return !stream_ && fstat(fd_, &facts) == 0 ? uint64_t(facts.st_size) : size_;
}

size_t FileReader::next(char* to, size_t most) {
  for (;;) {
    const ssize_t n = ::read(fd_, to, most);
    if (n >= 0) return size_t(n);
    if (errno != EINTR) fail_file(op_, "cannot read", path_, where_);
  }
}

std::string extension_of(const std::string& path) {
  std::string extension = std::filesystem::path(path).extension().string();
  for (char& c : extension)
    if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
  return extension;
}

std::string read_file(const std::string& path, std::string_view op, const Where& where, Accepts accepts) {
  FileReader file(path, op, where, accepts);
  std::string bytes(size_t(file.size()), '\0');
  size_t done = 0;
  for (size_t n = 1; n > 0 && done < bytes.size(); done += n) n = file.next(bytes.data() + done, bytes.size() - done);
  bytes.resize(done);
  char block[1 << 16];  // to the end, wherever it is by now: a stream has no size, and files of /proc say 0
  for (size_t n = 1; n > 0; bytes.append(block, n)) n = file.next(block, sizeof block);
  return bytes;
}

}  // namespace rill
