// Reductions over a row, by the tree that ir.h states. The accumulator has 32 lanes, as several vectors that are used
// in rotation: points are folded into the first vector, which then moves to the end, so that a loop's step is the same
// code for every vector. Folding starts from the identity, where the IR starts from the first points. The result is the
// same: the identity of a sum could only turn -0 into +0, which its last addition of +0 does anyway. So lanes without a
// point can be left at the identity.
//
// Maxima and minima of floats keep three numbers a lane, so that a step is four instructions that depend only on the
// step before: the processor's own maximum, which ignores NaN; the last NaN so far; and the AND (of a minimum: OR) of
// all bits, whose sign is the result's if that is a zero: -0 is a maximum only if there is no +0. Comparing and
// correcting at each step was a chain of seven instructions, and took more than twice the time.
#pragma once
#include <vector>

#include "rill/devices/llvm/ops.h"

namespace rill::kernel {

using Values = std::vector<Value>;

struct Fold {
  Code code;
  DType type;
  int lanes;  // of each of the 32 / lanes vectors

  static constexpr int tree_lanes = 32;       // lanes of the tree
  static constexpr int64_t block = 1024;      // points that are folded one after another
  static constexpr int64_t stack_depth = 40;  // subtrees on the stack, enough for any row

  bool adds() const { return code == Code::reduce_sum || code == Code::reduce_sum_where; }
  bool extreme() const { return is_float(type) && (code == Code::reduce_max || code == Code::reduce_min); }
  // Whether the order of folding affects the result; if not, blocks are not needed.
  bool ordered() const { return is_float(type) && (adds() || code == Code::reduce_prod); }
  int lane_vectors() const { return tree_lanes / lanes; }
  int vectors() const { return extreme() ? 3 * lane_vectors() : lane_vectors(); }  // maxima, NaN, bits
  Value combine(Ops& o, Value a, Value b) const;
  Values identity(Ops& o) const;
  // `acc` with `x` folded in, and its vectors rotated by one. Lanes where `mask` (may be null) is false ignore `x`.
  Values step(Ops& o, const Values& acc, Value x, Value mask) const;
  Values rotated(const Values& acc) const;  // by one vector
  // Reduces the 32 lanes to one number.
  Value finish(Ops& o, const Values& acc) const;

  // Memory for a stack of subtrees (of ordered folds): reads entry `at`, writes it, or merges it into the one below.
  Type stack_type(Ops& o) const { return LLVMArrayType(o.memory_type(type, tree_lanes), stack_depth); }
  Values load(Ops& o, Value stack, Value at) const;
  void store(Ops& o, Value stack, Value at, const Values& acc) const;
  void merge(Ops& o, Value stack, Value below) const;

 private:
  Value last_nan(Ops& o, Value a, Value b) const;
  Value join_bits(Ops& o, Value a, Value b) const;
  Value address(Ops& o, Value stack, Value at, int vector) const;
};

}  // namespace rill::kernel
