// Summaries in the form of TensorFlow 2: every value is a tensor, and `plugin_name` says which dashboard shows it
// (the formats are those of tensorboard's plugins/*/summary_v2.py). Start at Writer::scalar.
#include "rill/summary.h"

#include <algorithm>
#include <cmath>
#include <mutex>

#include "plugins.pb.h"
#include "rill/ops/apply.h"
#include "rill/ops/ops.h"
#include "rill/serialize/messages.h"
#include "rill/serialize/tensorboard/embeddings.h"
#include "rill/serialize/tensorboard/event_queue.h"
#include "rill/serialize/tensorboard/hparams.h"
#include "rill/serialize/tensorboard/run_metadata.h"
#include "rill/serialize/tensorboard/value_tensors.h"
#include "rill/serialize/utf8.h"
#include "rill/serialize/wav_audio.h"
#include "rill/tensor/fork_mutex.h"
#include "rill/tensor/moved_from.h"
#include "rill/trace/graph/trace_observer.h"

namespace rill::summary {
namespace {

// Fills an event of the moment of the call, which is made when the caller calls, with a value that is made later.
proto::Event value_event(proto::Event event, const std::string& tag, const char* plugin, proto::DataClass data_class,
                         proto::TensorProto tensor, std::string content = "") {
  if (!is_utf8(tag)) fail(writer_op, "the tag '" + tag + "' is no UTF-8, and no reader would read on behind it");
  proto::Summary::Value& value = *event.mutable_summary()->add_value();
  value.set_tag(tag);
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name(plugin);
  value.mutable_metadata()->mutable_plugin_data()->set_content(std::move(content));
  value.mutable_metadata()->set_data_class(data_class);
  *value.mutable_tensor() = std::move(tensor);
  return event;
}

void check_real(const char* what, const Tensor& t, const Where& where) {
  if (!t.is_symbolic() && (is_floating(t.dtype()) || is_integer(t.dtype()) || is_bool(t.dtype()))) return;
  fail(writer_op,
       std::string(what) +
           (t.is_symbolic() ? " cannot be written while a function is traced; return the value and "
                              "write it outside. operand: "
                            : " takes a real dtype. operand: ") +
           to_string(t.spec()),
       where);
}

// --- What was traced -------------------------------------------------------------------------------------------------

struct Recording {
  ForkMutex mutex;
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

// As tf.summary.trace_export does: a RunMetadata in a string tensor, for a plugin of its own, and no class, which
// TensorBoard gives to the list of one that it makes of it.
proto::Event traces_event(const std::vector<Graph>& traced, const std::string& name, int64_t step) {
  EagerScope eager;
  proto::RunMetadata run;
  for (const Graph& g : traced) {
    proto::RunMetadata::FunctionGraphs& graphs = *run.add_function_graphs();
    *graphs.mutable_pre_optimization_graph() = to_proto(g);
    *graphs.add_partition_graphs() = graphs.pre_optimization_graph();
  }
  return value_event(event_now(step), name, "graph_run_metadata_graph", proto::DATA_CLASS_UNKNOWN,
                     text_tensor(bytes_of(run)), "1");  // its version
}

// [n,h,w,c].
Tensor batch_of_images(const std::string& what, const Tensor& images, const Where& where) {
  check_real(what.c_str(), images, where);
  Tensor batch = images.ndim() == 3 ? images.reshape({1, images.dim(0), images.dim(1), images.dim(2)}) : images;
  const bool good = batch.ndim() == 4 && batch.dim(1) > 0 && batch.dim(2) > 0 && batch.dim(3) >= 1 && batch.dim(3) <= 4;
  if (!good || is_bool(batch.dtype()))
    fail(writer_op,
         what + " takes integer or floating [n,h,w,c] or [h,w,c] with 1 to 4 channels. operand: " +
             to_string(images.spec()),
         where);
  return batch;
}

}  // namespace

// --- Writer ----------------------------------------------------------------------------------------------------------

struct Writer::Impl {
  Impl(const std::string& to, const WriterOptions& options, const Where& where)
      : queue(to, options, writer_op, where), folder(to) {}
  void append(proto::Event event, const Where& where) {
    queue.add([event = std::move(event)]() mutable { return std::move(event); }, where);
  }
  EventQueue queue;
  std::string folder;
};

Writer::Writer(const std::string& folder, Where where) : Writer(folder, WriterOptions(), where) {}
Writer::Writer(const std::string& folder, WriterOptions options, Where where)
    : impl_(std::make_unique<Impl>(folder, options, where)) {}
Writer::~Writer() = default;
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;

void Writer::scalar(const std::string& tag, const Tensor& value, int64_t step, Where where) {
  CallerScope caller(where);
  check_real("scalar", value, where);
  if (value.size() != 1)
    fail(writer_op,
         "scalar takes one element. operand: " + to_string(value.spec()) + ". reduce it first, e.g. with mean()",
         where);
  proto::TensorProto p;
  p.set_dtype(proto::DT_FLOAT);
  p.mutable_tensor_shape();  // present and without sizes: a scalar
  p.add_float_val(value.item<float>());
  owned(impl_, writer_op, where)
      .append(value_event(event_now(step), tag, "scalars", proto::DATA_CLASS_SCALAR, std::move(p)), where);
}

void Writer::histogram(const std::string& tag, const Tensor& values, int64_t step, int buckets, Where where) {
  CallerScope caller(where);
  check_real("histogram", values, where);
  if (buckets < 1) fail(writer_op, "histogram needs at least one bucket, not " + std::to_string(buckets), where);
  owned(impl_, writer_op, where)
      .queue.add(
          [=, now = event_now(step)] {
            return value_event(now, tag, "histograms", proto::DATA_CLASS_TENSOR, histogram_tensor(values, buckets));
          },
          where);
}

void Writer::image(const std::string& tag, const Tensor& images, int64_t step, ImageOptions options, Where where) {
  CallerScope caller(where);
  const Tensor batch = batch_of_images("image", images, where);
  owned(impl_, writer_op, where)
      .queue.add(
          [=, now = event_now(step)] {
            return value_event(now, tag, "images", proto::DATA_CLASS_BLOB_SEQUENCE, image_tensor(batch, options));
          },
          where);
}

void Writer::audio(const std::string& tag, const Tensor& clips, int64_t sample_rate, int64_t step, AudioOptions options,
                   Where where) {
  CallerScope caller(where);
  check_real("audio", clips, where);
  Tensor batch = clips;
  if (clips.ndim() == 1) batch = clips.reshape({1, clips.dim(0), 1});
  if (clips.ndim() == 2) batch = clips.reshape({1, clips.dim(0), clips.dim(1)});
  if (batch.ndim() != 3 || !is_floating(batch.dtype()) || batch.dim(2) < 1)
    fail(writer_op,
         "audio takes floating [n,frames,channels], [frames,channels] or [frames]. operand: " + to_string(clips.spec()),
         where);
  encode_wav({}, int(std::min<int64_t>(batch.dim(2), INT32_MAX)), sample_rate);  // throws here, and not on a thread
  proto::AudioPluginData audio;
  audio.set_encoding(proto::AudioPluginData::WAV);
  owned(impl_, writer_op, where)
      .queue.add(
          [=, now = event_now(step), content = bytes_of(audio)] {
            // Without a class, as TensorFlow writes it: what reads it takes the labels away and then sets the class.
            return value_event(now, tag, "audio", proto::DATA_CLASS_UNKNOWN,
                               audio_tensor(batch, sample_rate, options.max_clips), content);
          },
          where);
}

void Writer::pr_curve(const std::string& tag, const Tensor& labels, const Tensor& predictions, int64_t step,
                      PrCurveOptions options, Where where) {
  CallerScope caller(where);
  check_real("pr_curve", labels, where);
  check_real("pr_curve", predictions, where);
  if (options.weights.defined()) check_real("pr_curve", options.weights, where);
  if (labels.shape() != predictions.shape() || (options.weights.defined() && options.weights.shape() != labels.shape()))
    fail(writer_op,
         "pr_curve takes labels, predictions and weights of one shape. operands: " + to_string(labels.spec()) + ", " +
             to_string(predictions.spec()),
         where);
  if (options.thresholds < 2)
    fail(writer_op, "pr_curve needs two thresholds or more, not " + std::to_string(options.thresholds), where);
  if (labels.size() > 0 && !(min(predictions).item<float>() >= 0 && max(predictions).item<float>() <= 1))
    fail(writer_op, "pr_curve takes predictions from 0 to 1. apply sigmoid() or softmax() first", where);
  if (!all((labels == 0) | (labels == 1)).item<bool>())
    fail(writer_op,
         "pr_curve takes labels that are 1 for a yes and 0 for a no. of more classes, write a curve for each: labels "
         "== k",
         where);
  proto::PrCurvePluginData curve;
  curve.set_num_thresholds(uint32_t(options.thresholds));
  owned(impl_, writer_op, where)
      .queue.add(
          [=, now = event_now(step), content = bytes_of(curve)] {
            return value_event(now, tag, "pr_curves", proto::DATA_CLASS_TENSOR,
                               pr_curve_tensor(labels, predictions, options.weights, options.thresholds), content);
          },
          where);
}

void Writer::embedding(const std::string& name, const Tensor& vectors, EmbeddingOptions options, Where where) {
  CallerScope caller(where);
  check_real("embedding", vectors, where);
  if (options.sprites.defined()) options.sprites = batch_of_images("embedding", options.sprites, where);
  write_embedding(owned(impl_, writer_op, where).folder, name, vectors, options, where);
}

void Writer::hparams(const std::map<std::string, HParamValue>& values, const std::string& trial, Where where) {
  CallerScope caller(where);
  add_hparams("_hparams_/session_start_info", start_content(values, trial), where);
}

void Writer::hparams_end(bool success, Where where) {
  CallerScope caller(where);
  add_hparams("_hparams_/session_end_info", end_content(success), where);
}

void Writer::hparams_config(const std::vector<HParamInfo>& hparams, const std::vector<MetricInfo>& metrics,
                            Where where) {
  CallerScope caller(where);
  add_hparams("_hparams_/experiment", experiment_content(hparams, metrics, where), where);
}

// Everything is in the metadata; the value is a tensor without elements.
void Writer::add_hparams(const std::string& tag, const std::string& content, const Where& where) {
  proto::TensorProto none;
  none.set_dtype(proto::DT_FLOAT);
  *none.mutable_tensor_shape() = to_proto(Shape{0});
  owned(impl_, writer_op, where)
      .append(value_event(event_now(0), tag, "hparams", proto::DATA_CLASS_TENSOR, std::move(none), content), where);
}

void Writer::text(const std::string& tag, const std::string& markdown, int64_t step, Where where) {
  CallerScope caller(where);
  owned(impl_, writer_op, where)
      .append(value_event(event_now(step), tag, "text", proto::DATA_CLASS_TENSOR, text_tensor(markdown)), where);
}

void Writer::graph(const Graph& g, Where where) {
  CallerScope caller(where);
  EagerScope eager;
  proto::Event event = event_now(0);
  event.set_graph_def(bytes_of(to_proto(g)));
  owned(impl_, writer_op, where).append(event, where);
}

void Writer::profile(const std::string& name, const Profile& p, int64_t step, Where where) {
  CallerScope caller(where);
  graph(p.graph, where);
  EagerScope eager;
  owned(impl_, writer_op, where).append(profile_event(name, p, step), where);
}

void Writer::traces(const std::string& name, int64_t step, Where where) {
  CallerScope caller(where);
  owned(impl_, writer_op, where).append(traces_event(take_traces(where), name, step), where);
}

void Writer::flush(Where where) { owned(impl_, writer_op, where).queue.flush(where); }

const std::string& Writer::path() const& { return owned(impl_, writer_op, Where()).queue.path(); }

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
