// The elements of features as they are gathered from many Examples, and turned into a tensor at the end.
#pragma once
#include <string>
#include <vector>

#include "example.pb.h"
#include "rill/serialize/examples.h"

namespace rill {

class FeatureElements {
 public:
  explicit FeatureElements(DType dtype) : dtype_(dtype) {}

  // The elements of a feature. False where they are of another dtype.
  bool append(const proto::Feature& feature);
  // `n` times an element, or a whole tensor of n elements; 0 or "" where it is undefined.
  void fill(const Tensor& with, int64_t n, const Where& where);
  // Those of `other` from `begin` to `end`.
  void append(const FeatureElements& other, size_t begin, size_t end);
  size_t size() const;
  Tensor tensor(const Shape& shape, const Where& where) const;

 private:
  DType dtype_;
  std::vector<float> floats_;
  std::vector<int64_t> wholes_;
  std::vector<std::string> texts_;
};

// How many bytes the elements of `t` take in a feature at least; of texts, nothing is known before they are copied.
uint64_t least_bytes(const Tensor& t);
// How many elements a feature has.
int64_t count_of(const proto::Feature& feature);
// "f32", or "nothing".
std::string kind_of(const proto::Feature& feature);
// The elements of a tensor of any dtype that a feature can hold.
proto::Feature to_feature(const std::string& name, const Tensor& t, std::string_view op, const Where& where);

}  // namespace rill
