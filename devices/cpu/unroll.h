// RILL_UNROLL before a loop over registers, whose count the compiler knows: without it they would live in memory.
#pragma once

#ifdef __clang__
#define RILL_UNROLL _Pragma("unroll")
#else
#define RILL_UNROLL _Pragma("GCC unroll 8")
#endif
