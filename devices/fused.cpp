// Where the inputs of a fused kernel are, its layouts and its checks; see fused.h. Start at make_layout.
#include "rill/devices/fused.h"

#include <algorithm>
#include <utility>

#include "rill/devices/axes.h"
#include "rill/devices/kernel/schedule.h"
#include "rill/devices/params/nn_params.h"
#include "rill/tensor/error.h"

namespace rill {

namespace {

// Byte strides of kernel operand `k` along each axis of the space; `strides(operand, axis)` returns those of the
// operands in elements.
std::vector<int64_t> dense_strides(const FusedKernel& f, size_t axes, DType dtype) {
  std::vector<int64_t> s(f.space.size(), 0);
  int64_t stride = int64_t(size_of(dtype));
  for (size_t i = axes; i-- > 0; stride *= f.space[i]) s[i] = stride;
  return s;
}
template <class F>
std::vector<int64_t> strides_of(const FusedKernel& f, size_t k, F&& strides) {
  if (k >= f.inputs.size()) {  // without the row axes if it is per row, and without the others if rows are added
    const kernel::Output& out = f.kernel.outputs[k - f.inputs.size()];
    std::vector<int64_t> s = dense_strides(f, f.space.size() - (out.per_row ? size_t(f.row_axes) : 0), out.dtype);
    if (out.added) std::fill(s.begin(), s.end() - f.row_axes, 0);
    return s;
  }
  const FusedKernel::Access& a = f.inputs[k];
  if (a.operand < 0) return a.steps;
  if (a.random) return dense_strides(f, f.space.size(), f.kernel.inputs[k].dtype);
  std::vector<int64_t> s(f.space.size(), 0);
  const int64_t element = int64_t(size_of(f.kernel.inputs[k].dtype));
  for (size_t i = 0; i < s.size(); ++i)
    if (a.axes[i] >= 0) s[i] = element * strides(a.operand, a.axes[i]);
  return s;
}

// Axes [begin, end) of the space, with neighbours joined if they are one run in every operand.
struct JoinedAxis {
  int64_t size;
  std::vector<int64_t> stride;  // by operand
};
std::vector<JoinedAxis> joined(const std::vector<int64_t>& space, const std::vector<std::vector<int64_t>>& strides,
                               size_t begin, size_t end) {
  std::vector<JoinedAxis> axes;
  for (size_t i = begin; i < end; ++i) {
    JoinedAxis here{space[i], {}};
    for (const auto& s : strides) here.stride.push_back(s[i]);
    append_axis(axes, here, &JoinedAxis::stride);
  }
  return axes;
}

template <class F>
FusedLayout make_layout(const FusedKernel& f, F&& element_strides) {
  std::vector<std::vector<int64_t>> strides;
  const size_t operands = f.inputs.size() + f.outputs.size();
  for (size_t k = 0; k < operands; ++k) strides.push_back(strides_of(f, k, element_strides));
  FusedLayout l;
  const size_t split = f.space.size() - size_t(f.row_axes);
  std::vector<JoinedAxis> outer = joined(f.space, strides, 0, split),
                          row = joined(f.space, strides, split, f.space.size());
  l.row_stride.assign(operands, 0);
  l.no_stride.assign(operands, 0);
  if (f.row_axes == 0 && !outer.empty()) {  // a map's row is its innermost axis
    l.n = outer.back().size;
    l.row_stride = std::move(outer.back().stride);
    outer.pop_back();
  } else if (f.row_axes > 0) {
    l.n = row.back().size;
    l.row_stride = row.back().stride;
    l.joined = row.size() == 1;
  }
  for (size_t k = 0; k < f.inputs.size(); ++k)
    l.gathers |= f.kernel.inputs[k].kind == kernel::Input::Kind::dense &&
                 l.row_stride[k] != int64_t(size_of(f.kernel.inputs[k].dtype));
  if (l.n == 1) l.gathers = false;  // a single point is always dense
  for (const FusedKernel::Access& a : f.inputs) l.gathers |= a.random;
  for (JoinedAxis& axis : outer) {
    l.rows *= axis.size;
    l.outer.push_back(axis.size);
    l.outer_stride.push_back(std::move(axis.stride));
  }
  return l;
}

// Nanoseconds of work that are worth another thread: several times the half microsecond that it takes to hand over work
// to one that waits for it.
constexpr double worth_handing_over = 3000;

// A rough estimate of nanoseconds for each point: instructions and memory traffic with wide vectors.
double point_cost(const kernel::Kernel& k) {
  double cost = 0;
  for (const kernel::Inst& i : k.body) {
    using kernel::Code;
    cost += i.code == Code::patch ? 0.05 : i.code == Code::div || i.code == Code::sqrt ? 0.08 : 0.015;
  }
  return cost + 0.12 * double(k.inputs.size() + k.outputs.size());
}

}  // namespace

void Grain::guess(double nanoseconds_a_point) {
  points_ = std::max<int64_t>(1, int64_t(worth_handing_over / nanoseconds_a_point));
}

void Grain::saw(double nanoseconds_a_point) {
  const int64_t now = int64_t(worth_handing_over / std::max(nanoseconds_a_point, 1e-3));
  if (left_.fetch_sub(1, std::memory_order_relaxed) == 4 || now > points()) points_ = std::max<int64_t>(1, now);
}

void FusedKernel::complete(std::span<const Spec* const> operands) {
  for (const kernel::Output& o : kernel.outputs) sums_rows = sums_rows || o.added;
  scratch_slots = kernel::schedule(kernel).slots;
  grain.guess(point_cost(kernel));
  layout = make_layout(*this, [&](int operand, int axis) {
    const Shape& shape = operands[size_t(operand)]->shape;
    int64_t stride = 1;
    for (size_t i = shape.size(); i-- > size_t(axis) + 1;) stride *= shape[i];
    return stride;
  });
}

FusedKernel::~FusedKernel() {
  for (const StridedLayout* s = strided.load(std::memory_order_acquire); s;) delete std::exchange(s, s->next);
}

// A loop's first step may start with broadcast operands, while later steps have dense ones.
const FusedLayout& FusedKernel::layout_of(Operands in, FusedLayout& room) const {
  constexpr int most = 4;
  const StridedLayout* const first = strided.load(std::memory_order_acquire);
  int known = 0;
  for (const StridedLayout* s = first; s; s = s->next, ++known) {
    bool fits = true;
    for (size_t k = 0; fits && k < in.size(); ++k) fits = in[k]->strides() == s->strides[k];
    if (fits) return s->layout;
  }
  room = make_layout(*this, [&](int operand, int axis) { return in[size_t(operand)]->strides()[size_t(axis)]; });
  if (known == most) return room;
  auto made = std::make_unique<StridedLayout>();
  for (const Tensor* t : in) made->strides.push_back(t->strides());
  made->layout = room;
  made->next = first;
  const StridedLayout* expected = first;
  if (strided.compare_exchange_strong(expected, made.get(), std::memory_order_acq_rel)) return made.release()->layout;
  return room;
}

void FusedKernel::check(Operands in) const {
  for (const Check& c : checks) try {
      check_labels(in[size_t(c.operand)]->contiguous(), c.classes, c.op);
    } catch (const Error& e) {
      fail_at({c.place, c.function, c.scope}, e);
    }
}

std::string FusedKernel::ops() const {
  std::string s;
  for (const std::string& op : fused) s += (s.empty() ? "" : ", ") + op;
  return s;
}

}  // namespace rill
