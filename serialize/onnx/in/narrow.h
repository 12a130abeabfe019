// ONNX's formats for which rill has no dtype: floats of 8 and 4 bits, integers of 4 and 2. Their values are stored in a
// wider dtype (f32, i8, u8), which holds each exactly; a Value remembers their format, and conversions to it round as
// the format does. Start at find_narrow().
#pragma once
#include <string>
#include <string_view>

#include "rill/ops/ops.h"

namespace rill::onnx_import {

struct NarrowFormat {
  enum class Kind : uint8_t {
    integer,
    ieee,           // with infinities and NaNs
    finite,         // no infinities; all ones is NaN
    unsigned_zero,  // no infinities and one zero; the bits of -0 are NaN
    plain,          // no infinities, no NaN
    powers          // of two, unsigned; all ones is NaN
  };
  int32_t number;  // ONNX's, of TensorProto.DataType
  DType held;
  int bits;
  Kind kind;
  int mantissa = 0, bias = 0;
  double most = 0;  // the largest number
};

// The format of ONNX's number, or null if it is none of these.
const NarrowFormat* find_narrow(int32_t elem_type);
// The bytes of `count` elements, several of which share one.
size_t packed_bytes(const NarrowFormat& f, int64_t count);
// The elements of `bytes`, lowest bits first.
Tensor unpack(const NarrowFormat& f, std::string_view bytes, const Shape& shape);

// `x` rounded to the format, in its wider dtype. `saturates`: numbers that are too large become the largest one, not
// infinity or NaN. `round_mode`: for Kind::powers, "up", "down" or "nearest".
Tensor narrowed(const Tensor& x, const NarrowFormat& f, bool saturates, const std::string& round_mode = "up");

}  // namespace rill::onnx_import
