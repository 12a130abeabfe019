// Runs ops by the arithmetic of their records; see recorded.h. Start at recorded_kernel, below.
#include "rill/devices/cuda/driver/recorded.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/devices/cuda/driver/gpu.h"
#include "rill/devices/cuda/driver/rows.h"
#include "rill/devices/cuda/driver/spaces.h"
#include "rill/devices/cuda/families/families.h"
#include "rill/devices/kernel/record.h"
#include "rill/devices/params/nn_params.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/ops/op.h"
#include "rill/tensor/error.h"

namespace rill::cuda {

namespace {

using kernel::Input;
using kernel::Recorder;

bool can_hold(DType d) { return !is_complex(d) && !is_float8(d) && d != DType::string; }
DType widened(DType d) { return is_half(d) ? DType::f32 : d; }

// An input of the kernel, halves as f32.
int32_t read(Recorder& r, DType dtype, Input::Kind kind = Input::Kind::dense) {
  return r.convert(r.input({dtype, kind}), widened(dtype));
}

// Starts the kernel of `record`, called `key`, over an index space: a map if it has no rows.
void start(const std::string& key, const Callback<kernel::Kernel()>& record, const KernelArgs& args, const Ints& sizes,
           const std::vector<StridedOperand>& operands, int row_axes) {
  Gpu& gpu = gpu_of(args.out[0]->device());
  const LoadedKernel& k = gpu.recorded(key, record);
  for_each_space(sizes, operands, row_axes, [&](const Space& s) {
    if (row_axes == no_rows) gpu.launch_map(k, s, args);
    else start_rows(gpu, k, s);
  });
}

// --- Elementwise -----------------------------------------------------------------------------------------------------

// recorded_kernel() has checked the first operand's dtype.
void require_known(const KernelArgs& args) {
  const DType last = args.in.back()->dtype(), out = args.out[0]->dtype();
  const DType bad = !can_hold(out) ? out : last;
  if (!can_hold(out) || !can_hold(last) || !args.op->record_point(widened(last)))
    fail(args.op->name,
         fmt::format("there is no kernel for {} on GPUs. move the operands with to(\"cpu:0\")", name(bad)), Where());
}

kernel::Kernel record_map(const KernelArgs& args) {
  const DType out = args.out[0]->dtype();
  Recorder r;
  kernel::Recording recording(r);
  std::vector<int32_t> in;
  for (const Tensor* t : args.in) in.push_back(read(r, t->dtype()));
  const RecordPoint point = args.op->record_point(r.type(in.back()));
  r.kernel.outputs.push_back({r.convert(point(in.data()), out), out});
  return r.finish();
}

void run_map(const KernelArgs& args) {
  require_known(args);
  std::string key = std::string(args.op->name);
  for (const Tensor* t : args.in) key += fmt::format(" {}", name(t->dtype()));
  key += fmt::format(" {}", name(args.out[0]->dtype()));
  start_map(args, key, [&] { return record_map(args); });
}

// --- Rows ------------------------------------------------------------------------------------------------------------

// The axes of the first operand with those of a row last, and how many those are.
struct RowAxes {
  Ints order;
  size_t row = 0;
};
RowAxes row_axes(const KernelArgs& args) {
  const Tensor& x = *args.in[0];
  RowAxes r;
  r.row = size_t(args.op->row_rank(x.spec(), args.attrs));
  int64_t last = -1;  // an axis in the middle: of softmax and similar ops
  if (r.row == 0) last = args.attrs.as<SoftmaxParams>().axis, r.row = 1;
  for (int64_t i = 0; i < x.ndim(); ++i)
    if (i != last) r.order.push_back(i);
  if (last >= 0) r.order.push_back(last);
  return r;
}

struct RowOperand {
  StridedOperand operand;
  DType dtype;
  Input::Kind kind = Input::Kind::dense;
};

// An op's rows, over the index space of the first operand.
class RowCall {
 public:
  explicit RowCall(const KernelArgs& args) : args_(args), op_(*args.op), axes_(row_axes(args)) {
    const Tensor& x = *args.in[0];
    for (const int64_t a : axes_.order) sizes_.push_back(x.shape()[size_t(a)]);
    for (size_t i = sizes_.size() - axes_.row; i < sizes_.size(); ++i) n_ *= sizes_[i];
    for (size_t i = 0; i < args.in.size(); ++i) in_.push_back(input(i));
    for (size_t k = 0; k < args.out.size(); ++k)
      if (!is_sum(k)) out_.push_back(output(k));
  }

  void run() {
    if (op_.row_sums) sum_layer_norm_grad(args_);
    if (args_.in[0]->size() == 0) return;
    if (op_.row_label >= 0) check_labels_on_gpu(*args_.in[size_t(op_.row_label)], n_, op_.name);
    std::vector<StridedOperand> operands;
    for (const RowOperand& o : in_) operands.push_back(o.operand);
    if (op_.row_label >= 0) operands.push_back(counter());
    for (const RowOperand& o : out_) operands.push_back(o.operand);
    std::string key = fmt::format("{} {}", op_.name, n_);
    for (const RowOperand& o : in_) key += fmt::format(" {}{}", name(o.dtype), int(o.kind));
    if (args_.attrs.type) key += " " + to_string(args_.attrs);
    start(key, [&] { return record(); }, args_, sizes_, operands, int(axes_.row));
  }

 private:
  // Strides in the order of axes_; 0 along the row's axes if the operand has one number for each row.
  StridedOperand operand_of(const Tensor& t, bool per_row) const {
    const size_t axes = sizes_.size(), kept = per_row ? axes - axes_.row : axes;
    StridedOperand p{address(t), Ints(axes, 0)};
    const size_t first = kept - std::min(kept, size_t(t.ndim()));  // aligned at the last axis
    for (size_t i = first; i < kept; ++i) {
      const size_t at = t.ndim() == int64_t(axes) ? size_t(axes_.order[i]) : i - first;
      if (t.shape()[at] != 1) p.stride[i] = t.strides()[at] * int64_t(size_of(t.dtype()));
    }
    return p;
  }
  RowOperand input(size_t i) {
    const bool per_row = i < 64 && (op_.row_numbers >> i & 1);
    RowOperand o{operand_of(*args_.in[i], per_row), args_.in[i]->dtype()};
    const auto moves = [](int64_t s) { return s != 0; };
    if (!std::any_of(o.operand.stride.end() - long(axes_.row), o.operand.stride.end(), moves))
      o.kind = Input::Kind::uniform;
    return o;
  }
  // A sum over rows, which another kernel computes.
  bool is_sum(size_t k) const { return op_.row_sums >> k & 1; }
  RowOperand output(size_t k) {
    const Tensor& out = *args_.out[k];
    const bool per_row = out.size() != args_.in[0]->size() || out.ndim() != args_.in[0]->ndim();
    return {operand_of(out, per_row), out.dtype(), per_row ? Input::Kind::uniform : Input::Kind::dense};
  }
  // The points of a row, counted from 0.
  StridedOperand counter() const {
    StridedOperand p{nullptr, Ints(sizes_.size(), 0)};
    int64_t step = 1;
    for (size_t i = sizes_.size(); i-- > sizes_.size() - axes_.row; step *= sizes_[i]) p.stride[i] = step;
    return p;
  }

  kernel::Kernel record() {
    Recorder r;
    kernel::Recording recording(r);
    std::vector<int32_t> in;
    for (const RowOperand& o : in_) in.push_back(read(r, o.dtype, o.kind));
    int32_t point = -1;
    if (op_.row_label >= 0) point = r.input({DType::i64, Input::Kind::counter});
    const std::vector<int32_t> results =
        op_.record_row({r, in, args_.attrs, n_, [&] { return RowArgs::Point{point, 0}; }});
    size_t next = 0;
    for (size_t k = 0; k < results.size(); ++k) {
      if (is_sum(k)) continue;
      const RowOperand& out = out_[next++];
      r.kernel.outputs.push_back({r.convert(results[k], out.dtype), out.dtype, out.kind == Input::Kind::uniform});
    }
    return r.finish();
  }

  const KernelArgs& args_;
  const Op& op_;
  const RowAxes axes_;
  Ints sizes_;  // in the order of axes_
  int64_t n_ = 1;
  std::vector<RowOperand> in_, out_;
};

void run_rows(const KernelArgs& args) { RowCall(args).run(); }

}  // namespace

void start_map(const KernelArgs& args, const std::string& key, const Callback<kernel::Kernel()>& record) {
  const Tensor& out = *args.out[0];
  if (out.size() == 0) return;
  std::vector<StridedOperand> operands;
  for (const Tensor* t : args.in) operands.push_back(strided_operand(*t, size_t(out.ndim())));
  for (const Tensor* t : args.out) operands.push_back(strided_operand(*t, size_t(out.ndim())));
  start(key, record, args, Ints(out.shape().begin(), out.shape().end()), operands, no_rows);
}

Kernel recorded_kernel(const Op& op, DType dtype) {
  if (!can_hold(dtype)) return nullptr;
  if (op.record_point && op.inputs > 0 && (op.inputs > 1 || op.record_point(widened(dtype)))) return run_map;
  if (op.record_row) return run_rows;
  return nullptr;
}

}  // namespace rill::cuda
