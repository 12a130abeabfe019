// Expands users' strides and padding to one number for each spatial axis; for conv.cpp and pool.cpp.
#pragma once
#include "rill/ops/conv.h"

#pragma GCC visibility push(default)  // for librill_ops, too

namespace rill {

// The number of spatial axes of `x`, 1 to 3, between a batch axis and channels. Throws for another number.
size_t space_count(const Tensor& x, std::string_view op, const Where& where);
// `list` for `n` axes: as given, its only entry for all of them, or `otherwise` if it is empty.
Dims for_each_axis(const Dims& list, size_t n, int64_t otherwise, std::string_view op, std::string_view what,
                   const Where& where);
void resolve_padding(const SpacePadding& padding, const Dims& in, const Dims& window, const Dims& strides,
                     const Dims& dilation, Dims& lo, Dims& hi, std::string_view op, const Where& where);

}  // namespace rill

#pragma GCC visibility pop
