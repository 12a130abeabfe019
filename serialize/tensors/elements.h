// The elements of tensors, between memory and files.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

#include "rill/serialize/files.h"
#include "rill/tensor/tensor.h"

namespace rill {

// The elements of a tensor in row-major order, as pieces of memory that follow one another: a dense tensor is one
// piece, of another no more than 64 MB at a time is copied.
class Pieces {
 public:
  explicit Pieces(const Tensor& t);
  // The next piece, until the call after; false after the last one.
  bool next(std::string_view& piece);

 private:
  Tensor part(int64_t index) const;

  Tensor whole_, copy_;
  size_t axis_ = 0;                          // that is cut
  int64_t rows_ = 0, cuts_ = 0, count_ = 0;  // how many indices of it a piece has; pieces of an axis; and of all
  int64_t done_ = 0;
};

// Throws, as an error of `op` that calls it `name`, where `t` has no elements that can be read: undefined, or traced.
void require_elements(std::string_view op, const Tensor& t, const std::string& name, const Where& where);

// A number that stands in a file, the lowest byte first.
inline uint64_t little_endian(const char* bytes, size_t width) {
  uint64_t value = 0;
  for (size_t i = width; i-- > 0;) value = value << 8 | uint8_t(bytes[i]);
  return value;
}
template <class T>
T little_endian(const char* bytes) {
  return T(little_endian(bytes, sizeof(T)));
}

// Where a file holds a dense tensor of numbers.
struct StoredElements {
  Spec spec;
  uint64_t at = 0;
  bool swapped = false;  // of the other byte order
};
// Reads them; as part of `mapping`, unless that is null, where the file holds them as they lie in memory.
Tensor read_elements(const FileReader& file, const StoredElements& stored, const std::shared_ptr<char>& mapping);

// Elements that were read byte by byte: turned to this machine's order, and bools that are 0 or 1.
void finish_elements(Tensor& t, bool swapped);

}  // namespace rill
