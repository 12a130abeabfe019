// A group of nodes as one kernel; see lower.h. Start at Lowering::run.
#include "rill/trace/fusion/lower.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "rill/devices/cuda/kernel_text.h"
#include "rill/devices/driver.h"
#include "rill/devices/kernel/record.h"
#include "rill/devices/params/elementwise_params.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/params/shape_params.h"
#include "rill/ops/op.h"
#include "rill/tensor/error.h"
#include "rill/trace/graph/value_key.h"

namespace rill {

namespace {

using kernel::Code;
using kernel::Input;

constexpr int64_t streamed_bytes = 40 << 20;  // more than most last-level caches hold

// A sum over all axes but the last is accumulated by the kernel itself, row by row, if it has so many rows of such a
// length: memory is then read sequentially (sum(m * m, 0) of 4096x1024: 0.4 ms, not 0.9). Fewer rows are folded tile by
// tile, which keeps more threads busy; so are shorter rows, several at a time.
constexpr int64_t min_summed_rows = 1024, min_summed_length = 128, max_summed_length = 8192;

class Lowering {
 public:
  Lowering(const Graph& g, const FusionGroup& group) : g_(g), group_(group), fused_(std::make_shared<FusedKernel>()) {}

  Lowered run(const std::vector<std::vector<bool>>& read_outside) {
    kernel::Recording recording(recorder_);
    fused_->space = group_.space;
    fused_->row_axes = group_.row_axes;
    if (group_.outer_fold >= 0) reserve_outer_fold();
    std::vector<int32_t> nodes;
    std::merge(group_.nodes.begin(), group_.nodes.end(), group_.repeated.begin(), group_.repeated.end(),
               std::back_inserter(nodes));
    for (int32_t i : nodes) {
      const Node& n = g_.nodes()[size_t(i)];
      fused_->fused.emplace_back(n.op->name);
      if (i == group_.outer_fold) {
        lower_outer_fold(n);
        continue;
      }
      if (std::binary_search(group_.sums.begin(), group_.sums.end(), i)) {
        if (read_outside[size_t(i)][0]) add_sum({i, 0}, operand(n, 0));
        continue;
      }
      std::vector<int32_t> results = lower(n);
      for (size_t k = 0; k < results.size(); ++k) {
        const ValueId v{i, int32_t(k)};
        const bool read = read_outside[size_t(i)][k];
        if (is_row_sum(g_, group_, v)) {
          if (read) add_sum(v, results[k]);
          continue;
        }
        values_[key_of(v)] = recorder_.convert(results[k], n.outputs[k].dtype);
        if (read && !std::binary_search(group_.repeated.begin(), group_.repeated.end(), i)) add_output(v);
      }
    }
    fused_->kernel = recorder_.finish();
    generate_inside();
    kernel::verify(fused_->kernel);
    std::vector<const Spec*> specs;
    for (ValueId v : lowered_.inputs) specs.push_back(&g_.spec(v));
    fused_->complete(specs);
    fused_->kernel.streaming = can_stream();
    lowered_.kernel = fused_;
    return std::move(lowered_);
  }

 private:
  // Maps on GPUs generate random words themselves. (Each point of a row's later passes would have to generate them
  // again.)
  void generate_inside() {
    const Device device = g_.nodes()[size_t(group_.nodes.front())].outputs[0].device;
    if (device.kind() != DeviceKind::gpu || cuda::takes_rows(fused_->kernel)) return;
    for (size_t k = 0; k < fused_->inputs.size(); ++k)
      if (fused_->inputs[k].random && cuda::operand_count(fused_->kernel) < cuda::Space::most_operands)
        fused_->kernel.inputs[k].kind = Input::Kind::counter;
  }

  // f16 and bf16 are computed in f32.
  int32_t widened(int32_t value) {
    return is_half(recorder_.type(value)) ? recorder_.convert(value, DType::f32) : value;
  }

  // Results that are too large to stay in a cache until they are read again use non-temporal stores, which do not read
  // the cache line first. Rows must begin at cache lines.
  bool can_stream() const {
    int64_t bytes = 0;
    bool aligned = true;
    for (const kernel::Output& o : fused_->kernel.outputs) {
      if (o.per_row || o.added) continue;
      const int64_t element = int64_t(size_of(o.dtype));
      bytes += element * fused_->layout.n * fused_->layout.rows;
      aligned &= fused_->layout.rows == 1 || element * fused_->layout.n % 64 == 0;
    }
    return !fused_->fold && aligned && bytes >= streamed_bytes;
  }

  // The folded output is the first.
  void reserve_outer_fold() {
    recorder_.kernel.outputs.push_back({});
    fused_->outputs.push_back(g_.nodes()[size_t(group_.outer_fold)].outputs[0]);
    lowered_.outputs.push_back({group_.outer_fold, 0});
  }

  void lower_outer_fold(const Node& n) {
    const int32_t value = widened(operand(n, 0));
    recorder_.kernel.outputs[0] = {value, recorder_.type(value), false};
    FusedKernel::Fold fold{*n.op->fold, std::vector<bool>(group_.space.size(), false)};
    const std::vector<int> to_space = operand_axes(g_, n, 0);
    for (int64_t axis : n.attrs.as<ReduceParams>().axes)
      if (to_space[size_t(axis)] >= 0) fold.reduced[size_t(to_space[size_t(axis)])] = true;
    if (adds_rows(fold)) {
      recorder_.kernel.outputs[0].added = true;
      fused_->row_axes = 1;
    } else {
      fused_->fold = std::move(fold);
    }
  }

  bool adds_rows(const FusedKernel::Fold& fold) const {
    const int64_t length = group_.space.back();
    int64_t rows = 1;
    for (size_t i = 0; i + 1 < group_.space.size(); ++i) {
      if (!fold.reduced[i]) return false;
      rows *= group_.space[i];
    }
    return fold.code == Code::reduce_sum && !fold.reduced.back() && rows >= min_summed_rows &&
           length >= min_summed_length && length <= max_summed_length;
  }

  std::vector<int32_t> lower(const Node& n) {
    if (n.op->generated != Generated::no) return {n.op->generated == Generated::counts ? count(n) : random_words(n)};
    std::vector<int32_t> in;
    for (size_t i = 0; i < n.inputs.size(); ++i) in.push_back(widened(operand(n, i)));
    if (n.op->record_row) {
      if (n.op->row_label >= 0) add_check(n);
      return n.op->record_row({recorder_, in, n.attrs, row_length(), [this] { return point_of_row(); }});
    }
    if (n.op->fold) return {recorder_.add({*n.op->fold, recorder_.type(in[0]), {in[0], -1, -1}, 0})};
    return {n.op->record_point(recorder_.type(in.back()))(in.data())};
  }

  int64_t row_length() const {
    int64_t n = 1;
    for (size_t i = group_.space.size() - size_t(group_.row_axes); i < group_.space.size(); ++i) n *= group_.space[i];
    return n;
  }

  int32_t operand(const Node& n, size_t i) {
    const Access s = access_of(g_, n.inputs[i]);
    if (auto made = values_.find(key_of(s.base)); made != values_.end()) return made->second;
    const Node& base = g_.nodes()[size_t(s.base.node)];
    if (base.kind == Node::Kind::constant && base.constant.size() == 1) return constant(base.constant);
    const std::vector<int> to_space = operand_axes(g_, n, i);
    std::vector<int> axes(group_.space.size(), -1);
    for (size_t a = 0; a < s.axes.size(); ++a)
      if (s.axes[a] >= 0) axes[size_t(to_space[size_t(s.axes[a])])] = int(a);
    return external(s.base, std::move(axes));
  }

  int32_t constant(const Tensor& t) {
    uint64_t bits = 0;
    const Tensor here = is_host(t.device()) ? t : t.to(Device());
    const Tensor wide = is_half(t.dtype()) ? here.astype(DType::f32) : here;
    std::memcpy(&bits, wide.rep()->data, size_of(wide.dtype()));
    return recorder_.constant(wide.dtype(), bits);
  }

  int32_t random_words(const Node& n) {
    std::vector<int> axes;
    for (size_t i = 0; i < group_.space.size(); ++i) axes.push_back(int(i));
    fused_->inputs.push_back({operand_number(n.inputs[0]), std::move(axes), {}, true});
    input_values_.push_back(recorder_.input({DType::u32, Input::Kind::dense}));
    return input_values_.back();
  }

  // start + step * i, as in ref/iota.cpp: integers in i64, others in f64 and rounded once.
  int32_t count(const Node& n) {
    const IotaAttrs& a = n.attrs.as<IotaAttrs>();
    const Shape& shape = n.outputs[0].shape;
    std::vector<int64_t> steps(group_.space.size(), 0);
    size_t axis = 0;
    for (int64_t i = 0; i < a.axis; ++i) axis += shape[size_t(i)] != 1;
    if (shape[size_t(a.axis)] != 1) steps[axis] = 1;
    const bool along_row = !steps.empty() && steps.back() != 0;
    fused_->inputs.push_back({-1, std::vector<int>(steps.size(), -1), std::move(steps)});
    input_values_.push_back(recorder_.input({DType::i64, along_row ? Input::Kind::counter : Input::Kind::coordinate}));
    using Whole = kernel::Rec<int64_t>;
    const Whole i = Whole::of(input_values_.back()) - Whole(FusedKernel::counter_base);
    if (is_integer(a.dtype)) return (Whole(a.start.whole) + Whole(a.step.whole) * i).id;
    using Real = kernel::Rec<double>;
    const Real x = Real(a.start.real) + Real(a.step.real) * Real::of(recorder_.convert(i.id, DType::f64));
    if (a.dtype == DType::f64) return x.id;
    return recorder_.convert(is_half(a.dtype) ? recorder_.convert(x.id, a.dtype) : x.id, DType::f32);
  }

  // The index of the point in its row.
  RowArgs::Point point_of_row() {
    if (point_ >= 0) return {point_, FusedKernel::counter_base};
    std::vector<int64_t> steps(group_.space.size(), 0);
    int64_t step = 1;
    for (size_t i = steps.size(); i-- > steps.size() - size_t(group_.row_axes); step *= group_.space[i])
      steps[i] = step;
    fused_->inputs.push_back({-1, std::vector<int>(steps.size(), -1), std::move(steps)});
    input_values_.push_back(recorder_.input({DType::i64, Input::Kind::counter}));
    return {point_ = input_values_.back(), FusedKernel::counter_base};
  }

  // The labels of `n`, a row op, are outside of the group: see accesses_fit().
  void add_check(const Node& n) {
    const int operand = operand_number(access_of(g_, n.inputs[size_t(n.op->row_label)]).base);
    const int64_t classes = g_.spec(n.inputs[0]).shape.back();
    for (const FusedKernel::Check& c : fused_->checks)
      if (c.operand == operand && c.classes == classes) return;
    fused_->checks.push_back({operand, classes, std::string(n.op->name), n.where, n.function, n.scope});
  }

  // The operand of the fused node for a value from outside.
  int operand_number(ValueId v) {
    auto at = std::find(lowered_.inputs.begin(), lowered_.inputs.end(), v);
    const int number = int(at - lowered_.inputs.begin());
    if (at == lowered_.inputs.end()) lowered_.inputs.push_back(v);
    return number;
  }

  // The kernel input that reads a value from outside along these axes.
  int32_t external(ValueId v, std::vector<int> axes) {
    for (size_t k = 0; k < fused_->inputs.size(); ++k)
      if (!fused_->inputs[k].random && fused_->inputs[k].operand >= 0 &&
          lowered_.inputs[size_t(fused_->inputs[k].operand)] == v && fused_->inputs[k].axes == axes)
        return input_values_[k];
    // Whether it changes along the row: the row of a map is at least the last axis.
    const size_t row = std::max<size_t>(size_t(group_.row_axes), group_.space.empty() ? 0 : 1);
    const bool moves = std::any_of(axes.end() - long(row), axes.end(), [](int a) { return a >= 0; });
    fused_->inputs.push_back({operand_number(v), std::move(axes), {}});
    input_values_.push_back(recorder_.input({g_.spec(v).dtype, moves ? Input::Kind::dense : Input::Kind::uniform}));
    return input_values_.back();
  }

  void add_output(ValueId v) {
    const Node& n = g_.nodes()[size_t(v.node)];
    const bool per_row = group_.space.empty() || is_row_level(group_, n, size_t(v.index));
    recorder_.kernel.outputs.push_back({values_[key_of(v)], n.outputs[size_t(v.index)].dtype, per_row});
    fused_->outputs.push_back(n.outputs[size_t(v.index)]);
    lowered_.outputs.push_back(v);
  }

  // The kernel sums the rows of `value`, in f32 or f64.
  void add_sum(ValueId v, int32_t value) {
    value = widened(value);
    recorder_.kernel.outputs.push_back({value, recorder_.type(value), false, true});
    fused_->outputs.push_back(g_.spec(v));
    lowered_.outputs.push_back(v);
  }

  const Graph& g_;
  const FusionGroup& group_;
  std::shared_ptr<FusedKernel> fused_;
  kernel::Recorder recorder_;
  int32_t point_ = -1;  // point_of_row()
  Lowered lowered_;
  std::map<int64_t, int32_t> values_;  // graph value to kernel value
  std::vector<int32_t> input_values_;  // by kernel input
};

}  // namespace

Lowered lower(const Graph& g, const FusionGroup& group, const std::vector<std::vector<bool>>& read_outside) {
  return Lowering(g, group).run(read_outside);
}

}  // namespace rill
