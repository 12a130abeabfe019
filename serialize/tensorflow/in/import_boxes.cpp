// Non-maximum suppression, on the host: the number of boxes depends on values.
#include <fmt/format.h>

#include <algorithm>

#include "rill/serialize/model/boxes.h"
#include "rill/serialize/tensorflow/in/interpreter.h"

namespace rill::tensorflow_in {
namespace {

using imported::Box;

std::vector<Box> boxes_of(const Call& c, const Tensor& t) {
  if (t.ndim() != 2 || int64_t(t.dim(1)) != 4) c.reject("boxes should be [n, 4]");
  const std::vector<double> v = t.to_vector<double>();
  std::vector<Box> all;
  for (size_t i = 0; i + 3 < v.size(); i += 4) all.push_back(imported::box_of(&v[i]));
  return all;
}
std::vector<int64_t> picked(const Call& c, const Tensor& boxes, const Tensor& scores, int64_t most, double limit,
                            double least) {
  const std::vector<Box> all = boxes_of(c, boxes);
  if (scores.ndim() != 1 || size_t(int64_t(scores.dim(0))) != all.size()) c.reject("there is not a score for each box");
  const auto both = [&](int64_t p, int64_t q) { return imported::overlap(all[size_t(p)], all[size_t(q)]); };
  const std::vector<double> s = scores.to_vector<double>();
  return imported::best_boxes(int64_t(all.size()), both, s.data(), most, limit, least);
}

// Boxes, scores, the number, and in some versions the allowed overlap and the least score. Returns the indices, the
// scores (V5), and their number (V4, V5).
Values suppression_rule(const Call& c) {
  const std::string& op = c.node.op();
  const bool first = op == "NonMaxSuppression", pads = c.flag("pad_to_max_output_size");
  if (c.has(5) && c.number(5) != 0) c.reject("soft suppression (soft_nms_sigma) is not understood");
  const int64_t most = c.dim(2);
  if (most < 0 || (pads && most > 1 << 26)) c.reject("an impossible number of boxes");
  const double limit = first ? c.real("iou_threshold", 0.5) : c.number(3);
  const Tensor scores = c.known(1);
  std::vector<int64_t> all = picked(c, c.known(0), scores, most, limit, c.has(4) ? c.number(4) : -INFINITY);
  const auto count = int64_t(all.size());
  if (pads) all.resize(size_t(most), 0);
  const Tensor at = tensor(all, Shape{int64_t(all.size())}), valid = tensor(count).astype(i32);
  if (op == "NonMaxSuppressionV4") return {at.astype(i32), valid};
  if (op != "NonMaxSuppressionV5") return {at.astype(i32)};
  const Tensor own = where(iota({int64_t(all.size())}) < count, take(scores, at, 0), 0);
  return {at.astype(i32), own, valid};
}

// For each image and each class, then the best of all classes.
Values combined_rule(const Call& c) {
  const Tensor boxes = c.known(0), scores = c.known(1);
  if (boxes.ndim() != 4 || scores.ndim() != 3 || int64_t(boxes.dim(3)) != 4 || boxes.dim(0) != scores.dim(0) ||
      boxes.dim(1) != scores.dim(1) || (boxes.dim(2) != 1 && boxes.dim(2) != scores.dim(2)))
    c.reject("takes boxes [batch, n, classes or 1, 4] and scores [batch, n, classes]");
  const int64_t each = c.dim(2), total = c.dim(3), classes = scores.dim(2), shared = boxes.dim(2), batch = boxes.dim(0);
  if (each < 0 || total < 0 || each > 1 << 20 || total > 1 << 20) c.reject("an impossible number of boxes");
  const int64_t most = c.flag("pad_per_class") ? std::min(total, each * classes) : total;
  const double limit = c.number(4), least = c.number(5);
  struct Found {
    double score;
    int64_t box, kind;
  };
  std::vector<double> out_boxes, out_scores, out_classes;
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < batch; ++i) {
    std::vector<Found> found;
    for (int64_t k = 0; k < classes; ++k) {
      const Tensor s = scores(i, all, k);
      const std::vector<double> v = s.to_vector<double>();
      for (int64_t j : picked(c, boxes(i, all, shared == 1 ? 0 : k), s, each, limit, least))
        found.push_back({v[size_t(j)], j, k});
    }
    std::ranges::stable_sort(found, [](const Found& a, const Found& b) { return a.score > b.score; });
    if (int64_t(found.size()) > most) found.resize(size_t(most));
    counts.push_back(int64_t(found.size()));
    for (const Found& f : found) {
      for (double v : boxes(i, f.box, shared == 1 ? 0 : f.kind).to_vector<double>())
        out_boxes.push_back(c.flag("clip_boxes", true) ? std::clamp(v, 0.0, 1.0) : v);
      out_scores.push_back(f.score), out_classes.push_back(double(f.kind));
    }
    const auto upto = size_t((i + 1) * most);
    out_boxes.resize(4 * upto), out_scores.resize(upto), out_classes.resize(upto);
  }
  const auto floats = [](const std::vector<double>& v, const Shape& s) { return tensor(v, s).astype(f32); };
  return {floats(out_boxes, {batch, most, 4}), floats(out_scores, {batch, most}), floats(out_classes, {batch, most}),
          tensor(counts, Shape{batch}).astype(i32)};
}

}  // namespace

const RuleTable& box_rules() {
  static const RuleTable table = {
      {"NonMaxSuppression", suppression_rule},   {"NonMaxSuppressionV2", suppression_rule},
      {"NonMaxSuppressionV3", suppression_rule}, {"NonMaxSuppressionV4", suppression_rule},
      {"NonMaxSuppressionV5", suppression_rule}, {"CombinedNonMaxSuppression", combined_rule},
  };
  return table;
}

}  // namespace rill::tensorflow_in
