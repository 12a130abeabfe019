// RILL_UNROLL, for loops over an array of registers with a constant trip count: without it the array stays in memory.
#pragma once

#ifdef __clang__
#define RILL_UNROLL _Pragma("unroll")
#else
#define RILL_UNROLL _Pragma("GCC unroll 16")
#endif
