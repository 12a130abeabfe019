// Writing a bundle; see bundle.h.
//
// Two files cannot be replaced at one moment, but the index alone decides what a bundle is: it says how many shards
// there are, and so what these are called. Shards of a bundle that replaces another are written under names of one
// shard more, and become part of it by the move of the index. Then they get their usual names, by links, and the index
// is moved again, to one that says so. At each moment the index and the shards that it names belong together.
//
// A prefix whose files are links, "best" to another checkpoint, becomes a checkpoint of its own: that other one is not
// ours to change.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

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

// As BundleReader::read_strings reads them; the checksum is of what they decode to.
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

class Writer {
 public:
  Writer(const std::string& prefix, int shards, std::string_view op, const Where& where)
      : prefix_(prefix), shards_(shards), op_(op), where_(where), sizes_(size_t(shards)) {
    replaces_ = shards_at(prefix) == shards;  // others have other names
    const int n = shards + (replaces_ ? 1 : 0);
    for (int i = 0; i < n; ++i)
      files_.push_back(std::make_unique<FileWriter>(shard_name(prefix, i, n), op, where, Links::replace));
  }

  void add(const std::string& name, const Tensor& t) {
    const size_t shard = size_t(std::min_element(sizes_.begin(), sizes_.end()) - sizes_.begin());
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

  void finish() {
    const std::string bytes = index(int(files_.size()));
    for (size_t i = 0; i < files_.size(); ++i) {
      files_[i]->commit();
      placed_.push_back(shard_name(prefix_, int(i), int(files_.size())));
    }
    write_file(prefix_ + ".index", bytes, op_, where_, Links::replace);
    placed_.clear();
    if (replaces_) rename_shards();
    remove_others();
  }

  // Shards that no index names are of no use, where that could not be written.
  ~Writer() {
    for (const std::string& path : placed_) unlink(path.c_str());
  }
  Writer(const Writer&) = delete;

 private:
  // How many shards the bundle that is there has; 0 where there is none, or nobody can tell.
  static int shards_at(const std::string& prefix) {
    try {
      return BundleReader(prefix, "save", Where()).shards();
    } catch (const Error&) {
      return 0;
    }
  }

  std::string index(int shards) const {
    proto::BundleHeaderProto header;
    header.set_num_shards(shards);
    header.mutable_version()->set_producer(1);
    TableEntries all{{"", bytes_of(header)}};
    all.insert(all.end(), entries_.begin(), entries_.end());
    return write_table(all, op_, where_);
  }

  // To what they are called in a bundle of shards_. Where the file system has no links, they stay what they are.
  void rename_shards() {
    for (int i = 0; i < shards_; ++i) {
      const std::string to = shard_name(prefix_, i, shards_);
      if (unlink(to.c_str()) != 0 && errno != ENOENT) return;
      if (link(shard_name(prefix_, i, shards_ + 1).c_str(), to.c_str()) != 0) return;
    }
    write_file(prefix_ + ".index", index(shards_), op_, where_, Links::replace);
    replaces_ = false;
  }

  // The shards of what was here before, and links that nothing names any more.
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
  int shards_;
  std::string op_;
  Where where_;
  bool replaces_ = false;
  std::vector<int64_t> sizes_;
  std::vector<std::string> placed_;
  std::vector<std::unique_ptr<FileWriter>> files_;
  TableEntries entries_;
};

}  // namespace

void write_bundle(const std::string& prefix, const std::map<std::string, Tensor>& tensors, int shards,
                  std::string_view op, const Where& where) {
  if (prefix.empty() || prefix.ends_with('/'))
    fail(op, "'" + prefix + "' is no name of a checkpoint: files are called that and .index, .data-00000-of-00001",
         where);
  if (shards < 1 || shards > 9999) fail(op, fmt::format("{} shards make no sense. give 1 to 9999", shards), where);
  write_table({}, op, where);  // throws in a build without leveldb, before anything is made
  const std::string folder = std::filesystem::path(prefix).parent_path().string();
  make_folders(folder, op, where);
  const FolderLock lock(folder);  // two that write one prefix would mix their shards
  Writer writer(prefix, shards, op, where);
  for (const auto& [name, t] : tensors) {
    if (name.empty() || name[0] == '\0') fail(op, "a tensor without a name cannot be saved", where);
    require_defined(op, t, "'" + name + "'", where);
    writer.add(name, t);
  }
  writer.finish();
}

}  // namespace rill
