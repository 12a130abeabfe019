// Errors that appear after the call that caused them has returned, such as those of kernels on a GPU: the caller's line
// is stored when the call is made, and reported with the error.
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "rill/tensor/error.h"

#pragma GCC visibility push(default)

namespace rill {

// While it lives, work that this thread starts is attributed to `where`, or to a node of a graph.
class StartedFrom {
 public:
  explicit StartedFrom(const Where& where) : where_(&where), outer_(std::exchange(now_, this)) {}
  explicit StartedFrom(const Origin& origin) : origin_(&origin), outer_(std::exchange(now_, this)) {}
  ~StartedFrom() { now_ = outer_; }
  StartedFrom(const StartedFrom&) = delete;

  // How an error of `op`, started by this thread now, would begin: "file.cpp:12: [Embedding] in [op] "; without a line
  // if none is known.
  static std::string beginning(std::string_view op);

 private:
  static thread_local constinit const StartedFrom* now_;
  const Where* where_ = nullptr;
  const Origin* origin_ = nullptr;
  const StartedFrom* outer_;
};

// Throws `text` unchanged: the call that happens to find the error adds nothing.
[[noreturn]] void fail_later(const std::string& text);

}  // namespace rill

#pragma GCC visibility pop
