// Starts the kernels of fold.cuh, for families that have their own rules.
#pragma once
#include <string_view>

#include "rill/devices/cuda/families/families.h"
#include "rill/devices/cuda/families/fold_params.h"
#include "rill/tensor/tensor.h"

namespace rill::cuda {

// Appends an axis, joined to the one before if both together are one run; axes of size 1 are dropped. False if
// there is no room.
bool append(Axes& axes, int64_t size, int64_t stride_in_bytes);

// Folds by `rule` of the family's text, with accumulators of this many bytes. The caller has set s.from, s.kept,
// s.reduced and the rule's parameters; rows and n are the products of the axes' sizes.
void start_fold(Gpu& gpu, const Family& family, std::string_view rule, size_t accumulator_bytes, Folding s,
                int64_t rows, int64_t n);

}  // namespace rill::cuda
