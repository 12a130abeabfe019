// where() on dense runs.
#pragma once
#include <cstddef>
#include <cstdint>

namespace rill::cpu {

// out[i] = which[i] ? x[i] : y[i] for i < n, of elements of 1, 2, 4 or 8 bytes; x or y is a single element unless it
// `moves`.
void select_run(size_t element, const uint8_t* which, const void* x, bool x_moves, const void* y, bool y_moves,
                void* out, size_t n);

}  // namespace rill::cpu
