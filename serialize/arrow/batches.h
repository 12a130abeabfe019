// Arrow files and streams, one record batch after the other. Files are mapped; pipes, the standard input ("-") and
// files compressed by gzip or zstd are read message by message. Only in builds with the arrow feature.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rill/serialize/arrow.h"

#pragma GCC visibility push(default)

namespace rill::arrow {

// The columns of a batch. Those that may miss values have their masks behind them, whether or not this batch misses any,
// where masks are asked for: so that all batches have the same columns.
struct Columns {
  Table table;
  std::vector<Tensor> splits;  // of each column of lists, whose values `table` has: i64[rows + 1]; else undefined
};

class Batches {
 public:
  // `op` outlives this.
  Batches(const std::string& path, ArrowOptions options, std::string_view op, const Where& where);
  // A stream in memory, which must outlive this; `path` names it.
  Batches(std::string_view stream, const std::string& path, ArrowOptions options, std::string_view op,
          const Where& where);
  ~Batches();
  Batches(const Batches&) = delete;
  // The number of rows of the next batch; nothing at the end. Its contents are not read.
  std::optional<int64_t> rows();
  // Skips it.
  void pass();
  // Its columns. A damaged batch is skipped.
  Columns next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rill::arrow

#pragma GCC visibility pop
