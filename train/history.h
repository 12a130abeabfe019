// History: the numbers of a training run, epoch by epoch, as text, files and curves.
#pragma once
#include <iosfwd>
#include <string>
#include <vector>

#include "rill/tensor/error.h"
#include "rill/tensor/named_map.h"
#include "rill/tensor/shape.h"

#pragma GCC visibility push(default)

namespace rill::train {

// Numbers by name: "loss", "accuracy", "val_loss". at() throws, with the existing names, where there is none.
using Logs = NamedMap<double>;

// The time of a run, in seconds: waiting for batches, steps (including tracing), callbacks and progress, validation,
// saving for `resume`. The work of a GPU counts when the program waits for it.
struct RunTimes {
  double data = 0, step = 0, callbacks = 0, validation = 0, saving = 0;
  bool prefetches = false;  // whether the dataset has a prefetch()
  double total() const { return data + step + callbacks + validation + saving; }
};
// A line with the parts in percent, and, where one is large that need not be, what may help.
std::string to_string(const RunTimes& times);

// A row for each epoch: the loss and the metrics, those of validation as "val_...", and "seconds".
class History {
 public:
  // The rows, in order. front() and back() throw if there are none, history[epoch], counted from 0, or from -1 back, if
  // there is no such epoch.
  const std::vector<Logs>& rows() const& { return rows_; }
  std::vector<Logs> rows() const&& { return rows_; }
  const Logs& front(Where where = Where::current()) const;
  const Logs& back(Where where = Where::current()) const;
  const Logs& operator[](rill::detail::BracketIndex epoch) const;
  size_t size() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }
  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }
  // One number over the epochs; NaN where an epoch has it not. Throws, and lists the names, where none has it.
  std::vector<double> at(const std::string& name, Where where = Where::current()) const;
  // The names of the numbers, the loss first.
  std::vector<std::string> names() const;
  // Why training ended before its last epoch; empty where it did not.
  const std::string& stopped() const& { return stopped_; }
  std::string stopped() const&& { return stopped_; }
  // Of the run that returned this, without those that it has resumed.
  const RunTimes& times() const& { return times_; }
  RunTimes times() const&& { return times_; }

  // Curves, a picture for each number with its validation: SVG or, for a path that ends in .txt, characters.
  void plot(const std::string& path, Where where = Where::current()) const;
  // A table with a row an epoch: epoch, then the numbers; and a list of objects.
  void write_csv(const std::string& path, Where where = Where::current()) const;
  void write_json(const std::string& path, Where where = Where::current()) const;
  std::string csv() const;
  std::string json() const;
  // From json()'s text. Throws if it is invalid.
  static History from_json(const std::string& text, Where where = Where::current());

  // For who trains.
  void add(Logs row) { rows_.push_back(std::move(row)); }
  void set_stopped(std::string why) { stopped_ = std::move(why); }
  void set_times(const RunTimes& times) { times_ = times; }

 private:
  std::vector<Logs> rows_;
  std::string stopped_;
  RunTimes times_;
};

// A table, the curve of each number in a line of characters, and where the time went.
std::string to_string(const History& history);
std::ostream& operator<<(std::ostream& out, const History& history);

}  // namespace rill::train

#pragma GCC visibility pop
