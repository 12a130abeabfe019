// CheckpointManager: the checkpoints of a run, in a folder: PREFIX-STEP, and the file `checkpoint`, TensorFlow's list
// of those that count. A program that was killed finds in latest() the last one that was complete.
//
//   CheckpointManager manager(Checkpoint{{"model", model}, {"adam", adam}}, "ckpt", {.max_to_keep = 3});
//   int64_t step = manager.restore_if_any() ? adam.iterations().value().item<int64_t>() : 0;
//   for (; step < steps; ++step) { ...; manager.save_if_due(step + 1); }
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rill/serialize/checkpoint.h"

#pragma GCC visibility push(default)

namespace rill {

struct CheckpointManagerOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int max_to_keep = 5;          // older ones are removed; 0: none is
  double keep_every_hours = 0;  // of those that would be removed, one for each so many hours stays for good; 0: none
  int64_t every_steps = 0;      // save_if_due(): after so many steps, or
  double every_minutes = 0;     // so many minutes, whichever comes first; of both 0: at each call
  bool asynchronous = false;    // values are taken at once, and written by another thread
  std::string prefix = "ckpt";
  SaveCheckpointOptions save = {};
};

class CheckpointManager {
 public:
  // Reads the `checkpoint` of `folder` where there is one, and changes nothing. The first save makes the folder, and
  // removes from it what writers that were killed have left: parts of files an hour ago or earlier, and whole
  // checkpoints of this prefix that the list does not name. A manager is not for several
  // threads at once; several of them, with prefixes of their own ("ckpt", "best"), may share a folder and its list, in
  // one process or more: each removes, restores and lists what is called by its prefix and a step, and leaves the rest
  // of the list as it is. It removes nothing outside the folder, also where a copied list has absolute paths. A
  // relative folder stays what it is now when the program goes to another directory.
  CheckpointManager(Checkpoint checkpoint, std::string folder, CheckpointManagerOptions options = {},
                    Where where = Where::current());
  // Waits for what is being written; an error that nobody was told goes to stderr.
  ~CheckpointManager();
  CheckpointManager(CheckpointManager&&) noexcept;

  // Saves FOLDER/PREFIX-STEP, lists it and removes the oldest, where there are too many. Gives its path, without
  // ".index". Throws where it cannot be written: the others, and the list, are as before. Asynchronously: that error is
  // thrown by the next call of a member, and a save waits for the one before it.
  std::string save(int64_t step, Where where = Where::current());
  // That where it is due; whether it was.
  bool save_if_due(int64_t step, Where where = Where::current());
  // Whether that would save now.
  bool is_due(int64_t step) const;
  // Restores the latest. `only` and `names`, where they are not given, are those that it saves with. Throws where there
  // is no checkpoint.
  RestoreReport restore(const RestoreOptions& options = {}, Where where = Where::current());
  // That, or false where there is none.
  bool restore_if_any(const RestoreOptions& options = {}, Where where = Where::current());
  // The path of the latest one, as the list says by now; "" where there is none. And the step of its name; -1.
  std::string latest(Where where = Where::current());
  int64_t latest_step(Where where = Where::current());
  // The paths of those that are kept, oldest first.
  std::vector<std::string> all(Where where = Where::current());
  // Returns when nothing is being written; throws what writing has thrown.
  void wait(Where where = Where::current());

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The latest checkpoint, of any prefix, that a folder's `checkpoint` file names, "" where there is none:
// tf.train.latest_checkpoint. One of that name in the folder itself comes before the absolute path of a copied list.
std::string latest_checkpoint(const std::string& folder, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
