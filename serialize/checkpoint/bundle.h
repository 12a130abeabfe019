// A bundle: named tensors in files as in TensorFlow's checkpoints. PREFIX.index is a table (table.h) of entries that
// say where in PREFIX.data-00000-of-00001 (or of several such shards) a tensor's bytes are.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bundle.pb.h"
#include "rill/serialize/checkpoint.h"
#include "rill/serialize/files.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

class BundleReader {
 public:
  // Reads the index. Throws rill::Error, under the name of `op`, if it is missing or damaged, or if its entries overlap
  // or exceed their files.
  BundleReader(std::string prefix, std::string_view op, const Where& where);

  BundleReader(const BundleReader&) = delete;

  // The tensors, in the order of their names, without parts of tensors.
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const { return entries_.contains(name); }
  // Dtype and shape. Throws if rill has no such dtype.
  Spec spec(const std::string& name) const;
  // Whether the dtype is one of rill's.
  bool is_known(const std::string& name) const;
  // On the CPU, with its checksum verified.
  Tensor read(const std::string& name) const;
  int shards() const { return header_.num_shards(); }

 private:
  using Entry = proto::BundleEntryProto;
  struct Part {
    std::string key;
    Dims start, size;
  };
  [[noreturn]] void reject(const std::string& name, const std::string& what) const;
  void check_ranges() const;
  const FileReader& shard(int i) const;
  Tensor read_whole(const std::string& name, const Entry& entry, const Spec& spec) const;
  Tensor read_strings(const std::string& name, const Entry& entry, const Spec& spec) const;
  Tensor read_slices(const std::string& name, const Entry& entry, const Spec& spec) const;
  Tensor join(const std::string& name, const Spec& s, const std::vector<Part>& parts,
              const std::vector<Tensor>& values) const;
  void check_sum(const std::string& name, const Entry& entry, std::string_view bytes) const;

  std::string prefix_, op_;
  Where where_;
  proto::BundleHeaderProto header_;
  std::map<std::string, Entry> entries_;
  mutable std::map<int, std::unique_ptr<FileReader>> files_;
};

// "PREFIX.data-00000-of-00002".
std::string shard_name(const std::string& prefix, int shard, int shards);
// Whether a file's name is that of some shard of the bundle `prefix`, which is a name without folders here.
bool is_shard_name(std::string_view name, std::string_view prefix);

// Writes tensors, on any device, distributed over `shards` files. The old bundle at the prefix stays intact until the
// new one is complete: a process that is killed at any moment leaves one of the two. Throws rill::Error, under the name
// of `op`, and leaves the old bundle, if it cannot be written.
void write_bundle(const std::string& prefix, const std::map<std::string, Tensor>& tensors, int shards,
                  std::string_view op, const Where& where);

// With options for several processes, each writes a data file and process 0 the index, once all data files exist.
// Returns when the bundle is complete. Each process throws its own failures; process 0 also those of the others.
void write_bundle(const std::string& prefix, const std::map<std::string, Tensor>& tensors,
                  const SaveCheckpointOptions& options, std::string_view op, const Where& where);

// Whether a slice of this shape is within the full tensor.
bool lies_in(const Shape& shape, const CheckpointSlice& slice);

// The key of a part of a tensor, by an encoding that sorts as its numbers do (TensorFlow's OrderedCode).
std::string slice_key(const std::string& name, const proto::TensorSliceProto& slice);

// The dtype of TensorFlow's number; false if rill has no such dtype.
bool from_proto(proto::DataType number, DType& dtype);

}  // namespace rill

#pragma GCC visibility pop
