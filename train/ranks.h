// What ranks of a distribute::Session do together with files: one checkpoint, of which each writes a data file; and a rank
// that follows the checkpoints of the others.
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

// Options with which all ranks of the group, at once, write one checkpoint into a folder that all of them see: what they
// have alike is divided among them. `.part.first` are patterns of what may differ, of which the first rank's counts;
// `.part.own` of what some ranks alone have, such as what a sharded optimizer remembers; `.slices` of which tensor this
// rank has which piece. All ranks must ask for them at once.
SaveCheckpointOptions written_by_all(SaveCheckpointOptions options = {}, const distribute::Group& group = {},
                                     Where where = Where::current());

struct FollowOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double every_seconds = 1;          // how often it looks
  double timeout_seconds = 0;        // ends where nothing new has come for so long; 0: waits for ever
  int64_t last_step = 0;             // ends after a checkpoint of that step or a later one; 0: there is none such
  std::function<bool()> until = {};  // ends where it says so
};
// Calls f(path, step) with each new checkpoint that the list of `folder` names as the latest, as an evaluator does: one that
// is overtaken while f runs is left out. Gives how many there were.
int64_t follow_checkpoints(const std::string& folder, const std::function<void(const std::string&, int64_t)>& f,
                           const FollowOptions& options = {}, Where where = Where::current());

}  // namespace rill::train

#pragma GCC visibility pop
