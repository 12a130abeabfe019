// Kernels that draw from distributions by rejection: each element has its own stream, so that it may use as many
// words as it needs and the bits depend only on the key and its index.
#pragma once
#include "rill/devices/kernel.h"

namespace rill::cpu {

// in = key, shapes a > 0 (f32, f64). out = draws of Gamma(a, 1), and their logarithms, which do not underflow.
void random_gamma(const KernelArgs& args);
// in = key, rates (f64). out = i64 counts.
void random_poisson(const KernelArgs& args);
// in = key, numbers of trials, probabilities (f64). out = i64 counts.
void random_binomial(const KernelArgs& args);
// in = key, numbers of trials [...] (f64), probabilities [..., k] (f64), which need not sum to 1. out = i64 counts
// [..., k].
void random_multinomial(const KernelArgs& args);

}  // namespace rill::cpu
