// What a summary's value holds for each dashboard, in the form of tensorboard's plugins/*/summary_v2.py. The operands
// are those that Writer has checked.
#pragma once
#include "rill/serialize/messages.h"
#include "rill/summary.h"

namespace rill {

proto::TensorProto text_tensor(std::string text);
// [buckets,3]: left edge, right edge, count. All zeros without values; all in the last bucket where they are equal.
proto::TensorProto histogram_tensor(const Tensor& values, int buckets);
// "width", "height", then one PNG an image. [n,h,w,c].
proto::TensorProto image_tensor(const Tensor& images, const summary::ImageOptions& options);
// [clips,2]: a WAV and a label, which is empty. [n,frames,channels].
proto::TensorProto audio_tensor(const Tensor& clips, int64_t sample_rate, int max_clips);
// [6,thresholds]: true positives, false positives, true negatives, false negatives, precision, recall. Operands of one
// dimension; `weights` may be undefined.
proto::TensorProto pr_curve_tensor(const Tensor& labels, const Tensor& predictions, const Tensor& weights,
                                   int thresholds);

}  // namespace rill
