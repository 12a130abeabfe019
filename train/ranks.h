// Files of several ranks of a distribute::Session: one checkpoint, of which each writes a data file; and a rank that
// follows the checkpoints of the others.
//
//   CheckpointManager manager(Checkpoint{{"model", model}}, "ckpt",
//                             {.asynchronous = true, .save = train::written_by_all()});
//   manager.save(step);  // on all ranks; TensorFlow, one process and any number of ranks read it
#pragma once
#include <functional>
#include <string>

#include "rill/distribute/session.h"
#include "rill/serialize/checkpoint.h"

#pragma GCC visibility push(default)

namespace rill::train {

// Options with which all ranks of the group, at once, write one checkpoint into a folder that all of them see: tensors
// that are equal on all are divided among them. `.part.first` are patterns of tensors that may differ, of which the
// first rank's counts; `.part.own` of those that only some ranks have, such as a sharded optimizer's slots; `.slices`
// of the tensors of which this rank has a slice. All ranks must call this at once.
SaveCheckpointOptions written_by_all(SaveCheckpointOptions options = {}, const distribute::Group& group = {},
                                     Where where = Where::current());

struct FollowOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double every_seconds = 1;          // how often it looks
  double timeout_seconds = 0;        // ends if there is nothing new for so long; 0: waits for ever
  int64_t last_step = 0;             // ends after a checkpoint of that step or a later one; 0: no such limit
  std::function<bool()> until = {};  // ends if it returns true
};
// Calls f(path, step) with each new checkpoint that the list of `folder` names as the latest, for an evaluator: one
// that is superseded while f runs is skipped. Returns how many there were.
int64_t follow_checkpoints(const std::string& folder, const std::function<void(const std::string&, int64_t)>& f,
                           const FollowOptions& options = {}, Where where = Where::current());

}  // namespace rill::train

#pragma GCC visibility pop
