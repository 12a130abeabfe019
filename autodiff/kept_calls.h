// The calls of ops that recompute()'s function makes, in order. The first run notes which results are kept; the second
// run returns these. Values that are then only read by kept calls are not computed unless something else reads them:
// the backward walk, if a rule needs them.
#pragma once
#include <vector>

#include "rill/autodiff/recompute_policy.h"
#include "rill/ops/call_replay.h"

namespace rill::detail {

struct KnownCall {
  const Op* op = nullptr;
  Tensors kept = {};                  // its results; empty: not kept
  std::vector<Strides> strides = {};  // of its results, if it may wait until something reads it; else empty
};

// The first run.
class NoteCalls final : public CallReplay {
 public:
  explicit NoteCalls(const RecomputePolicy& policy) : policy_(policy) {}
  Tensors give(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, const Where& where) override;
  void ran(const Op& op, Operands in, std::span<const Tensor> out) override;
  // Something other than a call of an op reads these.
  void read(Operands in);
  std::vector<KnownCall> finish();

 private:
  struct Call {
    KnownCall known;
    bool is_kept = false, may_wait = false;
    SmallVec<uint64_t, 4> in, out;  // ids of tensors
  };
  const RecomputePolicy& policy_;
  std::vector<Call> calls_;
  std::vector<uint64_t> read_;
};

// The second run.
class GiveCalls final : public CallReplay {
 public:
  explicit GiveCalls(const std::vector<KnownCall>& calls) : calls_(calls) {}
  Tensors give(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, const Where& where) override;
  void ran(const Op&, Operands, std::span<const Tensor>) override {}

 private:
  const std::vector<KnownCall>& calls_;
  size_t next_ = 0;
};

}  // namespace rill::detail
