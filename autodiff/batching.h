// Batcher: runs a function once for all rows of a batch. While one is installed on a thread, a row is a tensor without
// elements that stands for a batched tensor, which has the batch as its first axis; apply() passes each op to the
// Batcher, which makes one call for all rows.
//
// Tensors that are the same for all rows stay as they are. The calls are made as if outside: with the tapes, the trace
// and the Batchers that were active when it began, so that gradients of a vmap, traces of one, and vmaps in one need no
// code of their own. Tapes that begin inside see rows.
//
// How a call of an op is made for all rows:
//   elementwise ops   axes of size 1 behind the batch axis, where operands differ in rank
//   `batch` of the record
//   otherwise         row by row, and stacked; RILL_LOG=vmap prints a line for each such call
//
// A batch of unit vectors, from which a Jacobian's walk starts, is kept as its diagonal for as long as the ops are
// linear and elementwise, so that an elementwise function's Jacobian costs one row. Start at Batcher::append.
#pragma once
#include <string>

#include "rill/autodiff/vmap.h"
#include "rill/ops/enclosing_trace.h"

#pragma GCC visibility push(default)

namespace rill {

class Batcher final : public EnclosingTrace {
 public:
  // Installs itself; `op` is named in errors. A second one with the same `serial` continues with the rows of the first:
  // a rule that a tape keeps reads rows when their batch has long ended.
  Batcher(Dim size, std::string_view op, Randomness randomness = Randomness::same, uint32_t serial = new_serial());
  Batcher(const Batcher&) = delete;

  // A row of a tensor whose first axis is the batch.
  Tensor row_of(const Tensor& batched);
  // A row of a batch with one row for each element of a tensor like this: row i is 1 at element i, and 0 elsewhere.
  Tensor unit(const Spec& spec);
  // All rows, with the batch as the first axis; a tensor that rows share is repeated.
  Tensor all_rows(const Tensor& row);
  // Whether rows may differ in it.
  bool is_batched(const Tensor& t) const;
  Dim size() const { return size_; }

  Tensors append(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, const Where& where) override;
  Tensor read(const Shared<VariableState>& v) override;
  void assign(const Shared<VariableState>& v, const Tensor& value) override;
  Tensor as_reading(const Shared<VariableState>& v, const Tensor& value) override;
  bool made_by(const Tensor& t, const Op& op, AttrsView& attrs) const override;
  Tensor constant_value(const Tensor& t) const override;
  Tensor append_rule(const Tensor& value, Operands in, const GradientRule& rule, const Where& where) override;
  bool is_constant(const Tensor& t) const override;
  [[noreturn]] void fail_read(std::string_view what, const Where& where) override;
  bool sees(const Tensor& t) const override;
  bool makes(const Tensor& t) const override;
  bool is_watched(const Tensor& t) const override;
  bool speculative() const override { return outer_ && outer_->speculative(); }
  bool assigns(const VariableState& v) const override { return outer_ && outer_->assigns(v); }
  const std::string& name() const override { return name_; }
  bool runs_now() const override { return !outer_ || outer_->runs_now(); }

  // While it lives, this thread's listeners are the outer ones.
  class Outside;

 private:
  struct Rows;
  const Rows* rows_of(const Tensor& t) const;
  Tensor outer_value(const Tensor& t) const;
  Tensor stand_for(Tensor tensor, Spec row, uint8_t kind);
  Tensor expanded_units(const Rows& r) const;
  Tensors append_units(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, const Where& where);
  Tensors append_last(const Op& op, Operands in, AttrsView attrs, const OutSpecs& specs, const Where& where);
  bool draws_own(const VariableState& v) const;
  Tensor shared_row(Tensor value);

  const Dim size_;
  const std::string name_;
  const Randomness randomness_;
  int32_t next_value_ = 0;
  ListenersScope level_;
  EnclosingTrace* const outer_;
};

}  // namespace rill

#pragma GCC visibility pop
