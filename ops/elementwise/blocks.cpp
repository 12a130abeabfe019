// Operands that are dense in the same layout are cut anywhere; others along their first axis, and each piece is made
// dense first.
#include "rill/ops/elementwise/blocks.h"

#include <algorithm>
#include <cstring>

#include "rill/devices/cpu/move/their_order.h"
#include "rill/devices/registry.h"
#include "rill/devices/threads.h"
#include "rill/ops/apply.h"
#include "rill/ops/run_watch.h"

namespace rill::elementwise {

namespace {

constexpr int64_t block = 1 << 13;  // elements: a few temporaries of f32 stay in the L2 cache
constexpr int64_t block_of_rows = 1 << 15;
constexpr int64_t strided_rows = 16;  // at least, so that complete cache lines are read if the columns are dense

// How the operands are cut: `n` indices of the first axis, with `row` elements of the result each.
struct Cut {
  SmallVec<Tensor, 4> in;  // each has this axis, of size n, or is shared by all blocks
  int64_t n = 0, row = 1, step = 1;
};

Shape common_shape(std::span<const Tensor* const> in) {
  Shape shape;
  for (const Tensor* t : in)
    if (!broadcast_into(shape, t->shape())) return {};
  return shape;
}

bool is_cut(const Tensor& t, const Cut& cut, int ndim) { return t.ndim() == ndim && t.shape()[0] == cut.n; }

Tensor piece_of(const Tensor& t, int64_t begin, int64_t end) {
  Shape shape = t.shape();
  shape[0] = end - begin;
  Tensor view = make_view(t, shape, t.strides(), begin * t.strides()[0]);
  if (view.is_contiguous()) return view;
  Tensor dense = empty_tensor(view.spec());
  copy_elements(view, dense);
  return dense;
}

}  // namespace

bool is_unobserved(std::span<const Tensor* const> in) {
  if (listeners().see_ops() || placement_is_logged() || runs_are_watched()) return false;
  return std::all_of(in.begin(), in.end(), [&](const Tensor* t) {
    return t->defined() && t->device() == in[0]->device() && t->device().kind() == DeviceKind::cpu &&
           t->dtype() != DType::string && !t->rep()->trace;
  });
}

Tensor run_in_blocks(std::span<const Tensor* const> in, Tensor (*f)(void* context, const Tensor* blocks),
                     void* context) {
  if (!is_unobserved(in)) return Tensor();
  const Shape shape = common_shape(in);
  const bool all_dense = std::all_of(in.begin(), in.end(), [&](const Tensor* t) {
    return t->ndim() == 0 || (t->shape() == shape && t->is_contiguous());
  });
  // Transposed in the same way: so is the result, if allowed.
  if (const Ints order = all_dense ? Ints() : cpu::common_order(in, shape); !order.empty()) {
    SmallVec<Tensor, 4> views;
    SmallVec<const Tensor*, 4> pointers;
    for (const Tensor* t : in) views.push_back(cpu::in_order(*t, order));
    for (const Tensor& t : views) pointers.push_back(&t);
    const Tensor y = run_in_blocks(pointers, f, context);
    if (!y.defined()) return y;
    const Tensor result = cpu::out_of_order(y, order);
    return cpu::may_lie_otherwise(result.spec()) ? result : cpu::as_dense(result);
  }
  if (shape.empty() || shape.numel() < worth_blocks || (!all_dense && shape[0] < 2 * strided_rows)) return Tensor();
  Cut cut;
  for (const Tensor* t : in)
    cut.in.push_back(all_dense && t->ndim() > 0 ? make_view(*t, Shape{t->size()}, Strides{1}, 0) : *t);
  const int ndim = all_dense ? 1 : shape.ndim();
  cut.n = all_dense ? shape.numel() : shape[0];
  cut.row = shape.numel() / cut.n;
  cut.step = std::max(block / cut.row, all_dense ? 1 : strided_rows);
  const bool repeats = std::all_of(cut.in.begin(), cut.in.end(),
                                   [&](const Tensor& t) { return !is_cut(t, cut, ndim) || t.strides()[0] == 0; });
  if (repeats) cut.step = 1;

  const auto piece = [&](int64_t begin, int64_t end) {
    SmallVec<Tensor, 4> blocks;
    for (const Tensor& t : cut.in) blocks.push_back(is_cut(t, cut, ndim) ? piece_of(t, begin, end) : t);
    return f(context, blocks.data());
  };
  const Tensor first = piece(0, std::min(cut.step, cut.n));  // determines the dtype of the result
  if (repeats) {
    Strides strides = first.strides();
    strides[0] = 0;
    const Tensor result = make_view(first, shape, strides, 0);
    return cpu::may_lie_otherwise(result.spec()) ? result : cpu::as_dense(result);
  }
  Tensor out = empty_tensor(Spec{shape, first.dtype(), first.spec().weak, first.device()});
  const auto put = [&](const Tensor& result, int64_t begin) {
    Tensor to = make_view(out, result.shape(), contiguous_strides(result.shape()), begin * cut.row);
    copy_elements(result, to);
  };
  put(first, 0);
  parallel_for((cut.n + cut.step - 1) / cut.step - 1, 1, [&](int64_t from, int64_t to) {
    for (int64_t begin = (from + 1) * cut.step; begin < std::min(cut.n, (to + 1) * cut.step); begin += cut.step)
      put(piece(begin, std::min(begin + cut.step, cut.n)), begin);
  });
  return out;
}

Tensor run_in_rows(const Tensor& x, Tensor (*f)(void* context, const Tensor& rows), void* context) {
  const Tensor* const in[] = {&x};
  if (x.ndim() < 2 || !is_unobserved(in) || !x.is_contiguous()) return Tensor();
  const int64_t n = x.shape()[0], step = std::max<int64_t>(1, block_of_rows * n / x.size()),
                blocks = (n + step - 1) / step;
  if (blocks < 2) return Tensor();
  const auto piece = [&](int64_t i) { return f(context, piece_of(x, i * step, std::min(n, (i + 1) * step))); };
  const Tensor first = piece(0);
  Shape shape = first.shape();
  const int64_t row = first.size() / step;
  shape[0] = n;
  Tensor out = empty_tensor(Spec{shape, first.dtype(), first.spec().weak, first.device()});
  const auto put = [&](const Tensor& result, int64_t i) {
    Tensor to = make_view(out, result.shape(), contiguous_strides(result.shape()), i * step * row);
    copy_elements(result, to);
  };
  put(first, 0);
  parallel_for(blocks - 1, 1, [&](int64_t b, int64_t e) {
    for (; b < e; ++b) put(piece(b + 1), b + 1);
  });
  return out;
}

}  // namespace rill::elementwise
