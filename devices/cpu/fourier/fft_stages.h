// The stages of a Fourier transform, on lanes of one or several lines, for every instruction set.
#pragma once
#include "rill/devices/cpu/fourier/fft_plan.h"

namespace rill::cpu {

// The forward transform of `lanes` lines whose elements lie side by side: element j of line l at [j * lanes + l]. In
// place; the work arrays are as long.
void run_stages(const FftPlan<float>& plan, int64_t lanes, float* re, float* im, float* work_re, float* work_im);
void run_stages(const FftPlan<double>& plan, int64_t lanes, double* re, double* im, double* work_re, double* work_im);

// How many lanes fill a vector.
int64_t fft_lanes(float);
int64_t fft_lanes(double);

}  // namespace rill::cpu
