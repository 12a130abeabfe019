// Transforms of lines that do not fit the caches: all threads share each. A line is a matrix, [columns][rows] of the
// plan: its columns are transformed, each element is multiplied by a root of unity, and then its rows are transformed,
// whose results are columns (Bailey 1990, "FFTs in external or hierarchical memory").
#pragma once
#include <cstdint>

#include "rill/devices/cpu/fourier/fft_plan.h"

namespace rill::cpu {

// Element j is the pair at 2 * j * step.
template <class R>
struct FftLine {
  R* at;
  int64_t step;
};

// The transform of one line by a long plan, times `scale`; `to` may be `from`.
template <class R>
void transform_long(const FftPlan<R>& plan, bool inverse, R scale, FftLine<R> from, FftLine<R> to);

// The transform of n real numbers, `step` apart, to n / 2 + 1 complex ones, and back. `plan` is long, and is that of n,
// or, with `turns`, that of n / 2.
template <class R>
void real_to_complex_long(const FftPlan<R>& plan, const RealTurns<R>* turns, R scale, const R* from, FftLine<R> to);
template <class R>
void complex_to_real_long(const FftPlan<R>& plan, const RealTurns<R>* turns, R scale, FftLine<R> from, R* to);

}  // namespace rill::cpu
