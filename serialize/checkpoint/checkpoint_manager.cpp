// The checkpoints of a run; see checkpoint_manager.h. Each save writes the new checkpoint, replaces the list, and then
// removes what the list no longer names. So at each moment the list names only complete checkpoints. Those that it does
// not name have a mark meanwhile (unlisted.h).
#include "rill/serialize/checkpoint_manager.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <exception>
#include <filesystem>
#include <set>

#include "rill/serialize/checkpoint/bundle.h"
#include "rill/serialize/checkpoint/state_file.h"
#include "rill/serialize/checkpoint/unlisted.h"
#include "rill/tensor/background_thread.h"
#include "rill/tensor/moved_from.h"

namespace rill {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view manager = "CheckpointManager";
using Clock = std::chrono::steady_clock;

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string in_folder(const std::string& folder, const std::string& name) {
  return name.empty() || fs::path(name).is_absolute() ? name : (fs::path(folder) / name).string();
}

bool exists(const std::string& prefix) {
  std::error_code error;
  return fs::exists(prefix + ".index", error);
}

// Resolves a path in the list of `folder`: a checkpoint's name in the folder, or a path elsewhere; nothing if it does
// not exist. A checkpoint of that name in the folder takes precedence over an absolute path: the list may have been
// copied or moved together with its folder.
std::string resolved_name(const std::string& folder, const std::string& text) {
  const fs::path path = fs::path(text).lexically_normal();
  std::string name = path.filename().string();
  if (name.empty()) return {};
  if (path.is_relative() && exists(in_folder(folder, path.string()))) return path.string();
  if (exists(in_folder(folder, name))) return name;
  return exists(path.string()) && path.is_absolute() ? path.string() : std::string();
}

CheckpointList read_folder(const std::string& folder, std::string_view op, const Where& where) {
  const std::string path = in_folder(folder, "checkpoint");
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  const CheckpointList file = read_list(read_file(path, op, where), path, op, where);
  CheckpointList list;
  list.last_preserved = file.last_preserved;
  std::set<std::string> seen;
  const auto add = [&](const std::string& one, double time) {
    if (one.empty() || !seen.insert(one).second) return;
    list.all.push_back(one);
    list.timestamps.push_back(time);
  };
  for (size_t i = 0; i < file.all.size(); ++i)
    add(resolved_name(folder, file.all[i]), file.timestamps.empty() ? now() : file.timestamps[i]);
  list.latest = resolved_name(folder, file.latest);
  add(list.latest, now());
  return list;
}

// Whether it has not been written to for an hour.
bool is_old(const fs::path& path) {
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - time > std::chrono::hours(1);
}

// The index first: without it, the checkpoint does not exist. Files that cannot be removed do no harm.
void remove_checkpoint(const std::string& prefix) {
  unlink((prefix + ".index").c_str());
  const fs::path path(prefix);
  const std::string name = path.filename().string();
  std::vector<fs::path> shards;
  std::error_code error;
  for (fs::directory_iterator it(path.has_parent_path() ? path.parent_path() : ".", error), none; !error && it != none;
       it.increment(error))
    if (is_shard_name(it->path().filename().string(), name)) shards.push_back(it->path());
  for (const fs::path& p : shards) unlink(p.c_str());
}

}  // namespace

// Several managers, of this process or others, may share a folder and its list. Each rereads the list, under a lock if
// it changes it, and only touches files with its own prefix.
struct CheckpointManager::Impl {
  Checkpoint checkpoint;
  std::string folder;           // as given by the caller
  std::string absolute_folder;  // the same, independent of the working directory
  CheckpointManagerOptions options;
  double last_preserved = 0;
  int64_t last_step = -1;
  bool cleaned = false;
  Clock::time_point last_time = Clock::now();
  BackgroundThread writer;
  std::exception_ptr error;          // of the writer
  std::atomic<bool> failed = false;  // whether there is one

  Impl(Checkpoint c, std::string f, CheckpointManagerOptions o)
      : checkpoint(std::move(c)), folder(std::move(f)), absolute_folder(folder), options(std::move(o)) {
    std::error_code unknown;
    const fs::path absolute = fs::absolute(folder.empty() ? "." : folder, unknown);
    if (!unknown) absolute_folder = absolute.string();
  }

  void wait() {
    writer.join();
    failed = false;
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }

  // Writes beside the caller; false where there is no thread for it.
  bool start_writing(const std::string& name, const std::map<std::string, Tensor>& values, const Where& where) {
    return writer.start([this, name, values, where] {
      try {
        write(name, values, where);
      } catch (...) {
        error = std::current_exception();
        failed = true;
      }
    });
  }

  // Whether `name`, of a checkpoint, is PREFIX-STEP.
  bool is_own(std::string_view name) const {
    const size_t start = options.prefix.size() + 1;
    return name.size() > start && name.starts_with(options.prefix) && name[start - 1] == '-' &&
           name.find_first_not_of("0123456789", start) == name.npos;
  }

  // The names of our checkpoints that exist, oldest first.
  std::vector<std::string> names(const CheckpointList& list) const {
    std::vector<std::string> own;
    for (const std::string& name : list.all)
      if (is_own(name)) own.push_back(name);
    return own;
  }
  std::string latest_name(const Where& where) {
    wait();
    const CheckpointList list = read_folder(absolute_folder, manager, where);
    if (is_own(list.latest)) return list.latest;
    const std::vector<std::string> own = names(list);
    return own.empty() ? "" : own.back();
  }

  // Whether `name` is that of one of our shards without an index.
  bool is_lone_shard(const std::string& name) const {
    const std::string checkpoint_name = name.substr(0, name.rfind(".data-"));
    return is_own(checkpoint_name) && is_shard_name(name, checkpoint_name) &&
           !exists(in_folder(absolute_folder, checkpoint_name));
  }

  // Removes what killed writers have left: unfinished files, and shards without an index. Those of a live writer, in
  // this process, another or on another machine, look the same until its index exists, so their age decides.
  void clean() const {
    std::vector<fs::path> left;
    std::error_code error;
    for (fs::directory_iterator it(absolute_folder, error), none; !error && it != none; it.increment(error)) {
      const std::string name = it->path().filename().string();
      if ((is_part_name(name) || is_lone_shard(name)) && is_old(it->path())) left.push_back(it->path());
    }
    for (const fs::path& p : left) unlink(p.c_str());
  }

  // Removes our checkpoints that a killed writer left out of the list: complete ones that it did not get to list, and
  // those that it did not get to remove.
  void remove_unlisted(const Where& where) const {
    const std::vector<std::string> marked = unlisted_names(absolute_folder);
    if (marked.empty()) return;
    const FolderLock lock(absolute_folder);
    const CheckpointList list = read_folder(absolute_folder, "save", where);
    for (const std::string& name : marked) {
      if (!is_own(name)) continue;
      const bool old = is_old(in_folder(absolute_folder, name + ".unlisted"));
      std::optional<UnlistedMark> mark = UnlistedMark::without_waiting(in_folder(absolute_folder, name));
      if (!mark || !(mark->is_locked() || old)) continue;  // its writer is alive, or may be
      if (std::find(list.all.begin(), list.all.end(), name) == list.all.end())
        remove_checkpoint(in_folder(absolute_folder, name));
      mark->remove();
    }
  }

  void write_values(const std::string& name, const std::map<std::string, Tensor>& values, const Where& where) const {
    write_bundle(in_folder(absolute_folder, name), values, options.save, "save", where);
  }

  // Of several processes, the first one has the list.
  void write(const std::string& name, const std::map<std::string, Tensor>& values, const Where& where) {
    if (options.save.part.index > 0) return write_values(name, values, where);
    if (!std::exchange(cleaned, true)) clean(), remove_unlisted(where);  // first, to free space
    make_folders(absolute_folder, "save", where);
    UnlistedMark mark(in_folder(absolute_folder, name));
    try {
      write_values(name, values, where);
    } catch (...) {
      mark.remove();  // the old files are still there
      throw;
    }
    const FolderLock lock(absolute_folder);
    CheckpointList list = read_folder(absolute_folder, "save", where);
    erase(list, size_t(std::find(list.all.begin(), list.all.end(), name) - list.all.begin()));
    list.all.push_back(name);
    list.timestamps.push_back(now());
    list.latest = name;
    const std::vector<std::string> removed = drop_oldest(list);
    std::vector<std::optional<UnlistedMark>> marks;  // a mark that another writer holds is removed by that writer
    for (const std::string& old : removed)
      marks.push_back(UnlistedMark::without_waiting(in_folder(absolute_folder, old)));
    write_file(in_folder(absolute_folder, "checkpoint"), to_text(list), "save", where, Links::replace);
    mark.remove();
    for (size_t i = 0; i < removed.size(); ++i) {
      remove_checkpoint(in_folder(absolute_folder, removed[i]));
      if (marks[i]) marks[i]->remove();
    }
  }

  static void erase(CheckpointList& list, size_t i) {
    if (i >= list.all.size()) return;
    list.all.erase(list.all.begin() + long(i));
    list.timestamps.erase(list.timestamps.begin() + long(i));
  }

  // Drops the oldest of ours, which are in the folder. The list has one time for the last checkpoint that is kept for
  // good: of several managers, the time of the one that keeps such.
  std::vector<std::string> drop_oldest(CheckpointList& list) {
    last_preserved = std::min(last_preserved, now());  // the clock may have been set back
    std::vector<std::string> removed;
    size_t own = size_t(std::count_if(list.all.begin(), list.all.end(), [&](auto& name) { return is_own(name); }));
    for (size_t i = 0; options.max_to_keep > 0 && own > size_t(options.max_to_keep);) {
      if (!is_own(list.all[i])) {
        ++i;
        continue;
      }
      const double t = list.timestamps[i];
      if (options.keep_every_hours > 0 && t - last_preserved >= 3600 * options.keep_every_hours)
        last_preserved = t;  // it is kept, and no longer ours
      else removed.push_back(list.all[i]);
      erase(list, i);
      --own;
    }
    if (options.keep_every_hours > 0 || list.last_preserved == 0) list.last_preserved = last_preserved;
    return removed;
  }
};

CheckpointManager::CheckpointManager(Checkpoint checkpoint, std::string folder, CheckpointManagerOptions options,
                                     Where where) {
  auto reject = [&](const char* what) { fail(manager, what, where); };
  if (options.max_to_keep < 0) reject("max_to_keep is negative. give how many are kept, or 0 for all");
  if (!(options.keep_every_hours >= 0) || !(options.every_minutes >= 0) || options.every_steps < 0)
    reject("keep_every_hours, every_minutes and every_steps are 0 or more");
  if (options.prefix.empty() || options.prefix.find('/') != std::string::npos)
    reject("the prefix is the beginning of a file's name: it is not empty and has no '/'");
  impl_ = std::make_unique<Impl>(std::move(checkpoint), std::move(folder), std::move(options));
  impl_->last_preserved = read_folder(impl_->absolute_folder, manager, where).last_preserved;
  if (impl_->last_preserved == 0) impl_->last_preserved = now();
}

CheckpointManager::CheckpointManager(CheckpointManager&&) noexcept = default;

CheckpointManager::~CheckpointManager() {
  if (!impl_) return;
  try {
    impl_->wait();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rill: warning: a checkpoint was not saved: %s\n", e.what());
  }
}

void CheckpointManager::wait(Where where) { owned(impl_, manager, where).wait(); }

std::string CheckpointManager::save(int64_t step, Where where) {
  Impl& m = owned(impl_, manager, where);
  m.wait();
  if (step < 0) fail("save", "step " + std::to_string(step) + " is negative", where);
  const std::string name = m.options.prefix + "-" + std::to_string(step);
  std::map<std::string, Tensor> values = m.checkpoint.values(m.options.save, where);
  if (!m.options.asynchronous || !m.start_writing(name, values, where)) m.write(name, values, where);
  m.last_step = step;
  m.last_time = Clock::now();
  return in_folder(m.folder, name);
}

bool CheckpointManager::is_due(int64_t step) const {
  const Impl& m = owned(impl_, manager, Where());
  const auto& o = m.options;
  const double minutes = std::chrono::duration<double>(Clock::now() - m.last_time).count() / 60;
  // For a resumed run: since the checkpoint that it was restored from.
  const int64_t last = m.last_step >= 0 ? m.last_step : 0;
  return (o.every_steps == 0 && o.every_minutes == 0) || (o.every_steps > 0 && step - last >= o.every_steps) ||
         (o.every_minutes > 0 && minutes >= o.every_minutes);
}

bool CheckpointManager::save_if_due(int64_t step, Where where) {
  Impl& m = owned(impl_, manager, where);
  if (m.failed) m.wait();  // throws the last writer's error, even if no save is due
  const bool due = is_due(step);
  if (due) save(step, where);
  return due;
}

bool CheckpointManager::restore_if_any(const RestoreOptions& options, Where where) {
  if (latest(where).empty()) return false;
  restore(options, where);
  return true;
}

namespace {
int64_t step_of(const std::string& name) {
  int64_t step = -1;  // stays so if there are no digits, or too many
  std::from_chars(name.data() + name.find_last_of('-') + 1, name.data() + name.size(), step);
  return step;
}
}  // namespace

RestoreReport CheckpointManager::restore(const RestoreOptions& options, Where where) {
  Impl& m = owned(impl_, manager, where);
  const std::string name = m.latest_name(where);
  if (name.empty())
    fail("restore",
         "there is no checkpoint in '" + m.folder + "': its list names none that is called '" + m.options.prefix +
             "-STEP'",
         where);
  RestoreOptions own = options;  // a checkpoint saved with options for a subset only has that subset
  if (own.only.empty()) own.only = m.options.save.only;
  if (own.names.empty()) own.names = m.options.save.names;
  RestoreReport report = m.checkpoint.restore(in_folder(m.absolute_folder, name), own, where);
  m.last_step = step_of(name);
  m.last_time = Clock::now();
  return report;
}

std::string CheckpointManager::latest(Where where) {
  Impl& m = owned(impl_, manager, where);
  return in_folder(m.folder, m.latest_name(where));
}

int64_t CheckpointManager::latest_step(Where where) {
  const std::string name = owned(impl_, manager, where).latest_name(where);
  return name.empty() ? -1 : step_of(name);
}

std::vector<std::string> CheckpointManager::all(Where where) {
  Impl& m = owned(impl_, manager, where);
  m.wait();
  std::vector<std::string> paths = m.names(read_folder(m.absolute_folder, manager, where));
  for (std::string& path : paths) path = in_folder(m.folder, path);
  return paths;
}

std::string latest_checkpoint(const std::string& folder, Where where) {
  return in_folder(folder, read_folder(folder, "latest_checkpoint", where).latest);
}

}  // namespace rill
