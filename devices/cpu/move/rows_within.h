// Selects the indices that are in some range of rows.
#pragma once
#include <cstdint>

namespace rill::cpu {

// Writes those of n indices that are in [first, last) to `found`, in order, their positions to `positions`, and returns
// their number. `back` is added to negative indices first. Both outputs need space for `room_within` more elements.
// `any_outside` becomes true if an index is outside of [0, rows).
inline constexpr int64_t room_within = 8;
int64_t rows_within(const int64_t* index, int64_t n, int64_t rows, int64_t back, int64_t first, int64_t last,
                    int64_t* found, int64_t* positions, bool* any_outside);

}  // namespace rill::cpu
