// Reductions over a row, by the tree that ir.h states. What is folded so far lies in 32 lanes, as several vectors that
// take turns: points go into the first, which then moves to the end, so that a step of a loop is the same code for
// every vector. Folding starts from the identity: the IR starts from the first points, which is the same, since what a
// sum's identity would change (-0 to +0) its last addition of +0 changes anyhow. For the same reason lanes without a
// point may be left alone.
//
// Maxima and minima of floats keep three numbers a lane, so that a step is four instructions that wait for one another
// only from step to step: the processor's own maximum, which passes over NaN; the last NaN met; and the and (of a
// minimum: or) of all bits, whose sign is that of the result where that is a zero: -0 is a maximum only if there is no
// +0. Comparing and repairing at each step took seven in a row, and more than twice the time.
#pragma once
#include <vector>

#include "rill/devices/llvm/ops.h"

namespace rill::kernel {

using Values = std::vector<Value>;

struct Fold {
  Code code;
  DType type;
  int lanes;  // of each of 32 / lanes vectors

  static constexpr int all = 32;          // lanes of the tree
  static constexpr int64_t block = 1024;  // points that fold one after another
  static constexpr int64_t deepest = 40;  // a stack of that many folded subtrees is enough for any row

  bool adds() const { return code == Code::reduce_sum || code == Code::reduce_sum_where; }
  bool extreme() const { return is_float(type) && (code == Code::reduce_max || code == Code::reduce_min); }
  // Whether the order of folding shows in the result; else blocks are not needed.
  bool ordered() const { return is_float(type) && (adds() || code == Code::reduce_prod); }
  int turns() const { return all / lanes; }
  int vectors() const { return extreme() ? 3 * turns() : turns(); }  // all maxima, all NaN, all bits
  Value combine(Ops& o, Value a, Value b) const;
  Values identity(Ops& o) const;
  // `acc` with `x` taken in, and its vectors moved on by one. Lanes where `mask` (may be null) is false take in
  // nothing.
  Values step(Ops& o, const Values& acc, Value x, Value mask) const;
  Values turn(const Values& acc) const;  // moved on by one
  // The 32 lanes as one number.
  Value finish(Ops& o, const Values& acc) const;

  // Memory for a stack of subtrees (of ordered folds); entry `at` of it read, written, and taken in by the one below.
  Type stack_type(Ops& o) const { return LLVMArrayType(o.memory_type(type, all), deepest); }
  Values load(Ops& o, Value stack, Value at) const;
  void store(Ops& o, Value stack, Value at, const Values& acc) const;
  void merge(Ops& o, Value stack, Value below) const;

 private:
  Value last_nan(Ops& o, Value a, Value b) const;
  Value join_bits(Ops& o, Value a, Value b) const;
  Value address(Ops& o, Value stack, Value at, int vector) const;
};

}  // namespace rill::kernel
