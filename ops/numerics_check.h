// debug::check_numerics(), as those see it that run ops; run_watch.h says when they do.
#pragma once
#include <string>

#include "rill/ops/run_watch.h"

#pragma GCC visibility push(default)

namespace rill {

// Throws, or logs, where a result that `op` computed from finite operands is not finite, if this thread's numbers are
// checked. In a graph `origin` says which node that was. Only where runs_are_watched().
void check_results(const Op& op, Operands in, std::span<const Tensor> out, const Where& where,
                   const Origin* origin = nullptr);

// The operands of a kernel that may write its result over one of them, as they are before: what shares memory with a
// result is copied.
class OperandsBefore {
 public:
  OperandsBefore(Operands in, std::span<Tensor* const> out);
  Operands get() const { return {pointers_.data(), pointers_.size()}; }

 private:
  SmallVec<Tensor, 4> kept_;
  SmallVec<const Tensor*, 8> pointers_;
};

// "f32[2,3] from -1 to 5, 2 NaN, 1 infinite": the range is that of the finite elements.
std::string describe_numbers(const Tensor& t);
// t, in f32 where it is an 8-bit float: for checks of what is only stored.
Tensor computable(const Tensor& t);
// The same of several, undefined ones among them, with semicolons between.
std::string describe_numbers(std::span<const Tensor> ts);

}  // namespace rill

#pragma GCC visibility pop
