// Errors that are found after the call that they belong to has returned, as those of kernels on a GPU are: their place
// is remembered when the call is made, and told when they are found.
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "rill/tensor/error.h"

#pragma GCC visibility push(default)

namespace rill {

// While it lives, what this thread starts is called from `where`, or by a node of a graph.
class StartedFrom {
 public:
  explicit StartedFrom(const Where& where) : where_(&where), outer_(std::exchange(now_, this)) {}
  explicit StartedFrom(const Origin& origin) : origin_(&origin), outer_(std::exchange(now_, this)) {}
  ~StartedFrom() { now_ = outer_; }
  StartedFrom(const StartedFrom&) = delete;

  // "file.cpp:12: [Embedding] in [op] ", how an error of `op` that this thread starts now would begin; without a place
  // where nobody knows one.
  static std::string beginning(std::string_view op);

 private:
  static thread_local constinit const StartedFrom* now_;
  const Where* where_ = nullptr;
  const Origin* origin_ = nullptr;
  const StartedFrom* outer_;
};

// Throws `text` as it is: no call that finds it takes it for its own.
[[noreturn]] void fail_later(const std::string& text);

}  // namespace rill

#pragma GCC visibility pop
