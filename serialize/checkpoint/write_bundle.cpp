// Writing a bundle; see bundle.h.
//
// Two files cannot be replaced atomically, but the index alone decides what a bundle is: it has the number of shards,
// and so their names. Shards of a bundle that replaces another are written under names for one shard more, and become
// part of it when the index is renamed. Then they get their usual names, by links, and the index is replaced again, by
// one that says so. At each moment the index and the shards that it names belong together.
//
// A prefix whose files are links, "best" to another checkpoint, becomes a checkpoint of its own: the other one is not
// ours to change.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>

#include "rill/ops/ops.h"
#include "rill/serialize/checkpoint/bundle.h"
#include "rill/serialize/checkpoint/table.h"
#include "rill/serialize/messages.h"
#include "rill/serialize/records.h"

namespace rill {
namespace {

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += char(value | 0x80);
  out += char(value);
}

// As BundleReader::read_strings reads them; the checksum is of the decoded numbers.
std::string encode_strings(const Tensor& t, uint32_t& sum) {
  const std::vector<std::string> texts = t.to_vector<std::string>();
  std::string lengths, summed;
  for (const std::string& s : texts) {
    put_varint(lengths, s.size());
    for (int k = 0; k < (s.size() <= UINT32_MAX ? 4 : 8); ++k) summed += char(uint64_t(s.size()) >> 8 * k & 0xFF);
  }
  const uint32_t of_lengths = masked_crc32c(summed);
  std::string rest(reinterpret_cast<const char*>(&of_lengths), 4);
  for (const std::string& s : texts) rest += s;
  sum = masked_crc32c(summed + rest);
  return lengths + rest;
}

// Merges entries of one name, which are slices of one tensor, or equal.
TableEntries joined(TableEntries entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  TableEntries all;
  for (auto& [name, bytes] : entries) {
    if (all.empty() || all.back().first != name) {
      all.emplace_back(name, bytes);
      continue;
    }
    proto::BundleEntryProto whole, more;
    if (!parse(all.back().second, whole) || !parse(bytes, more) || whole.slices_size() == 0) continue;
    for (const proto::TensorSliceProto& slice : more.slices()) {
      const auto same = [&](const auto& s) { return bytes_of(s) == bytes_of(slice); };
      if (std::none_of(whole.slices().begin(), whole.slices().end(), same)) *whole.add_slices() = slice;
    }
    all.back().second = bytes_of(whole);
  }
  return all;
}

class Writer {
 public:
  // Writes all shards, or one, if other processes write the others.
  Writer(const std::string& prefix, int shards, std::string_view op, const Where& where, int only = -1)
      : prefix_(prefix), shards_(shards), only_(only), op_(op), where_(where), sizes_(size_t(shards)) {
    replaces_ = shards_at(prefix) == shards;  // bundles with other numbers of shards have other names
    for (int i = 0; i < names(); ++i)
      files_.push_back(only >= 0 && i != only
                           ? nullptr
                           : std::make_unique<FileWriter>(shard_name(prefix, i, names()), op, where, Links::replace));
  }

  void add(const std::string& name, const Tensor& t) {
    const size_t shard =
        only_ >= 0 ? size_t(only_) : size_t(std::min_element(sizes_.begin(), sizes_.end()) - sizes_.begin());
    const Tensor host = t.to(Device()).contiguous();
    proto::BundleEntryProto entry;
    entry.set_dtype(to_proto(host.dtype()));
    *entry.mutable_shape() = to_proto(host.shape());
    entry.set_shard_id(int(shard));
    entry.set_offset(sizes_[shard]);
    std::string texts;
    std::string_view bytes;
    uint32_t sum = 0;
    if (host.dtype() == DType::string) bytes = texts = encode_strings(host, sum);
    else {
      bytes = {static_cast<const char*>(host.rep()->data), size_t(host.size()) * size_of(host.dtype())};
      sum = masked_crc32c(bytes);
    }
    entry.set_size(int64_t(bytes.size()));
    entry.set_crc32c(sum);
    files_[shard]->write(bytes);
    sizes_[shard] += int64_t(bytes.size());
    entries_.emplace_back(name, bytes_of(entry));
  }

  // A slice of a tensor, with the shape of the full tensor.
  void add_slice(const std::string& name, const Tensor& t, const CheckpointSlice& slice) {
    proto::BundleEntryProto whole;
    whole.set_dtype(to_proto(t.dtype()));
    *whole.mutable_shape() = to_proto(slice.whole);
    proto::TensorSliceProto& rename_files = *whole.add_slices();
    for (size_t d = 0; d < slice.start.size(); ++d) {
      proto::TensorSliceProto::Extent& extent = *rename_files.add_extent();
      if (t.shape()[d] == slice.whole[d]) continue;  // the entire axis
      extent.set_start(slice.start[d]), extent.set_length(t.shape()[d]);
    }
    add(slice_key(name, rename_files), t);
    entries_.emplace_back(name, bytes_of(whole));
  }

  const TableEntries& entries() const { return entries_; }
  // The entries of another process.
  void add_entries(const TableEntries& entries) { entries_.insert(entries_.end(), entries.begin(), entries.end()); }

  // Renames the data files to their final names.
  void rename_files() {
    for (size_t i = 0; i < files_.size(); ++i) {
      if (!files_[i]) continue;
      files_[i]->commit();
      placed_.push_back(shard_name(prefix_, int(i), int(files_.size())));
    }
  }
  // Leaves the files to another process.
  void release_files() { placed_.clear(); }

  void finish() {
    const std::string bytes = index(int(files_.size()));
    write_file(prefix_ + ".index", bytes, op_, where_, Links::replace);
    placed_.clear();
    if (replaces_) rename_shards();
    remove_others();
  }

  // If the index could not be written, shards that no index names are removed.
  ~Writer() {
    for (const std::string& path : placed_) unlink(path.c_str());
  }
  Writer(const Writer&) = delete;

 private:
  // The number of shards of the existing bundle; 0 if there is none, or it cannot be read.
  static int shards_at(const std::string& prefix) {
    try {
      return BundleReader(prefix, "save", Where()).shards();
    } catch (const Error&) {
      return 0;
    }
  }

  int names() const { return shards_ + (replaces_ ? 1 : 0); }

  std::string index(int shards) const {
    proto::BundleHeaderProto header;
    header.set_num_shards(shards);
    header.mutable_version()->set_producer(1);
    TableEntries all{{"", bytes_of(header)}};
    const TableEntries joined_entries = joined(entries_);
    all.insert(all.end(), joined_entries.begin(), joined_entries.end());
    return write_table(all, op_, where_);
  }

  // To their names in a bundle of shards_. If the file system has no links, they keep their names.
  void rename_shards() {
    for (int i = 0; i < shards_; ++i) {
      const std::string to = shard_name(prefix_, i, shards_);
      if (unlink(to.c_str()) != 0 && errno != ENOENT) return;
      if (link(shard_name(prefix_, i, shards_ + 1).c_str(), to.c_str()) != 0) return;
    }
    write_file(prefix_ + ".index", index(shards_), op_, where_, Links::replace);
    replaces_ = false;
  }

  // Removes the shards of the old bundle, and links that nothing names any more.
  void remove_others() {
    const int n = shards_ + (replaces_ ? 1 : 0);
    const std::filesystem::path path(prefix_);
    const std::string own = path.filename().string(), end = fmt::format("-of-{:05}", n);
    std::error_code error;
    std::filesystem::directory_iterator it(path.has_parent_path() ? path.parent_path() : ".", error), none;
    for (; !error && it != none; it.increment(error)) {
      const std::string name = it->path().filename().string();
      if (is_shard_name(name, own) && !name.ends_with(end)) unlink(it->path().c_str());
    }
  }

  std::string prefix_;
  int shards_, only_;
  std::string op_;
  Where where_;
  bool replaces_ = false;
  std::vector<int64_t> sizes_;
  std::vector<std::string> placed_;
  std::vector<std::unique_ptr<FileWriter>> files_;
  TableEntries entries_;
};

}  // namespace

namespace {
void require_named(const std::string& name, const Tensor& t, std::string_view op, const Where& where) {
  if (name.empty() || name[0] == '\0') fail(op, "a tensor without a name cannot be saved", where);
  require_defined(op, t, "'" + name + "'", where);
}

void require_prefix(const std::string& prefix, std::string_view op, const Where& where) {
  if (prefix.empty() || prefix.ends_with('/'))
    fail(op, "'" + prefix + "' is no name of a checkpoint: files are called that and .index, .data-00000-of-00001",
         where);
}

// Checks that a slice is within the full tensor.
void require_slice(const std::string& name, const std::map<std::string, Tensor>& tensors, const CheckpointSlice& slice,
                   std::string_view op, const Where& where) {
  const auto at = tensors.find(name);
  if (at == tensors.end()) fail(op, fmt::format("there is no '{}' to be a piece", name), where);
  if (!lies_in(at->second.shape(), slice))
    fail(op,
         fmt::format("'{}' is {} and no piece of {} from [{}] on", name, to_string(at->second.spec()),
                     to_string(slice.whole), fmt::join(slice.start, ",")),
         where);
}
}  // namespace

bool lies_in(const Shape& shape, const CheckpointSlice& slice) {
  bool lies = shape.size() == slice.whole.size() && slice.start.size() == shape.size();
  for (size_t d = 0; lies && d < shape.size(); ++d)
    lies = slice.start[d] >= 0 && slice.start[d] + int64_t(shape[d]) <= int64_t(slice.whole[d]);
  return lies;
}

void write_bundle(const std::string& prefix, const std::map<std::string, Tensor>& tensors, int shards,
                  std::string_view op, const Where& where) {
  require_prefix(prefix, op, where);
  if (shards < 1 || shards > 9999) fail(op, fmt::format("{} shards make no sense. give 1 to 9999", shards), where);
  write_table({}, op, where);  // throws in a build without leveldb, before any file is created
  const std::string folder = std::filesystem::path(prefix).parent_path().string();
  make_folders(folder, op, where);
  const FolderLock lock(folder);  // two writers of one prefix would mix their shards
  Writer writer(prefix, shards, op, where);
  for (const auto& [name, t] : tensors) {
    require_named(name, t, op, where);
    writer.add(name, t);
  }
  writer.rename_files();
  writer.finish();
}

// --- By several processes ----------------------------------------------------------------------------------------------

namespace {

bool matches(const std::string& name, const std::vector<std::string>& patterns) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const auto& p) { return path_matches(name, p); });
}

// The tensors that this process writes: of those that all processes have, the largest first, each to the least loaded.
std::map<std::string, Tensor> tensors_of_process(const std::map<std::string, Tensor>& tensors,
                                                 const SaveCheckpointOptions& o) {
  std::map<std::string, Tensor> own_tensors;
  std::vector<std::pair<int64_t, const std::string*>> common;
  for (const auto& [name, t] : tensors) {
    const bool is_first = matches(name, o.part.first), is_own = matches(name, o.part.own) || o.slices.contains(name);
    if (is_own || (is_first && o.part.index == 0)) own_tensors.emplace(name, t);
    const int64_t bytes = t.dtype() == DType::string ? 0 : int64_t(t.size()) * int64_t(size_of(t.dtype()));
    if (!is_first && !is_own) common.emplace_back(-bytes, &name);
  }
  std::stable_sort(common.begin(), common.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<int64_t> load(size_t(o.part.count));
  for (const auto& [bytes, name] : common) {
    const size_t least = size_t(std::min_element(load.begin(), load.end()) - load.begin());
    load[least] += 1 - bytes;
    if (int(least) == o.part.index) own_tensors.emplace(*name, tensors.at(*name));
  }
  return own_tensors;
}

// The file by which process `i` tells process 0 that its data file exists, with its entries, or that it could not be
// written, with the reason. Process 0 removes them when the bundle is complete. A killed run's are removed as other
// unfinished files are.
std::string report_name(const std::string& prefix, uint64_t run, int i) {
  const std::filesystem::path path(prefix);
  const uint64_t number = (run ^ std::hash<std::string>()(path.filename().string())) >> 1;
  return (path.parent_path() / fmt::format(".rill-{}-{}.part", number, i)).string();
}

// Waits until a file exists, or is gone. A process that dies ends the job, so the limit is long.
void wait_for_file(const std::string& path, bool there, std::string_view op, const Where& where) {
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; (access(path.c_str(), F_OK) == 0) != there; ++i) {
    if (std::chrono::steady_clock::now() - begun > std::chrono::minutes(10))
      fail(op,
           fmt::format("another process, which writes a part of this checkpoint, has {} '{}' for ten minutes",
                       there ? "not written" : "left", path),
           where);
    usleep(i < 50 ? 200 : 5000);
  }
}

void write_share(Writer& writer, const std::map<std::string, Tensor>& tensors, const SaveCheckpointOptions& o,
                 std::string_view op, const Where& where) {
  for (const auto& [name, slice] : o.slices) require_slice(name, tensors, slice, op, where);
  for (const auto& [name, t] : tensors_of_process(tensors, o)) {
    require_named(name, t, op, where);
    const auto slice = o.slices.find(name);
    slice == o.slices.end() ? writer.add(name, t) : writer.add_slice(name, t, slice->second);
  }
  writer.rename_files();
}

// Collects the other processes' entries, in process 0. Throws their failures.
void collect_reports(TableEntries& entries, const std::string& prefix, const CheckpointPart& part, std::string_view op,
                     const Where& where) {
  std::string faults;
  for (int i = 1; i < part.count; ++i) {
    const std::string path = report_name(prefix, part.run, i);
    wait_for_file(path, true, op, where);
    TableEntries theirs = read_table(read_file(path, op, where), path, op, where);
    if (theirs.empty()) continue;
    if (!theirs[0].second.empty()) faults += fmt::format("; process {} could not write it: {}", i, theirs[0].second);
    entries.insert(entries.end(), theirs.begin() + 1, theirs.end());
  }
  if (!faults.empty()) fail(op, faults.substr(2), where);
}

// Whatever fails here, it waits for the other processes, and tells them that it is over.
void write_first(const std::string& prefix, const std::map<std::string, Tensor>& tensors,
                 const SaveCheckpointOptions& options, std::string_view op, const Where& where) {
  const CheckpointPart& part = options.part;
  std::exception_ptr fault;
  const auto attempt = [&](const auto& f) {
    try {
      f();
    } catch (...) {
      if (!fault) fault = std::current_exception();
    }
  };
  std::optional<Writer> writer;
  TableEntries theirs;
  attempt([&] { write_share(writer.emplace(prefix, part.count, op, where, 0), tensors, options, op, where); });
  attempt([&] { collect_reports(theirs, prefix, part, op, where); });
  if (!fault) attempt([&] { writer->add_entries(theirs), writer->finish(); });
  for (int i = 1; i < part.count; ++i) unlink(report_name(prefix, part.run, i).c_str());
  if (fault) std::rethrow_exception(fault);
}

}  // namespace

void write_bundle(const std::string& prefix, const std::map<std::string, Tensor>& tensors,
                  const SaveCheckpointOptions& options, std::string_view op, const Where& where) {
  const CheckpointPart& part = options.part;
  if (part.count <= 1) return write_bundle(prefix, tensors, options.shards, op, where);
  require_prefix(prefix, op, where);
  if (part.index < 0 || part.index >= part.count || part.count > 9999)
    fail(op, fmt::format("process {} of {} makes no sense", part.index, part.count), where);
  make_folders(std::filesystem::path(prefix).parent_path().string(), op, where);
  if (part.index == 0) return write_first(prefix, tensors, options, op, where);
  const std::string report = report_name(prefix, part.run, part.index);
  try {
    Writer writer(prefix, part.count, op, where, part.index);
    write_share(writer, tensors, options, op, where);
    TableEntries all{{"", ""}};
    const TableEntries own = joined(writer.entries());
    all.insert(all.end(), own.begin(), own.end());
    write_file(report, write_table(all, op, where), op, where);
    writer.release_files();
  } catch (const Error& e) {
    write_file(report, write_table({{"", e.what()}}, op, where), op, where);
    throw;
  }
  wait_for_file(report, false, op, where);
}

}  // namespace rill
