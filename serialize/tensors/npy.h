// Arrays in numpy's format, each by itself in a .npy file or many in a .npz.
#pragma once
#include <functional>
#include <string>

#include "rill/serialize/tensors/elements.h"
#include "rill/serialize/tensors/formats.h"
#include "rill/serialize/tensors/npy_header.h"

namespace rill {

// An array that is to be written: the header, then the elements as Pieces gives them.
struct NpyArray {
  std::string header;
  Tensor elements;

  uint64_t bytes() const { return header.size() + uint64_t(elements.size()) * size_of(elements.dtype()); }
};
NpyArray to_npy(const SaveRequest& request, const std::string& name, const Tensor& t);

// An array that is to be read, of `bytes` bytes. Its bytes are asked for in order, all of them.
struct NpySource {
  uint64_t bytes = 0;
  RejectAt reject;  // throws
  std::function<void(uint64_t at, void* to, uint64_t bytes)> read;
  std::function<Tensor(const StoredElements&)> read_elements;
};
Tensor read_npy(const NpySource& source);

}  // namespace rill
