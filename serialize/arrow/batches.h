// Arrow files and streams, one record batch after the other. Files are mapped; pipes, the standard input ("-") and what is
// packed by gzip or zstd are read message by message. In builds with the arrow feature only.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rill/serialize/arrow.h"

#pragma GCC visibility push(default)

namespace rill::arrow {

class Batches {
 public:
  // `op` outlives this.
  Batches(const std::string& path, ArrowOptions options, std::string_view op, const Where& where);
  // A stream that is in memory, and stays there; `path` names it.
  Batches(std::string_view stream, const std::string& path, ArrowOptions options, std::string_view op,
          const Where& where);
  ~Batches();
  Batches(const Batches&) = delete;
  // How many rows the next batch has; nothing at the end. What is in it is not looked at.
  std::optional<int64_t> rows();
  // Goes past it.
  void pass();
  // Its columns. A batch that is damaged is passed.
  Table next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rill::arrow

#pragma GCC visibility pop
