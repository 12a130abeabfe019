// Specs as text that reads back, for graphs in files and in print: "f32[2,3]", "weak i64[]", "f32[s0,8] on ref:0".
#pragma once
#include "rill/devices/params/read_attrs.h"
#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

// The name of an open size: "s0", "?".
using PrintDim = Callback<std::string(Dim)>;

std::string spec_text(const Spec& s, const PrintDim& print_dim);
// Throws rill::Error for any other text, and for invalid sizes.
Spec read_spec(std::string_view text, const ReadDim& read_dim);

// Converts a dense tensor that was read from a file to `spec`: its device, and whether it is weak.
Tensor placed(Tensor t, const Spec& spec);

// For messages: "f32[2,3]", with the device unless that is the CPU, "f32[2,3] on ref:0".
std::string placed_text(const Spec& s);

// "[2,s0]", "2"; the numbers of attributes, negative ones too.
std::string dims_text(const Dims& dims, const PrintDim& print_dim);
Dims read_dims(std::string_view text, const ReadDim& read_dim);

}  // namespace rill

#pragma GCC visibility pop
