// Blocks and loops of the function that is being built.
#pragma once
#include <vector>

#include "rill/devices/llvm/ops.h"

namespace rill::kernel {

inline Block new_block(Ops& o) {
  return LLVMAppendBasicBlockInContext(o.context, LLVMGetBasicBlockParent(LLVMGetInsertBlock(o.b)), "");
}
inline void enter(Ops& o, Block block) { LLVMPositionBuilderAtEnd(o.b, block); }

// A value that is `a` where control comes from block `from_a`, else `b`.
inline Value join(Ops& o, Value a, Block from_a, Value b, Block from_b) {
  Value phi = LLVMBuildPhi(o.b, LLVMTypeOf(a), "");
  Value values[] = {a, b};
  Block blocks[] = {from_a, from_b};
  LLVMAddIncoming(phi, values, blocks, 2);
  return phi;
}

// for (i = begin; i < end; i += step), with values carried between iterations: construct, emit the body that uses `i`
// and `carried`, call next() with the values for the next iteration. Afterwards `carried` has the final values.
class Loop {
 public:
  Loop(Ops& o, Value begin, Value end, Value step, const std::vector<Value>& start = {}) : o_(o), step_(step) {
    Block before = LLVMGetInsertBlock(o.b);
    head_ = new_block(o);
    Block body = new_block(o);
    exit_ = new_block(o);
    LLVMBuildBr(o.b, head_);
    enter(o, head_);
    const auto phi = [&](Value first) {
      Value p = LLVMBuildPhi(o.b, LLVMTypeOf(first), "");
      LLVMAddIncoming(p, &first, &before, 1);
      return p;
    };
    i = phi(begin);
    for (Value v : start) carried.push_back(phi(v));
    LLVMBuildCondBr(o.b, LLVMBuildICmp(o.b, LLVMIntSLT, i, end, ""), body, exit_);
    enter(o, body);
  }
  void next(const std::vector<Value>& values = {}) {
    Value sum = LLVMBuildAdd(o_.b, i, step_, "");
    Block from = LLVMGetInsertBlock(o_.b);
    LLVMAddIncoming(i, &sum, &from, 1);
    for (size_t k = 0; k < values.size(); ++k) LLVMAddIncoming(carried[k], const_cast<Value*>(&values[k]), &from, 1);
    LLVMBuildBr(o_.b, head_);
    enter(o_, exit_);
  }

  Value i;
  std::vector<Value> carried;

 private:
  Ops& o_;
  Value step_;
  Block head_, exit_;
};

}  // namespace rill::kernel
