// What the distributions of random.cpp and distributions.cpp share: words and uniform numbers of one draw.
#pragma once
#include "rill/ops/random.h"

#pragma GCC visibility push(default)  // for librill_ops, too

namespace rill::random {

// The dtype that a draw is asked for, f32 by default. Throws where it is not floating (or complex with `complex_too`).
DType float_or_fail(std::optional<DType> dtype, std::string_view op, const Where& where, bool complex_too = false);
// The largest number of a dtype that draws may have: of bools 1, of complex numbers that of their parts.
double largest_of(DType d);
// Throws where not each of 0 ... n - 1 is a number of the dtype that a draw of them is asked for; gives that dtype.
DType index_dtype(std::string_view op, std::optional<DType> dtype, Dim n, const Where& where);
// What a draw of `d` is computed in: f64 or f32.
DType draw_dtype(DType d);
// Over (0, 1), never 0 or 1, in the work dtype of `d`.
Tensor open_unit(const Shape& shape, DType d, const RandomOptions& options, const Where& where);
// Over (-1, 1), symmetric and never 0.
Tensor open_signed(const Shape& shape, DType d, const RandomOptions& options, const Where& where);

}  // namespace rill::random

#pragma GCC visibility pop
