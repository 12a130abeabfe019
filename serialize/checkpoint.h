// Checkpoints in TensorFlow's format: tf.train.load_checkpoint reads them, and TensorFlow's and Keras's are read here.
//
//   Checkpoint checkpoint{{"model", model}, {"adam", adam}, {"random", random::generator()}};
//   checkpoint.save("ckpt/first");       // ckpt/first.index, ckpt/first.data-00000-of-00001
//   checkpoint.restore("ckpt/first");
//
// What is saved has the paths of rill/ops/names.h: model/dense/kernel, adam/iterations, adam/model/dense/kernel/m. A
// file is complete or absent: a process that is killed, or a disk that is full, leaves what was there before.
#pragma once
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "rill/ops/names.h"
#include "rill/tensor/named_map.h"

#pragma GCC visibility push(default)

namespace rill {

// Something with Variables, for a Checkpoint: a Variable; a layer, optimizer, struct or container of such that has a
// name (an lvalue), which is referred to and must live as long; or one that has none, which is kept.
class Trackable {
 public:
  template <class T>
    requires(!std::same_as<std::remove_cvref_t<T>, Trackable>)
  Trackable(T&& x) {
    using Plain = std::remove_cvref_t<T>;
    if constexpr (is_variable<Plain>) {
      name_ = [x = Variable(x)](const std::string& name, VariablePaths& paths) { paths.add(name, x, true); };
    } else if constexpr (std::is_lvalue_reference_v<T>) {
      name_ = [p = const_cast<Plain*>(std::addressof(x))](const std::string& name, VariablePaths& paths) {
        detail::visit_as(*p, name, paths);
      };
    } else {
      name_ = [p = std::make_shared<Plain>(std::forward<T>(x))](const std::string& name, VariablePaths& paths) {
        detail::visit_as(*p, name, paths);
      };
    }
  }
  void name_variables(const std::string& name, VariablePaths& paths) const { name_(name, paths); }

 private:
  std::function<void(const std::string& name, VariablePaths& paths)> name_;
};

// One of several processes that write one checkpoint in a folder that all of them see: each calls save() at the same
// moment of its program, and it returns when all is there. What they have alike is written by one of them each; for
// ranks, train::written_by_all() says the rest.
struct CheckpointPart {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int index = 0, count = 1;             // which of how many processes; a data file each
  uint64_t run = 0;                     // the same number for all, and one that no other run of these files has
  std::vector<std::string> first = {};  // patterns of paths that may differ: those of process 0 count
  std::vector<std::string> own = {};    // patterns of paths that not all have: who has one writes it
};
// Of a tensor that lies in pieces on several processes: its whole shape, and where the piece begins.
struct CheckpointSlice {
  Shape whole;
  std::vector<int64_t> start;
};

struct SaveCheckpointOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int shards = 1;                                 // how many data files
  std::vector<std::string> only = {};             // patterns of paths (path_matches()); none: all
  std::map<std::string, std::string> names = {};  // other names in the file, by path
  CheckpointPart part = {};                       // of several processes
  // What this process has a piece of, by its name in the file; the pieces of all make it whole.
  std::map<std::string, CheckpointSlice> slices = {};
};

struct RestoreOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool allow_missing = false;          // paths that the file has not keep their values
  bool allow_extra = false;            // entries of the file that nothing here has are left alone
  bool allow_misshapen = false;        // paths of which the file has another shape or dtype keep their values
  std::vector<std::string> only = {};  // patterns of the paths to restore; then other entries are not extra
  // Names in the file, by path, where they differ. An optimizer's slots go by the name of their Variable.
  std::map<std::string, std::string> names = {};
  // What has a piece here of what the file has whole, however it was written: by the names in the file.
  std::map<std::string, CheckpointSlice> slices = {};
};

// What restoring found.
struct RestoreReport {
  std::vector<std::string> restored;   // paths
  std::vector<std::string> missing;    // paths that the file has not
  std::vector<std::string> extra;      // entries that nothing here has
  std::vector<std::string> misshapen;  // "dense/kernel: f32[2,3] here, f32[3,3] in the file"
  bool complete() const { return missing.empty() && extra.empty() && misshapen.empty(); }
};
std::string to_string(const RestoreReport& report);

class Checkpoint {
 public:
  Checkpoint(std::initializer_list<std::pair<std::string, Trackable>> parts, Where where = Where::current());
  explicit Checkpoint(std::vector<std::pair<std::string, Trackable>> parts, Where where = Where::current());
  // A move is a copy: one that was moved from would save nothing and say that it had.
  Checkpoint(const Checkpoint&) = default;
  Checkpoint& operator=(const Checkpoint&) = default;

  // The Variables that it has now, by path.
  NamedVariables variables() const;
  // Their values at one moment: other threads' calls are in them as a whole or not at all. Throws while tracing.
  NamedMap<Tensor> values(const SaveCheckpointOptions& options = {}, Where where = Where::current()) const;
  // Writes `prefix`.index and its data files; their folder is made. Where these names are links, they become files, and
  // what they led to stays as it is. Throws where that cannot be done, and where several Variables of an optimizer are
  // of one name, dtype and shape and have no path here: their slots could be taken for each other's.
  void save(const std::string& prefix, const SaveCheckpointOptions& options = {}, Where where = Where::current()) const;
  // Reads a checkpoint into the Variables, all or, where something is wrong, none: what is missing, extra or of another
  // shape or dtype is an error that lists it, unless it is allowed. A name is looked up as it is, and as TensorFlow's
  // objects have it (name/.ATTRIBUTES/VARIABLE_VALUE, or a Variable that they saved under that name). An optimizer's
  // slots that it has not made yet are made; those that it had not made when it was saved become zeros. Parameters
  // whose sizes are found at the first call get those of the file.
  RestoreReport restore(const std::string& prefix, const RestoreOptions& options = {},
                        Where where = Where::current()) const;

 private:
  void collect(VariablePaths& paths) const;
  std::vector<std::pair<std::string, Trackable>> parts_;
};

// All tensors of a checkpoint, TensorFlow's or ours, by name; `only` some, by patterns. Of dtypes that rill has not,
// those that are not asked for by their full name are left out.
NamedMap<Tensor> load_checkpoint(const std::string& prefix, const std::vector<std::string>& only = {},
                                 Where where = Where::current());
// Their names, dtypes and shapes. Where `unreadable` is given, those of dtypes that rill has not go there, with the
// reason.
std::vector<std::pair<std::string, Spec>> checkpoint_entries(const std::string& prefix, Where where = Where::current());
std::vector<std::pair<std::string, Spec>> checkpoint_entries(const std::string& prefix,
                                                             std::map<std::string, std::string>& unreadable,
                                                             Where where = Where::current());
// Writes tensors as a checkpoint.
void save_checkpoint(const std::string& prefix, const NamedMap<Tensor>& tensors, int shards = 1,
                     Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
