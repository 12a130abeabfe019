// A mark beside a checkpoint of a CheckpointManager's that its list does not name, not yet or no longer:
// PREFIX.unlisted. A writer that is killed leaves the mark, and the next manager sees by it what to remove. Checkpoints
// without a mark and out of the list are kept for good, or are somebody else's.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace rill {

// The writer that made the mark holds a lock of it while it lives.
class UnlistedMark {
 public:
  // Marks the checkpoint `prefix`, whose folder exists; waits for another writer of it to be done. Where no file can be
  // made there is no mark: to save is more important.
  explicit UnlistedMark(const std::string& prefix);
  UnlistedMark(UnlistedMark&& other) noexcept;
  ~UnlistedMark();  // leaves the mark

  // The mark, or none where a writer that lives holds it.
  static std::optional<UnlistedMark> without_waiting(const std::string& prefix);
  // Whether nobody else holds it. False where the file system has no locks.
  bool is_locked() const { return locked_; }
  // Takes it away: the list, or the lack of files, says it by now.
  void remove();

 private:
  UnlistedMark(const std::string& prefix, bool wait);
  bool acquire(bool wait);
  void close_file();

  std::string path_;
  int fd_ = -1;
  bool locked_ = false, is_elsewhere_ = false;
};

// The names of the checkpoints in `folder` that have a mark.
std::vector<std::string> unlisted_names(const std::string& folder);

}  // namespace rill
