// Resizing along one axis, as ONNX's and TensorFlow's importers compute it: each element of the result is a weighted
// sum of a few of the source. Memory is in proportion to the result, and it is differentiable whatever the weights are.
#pragma once
#include <cstdint>
#include <vector>

#include "rill/tensor/tensor.h"

namespace rill::imported {

// Which `count` elements of the source make each element of the result, and what each counts.
struct Taps {
  int64_t count = 0;
  std::vector<int64_t> places = {};
  std::vector<double> weights = {};
  void add(int64_t index, double weight) { places.push_back(index), weights.push_back(weight); }
};
// The sums along `axis`, in a floating dtype: x's own, f32 for halves, f64 for integers.
Tensor weighted(const Tensor& x, int64_t axis, const Taps& taps);

// The same, where the sizes may be open: places and weights as tensors [result, count].
struct TapTensors {
  int64_t count = 0;
  Tensor places = {}, weights = {};
};
Tensor weighted(const Tensor& x, int64_t axis, const TapTensors& taps);
Tensor linear_weights(const Tensor& distances);
Tensor cubic_weights(const Tensor& distances, double a);

double linear_weight(double distance);
double cubic_weight(double distance, double a);  // Keys, 1981

}  // namespace rill::imported
