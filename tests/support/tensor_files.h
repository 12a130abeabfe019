// For the tests of tensors' files.
#pragma once
#include <cstdlib>
#include <string>

#include "io_helpers.h"
#include "rill/rill.h"
#include "rill/serialize.h"

// A file that numpy, safetensors or gguf wrote.
inline std::string fixture(const std::string& name) {
  const char* root = std::getenv("RILL_SOURCE_ROOT");
  return std::string(root ? root : ".") + "/tests/fixtures/formats/" + name;
}
inline bool same(const rill::Tensor& a, const rill::Tensor& b) {
  if (is_float8(a.dtype())) return same_bits(a, b);
  return a.dtype() == b.dtype() && a.shape() == b.shape() && array_equal(a, b);
}
