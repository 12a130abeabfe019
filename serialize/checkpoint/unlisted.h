// A mark beside a checkpoint of a CheckpointManager that its list does not name, not yet or no longer: PREFIX.unlisted.
// A writer that is killed leaves the mark, which tells the next manager what to remove. Checkpoints without a mark that
// are not in the list are kept for good, or belong to somebody else.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace rill {

// The writer that created the mark holds a lock on it while it lives.
class UnlistedMark {
 public:
  // Marks the checkpoint `prefix`, whose folder exists; waits for another writer of it to finish. If the file cannot be
  // created there is no mark: saving is more important.
  explicit UnlistedMark(const std::string& prefix);
  UnlistedMark(UnlistedMark&& other) noexcept;
  ~UnlistedMark();  // does not remove the mark

  // The mark, or nothing if a live writer holds it.
  static std::optional<UnlistedMark> without_waiting(const std::string& prefix);
  // Whether nothing else holds it. False if the file system has no locks.
  bool is_locked() const { return locked_; }
  // Removes the mark, once the list, or the removal of the files, makes it superfluous.
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
