// Reductions over a row, by the tree that ir.h states. A Fold holds what is folded so far in 32 lanes, as several
// vectors that take turns: points go into the first, which then moves to the end, so a step of a loop is the same code
// for every vector. From the identity on: the IR begins with the first points, which is the same, since what a sum's
// identity would change (-0 to +0) its last addition of +0 changes anyhow. For the same reason lanes without a point
// may be left alone.
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

  int vectors() const { return all / lanes; }
  Value combine(Ops& o, Value a, Value b, int width) const;
  Values identity(Ops& o) const;
  // `acc` with `x` taken in, and its vectors moved on by one. Lanes where `mask` (may be null) is false take in
  // nothing.
  Values step(Ops& o, const Values& acc, Value x, Value mask) const;
  // The 32 lanes as one number.
  Value finish(Ops& o, Values acc) const;

  // Memory for a stack of subtrees; entry `at` of it, read, written, and taken in by the one below.
  Type stack_type(Ops& o) const { return LLVMArrayType(o.memory_type(type, all), deepest); }
  Values load(Ops& o, Value stack, Value at) const;
  void store(Ops& o, Value stack, Value at, const Values& acc) const;
  void merge(Ops& o, Value stack, Value below) const;

 private:
  Value place(Ops& o, Value stack, Value at, int vector) const;
};

}  // namespace rill::kernel
