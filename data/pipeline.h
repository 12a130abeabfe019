// A pass through a pipeline, whatever its elements are: what Iterator<T> holds.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rill/data/options.h"
#include "rill/data/stage.h"
#include "rill/data/stats.h"
#include "rill/ops/names.h"

#pragma GCC visibility push(default)

namespace rill::data {

class Stats;

class Pipeline {
 public:
  Pipeline(StagePtr stage, const IteratorOptions& options, const Where& where);
  ~Pipeline();
  Pipeline(Pipeline&&) noexcept;
  Pipeline& operator=(Pipeline&& other) noexcept;
  Item next(const Where& where);
  std::string save(const Where& where) const;
  void restore(std::string_view state, const Where& where);
  PassStats stats(const Where& where) const;
  void name_variables(VariablePaths& paths) const;

 private:
  void require_own(std::string_view op, const Where& where) const;
  void require_cursor(std::string_view op, const Where& where) const;  // none where it was moved from
  bool is_of_parent() const;  // it was made before a fork(), and this is the child
  // After fork() the child lacks the threads that used the cursor, in the middle of their work: it is never used again.
  void leave_to_parent();

  CursorPtr open() const;
  // Takes the state that a checkpoint has put into the variable.
  void take_restored(const Where& where);

  StagePtr stage_;
  std::unique_ptr<Stats> stats_;  // lives longer than the cursor
  CursorPtr cursor_;
  IteratorOptions options_;
  uint64_t seed_ = 0;
  uint64_t forks_;
  mutable std::optional<Variable> variable_;  // for checkpoints, made on first use
  mutable Tensor written_;                    // that it holds, unless a checkpoint was restored
};

}  // namespace rill::data

#pragma GCC visibility pop
