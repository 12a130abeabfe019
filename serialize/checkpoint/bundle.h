// A bundle: named tensors in files as TensorFlow's checkpoints have them. PREFIX.index is a table (table.h) of entries
// that say where in PREFIX.data-00000-of-00001 (or of several such shards) a tensor's bytes lie.
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
  // Reads the index. Throws rill::Error, under the name of `op`, where it is missing or damaged, or its entries do not
  // lie apart from each other within their files.
  BundleReader(std::string prefix, std::string_view op, const Where& where);

  BundleReader(const BundleReader&) = delete;

  // The tensors, in the order of their names; parts of one are left out.
  std::vector<std::string> names() const;
  bool contains(const std::string& name) const { return entries_.contains(name); }
  // Dtype and shape. Throws where the dtype is none of rill's.
  Spec spec(const std::string& name) const;
  // Whether the dtype is one of rill's.
  bool is_known(const std::string& name) const;
  // On the CPU, its checksum checked.
  Tensor read(const std::string& name) const;
  int shards() const { return header_.num_shards(); }

 private:
  using Entry = proto::BundleEntryProto;
  struct Part {
    std::string key;
    Dims start, size;
  };
  [[noreturn]] void reject(const std::string& name, const std::string& what) const;
  void check_places() const;
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

// Writes tensors, on any device, spread over `shards` files. What stood at the prefix stays whole until the new bundle
// is: a process that is killed at any moment leaves either. Throws rill::Error, under the name of `op`, and leaves what
// was there, where it cannot be written.
void write_bundle(const std::string& prefix, const std::map<std::string, Tensor>& tensors, int shards,
                  std::string_view op, const Where& where);

// As the options say: by several processes, each writes a data file and process 0 the index, when all data files are there.
// Returns when the bundle is whole. Each throws what it could not write; process 0 also what others could not.
void write_bundle(const std::string& prefix, const std::map<std::string, Tensor>& tensors,
                  const SaveCheckpointOptions& options, std::string_view op, const Where& where);

// Whether a tensor of this shape lies in the whole.
bool lies_in(const Shape& shape, const CheckpointSlice& slice);

// The key of a part of a tensor, by an encoding that sorts as its numbers do (TensorFlow's OrderedCode).
std::string slice_key(const std::string& name, const proto::TensorSliceProto& slice);

// The dtype that TensorFlow gives that number; false where rill has none such.
bool from_proto(proto::DataType number, DType& dtype);

}  // namespace rill

#pragma GCC visibility pop
