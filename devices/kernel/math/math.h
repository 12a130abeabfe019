// Vector math: elementary and special functions over the lane type V of lanes.h, for float32 and float64, branch-free
// on the lanes, with the same bits on every instruction set and width. Start at lanes.h for the rules.
//
// Special values are those of C99 and numpy: NaN gives NaN, domain errors give NaN, signs of zero are kept, results
// that overflow are infinite, denormal arguments and results are exact rather than flushed to zero. docs/math.md has
// the error of every function in ulp; tests/ops/test_math.cpp measures it and fails above the bounds given there.
#include "rill/devices/kernel/math/math_arc.h"
#include "rill/devices/kernel/math/math_exp.h"
#include "rill/devices/kernel/math/math_log.h"
#include "rill/devices/kernel/math/math_root.h"
#include "rill/devices/kernel/math/math_special.h"
#include "rill/devices/kernel/math/math_trig.h"
