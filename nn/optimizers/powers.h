// Bias corrections of moving means that began at 0. Not installed.
#pragma once
#include <cmath>

#include "rill/ops/ops.h"

namespace rill::nn {

// 1 - beta^t for t = step + 1, without the cancellation that the formula as written would suffer at small t.
inline Tensor one_less_power(double beta, const Tensor& step) { return -expm1((step + 1) * std::log(beta)); }

}  // namespace rill::nn
