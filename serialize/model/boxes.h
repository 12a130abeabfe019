// Boxes around things in pictures, of which detectors find too many: what NonMaxSuppression is in ONNX and TensorFlow.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace rill::imported {

struct Box {
  double y1, x1, y2, x2;
  double area() const { return (y2 - y1) * (x2 - x1); }
};
// From two opposite corners (y, x, y, x).
inline Box box_of(const double* v) {
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}
// What both cover, of what either covers.
inline double overlap(const Box& a, const Box& b) {
  const double h = std::min(a.y2, b.y2) - std::max(a.y1, b.y1), w = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (h <= 0 || w <= 0) return 0;
  return h * w / (a.area() + b.area() - h * w);
}

// Up to `most` of those with a score above `least`, the best first, each of which overlaps none before it by more than
// `limit`.
inline std::vector<int64_t> best_boxes(int64_t n, const std::function<double(int64_t, int64_t)>& overlap_of,
                                       const double* score, int64_t most, double limit, double least) {
  std::vector<int64_t> order, kept;
  for (int64_t j = 0; j < n; ++j)
    if (score[j] > least) order.push_back(j);
  std::ranges::stable_sort(order, [&](int64_t p, int64_t q) { return score[p] > score[q]; });
  for (int64_t j : order) {
    if (int64_t(kept.size()) >= most) break;
    if (std::ranges::none_of(kept, [&](int64_t k) { return overlap_of(k, j) > limit; })) kept.push_back(j);
  }
  return kept;
}

}  // namespace rill::imported
