// The position of a pass, as bytes: the result of Iterator::save() and the argument of restore(). Each stage writes
// what it needs and reads it in the same order; the stages' names come first, so that another pipeline's state is
// refused.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill::data {

class StateWriter {
 public:
  void number(int64_t n);
  void text(std::string_view s);
  std::string bytes;
};

// A tensor's dtype, shape and elements; one that is undefined as such.
void save_tensor(const Tensor& t, StateWriter& w);

// Throws rill::Error if the bytes are not from a StateWriter.
class StateReader {
 public:
  explicit StateReader(std::string_view bytes) : rest_(bytes) {}
  int64_t number();
  // Not below 0, and not above `most`.
  int64_t count(int64_t most = INT64_MAX);
  std::string_view text();
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// On the default device.
Tensor read_tensor(StateReader& r);
// Throws: the bytes read are not what was written.
[[noreturn]] void fail_damaged();

}  // namespace rill::data

#pragma GCC visibility pop
