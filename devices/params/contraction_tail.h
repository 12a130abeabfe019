// The epilogue of a library kernel: elementwise steps on its result before it is stored, each with one more operand.
// The graph pass trace/fusion/epilogues.h finds them after a matrix product or a convolution.
#pragma once
#include <span>

#include "rill/devices/kernel.h"

namespace rill {

struct TailStep {
  // With x the result so far and t the operand: x + t, x - t, t - x, x * t. Each rounds once, as the ops of these names
  // do, so that the result has the same bits as the ops run one after another. relu has no operand and is the last step.
  enum class Kind : uint8_t { add, subtract, subtract_from, multiply, relu };
  // How the operand is broadcast: one number; a number for each element of the result's last axes (a bias); the
  // result's shape; or the result's own memory, which holds the operand and is written over.
  enum class Broadcast : uint8_t { scalar, row, full, in_place };
  Kind kind = Kind::add;
  Broadcast broadcast = Broadcast::full;
};

// Smaller results stay in the cache until the ops after the product read them.
inline constexpr int64_t min_tail_result = 4096;

namespace cpu {
// dot_general and conv of the first two operands, then `steps` with the remaining ones. They return false, with nothing
// done, if the library has no such kernel, or none that knows relu, or would sum in another order than without the tail.
bool dot_general_with_tail(const KernelArgs& args, std::span<const TailStep> steps);
bool conv_with_tail(const KernelArgs& args, std::span<const TailStep> steps);
}  // namespace cpu

}  // namespace rill
