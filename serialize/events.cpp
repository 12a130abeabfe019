// Records and event files; see events.h.
#include "rill/serialize/events.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>

#include "rill/serialize/files.h"
#include "rill/serialize/messages.h"

namespace rill {
namespace {

// table[b]: the remainder of byte b, by the reversed Castagnoli polynomial.
constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t c = b;
    for (int bit = 0; bit < 8; ++bit) c = c & 1 ? c >> 1 ^ 0x82F63B78u : c >> 1;
    table[b] = c;
  }
  return table;
}
constexpr std::array<uint32_t, 256> table = make_table();

// A sum of bytes that themselves hold sums would cancel out; TensorFlow rotates and adds a constant.
uint32_t masked_crc(std::string_view bytes) {
  uint32_t c = crc32c(bytes);
  return (c >> 15 | c << 17) + 0xA282EAD8u;
}

template <class T>
void put(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out += char(value >> 8 * i & 0xFF);
}

template <class T>
T get(std::string_view bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value |= T(uint8_t(bytes[i])) << 8 * i;
  return value;
}

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0 || !name[0]) return "localhost";
  for (char& c : name)
    if (c == '/') c = '_';
  return name;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t c = ~0u;
  for (char b : bytes) c = table[(c ^ uint8_t(b)) & 0xFF] ^ c >> 8;
  return ~c;
}

std::string record(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + 16);
  put(out, uint64_t(bytes.size()));
  put(out, masked_crc(out));
  out += bytes;
  put(out, masked_crc(bytes));
  return out;
}

std::vector<std::string> read_records(const std::string& path, Where where) {
  std::string all = read_file(path, "read_records", where);
  std::string_view rest = all;
  std::vector<std::string> records;
  auto check = [&](std::string_view bytes, std::string_view sum, const char* what) {
    if (masked_crc(bytes) == get<uint32_t>(sum)) return;
    fail("read_records",
         "'" + path + "': the checksum of the " + what + " of record " + std::to_string(records.size()) +
             " is wrong. the file is damaged, or not a record file",
         where);
  };
  while (rest.size() >= 12) {
    check(rest.substr(0, 8), rest.substr(8), "length");
    uint64_t length = get<uint64_t>(rest);
    if (rest.size() - 12 < 4 || length > rest.size() - 16) break;
    std::string_view bytes = rest.substr(12, length);
    check(bytes, rest.substr(12 + length), "bytes");
    records.emplace_back(bytes);
    rest.remove_prefix(16 + length);
  }
  return records;
}

std::string event_file_name() {
  static std::atomic<unsigned> count{0};
  char seconds[24];
  std::snprintf(seconds, sizeof seconds, "%010lld", static_cast<long long>(std::time(nullptr)));
  return std::string("events.out.tfevents.") + seconds + "." + host_name() + "." + std::to_string(getpid()) + "." +
         std::to_string(count++);
}

EventFile::EventFile(const std::string& folder, std::string_view op, const Where& where) : op_(op) {
  make_folders(folder, op, where);
  path_ = (folder.empty() ? "." : folder) + "/" + event_file_name();
  fd_ = open(path_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  if (fd_ < 0) fail_file(op, "cannot make", path_, where);
  try {
    append(version_event(), where);
  } catch (...) {
    close(fd_);
    unlink(path_.c_str());
    throw;
  }
}

EventFile::~EventFile() { close(fd_); }

void EventFile::append(std::string_view event, const Where& where) {
  std::string bytes = record(event);
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n = write(fd_, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      int reason = errno;
      // The next event must start where this one did, or a reader would stop at its remains.
      if (ftruncate(fd_, size_) == 0) lseek(fd_, size_, SEEK_SET);
      errno = reason;
      fail_file(op_, "cannot write", path_, where);
    }
    done += size_t(n);
  }
  size_ += int64_t(bytes.size());
}

void EventFile::flush(const Where& where) {
  if (fsync(fd_) != 0) fail_file(op_, "cannot flush", path_, where);
}

}  // namespace rill
