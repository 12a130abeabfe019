// The header of a .npy file: the Python dictionary that says dtype, order and shape. After numpy's own description,
// numpy/lib/_format_impl.py.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

// What lies in an array: numbers, or text of a fixed length.
struct NpyType {
  DType dtype = DType::f32;
  bool swapped = false;     // not of this machine's byte order
  bool unicode = false;     // of strings: numpy's U, 4 bytes a character, and not its S, bytes
  uint64_t item_bytes = 4;  // of an element in the file
};
struct NpyHeader {
  NpyType type;
  bool fortran_order = false;
  Shape shape;
};

// The text with magic number, version and padding, byte for byte as numpy writes it.
std::string print_npy_header(const NpyHeader& h);

// How a file says what is wrong with it, with the place from the array's first byte on.
using RejectAt = std::function<void(uint64_t at, const std::string& what)>;

// Of a file whose first npy_start_bytes bytes (or fewer, where it has no more) are `start`: at which byte the
// dictionary begins. `reject` throws.
constexpr uint64_t npy_start_bytes = 10;
uint64_t npy_dictionary_place(std::string_view start, const RejectAt& reject);
// The length of the dictionary, of all that stands before it.
uint64_t npy_dictionary_bytes(std::string_view before);
// Reads the dictionary, which stands at `prefix`.
NpyHeader parse_npy_header(std::string_view dictionary, uint64_t prefix, const RejectAt& reject);

// An element of an array of strings, `type.item_bytes` bytes of it; `at`: its place, for the message.
std::string decode_npy_string(const char* bytes, const NpyType& type, const RejectAt& reject, uint64_t at);

}  // namespace rill

#pragma GCC visibility pop
