// Marks as empty files under flock(2); see unlisted.h.
#include "rill/serialize/checkpoint/unlisted.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace rill {
namespace {

constexpr std::string_view ending = ".unlisted";

// Whether the opened file still has its name: its last holder may have removed it.
bool is_there(int fd, const std::string& path) {
  struct stat opened = {}, named = {};
  return fstat(fd, &opened) == 0 && stat(path.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

}  // namespace

UnlistedMark::UnlistedMark(const std::string& prefix) : UnlistedMark(prefix, true) {}
UnlistedMark::UnlistedMark(const std::string& prefix, bool wait) : path_(prefix + std::string(ending)) {
  while (!acquire(wait)) {
  }
}
UnlistedMark::UnlistedMark(UnlistedMark&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      locked_(std::exchange(other.locked_, false)),
      is_elsewhere_(other.is_elsewhere_) {}
UnlistedMark::~UnlistedMark() { close_file(); }

std::optional<UnlistedMark> UnlistedMark::without_waiting(const std::string& prefix) {
  UnlistedMark mark(prefix, false);
  if (mark.is_elsewhere_) return std::nullopt;
  return mark;
}

// Returns false if it has to be tried again.
bool UnlistedMark::acquire(bool wait) {
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd_ < 0) return errno != EINTR;
  const bool got = flock(fd_, LOCK_EX | (wait ? 0 : LOCK_NB)) == 0;
  const int reason = got ? 0 : errno;
  locked_ = got && is_there(fd_, path_);
  is_elsewhere_ = reason == EWOULDBLOCK;
  const bool retry = (got && !locked_) || reason == EINTR;
  if (retry || is_elsewhere_) close_file();
  return !retry;
}

void UnlistedMark::close_file() {
  if (fd_ < 0) return;
  if (std::exchange(locked_, false)) flock(fd_, LOCK_UN);  // a child that was forked meanwhile holds the descriptor too
  close(std::exchange(fd_, -1));
}

void UnlistedMark::remove() {
  if (fd_ >= 0) unlink(path_.c_str());
  close_file();
}

std::vector<std::string> unlisted_names(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), none; !error && it != none; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (!name.ends_with(ending)) continue;
    name.resize(name.size() - ending.size());
    names.push_back(std::move(name));
  }
  return names;
}

}  // namespace rill
