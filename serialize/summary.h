// Summaries: numbers, pictures, sounds and graphs of a running program, for TensorBoard (`tensorboard --logdir logs`).
//
//   summary::Writer log("logs/run");
//   log.scalar("loss", loss, step);
#pragma once
#include "rill/tensor/compiler.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {
struct Profile;
}

namespace rill::summary {

struct WriterOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // Whether calls return before the event is in the file: a thread of the writer's own turns tensors into events and
  // writes them, which a large image or histogram is worth. What it has not written when the process is killed is lost,
  // but for what flush() returned after; when the process ends by itself nothing is.
  bool asynchronous = false;
  double flush_seconds = 120;  // how often that thread lets the disk have all, as flush() does
  int64_t queue = 1000;        // events that may wait for it; then a call waits too
};

// Which numbers of a floating image are black and white.
enum class ImageScale {
  unit,     // 0 and 1; others are clipped. TensorFlow's summaries of today
  largest,  // each image by its own: 0 and the largest; where some are negative, 0 is grey. Those of TensorFlow 1
};

struct ImageOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int max_images = 3;  // of a batch, the first ones
  ImageScale scale = ImageScale::unit;
};

struct AudioOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int max_clips = 3;  // of a batch, the first ones
};

struct PrCurveOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int thresholds = 201;  // from 0 to 1
  Tensor weights = {};   // of each label; undefined: 1
};

struct EmbeddingOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // What is known of each row, as columns: a name, and a text for each row.
  std::vector<std::pair<std::string, std::vector<std::string>>> metadata = {};
  Tensor sprites = {};  // a picture for each row, [n,h,w,c] as of image()
};

// A hyperparameter's value: a number, a bool or a text.
class HParamValue {
 public:
  HParamValue(bool value) : value_(value) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  HParamValue(T value) : value_(double(value)) {}
  HParamValue(const char* value) : value_(std::string(value)) {}
  HParamValue(std::string value) : value_(std::move(value)) {}
  // What was given, numbers as double.
  const std::variant<bool, double, std::string>& get() const& { return value_; }
  std::variant<bool, double, std::string> get() const&& { return value_; }

 private:
  std::variant<bool, double, std::string> value_;
};

// What is said of a hyperparameter of an experiment.
struct HParamInfo {
  std::string name;
  std::string description = "";
  std::vector<HParamValue> values = {};                              // those that it takes, of one kind
  std::optional<std::pair<double, double>> interval = std::nullopt;  // or the numbers between these
};

// A series of scalars that experiments are compared by.
struct MetricInfo {
  std::string tag;  // of scalar()
  std::string name = "";
};

// Writes one event file into a folder. Every call appends a whole event at once, so that a viewer sees it while the
// program runs and a program that is killed loses nothing; WriterOptions can leave that to a thread. Any thread may
// call; a tag ("train/loss") names a series. All throw rill::Error where the disk refuses, and on symbolic tensors:
// nothing is written while a function is traced.
class Writer {
 public:
  // Makes the folder where it is missing and a new event file in it.
  explicit Writer(const std::string& folder, Where where = Where::current());
  Writer(const std::string& folder, WriterOptions options, Where where = Where::current());
  ~Writer();
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;

  // One number, kept as f32. `value` has one element of any real dtype.
  void scalar(const std::string& tag, const Tensor& value, int64_t step, Where where = Where::current());
  // How the elements of `values` (any shape, any real dtype) are distributed: `buckets` of equal width from the
  // smallest to the largest; NaN and infinities are left out. TensorBoard's distributions show the same events.
  void histogram(const std::string& tag, const Tensor& values, int64_t step, int buckets = 30,
                 Where where = Where::current());
  // Images [n,h,w,c] or [h,w,c], c = 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA. u8 is taken as it is, other integers by
  // their range; floats as ImageOptions::scale says, 1 being 255.
  void image(const std::string& tag, const Tensor& images, int64_t step, ImageOptions options = {},
             Where where = Where::current());
  // Sound: clips [n,frames,channels], one [frames,channels] or [frames], from -1 to 1, as 16-bit WAV.
  void audio(const std::string& tag, const Tensor& clips, int64_t sample_rate, int64_t step, AudioOptions options = {},
             Where where = Where::current());
  // How precision and recall depend on the threshold: `labels` (bool, or numbers that are 0 or not) and `predictions`
  // from 0 to 1, of one shape.
  void pr_curve(const std::string& tag, const Tensor& labels, const Tensor& predictions, int64_t step,
                PrCurveOptions options = {}, Where where = Where::current());
  // Vectors [n,d] for the projector, as files in the writer's folder, which projector_config.pbtxt lists:
  // `name`/tensors.tsv, metadata.tsv and sprites.png. Again under the same name, they are replaced.
  void embedding(const std::string& name, const Tensor& vectors, EmbeddingOptions options = {},
                 Where where = Where::current());
  // The hyperparameters of this run. Runs of one `trial` are one row; "": each is its own.
  void hparams(const std::map<std::string, HParamValue>& values, const std::string& trial = "",
               Where where = Where::current());
  // How the run with these hyperparameters ended.
  void hparams_end(bool success = true, Where where = Where::current());
  // For the folder above the runs': which hyperparameters and metrics there are.
  void hparams_config(const std::vector<HParamInfo>& hparams, const std::vector<MetricInfo>& metrics,
                      Where where = Where::current());
  // Markdown.
  void text(const std::string& tag, const std::string& markdown, int64_t step, Where where = Where::current());
  // The run's graph; the last one written is shown.
  void graph(const Graph& g, Where where = Where::current());
  // The time and the memory of each node (TensorFlow's RunMetadata), under a name, and the graph that ran as the run's.
  void profile(const std::string& name, const Profile& p, int64_t step, Where where = Where::current());
  // What was traced since trace_on(), as trace_export below, into this file.
  void traces(const std::string& name, int64_t step, Where where = Where::current());

  // Returns when everything has reached the disk, so that it outlives the machine too.
  void flush(Where where = Where::current());
  // The event file.
  const std::string& path() const&;
  std::string path() const&& { return path(); }

 private:
  friend void trace_export(const std::string& folder, const std::string& name, int64_t step, Where where);
  void add_hparams(const std::string& tag, const std::string& content, const Where& where);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// From here on every graph that a function traces, on any thread, is kept for trace_export.
void trace_on();
// Stops keeping traces and drops those that were kept.
void trace_off();
// Writes what was traced since trace_on() as graph `name` into an event file in `folder`, and stops. A function that
// had its trace before is not traced again, so it is not there. Throws rill::Error where trace_on() was not called or
// where nothing was traced since.
void trace_export(const std::string& folder, const std::string& name, int64_t step, Where where = Where::current());

}  // namespace rill::summary

#pragma GCC visibility pop
