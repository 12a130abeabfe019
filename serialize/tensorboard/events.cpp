// Event files by way of POSIX calls; see events.h.
#include "rill/serialize/events.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>

#include "rill/serialize/files.h"
#include "rill/serialize/messages.h"

namespace rill {
namespace {

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0 || !name[0]) return "localhost";
  for (char& c : name)
    if (c == '/') c = '_';
  return name;
}

}  // namespace

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
