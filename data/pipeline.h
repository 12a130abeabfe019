// A pass through a pipeline, whatever its elements are: what Iterator<T> holds.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "rill/data/options.h"
#include "rill/data/stage.h"

#pragma GCC visibility push(default)

namespace rill::data {

class Pipeline {
 public:
  Pipeline(StagePtr stage, const IteratorOptions& options, const Where& where);
  ~Pipeline() { leave_to_parent(); }
  Pipeline(Pipeline&&) = default;
  Pipeline& operator=(Pipeline&& other) noexcept {
    leave_to_parent();
    stage_ = std::move(other.stage_), cursor_ = std::move(other.cursor_);
    options_ = other.options_, seed_ = other.seed_, forks_ = other.forks_;
    return *this;
  }
  Item next(const Where& where);
  std::string save(const Where& where) const;
  void restore(std::string_view state, const Where& where);

 private:
  void require_own(std::string_view op, const Where& where) const;
  bool is_of_parent() const;  // it was made before a fork(), and this is the child
  // In a child the threads that used the cursor are missing, in the middle of their work: it is not touched again.
  void leave_to_parent();

  StagePtr stage_;
  CursorPtr cursor_;
  IteratorOptions options_;
  uint64_t seed_ = 0;
  uint64_t forks_;
};

}  // namespace rill::data

#pragma GCC visibility pop
