// The cache key of a call of a function, and a description of how two keys differ.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "rill/ops/tree.h"

namespace rill {

struct ArgSpec;

// The tensors' specs, the structure around them, the C++ values, and where new tensors go.
struct FunctionKey {
  std::vector<Tensor> leaves;                          // this call's tensors; their specs are the key
  std::string constants;                               // C++ values and container sizes, as bytes
  std::vector<std::pair<size_t, size_t>> constant_at;  // where each value lies in `constants`
  Device device;

  // Whether the keys are equal, ignoring the tensors' sizes.
  bool matches_but_sizes(const FunctionKey& o) const;
  bool matches(const FunctionKey& o) const;
};

// Collects the key of a call, by walk(). Tensors are moved out of the arguments, so that the key is the only owner of
// those that the caller moved in. PutBack moves them back where that is needed.
class ReadKey final : public LeafVisitor {
 public:
  explicit ReadKey(FunctionKey& key) : key_(key) {}
  void tensor(Tensor& t) override { key_.leaves.push_back(std::move(t)); }
  void constant(const void* bytes, size_t n) override;
  void structure(size_t n) override;

 private:
  FunctionKey& key_;
};

// Moves the tensors of a key back into the arguments.
class PutBack final : public LeafVisitor {
 public:
  explicit PutBack(const std::vector<Tensor>& from) : from_(from) {}
  void tensor(Tensor& t) override { t = from_[next_++]; }
  void constant(const void*, size_t) override {}

 private:
  const std::vector<Tensor>& from_;
  size_t next_ = 0;
};

// "(f32[2,3], i32[])".
std::string print_specs(const std::vector<Tensor>& leaves);
// The first difference between two keys: "tensor argument 0 (x) was f32[2,3] and is f32[4,3]". `signature`, which may
// be empty, names the arguments.
std::string difference(const FunctionKey& now, const FunctionKey& before, const std::vector<ArgSpec>& signature);

}  // namespace rill
