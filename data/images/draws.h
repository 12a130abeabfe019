// The draws that one call makes, each with a key of its own.
#pragma once
#include <algorithm>
#include <optional>

#include "rill/ops/creation.h"
#include "rill/ops/random.h"

namespace rill::images {

class Draws {
 public:
  explicit Draws(const std::optional<random::Key>& key) : key_(key) {}
  // The key of the next draw; none where the process's generator counts.
  std::optional<random::Key> next() {
    if (!key_) return {};
    return key_->fold_in(tensor(count_++, {.device = key_->value().device()}));
  }
  // A number in [low, high), read at once.
  double number(double low, double high) {
    const auto u = random::uniform({}, {.dtype = DType::f64, .key = next(), .device = Device()}).item<double>();
    return low + u * (high - low);
  }
  // One of 0, ..., n - 1.
  int64_t whole(int64_t n) { return std::min(int64_t(number(0, 1) * double(n)), n - 1); }

 private:
  std::optional<random::Key> key_;
  int64_t count_ = 0;
};

}  // namespace rill::images
