// Emits the function of one kernel as LLVM IR: a loop over rows; in it, for each pass of the schedule, the row-level
// instructions as scalars, then a loop over the row's points, one vector at a time, and one over the last points with
// masked lanes. Start at Emitter::run().
#pragma once
#include <vector>

#include "rill/devices/kernel/schedule.h"
#include "rill/devices/llvm/fold.h"
#include "rill/devices/llvm/loop.h"
#include "rill/devices/llvm/ops.h"

namespace rill::kernel {

class Emitter {
 public:
  Emitter(const Kernel& k, LLVMModuleRef module, const Machine& machine);
  void run();

 private:
  // The points that straight-line code computes: `lanes_` of them from `i` on; if `mask` is set, only the first `left`.
  struct Points {
    Value i, mask = nullptr, left = nullptr;
  };

  void begin_function();
  void row(Value r);
  void row_value(int32_t n);
  void pass(const Pass& p);
  void map(const Pass& p);
  void reduce(const Pass& p);
  Values folded(const Pass& p);
  int32_t condition(const Pass& p) const;
  std::vector<Values> fold_blocks(const Pass& p, const std::vector<Fold>& folds);
  std::vector<Values> fold_run(const Pass& p, const std::vector<Fold>& folds, Value begin, Value end,
                               const Values* carried = nullptr);
  Values fold_rest(const Pass& p, const std::vector<Fold>& folds, const Values& start, Value full_end, Value end);

  // The unrolled copies of a loop's body, for the points from `i` on, before their stores.
  struct Copies {
    std::vector<Points> at;
    std::vector<Values> values;
  };
  Copies computed(const Pass& p, Value i);
  Points masked(Value i, Value left);
  void read(const Pass& p, const Points& at, Values& v);
  void compute(const Pass& p, const Points& at, Values& v);
  void write(const Pass& p, const Points& at, const Values& v);
  Value counter_values(Value first, int bits);
  bool is_counter(int32_t n) const {
    const Inst& i = k_.body[size_t(n)];
    return i.code == Code::input && k_.inputs[size_t(i.imm)].kind == Input::Kind::counter;
  }
  Value element(const Values& v, int32_t n) const { return v[size_t(n)] ? v[size_t(n)] : splats_[size_t(n)]; }
  Value half_arithmetic(const Inst& i, const Values& v);
  Value patched(const Inst& i, const Value* in, Value mask, int lanes);

  void choose_fetches();
  void fetch_next_row(const Pass& p, const std::vector<Points>& at);

  Value load(DType d, Value address, const Points& at);
  void store(DType d, Value v, Value address, const Points& at, bool streaming);
  Value address(Value base, Value i, DType d);
  Value scratch_row(int32_t slot);
  Value local(Type t);  // memory in the function's frame
  int copies(const Pass& p) const;
  DType type_of(int32_t n) const { return k_.body[size_t(n)].type; }
  bool is_row(int32_t n) const { return s_.row_level[size_t(n)]; }

  const Kernel& k_;
  Schedule s_;
  Ops o_;
  int lanes_;
  Value function_ = nullptr;
  Block allocas_ = nullptr;  // the first block, which only has the allocas
  Value n_ = nullptr, slot_bytes_ = nullptr;
  const Pass* fetching_ = nullptr;  // the pass that prefetches the next row of operands fetched_
  std::vector<size_t> fetched_;
  Values pointers_;  // by operand: the address of this row; the first value of a counter
  Values next_row_;  // by index in fetched_: the address of the next row
  Values rows_;      // by instruction: the row-level values of this row
  Values splats_;    // by instruction: row-level values as vectors, in this pass
};

}  // namespace rill::kernel
