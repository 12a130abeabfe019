// Compiled kernels on disk; see cache.h. Start at DiskCache::find.
#include "rill/devices/kernel/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "rill/tensor/settings.h"

namespace rill::kernel {

namespace {

namespace fs = std::filesystem;

uint64_t hash(std::string_view s, uint64_t h = 0xcbf29ce484222325) {  // FNV-1a
  for (char c : s) h = (h ^ uint8_t(c)) * 0x100000001b3;
  return h;
}

// A file consists of this, the key, the value.
struct Header {
  char magic[8] = {'r', 'i', 'l', 'l', 'k', 'r', 'n', '1'};
  uint64_t key_bytes = 0, value_bytes = 0;
  uint64_t sum = 0;  // of key and value
};

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

// The contents of the file, "" if it cannot be trusted: no other user may be able to write it.
std::string read_all(const std::string& path) {
  const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};  // a FIFO does not block it
  struct stat s;
  if (file.fd < 0 || fstat(file.fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_uid != geteuid()) return "";
  if ((s.st_mode & (S_IWGRP | S_IWOTH)) || s.st_size < off_t(sizeof(Header)) || s.st_size > (64 << 20)) return "";
  std::string bytes(size_t(s.st_size), '\0');
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n = read(file.fd, bytes.data() + got, bytes.size() - got);
    if (n <= 0) return "";
    got += size_t(n);
  }
  if (time(nullptr) - s.st_mtime > 24 * 3600) futimens(file.fd, nullptr);  // used, so it is kept longer
  return bytes;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n <= 0) return false;
    bytes.remove_prefix(size_t(n));
  }
  return true;
}

// Not reported: a home that cannot be written, and /dev/null, which disables the cache. A folder that was chosen is.
void report_unusable(const std::string& folder) {
  const int error = errno;
  if (folder == settings::text("RILL_CACHE_DIR") && folder != "/dev/null")
    settings::report("RILL_CACHE_DIR", fmt::format("kernels cannot be kept there: {}", std::strerror(error)));
}

}  // namespace

DiskCache::DiskCache(std::string folder, int64_t most_bytes) : folder_(std::move(folder)), most_bytes_(most_bytes) {}

std::string DiskCache::default_folder() {
  const auto variable = [](const char* name) {
    const char* v = std::getenv(name);
    return std::string(v ? v : "");
  };
  if (std::string own = settings::text("RILL_CACHE_DIR"); !own.empty()) return own;
  if (std::string cache = variable("XDG_CACHE_HOME"); !cache.empty() && cache[0] == '/') return cache + "/rill";
  if (std::string home = variable("HOME"); !home.empty() && home[0] == '/') return home + "/.cache/rill";
  return "";
}

std::string DiskCache::path_of(std::string_view key) const {
  return fmt::format("{}/{:016x}{:016x}.kernel", folder_, hash(key), hash(key, 0x9e3779b97f4a7c15));
}

std::string DiskCache::find(std::string_view key) const {
  if (folder_.empty()) return "";
  const std::string bytes = read_all(path_of(key));
  Header h;
  const Header expected;
  if (bytes.size() < sizeof(h)) return "";
  std::memcpy(&h, bytes.data(), sizeof(h));
  const std::string_view rest = std::string_view(bytes).substr(sizeof(h));
  if (std::memcmp(h.magic, expected.magic, sizeof(h.magic)) != 0 || h.key_bytes != key.size() ||
      h.value_bytes != rest.size() - std::min(key.size(), rest.size()) || rest.substr(0, key.size()) != key ||
      h.sum != hash(rest))
    return "";
  return std::string(rest.substr(key.size()));
}

void DiskCache::store(std::string_view key, std::string_view value) {
  if (folder_.empty()) return;
  std::error_code ignored;
  fs::create_directories(fs::path(folder_).parent_path(), ignored);
  mkdir(folder_.c_str(), 0700);
  static std::atomic<uint64_t> count = 0;
  const std::string path = path_of(key);
  const std::string draft = fmt::format("{}.{}.{}.draft", path, getpid(), count++);
  {
    const Descriptor file{open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
    if (file.fd < 0) return report_unusable(folder_);
    Header h;
    h.key_bytes = key.size();
    h.value_bytes = value.size();
    h.sum = hash(value, hash(key));
    if (!write_all(file.fd, {reinterpret_cast<const char*>(&h), sizeof(h)}) || !write_all(file.fd, key) ||
        !write_all(file.fd, value)) {
      unlink(draft.c_str());
      return;
    }
  }
  if (rename(draft.c_str(), path.c_str()) != 0) unlink(draft.c_str());
  // The folder is scanned at first, and again when it may have grown by a sixteenth.
  if (written_ < 0 || written_ > most_bytes_ / 16) trim(), written_ = 0;
  written_ += int64_t(sizeof(Header) + key.size() + value.size());
}

// Removes the oldest files until three quarters of the limit are used, and temporary files of killed processes.
void DiskCache::trim() const {
  struct Entry {
    fs::path path;
    fs::file_time_type time;
    int64_t bytes;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code e;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator it(folder_, e), end; !e && it != end; it.increment(e)) {
    std::error_code gone;
    const fs::path path = it->path();
    const auto time = it->last_write_time(gone);
    const int64_t bytes = gone ? 0 : int64_t(it->file_size(gone));
    if (gone) continue;
    if (path.extension() == ".draft" && now - time > std::chrono::hours(1)) fs::remove(path, gone);
    if (path.extension() != ".kernel") continue;
    entries.push_back({path, time, bytes});
    total += bytes;
  }
  if (total <= most_bytes_) return;
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.time < b.time; });
  for (const Entry& old : entries) {
    if (total <= most_bytes_ / 4 * 3) break;
    std::error_code gone;
    if (fs::remove(old.path, gone)) total -= old.bytes;
  }
}

}  // namespace rill::kernel
