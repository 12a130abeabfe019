// Numbers beside tensors on another device than the CPU, for functions that give them axes before an op sees them:
// dispatch (apply.h) moves numbers by itself, but what has axes is no number any more.
#pragma once
#include <utility>
#include <vector>

#include "rill/ops/apply.h"

namespace rill {

// The tensors; where one of them is not on the CPU, numbers (without axes, on the CPU) are there too. Undefined ones
// stay.
inline std::vector<Tensor> join_numbers(std::vector<Tensor> list) {
  for (const Tensor& there : list) {
    if (!there.defined() || there.device().kind() == DeviceKind::cpu) continue;
    for (Tensor& t : list)
      if (t.defined()) t = number_beside(t, there);
    break;
  }
  return list;
}

// The same for two.
inline std::pair<Tensor, Tensor> join_numbers(const Tensor& a, const Tensor& b) {
  return {number_beside(a, b), number_beside(b, a)};
}

}  // namespace rill
