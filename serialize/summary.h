// Summaries: numbers, pictures and graphs of a running program, for TensorBoard (`tensorboard --logdir logs`).
//
//   summary::Writer log("logs/run");
//   log.scalar("loss", loss, step);
#pragma once
#include "rill/tensor/compiler.h"

#include <memory>
#include <string>

#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill::summary {

struct ImageOptions {
  int max_images = 3;  // of a batch, the first ones
};

// Writes one event file into a folder. Every call appends a whole event at once, so that a viewer sees it while the
// program runs and a program that is killed loses nothing. Any thread may call; a tag ("train/loss") names a series.
// All throw rill::Error where the disk refuses, and on symbolic tensors: nothing is written while a function is traced.
class Writer {
 public:
  // Makes the folder where it is missing and a new event file in it.
  explicit Writer(const std::string& folder, Where where = Where::current());
  ~Writer();
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;

  // One number, kept as f32. `value` has one element of any real dtype.
  void scalar(const std::string& tag, const Tensor& value, int64_t step, Where where = Where::current());
  // How the elements of `values` (any shape, any real dtype) are distributed: `buckets` of equal width from the
  // smallest to the largest; NaN and infinities are left out.
  void histogram(const std::string& tag, const Tensor& values, int64_t step, int buckets = 30,
                 Where where = Where::current());
  // Images [n,h,w,c] or [h,w,c], c = 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA. u8 is taken as it is; floats from 0 to 1
  // are scaled to 0..255, and clipped.
  void image(const std::string& tag, const Tensor& images, int64_t step, ImageOptions options = {},
             Where where = Where::current());
  // Markdown.
  void text(const std::string& tag, const std::string& markdown, int64_t step, Where where = Where::current());
  // The run's graph; the last one written is shown.
  void graph(const Graph& g, Where where = Where::current());
  // What was traced since trace_on(), as trace_export below, into this file.
  void traces(const std::string& name, int64_t step, Where where = Where::current());

  // Returns when everything has reached the disk, so that it outlives the machine too.
  void flush(Where where = Where::current());
  // The event file.
  const std::string& path() const;

 private:
  friend void trace_export(const std::string& folder, const std::string& name, int64_t step, Where where);
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
