// The tensors of a .rill file: numbers in its .safetensors member, everything else in its JSON.
#pragma once
#include <nlohmann/json.hpp>

#include <string>
#include <unordered_map>
#include <vector>

#include "rill/serialize/save.h"
#include "rill/trace/graph/unique_names.h"

namespace rill::rill_file {

using json = nlohmann::ordered_json;

// Collects the tensors of a file that is written. Each is an object of the list "tensors":
//   "key"      its name among the numbers of weights.safetensors; none for strings
//   "spec"     "f32[2,3]"
//   "order"    where its axes do not lie in memory in their order: the numbers of the axes, the outermost first. The
//              numbers are stored in this order
//   "strings"  the elements, of a tensor of strings
// A c128 is stored as f64 with a last axis of size 2.
class TensorWriter {
 public:
  TensorWriter() { keys_.take("__metadata__"); }  // which .safetensors has for itself
  // Its index in the list; a tensor that was added before keeps its index. `name`: for people who look into the file.
  int add(const Tensor& t, const std::string& name);
  const json& list() const { return list_; }
  const NamedTensors& numbers() const { return numbers_; }

 private:
  json list_ = json::array();
  NamedTensors numbers_;
  UniqueNames keys_;
  std::unordered_map<uint64_t, int> known_;  // by tensor id
  std::vector<Tensor> keep_;                 // keeps their ids from being reused
};

// The device for data that a file has on `d`: that one, or the default device if this machine has no such GPU.
Device device_here(Device d);

// The tensors of a file that is read. Throws rill::Error if an entry is not valid.
class TensorReader {
 public:
  TensorReader(const json& list, NamedTensors numbers);
  const Tensor& at(const json& number) const;

 private:
  Tensor read(const json& entry, NamedTensors& numbers) const;
  std::vector<Tensor> all_;
};

}  // namespace rill::rill_file
