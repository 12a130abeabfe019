// For the tests of .rill files: tensors to give, calls of what was read, and whether two tensors hold the same bits.
#pragma once
#include <cstring>
#include <map>
#include <vector>

#include "rill/rill.h"
#include "rill/serialize.h"

namespace rill_files {

using namespace rill;

inline Tensor data(const Shape& shape, uint64_t seed = 1) { return random::normal(shape, {.key = random::Key(seed)}); }

inline bool equal_bits(const Tensor& a, const Tensor& b) {
  if (!(a.dtype() == b.dtype() && a.shape() == b.shape() && a.device() == b.device())) return false;
  if (a.dtype() == rill::string) return a.to_vector<std::string>() == b.to_vector<std::string>();
  const Tensor x = a.contiguous(), y = b.contiguous();
  return x.size() == 0 || std::memcmp(x.rep()->data, y.rep()->data, size_t(x.size()) * size_of(x.dtype())) == 0;
}

using List = std::vector<Tensor>;

// Calls by position.
inline List call(const Model& m, const List& in) {
  std::map<std::string, Tensor> named;
  for (size_t k = 0; k < in.size(); ++k) named[m.inputs()[k].name] = in[k];
  const auto out = m(named);
  List results;
  for (const ValueInfo& v : m.outputs()) results.push_back(out.at(v.name));
  return results;
}

}  // namespace rill_files
