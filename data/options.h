// The options of a Dataset's transformations. Options are given by name: ds.map(f, {.threads = 4}).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rill/tensor/device.h"
#include "rill/tensor/shape.h"

#pragma GCC visibility push(default)

namespace rill::data {

struct MapOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  // How many elements are computed at once, on threads that all pipelines share. 0: as many as the machine has cores.
  int threads = 1;
  // With false, an element is given as soon as it is ready: a slow one holds up no others, and the order differs from
  // run to run.
  bool ordered = true;
  // The random draws of f follow from this, the epoch and the element's number: they are the same for any number of
  // threads and after restore(). Without one, each pass draws a seed from the process's generator (random::seed).
  std::optional<uint64_t> seed = {};
};

struct BatchOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  bool partial = true;  // whether the last batch may be smaller; otherwise the remaining elements are dropped
};

struct PaddedBatchOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  double value = 0;         // of the new elements. Strings are padded with ""
  int64_t multiple_of = 1;  // sizes are rounded up to it: fewer shapes, fewer traces
  Dims sizes = {};          // of the axes of a row; -1: that of the longest row. Empty: -1 for all
  bool partial = true;
};

struct ShuffleOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  // The same seed gives the same order in each pass, on every machine; repeat() gives each epoch an order of its own.
  // Without one, each pass draws a seed from the process's generator (random::seed).
  std::optional<uint64_t> seed = {};
  bool each_epoch = true;  // with false, all epochs of repeat() have one order
  // The memory of the buffer's elements, about; one is always held. Only for a shuffle() by a buffer, whose number of
  // elements is then optional.
  int64_t bytes = INT64_MAX;
};

struct BucketOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  std::vector<int64_t> bounds = {};   // ascending: bucket i holds lengths from bounds[i - 1] to below bounds[i]
  std::vector<int64_t> batches = {};  // the size of a batch for each bucket: one more than bounds, or one for all
  double value = 0;                   // as in PaddedBatchOptions
  int64_t multiple_of = 1;
  bool partial = true;
};

struct InterleaveOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  int64_t cycle = 4;  // how many datasets are open at once
  int64_t block = 1;  // how many elements one gives before the next one's turn
  int threads = 1;    // how many of them are read ahead at once
};

struct SampleOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  std::optional<uint64_t> seed = {};  // as in ShuffleOptions
  bool stop_at_first_end = false;     // otherwise continues with the remaining ones
};

struct PrefetchOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  int64_t depth = 0;                      // how many elements are kept ready. 0: as many as needed, 2 to 64
  int64_t most_bytes = int64_t(1) << 28;  // that they take, about; one is always read
  MaybeDevice device = {};                // where their tensors are put
};

struct CacheOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  int64_t most_bytes = INT64_MAX;  // more is an error, so that a cache does not fill the memory (or the disk) unseen
  // Keeps elements in a file instead of memory, which later programs read as well. If the pipeline before it changes,
  // remove the file.
  std::string file = {};
};

struct SnapshotOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  int64_t file_bytes = int64_t(1) << 28;  // about how much a file of the folder holds
};

struct WindowOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  int64_t shift = 0;    // from the first element of a window to that of the next. 0: the size of a window
  int64_t stride = 1;   // from one element of a window to the next
  bool partial = true;  // whether the last windows may be shorter; otherwise they are dropped
};

struct ShardOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  // Splits each element along its tensors' first axes instead of the sequence: for batches, each worker gets its rows.
  // So all have equally many steps, on parts of the same batches that a single worker would have.
  bool within_batch = false;
};

struct RejectionOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  std::vector<double> initial = {};   // how frequent the classes are in the input. Empty: counted on the way
  std::optional<uint64_t> seed = {};  // as in ShuffleOptions
};

struct PipelineOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  int threads = 0;                    // that one transformation may use at most. 0: no limit
  std::optional<uint64_t> seed = {};  // of all that draws before here and has no seed of its own
};

struct IgnoreErrorsOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  bool log = true;              // reports dropped elements on stderr, at most one line a second
  int64_t at_most = INT64_MAX;  // one more is an error
};

struct IteratorOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  uint64_t epoch = 0;  // shuffles with a seed order by it, as they do in repeat()
  // Collects statistics of the stages, for stats(): about ten nanoseconds for each element and stage.
  bool stats = false;
  bool spans = false;  // counts, and keeps when each was at work: a time line for export_profile(stats(), "look.json")
};

}  // namespace rill::data

#pragma GCC visibility pop
