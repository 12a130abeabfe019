// The stages of a Fourier transform, on lanes of one or several lines, and conversions between lines and lanes, for
// every instruction set.
#pragma once
#include "rill/devices/cpu/fourier/fft_plan.h"

namespace rill::cpu {

// The number of lanes in a vector.
int64_t fft_lanes(float);
int64_t fft_lanes(double);

#define RILL_FFT_LOOPS(R)                                                                                            \
  /* The forward transform of `lanes` lines that lie side by side: element j of line l is at [j * lanes + l]. */     \
  /* Returns whether the result lies in the work arrays, which are as long. The plan has stages. */                  \
  bool run_stages(const FftPlan<R>& plan, int64_t lanes, R* re, R* im, R* work_re, R* work_im);                      \
  /* Pairs of real and imaginary parts, and these apart; back times `scale`. */                                      \
  void split_pairs(const R* pairs, int64_t count, R* re, R* im);                                                     \
  void join_pairs(const R* re, const R* im, R scale, int64_t count, R* pairs);                                       \
  /* The same of `lanes` lines of n pairs, `pitch` numbers apart: element j of line l is at [j * lanes + l]. */      \
  void split_lines(const R* pairs, int64_t pitch, int64_t n, int64_t lanes, R* re, R* im);                           \
  void join_lines(const R* re, const R* im, R scale, int64_t n, int64_t lanes, R* pairs, int64_t pitch);             \
  /* (re, im) := (re, im) (by_re, by_im) */                                                                          \
  void multiply(const R* by_re, const R* by_im, int64_t count, R* re, R* im);                                        \
  /* Between the first n / 2 + 1 elements of the transform of n real numbers, and the n / 2 elements of that of z */ \
  /* (RealTurns), without a factor of 1 / 2: from the latter to the former, and back. [element][lane]. */            \
  void split_halves(const RealTurns<R>& turns, int64_t lanes, R* re, R* im);                                         \
  void join_halves(const RealTurns<R>& turns, int64_t lanes, R* re, R* im);
RILL_FFT_LOOPS(float)
RILL_FFT_LOOPS(double)
#undef RILL_FFT_LOOPS

}  // namespace rill::cpu
