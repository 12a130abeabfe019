// A pass through a pipeline, whatever its elements are: what Iterator<T> holds.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "rill/data/options.h"
#include "rill/data/stage.h"

#pragma GCC visibility push(default)

namespace rill::data {

class Pipeline {
 public:
  Pipeline(StagePtr stage, const IteratorOptions& options, const Where& where);
  Item next(const Where& where);
  std::string save(const Where& where) const;
  void restore(std::string_view state, const Where& where);

 private:
  StagePtr stage_;
  CursorPtr cursor_;
  IteratorOptions options_;
  uint64_t seed_ = 0;
  uint64_t forks_;
};

}  // namespace rill::data

#pragma GCC visibility pop
