// ONNX's formats for which rill has no dtype: floating numbers of 8 and 4 bits, integers of 4 and 2. Their values are
// held in a wider dtype (f32, i8, u8), where each is exact; a Value remembers which format they are of, and what
// becomes one is rounded as that format rounds. Start at find_narrow().
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
    unsigned_zero,  // no infinities and one zero; what would be -0 is NaN
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

// The format of ONNX's number, or null where it is none of these.
const NarrowFormat* find_narrow(int32_t elem_type);
// How many bytes `count` elements take: several share one.
size_t packed_bytes(const NarrowFormat& f, int64_t count);
// The elements of `bytes`, of which the lowest bits come first.
Tensor unpack(const NarrowFormat& f, std::string_view bytes, const Shape& shape);

// `x` rounded to the format, held in its wider dtype. `saturates`: what is too large becomes the largest number, not an
// infinity or a NaN. `round_mode`: of Kind::powers, "up", "down" or "nearest".
Tensor narrowed(const Tensor& x, const NarrowFormat& f, bool saturates, const std::string& round_mode = "up");

}  // namespace rill::onnx_import
