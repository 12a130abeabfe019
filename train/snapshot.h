// What Variables hold, kept while something else is tried.
#pragma once
#include <utility>
#include <vector>

#include "rill/ops/variable.h"

namespace rill::train::impl {

// What Variables hold, to be put back.
class Snapshot {
 public:
  Snapshot() = default;
  explicit Snapshot(const std::vector<Variable>& variables) {
    for (const Variable& v : variables) values_.emplace_back(v, v.value());
  }
  bool empty() const { return values_.empty(); }
  void put_back() const {
    for (const auto& [v, value] : values_) Variable(v).assign(value);
  }

 private:
  std::vector<std::pair<Variable, Tensor>> values_;
};

}  // namespace rill::train::impl
