// Histograms, images, sounds and curves as TensorProtos; see value_tensors.h.
#include "rill/serialize/tensorboard/value_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "rill/ops/ops.h"
#include "rill/serialize/png_image.h"
#include "rill/serialize/tensorboard/pixels.h"
#include "rill/serialize/wav_audio.h"

namespace rill {

proto::TensorProto text_tensor(std::string text) {
  proto::TensorProto p;
  p.set_dtype(proto::DT_STRING);
  p.mutable_tensor_shape();  // present and without sizes: a scalar
  p.add_string_val(std::move(text));
  return p;
}

proto::TensorProto histogram_tensor(const Tensor& all, int buckets) {
  std::vector<double> values;
  for (double v : all.to_vector<double>())
    if (std::isfinite(v)) values.push_back(v);
  double low = 0, high = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    low = i ? std::min(low, values[i]) : values[i];
    high = i ? std::max(high, values[i]) : values[i];
  }
  // Scaled before they are subtracted: the range of finite values may be infinite.
  double width = high / buckets - low / buckets;
  const auto edge = [&](int i) {
    if (i == buckets) return high;
    const double e = low + i * width;  // which may overflow
    return std::isfinite(e) ? e : low * (1 - double(i) / buckets) + high * (double(i) / buckets);
  };
  std::vector<double> counts(size_t(buckets), 0.0);
  for (double v : values) {
    double bucket = width > 0 ? std::floor((v / buckets - low / buckets) / width * buckets) : buckets - 1;
    counts[size_t(std::clamp(bucket, 0.0, buckets - 1.0))] += 1;
  }
  proto::TensorProto p;
  p.set_dtype(proto::DT_DOUBLE);
  *p.mutable_tensor_shape() = to_proto(Shape{buckets, 3});
  for (int i = 0; i < buckets; ++i) {
    p.add_double_val(edge(i));
    p.add_double_val(edge(i + 1));
    p.add_double_val(counts[size_t(i)]);
  }
  return p;
}

proto::TensorProto image_tensor(const Tensor& images, const summary::ImageOptions& options) {
  int64_t n = images.dim(0), h = images.dim(1), w = images.dim(2), c = images.dim(3);
  const int64_t shown = std::clamp<int64_t>(options.max_images, 0, n);
  const std::vector<uint8_t> pixels = pixels_of(images(slice(0, shown)), options.scale);
  proto::TensorProto p;
  p.set_dtype(proto::DT_STRING);
  *p.mutable_tensor_shape() = to_proto(Shape{2 + shown});
  p.add_string_val(std::to_string(w));
  p.add_string_val(std::to_string(h));
  for (int64_t i = 0; i < shown; ++i)
    p.add_string_val(encode_png(std::span(pixels).subspan(size_t(i * h * w * c), size_t(h * w * c)), h, w, int(c)));
  return p;
}

proto::TensorProto audio_tensor(const Tensor& clips, int64_t sample_rate, int max_clips) {
  const int64_t n = clips.dim(0), each = int64_t(clips.dim(1)) * clips.dim(2);
  const int64_t heard = std::clamp<int64_t>(max_clips, 0, n);
  const std::vector<float> samples = clips(slice(0, heard)).to_vector<float>();
  proto::TensorProto p;
  p.set_dtype(proto::DT_STRING);
  *p.mutable_tensor_shape() = to_proto(Shape{heard, 2});
  for (int64_t i = 0; i < heard; ++i) {
    p.add_string_val(
        encode_wav(std::span(samples).subspan(size_t(i * each), size_t(each)), int(clips.dim(2)), sample_rate));
    p.add_string_val("");
  }
  return p;
}

// As tensorboard/plugins/pr_curve/summary.py: a prediction counts in the bucket floor(p * (thresholds - 1)), and as
// positive at all thresholds up to it.
proto::TensorProto pr_curve_tensor(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                                   int thresholds) {
  const std::vector<double> label = labels.to_vector<double>(), weight = weights.defined()
                                                                             ? weights.to_vector<double>()
                                                                             : std::vector<double>(label.size(), 1.0);
  const std::vector<float> prediction = predictions.to_vector<float>();
  const size_t n = size_t(thresholds);
  std::array<std::vector<double>, 6> rows;
  rows.fill(std::vector<double>(n));
  auto& [tp, fp, tn, fn, precision, recall] = rows;
  for (size_t i = 0; i < label.size(); ++i) {
    const size_t bucket = size_t(std::floor(prediction[i] * float(thresholds - 1)));
    (label[i] != 0 ? tp : fp)[std::min(bucket, n - 1)] += weight[i];
  }
  for (size_t i = n - 1; i-- > 0;) tp[i] += tp[i + 1], fp[i] += fp[i + 1];
  constexpr double least = 1e-7;
  for (size_t i = 0; i < n; ++i) {
    tn[i] = fp[0] - fp[i];
    fn[i] = tp[0] - tp[i];
    precision[i] = tp[i] / std::max(least, tp[i] + fp[i]);
    recall[i] = tp[i] / std::max(least, tp[i] + fn[i]);
  }
  proto::TensorProto p;
  p.set_dtype(proto::DT_FLOAT);
  *p.mutable_tensor_shape() = to_proto(Shape{6, thresholds});
  for (const auto& row : rows)
    for (double v : row) p.add_float_val(float(v));
  return p;
}

}  // namespace rill
