// Summaries in the form of TensorFlow 2: every value is a tensor, and `plugin_name` says which dashboard shows it
// (the formats are those of tensorboard's plugins/*/summary_v2.py). Start at Writer::scalar.
#include "rill/summary.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "rill/ops/apply.h"
#include "rill/serialize/events.h"
#include "rill/serialize/messages.h"
#include "rill/serialize/png_image.h"
#include "rill/trace/graph/trace_observer.h"

namespace rill::summary {
namespace {

constexpr std::string_view op = "summary::Writer";

proto::Event value_event(const std::string& tag, int64_t step, const char* plugin, proto::DataClass data_class,
                         proto::TensorProto tensor) {
  proto::Event event = event_now(step);
  proto::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name(plugin);
  value.mutable_metadata()->set_data_class(data_class);
  *value.mutable_tensor() = std::move(tensor);
  return event;
}

void check_real(const char* what, const Tensor& t, const Where& where) {
  if (!t.is_symbolic() && (is_floating(t.dtype()) || is_integer(t.dtype()) || is_bool(t.dtype()))) return;
  fail(op,
       std::string(what) +
           (t.is_symbolic() ? " cannot be written while a function is traced; return the value and "
                              "write it outside. operand: "
                            : " takes a real dtype. operand: ") +
           to_string(t.spec()),
       where);
}

// [buckets,3]: left edge, right edge, count. All zeros without values; all in the last bucket where they are equal.
proto::TensorProto histogram_tensor(const std::vector<double>& all, int buckets) {
  std::vector<double> values;
  for (double v : all)
    if (std::isfinite(v)) values.push_back(v);
  double low = 0, high = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    low = i ? std::min(low, values[i]) : values[i];
    high = i ? std::max(high, values[i]) : values[i];
  }
  // Scaled before they are subtracted: the range of finite values may be infinite.
  double width = high / buckets - low / buckets;
  std::vector<double> counts(size_t(buckets), 0.0);
  for (double v : values) {
    double place = width > 0 ? std::floor((v / buckets - low / buckets) / width * buckets) : buckets - 1;
    counts[size_t(std::clamp(place, 0.0, buckets - 1.0))] += 1;
  }
  proto::TensorProto p;
  p.set_dtype(proto::DT_DOUBLE);
  *p.mutable_tensor_shape() = to_proto(Shape{buckets, 3});
  for (int i = 0; i < buckets; ++i) {
    p.add_double_val(low + i * width);
    p.add_double_val(i + 1 == buckets ? high : low + (i + 1) * width);
    p.add_double_val(counts[size_t(i)]);
  }
  return p;
}

// What a pixel is as a byte.
std::vector<uint8_t> bytes_of_pixels(const Tensor& images) {
  if (!is_floating(images.dtype())) return images.to_vector<uint8_t>();
  std::vector<uint8_t> bytes;
  for (float v : images.to_vector<float>()) bytes.push_back(uint8_t(std::lround(v > 0 ? std::min(v, 1.f) * 255 : 0)));
  return bytes;
}

// "width", "height", then one PNG an image, as strings.
proto::TensorProto image_tensor(const Tensor& images, int max_images) {
  int64_t n = images.dim(0), h = images.dim(1), w = images.dim(2), c = images.dim(3);
  int64_t shown = std::min<int64_t>(n, max_images);
  std::vector<uint8_t> pixels = bytes_of_pixels(images);
  proto::TensorProto p;
  p.set_dtype(proto::DT_STRING);
  *p.mutable_tensor_shape() = to_proto(Shape{2 + shown});
  p.add_string_val(std::to_string(w));
  p.add_string_val(std::to_string(h));
  for (int64_t i = 0; i < shown; ++i)
    p.add_string_val(encode_png(std::span(pixels).subspan(size_t(i * h * w * c), size_t(h * w * c)), h, w, int(c)));
  return p;
}

// --- What was traced -------------------------------------------------------------------------------------------------

struct Recording {
  std::mutex mutex;
  int observer = 0;  // 0: not recording
  std::vector<Graph> graphs;
};

Recording& recording() {
  static Recording* one = new Recording;  // never destroyed: a thread may still trace while the process ends
  return *one;
}

// Stops recording and returns the graphs.
std::vector<Graph> take_traces(const Where& where) {
  constexpr std::string_view who = "summary::trace_export";
  Recording& r = recording();
  std::lock_guard lock(r.mutex);
  if (!r.observer) fail(who, "nothing is being recorded. call summary::trace_on() before the functions", where);
  if (r.graphs.empty())
    fail(who,
         "no function was traced since summary::trace_on(). a function is traced at its first call with new dtypes "
         "or shapes; call trace_on() before that",
         where);
  remove_trace_observer(std::exchange(r.observer, 0));
  return std::exchange(r.graphs, {});
}

// As tf.summary.trace_export does: a RunMetadata in a string tensor, for a plugin of its own.
proto::Event traces_event(const std::vector<Graph>& traced, const std::string& name, int64_t step) {
  EagerScope eager;
  proto::RunMetadata run;
  for (const Graph& g : traced) {
    proto::RunMetadata::FunctionGraphs& graphs = *run.add_function_graphs();
    *graphs.mutable_pre_optimization_graph() = to_proto(g);
    *graphs.add_partition_graphs() = graphs.pre_optimization_graph();
  }
  proto::TensorProto p;
  p.set_dtype(proto::DT_STRING);
  p.mutable_tensor_shape();
  p.add_string_val(bytes_of(run));
  proto::Event event =
      value_event(name, step, "graph_run_metadata_graph", proto::DATA_CLASS_BLOB_SEQUENCE, std::move(p));
  event.mutable_summary()->mutable_value(0)->mutable_metadata()->mutable_plugin_data()->set_content(
      "1");  // its version
  return event;
}

}  // namespace

// --- Writer ----------------------------------------------------------------------------------------------------------

struct Writer::Impl {
  Impl(const std::string& folder, const Where& where) : file(folder, op, where) {}
  void append(const proto::Event& event, const Where& where) {
    std::string bytes = bytes_of(event);
    std::lock_guard lock(mutex);
    file.append(bytes, where);
  }
  std::mutex mutex;
  EventFile file;
};

Writer::Writer(const std::string& folder, Where where) : impl_(std::make_unique<Impl>(folder, where)) {}
Writer::~Writer() = default;
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;

void Writer::scalar(const std::string& tag, const Tensor& value, int64_t step, Where where) {
  CallerScope caller(where);
  check_real("scalar", value, where);
  if (value.size() != 1)
    fail(op, "scalar takes one element. operand: " + to_string(value.spec()) + ". reduce it first, e.g. with mean()",
         where);
  proto::TensorProto p;
  p.set_dtype(proto::DT_FLOAT);
  p.mutable_tensor_shape();  // present and without sizes: a scalar
  p.add_float_val(value.item<float>());
  impl_->append(value_event(tag, step, "scalars", proto::DATA_CLASS_SCALAR, std::move(p)), where);
}

void Writer::histogram(const std::string& tag, const Tensor& values, int64_t step, int buckets, Where where) {
  CallerScope caller(where);
  check_real("histogram", values, where);
  if (buckets < 1) fail(op, "histogram needs at least one bucket, not " + std::to_string(buckets), where);
  proto::TensorProto p = histogram_tensor(values.to_vector<double>(), buckets);
  impl_->append(value_event(tag, step, "histograms", proto::DATA_CLASS_TENSOR, std::move(p)), where);
}

void Writer::image(const std::string& tag, const Tensor& images, int64_t step, ImageOptions options, Where where) {
  CallerScope caller(where);
  check_real("image", images, where);
  Tensor batch = images.ndim() == 3 ? images.reshape({1, images.dim(0), images.dim(1), images.dim(2)}) : images;
  bool good = batch.ndim() == 4 && batch.dim(1) > 0 && batch.dim(2) > 0 && batch.dim(3) >= 1 && batch.dim(3) <= 4;
  if (!good || !(is_floating(batch.dtype()) || batch.dtype() == DType::u8))
    fail(op,
         "image takes u8 or floating [n,h,w,c] or [h,w,c] with 1 to 4 channels. operand: " + to_string(images.spec()),
         where);
  proto::TensorProto p = image_tensor(batch, std::max(options.max_images, 0));
  impl_->append(value_event(tag, step, "images", proto::DATA_CLASS_BLOB_SEQUENCE, std::move(p)), where);
}

void Writer::text(const std::string& tag, const std::string& markdown, int64_t step, Where where) {
  CallerScope caller(where);
  proto::TensorProto p;
  p.set_dtype(proto::DT_STRING);
  p.mutable_tensor_shape();
  p.add_string_val(markdown);
  impl_->append(value_event(tag, step, "text", proto::DATA_CLASS_TENSOR, std::move(p)), where);
}

void Writer::graph(const Graph& g, Where where) {
  CallerScope caller(where);
  EagerScope eager;
  proto::Event event = event_now(0);
  event.set_graph_def(bytes_of(to_proto(g)));
  impl_->append(event, where);
}

void Writer::traces(const std::string& name, int64_t step, Where where) {
  CallerScope caller(where);
  impl_->append(traces_event(take_traces(where), name, step), where);
}

void Writer::flush(Where where) {
  std::lock_guard lock(impl_->mutex);
  impl_->file.flush(where);
}

const std::string& Writer::path() const { return impl_->file.path(); }

// --- trace_on, trace_off, trace_export -------------------------------------------------------------------------------

void trace_on() {
  Recording& r = recording();
  std::lock_guard lock(r.mutex);
  r.graphs.clear();
  if (r.observer) return;
  r.observer = add_trace_observer([&r](const Graph& g) {
    std::lock_guard inner(r.mutex);
    if (r.observer) r.graphs.push_back(g);
  });
}

void trace_off() {
  Recording& r = recording();
  std::lock_guard lock(r.mutex);
  if (r.observer) remove_trace_observer(std::exchange(r.observer, 0));
  r.graphs.clear();
}

void trace_export(const std::string& folder, const std::string& name, int64_t step, Where where) {
  CallerScope caller(where);
  std::vector<Graph> graphs = take_traces(where);  // before the file is made: it throws where there is nothing to write
  Writer log(folder, where);
  log.impl_->append(traces_event(graphs, name, step), where);
}

}  // namespace rill::summary
