// The checkpoints of a run; see checkpoint_manager.h. The order of each save: the new one is written, the list is moved
// in place, and then what it no longer names is removed. So the list names whole checkpoints at each moment.
#include "rill/serialize/checkpoint_manager.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>
#include <filesystem>
#include <set>
#include <thread>

#include "rill/serialize/checkpoint/bundle.h"
#include "rill/serialize/checkpoint/state_file.h"

namespace rill {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// TensorFlow writes paths that are relative to the folder.
std::string in_folder(const std::string& folder, const std::string& path) {
  return path.empty() || fs::path(path).is_absolute() ? path : (fs::path(folder) / path).string();
}

bool exists(const std::string& prefix) {
  std::error_code error;
  return fs::exists(prefix + ".index", error);
}

CheckpointList read_folder(const std::string& folder, std::string_view op, const Where& where) {
  const std::string path = in_folder(folder, "checkpoint");
  std::error_code error;
  if (!fs::exists(path, error)) return {};
  return read_list(read_file(path, op, where), path, op, where);
}

// Whether nobody has written to it for an hour.
bool is_old(const fs::path& path) {
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(path, error);
  return !error && fs::file_time_type::clock::now() - time > std::chrono::hours(1);
}

// The index first: without it, nothing is there. What cannot be removed stays, and harms nobody.
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

struct CheckpointManager::Impl {
  Checkpoint checkpoint;
  std::string folder;
  CheckpointManagerOptions options;
  CheckpointList list;  // with whole paths; of the writing thread, while there is one
  int64_t last_step = -1;
  bool saved = false, cleaned = false;
  Clock::time_point last_time = Clock::now();
  std::thread writer;
  std::exception_ptr error;

  Impl(Checkpoint c, std::string f, CheckpointManagerOptions o)
      : checkpoint(std::move(c)), folder(std::move(f)), options(std::move(o)) {}

  void wait() {
    if (writer.joinable()) writer.join();
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }

  std::string prefix_of(int64_t step) const { return in_folder(folder, options.prefix + "-" + std::to_string(step)); }

  void read(const Where& where) {
    list = read_folder(folder, "CheckpointManager", where);
    list.latest = in_folder(folder, list.latest);
    if (list.timestamps.empty()) list.timestamps.assign(list.all.size(), now());
    std::vector<std::string> all;
    std::vector<double> timestamps;
    for (size_t i = 0; i < list.all.size(); ++i)
      if (const std::string path = in_folder(folder, list.all[i]); exists(path)) {
        all.push_back(path);
        timestamps.push_back(list.timestamps[i]);
      }
    list.all = std::move(all);
    list.timestamps = std::move(timestamps);
    if (!exists(list.latest)) list.latest = list.all.empty() ? "" : list.all.back();
    if (!list.latest.empty() && std::find(list.all.begin(), list.all.end(), list.latest) == list.all.end()) {
      list.all.push_back(list.latest);
      list.timestamps.push_back(now());
    }
    if (list.last_preserved == 0) list.last_preserved = now();
  }

  // Whether `name` is that of a shard of ours that has no index.
  bool is_lone_shard(const std::string& name) const {
    const std::string start = options.prefix + "-";
    const size_t end = name.find(".data-", start.size());
    if (!name.starts_with(start) || end == std::string::npos || end == start.size()) return false;
    const std::string own = name.substr(0, end);
    return own.find_first_not_of("0123456789", start.size()) == std::string::npos && is_shard_name(name, own) &&
           !exists(in_folder(folder, own));
  }

  // Removes what killed writers have left: files under construction, and shards without an index. Those of a live
  // writer, in this process, another or on another machine, look the same until its index is there: so age decides.
  void clean() const {
    std::vector<fs::path> left;
    std::error_code error;
    for (fs::directory_iterator it(folder.empty() ? "." : folder, error), none; !error && it != none;
         it.increment(error)) {
      const std::string name = it->path().filename().string();
      if ((is_abandoned_part(name) || is_lone_shard(name)) && is_old(it->path())) left.push_back(it->path());
    }
    for (const fs::path& p : left) unlink(p.c_str());
  }

  void write(const std::string& prefix, const std::map<std::string, Tensor>& values, const Where& where) {
    if (!std::exchange(cleaned, true)) clean();  // first, for the room that it makes
    write_bundle(prefix, values, options.save.shards, "save", where);
    CheckpointList next = list;
    for (size_t i = 0; i < next.all.size(); ++i)
      if (next.all[i] == prefix) {
        next.all.erase(next.all.begin() + long(i));
        next.timestamps.erase(next.timestamps.begin() + long(i));
        break;
      }
    next.all.push_back(prefix);
    next.timestamps.push_back(now());
    next.latest = prefix;
    const std::vector<std::string> removed = drop_oldest(next);
    write_list(next, where);
    list = std::move(next);
    for (const std::string& p : removed) remove_checkpoint(p);
  }

  std::vector<std::string> drop_oldest(CheckpointList& next) const {
    std::vector<std::string> removed;
    while (options.max_to_keep > 0 && next.all.size() > size_t(options.max_to_keep)) {
      const double t = next.timestamps.front();
      if (options.keep_every_hours > 0 && t - next.last_preserved >= 3600 * options.keep_every_hours)
        next.last_preserved = t;  // it stays, and is no longer ours
      else removed.push_back(next.all.front());
      next.all.erase(next.all.begin());
      next.timestamps.erase(next.timestamps.begin());
    }
    return removed;
  }

  void write_list(CheckpointList next, const Where& where) const {
    auto shorten = [&](std::string& path) {
      if (in_folder(folder, fs::path(path).filename().string()) == path) path = fs::path(path).filename().string();
    };
    shorten(next.latest);
    for (std::string& path : next.all) shorten(path);
    write_file(in_folder(folder, "checkpoint"), to_text(next), "save", where);
  }
};

CheckpointManager::CheckpointManager(Checkpoint checkpoint, std::string folder, CheckpointManagerOptions options,
                                     Where where) {
  auto reject = [&](const char* what) { fail("CheckpointManager", what, where); };
  if (options.max_to_keep < 0) reject("max_to_keep is negative. give how many are kept, or 0 for all");
  if (!(options.keep_every_hours >= 0) || !(options.every_minutes >= 0) || options.every_steps < 0)
    reject("keep_every_hours, every_minutes and every_steps are 0 or more");
  if (options.prefix.empty() || options.prefix.find('/') != std::string::npos)
    reject("the prefix is the beginning of a file's name: it is not empty and has no '/'");
  impl_ = std::make_unique<Impl>(std::move(checkpoint), std::move(folder), std::move(options));
  impl_->read(where);
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

void CheckpointManager::wait(Where) { impl_->wait(); }

std::string CheckpointManager::save(int64_t step, Where where) {
  Impl& m = *impl_;
  m.wait();
  if (step < 0) fail("save", "step " + std::to_string(step) + " is negative", where);
  const std::string prefix = m.prefix_of(step);
  std::map<std::string, Tensor> values = m.checkpoint.values(m.options.save, where);
  if (m.options.asynchronous) {
    m.writer = std::thread([&m, prefix, values = std::move(values), where] {
      try {
        m.write(prefix, values, where);
      } catch (...) {
        m.error = std::current_exception();
      }
    });
  } else {
    m.write(prefix, values, where);
  }
  m.last_step = step;
  m.saved = true;
  m.last_time = Clock::now();
  return prefix;
}

bool CheckpointManager::save_if_due(int64_t step, Where where) {
  const Impl& m = *impl_;
  const auto& o = m.options;
  const double minutes = std::chrono::duration<double>(Clock::now() - m.last_time).count() / 60;
  // Of a run that goes on: since the one that it was restored from.
  const int64_t last = m.last_step >= 0 ? m.last_step : 0;
  const bool due = (o.every_steps == 0 && o.every_minutes == 0) ||
                   (o.every_steps > 0 && step - last >= o.every_steps) ||
                   (o.every_minutes > 0 && minutes >= o.every_minutes);
  if (due) save(step, where);
  return due;
}

bool CheckpointManager::restore_if_any(const RestoreOptions& options, Where where) {
  if (latest(where).empty()) return false;
  restore(options, where);
  return true;
}

RestoreReport CheckpointManager::restore(const RestoreOptions& options, Where where) {
  Impl& m = *impl_;
  const std::string path = latest(where);
  if (path.empty()) fail("restore", "there is no checkpoint in '" + m.folder + "'", where);
  RestoreOptions own = options;  // what was saved by other options than all has only that
  if (own.only.empty()) own.only = m.options.save.only;
  if (own.names.empty()) own.names = m.options.save.names;
  RestoreReport report = m.checkpoint.restore(path, own, where);
  m.last_step = latest_step(where);
  m.last_time = Clock::now();
  return report;
}

std::string CheckpointManager::latest(Where) {
  impl_->wait();
  return impl_->list.latest;
}

int64_t CheckpointManager::latest_step(Where where) {
  const std::string path = latest(where);
  const size_t dash = path.find_last_of('-');
  if (dash == std::string::npos || path.find_first_not_of("0123456789", dash + 1) != std::string::npos) return -1;
  int64_t step = -1;  // as it stays where there are no digits, or too many
  std::from_chars(path.data() + dash + 1, path.data() + path.size(), step);
  return step;
}

std::vector<std::string> CheckpointManager::all(Where) {
  impl_->wait();
  return impl_->list.all;
}

std::string latest_checkpoint(const std::string& folder, Where where) {
  const CheckpointList list = read_folder(folder, "latest_checkpoint", where);
  const std::string path = in_folder(folder, list.latest);
  return !path.empty() && exists(path) ? path : std::string();
}

}  // namespace rill
