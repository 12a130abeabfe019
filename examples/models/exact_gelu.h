// gelu() is the tanh approximation by default, which GPT-2 has too; these networks have x Phi(x) itself.
#pragma once
#include <rill/rill.h>

namespace models {

inline rill::Tensor exact_gelu(const rill::Tensor& x, rill::Where where = rill::Where::current()) {
  return rill::gelu(x, false, where);
}

}  // namespace models
