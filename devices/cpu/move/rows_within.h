// Which of many indices name a row of some range.
#pragma once
#include <cstdint>

namespace rill::cpu {

// Of n indices of `rows` rows, to which `back` is added where they are negative: those in [first, last) to `found`, in
// their order, and their places to `places`; how many there are. Both have room for `room_within` more. `outside` becomes
// true where one names no row.
inline constexpr int64_t room_within = 8;
int64_t rows_within(const int64_t* index, int64_t n, int64_t rows, int64_t back, int64_t first, int64_t last,
                    int64_t* found, int64_t* places, bool* outside);

}  // namespace rill::cpu
