// The epilogue of a library kernel: elementwise steps on its result before it is stored, each with one more operand.
// The graph pass trace/fusion/epilogues.h finds them after a matrix product or a convolution.
#pragma once
#include <span>

#include "rill/devices/kernel.h"

namespace rill {

struct TailStep {
  // With x the result so far and t the operand: x + t, x - t, t - x, x t. Each rounds once, as the ops of these names
  // do, so that a tail gives the bits of the ops run one after another. relu has no operand and is the last step.
  enum class Kind : uint8_t { add, subtract, subtract_from, multiply, relu };
  // How the operand lies: one number; a number for each of the result's last axes' elements (a bias); the result's
  // shape; the result's shape and memory, which is then written over.
  enum class Spread : uint8_t { scalar, row, full, own };
  Kind kind = Kind::add;
  Spread spread = Spread::full;
};

// Smaller results stay in cache until the ops after the product read them.
inline constexpr int64_t least_tail_result = 4096;

namespace cpu {
// dot_general and conv of the first two operands, then `steps` with the operands after those. False, and nothing is
// done, where the library has no such kernel, or none that knows relu, or would sum in another order than without the
// tail.
bool dot_general_with_tail(const KernelArgs& args, std::span<const TailStep> steps);
bool conv_with_tail(const KernelArgs& args, std::span<const TailStep> steps);
}  // namespace cpu

}  // namespace rill
