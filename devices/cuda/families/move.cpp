// Starts the kernels of move.cuh.
#include <algorithm>
#include <cstring>

#include "rill/devices/cuda/driver/recorded.h"
#include "rill/devices/cuda/driver/spaces.h"
#include "rill/devices/cuda/families/families.h"
#include "rill/devices/cuda/families/move_params.h"
#include "rill/devices/params/shape_params.h"
#include "rill/tensor/error.h"
#include "rill/tensor/visit_dtype.h"

namespace rill::cuda {

namespace {

// The type that moves points of a Space: for 16 bytes one that requires their alignment if widen_points() has found it.
std::string_view point_type(size_t bytes, bool widened) {
  return widened && bytes == 16 ? "AlignedU64x2" : word(bytes);
}

// If operand 0's neighbours are along an outer axis and operand 1's along the rows, or vice versa: makes
// these the last outer axis and the rows. Returns whether it is so.
bool transposes(Space& s, int64_t size) {
  constexpr int64_t worth = 8;  // elements along both axes, which fill a tile well enough
  for (int k = 0; k < 2; ++k) {
    if (s.point[k] != size || s.point[1 - k] == size || s.n < worth) continue;
    for (int64_t a = 0; a < s.axes; ++a) {
      if (s.stride[1 - k][a] != size || s.outer[a] < worth) continue;
      const int64_t last = s.axes - 1;
      std::swap(s.outer[a], s.outer[last]);
      for (int j = 0; j < 2; ++j) std::swap(s.stride[j][a], s.stride[j][last]);
      if (k == 1) return true;
      s.rows = s.rows / s.outer[last] * s.n;
      std::swap(s.outer[last], s.n);
      for (int j = 0; j < 2; ++j) std::swap(s.stride[j][last], s.point[j]);
      return true;
    }
  }
  return false;
}

void copy_space(Gpu& gpu, Space s, size_t size) {
  if (transposes(s, int64_t(size))) {
    const int64_t height = s.outer[s.axes - 1], tiles = s.rows / height * ((height + 31) / 32) * ((s.n + 31) / 32);
    const Function f = kernel_of(gpu, {move_family, "Space", fmt::format("transpose_tiles<{}>", word(size))});
    return gpu.launch_blocks(f, s, std::min<int64_t>(tiles, int64_t(gpu.processors) * 32), 256);
  }
  const size_t bytes = widen_points(s, 2, size);
  const int64_t count = s.rows * s.n;
  const std::string call = fmt::format("copy_points<{}, {}>", point_type(bytes, bytes != size), index_type(count));
  gpu.launch(kernel_of(gpu, {move_family, "Space", call}), s, count);
}

Ints sizes_of(const Tensor& t) { return {t.shape().begin(), t.shape().end()}; }

}  // namespace

void copy_on_gpu(const Tensor& from, const Tensor& to) {
  if (from.size() == 0) return;
  const size_t axes = size_t(from.ndim());
  for_each_space(sizes_of(from), {strided_operand(from, axes), strided_operand(to, axes)}, no_rows,
                 [&](const Space& s) { copy_space(gpu_of(to.device()), s, size_of(from.dtype())); });
}

void check_labels_on_gpu(const Tensor& labels, int64_t classes, std::string_view op) {
  if (!labels.is_contiguous()) return check_labels_on_gpu(dense_copy(labels), classes, op);
  Gpu& gpu = gpu_of(labels.device());
  const int code =
      gpu.fault_code(op,
                     "label {value} at position {position} is out of range for {limit} classes. labels lie "
                     "in [0, {limit})");
  const InRange p{address(labels), labels.size(), classes, gpu.fault_slot(), code};
  gpu.launch(kernel_of(gpu, {move_family, "InRange", fmt::format("check_range<{}>", name(labels.dtype()))}), p,
             p.count);
}

namespace {

// `to`, with one element's bytes everywhere.
Fill filled(const Tensor& to, const FillValue& v) {
  Fill p{address(to), to.size(), 0, 0};
  visit_stored_dtype(to.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, std::string>) {
      const T value = v.as<T>();
      std::memcpy(&p.low, &value, std::min<size_t>(sizeof value, 8));
      if constexpr (sizeof value > 8) std::memcpy(&p.high, reinterpret_cast<const char*>(&value) + 8, 8);
    }
  });
  return p;
}

void run_full(const KernelArgs& a) {
  const Tensor& out = *a.out[0];
  const Fill p = filled(out, a.attrs.as<FullAttrs>().value);
  Gpu& gpu = gpu_of(out.device());
  gpu.launch(kernel_of(gpu, {move_family, "Fill", fmt::format("fill<{}>", word(size_of(out.dtype())))}), p, p.count);
}

void run_iota(const KernelArgs& a) {
  const IotaAttrs& attrs = a.attrs.as<IotaAttrs>();
  const Tensor& out = *a.out[0];
  Count p{address(out),     out.size(),     out.shape()[size_t(attrs.axis)], 1, attrs.start.whole, attrs.step.whole,
          attrs.start.real, attrs.step.real};
  for (size_t i = size_t(attrs.axis) + 1; i < size_t(out.ndim()); ++i) p.inner *= out.shape()[i];
  Gpu& gpu = gpu_of(out.device());
  gpu.launch(kernel_of(gpu, {move_family, "Count", fmt::format("count<{}>", name(out.dtype()))}), p, p.count);
}

// The axes of pad's result; neighbours without padding are joined.
void set_axes(Padded& p, const PadAttrs& attrs, const Tensor& x, const Tensor& out) {
  const int64_t size = int64_t(size_of(x.dtype()));
  for (size_t i = 0; i < size_t(out.ndim()); ++i) {
    const PadAxis axis{out.shape()[i], attrs.lo[i], attrs.interior[i] + 1, x.shape()[i], x.strides()[i] * size};
    const bool is_unpadded = axis.lo == 0 && axis.step == 1 && axis.padded == axis.size;
    PadAxis* before = p.axes > 0 ? &p.axis[p.axes - 1] : nullptr;
    if (before && is_unpadded && before->step == 1 && before->stride == axis.stride * axis.size) {
      *before = {before->padded * axis.size, before->lo * axis.size, 1, before->size * axis.size, axis.stride};
    } else {
      if (p.axes == Padded::most_axes)
        fail("pad", fmt::format("a GPU pads at most {} axes. got {}", Padded::most_axes, to_string(x.spec())), Where());
      p.axis[p.axes++] = axis;
    }
  }
}

void run_pad(const KernelArgs& a) {
  const Tensor &x = *a.in[0], &out = *a.out[0];
  const PadAttrs& attrs = a.attrs.as<PadAttrs>();
  Padded p{filled(out, attrs.value), address(x), 0, {}};
  set_axes(p, attrs, x, out);
  Gpu& gpu = gpu_of(out.device());
  const std::string call = fmt::format("pad_points<{}, {}>", word(size_of(x.dtype())), index_type(out.size()));
  gpu.launch(kernel_of(gpu, {move_family, "Padded", call}), p, out.size());
}

void run_concat(const KernelArgs& a) {
  const Tensor& out = *a.out[0];
  const size_t axis = size_t(a.attrs.as<ConcatAttrs>().axis);
  int64_t at = 0;
  for (const Tensor* x : a.in) {
    copy_on_gpu(*x, make_view(out, x->shape(), out.strides(), at * out.strides()[axis]));
    at += x->shape()[axis];
  }
}

void run_update_slice(const KernelArgs& a) {
  const Tensor &x = *a.in[0], &value = *a.in[1], &out = *a.out[0];
  const SliceAttrs& attrs = a.attrs.as<SliceAttrs>();
  if (address(x) != address(out)) copy_on_gpu(x, out);  // else it is updated in place
  if (value.size() == 0) return;
  const Window w = slice_window(out.shape(), out.strides(), attrs);
  Shape kept;
  Strides strides;
  for (size_t i = 0; i < w.shape.size(); ++i) {
    if (std::find(attrs.drop.begin(), attrs.drop.end(), int64_t(i)) != attrs.drop.end()) continue;
    kept.push_back(w.shape[i]);
    strides.push_back(w.strides[i]);
  }
  copy_on_gpu(value, make_view(out, kept, strides, w.offset));
}

// For complex numbers; others go through the recorded kernel, as all elementwise ops do.
void run_where(const KernelArgs& a) {
  const Tensor& out = *a.out[0];
  if (!is_complex(out.dtype())) return recorded_kernel(*a.op, a.in[0]->dtype())(a);
  if (out.size() == 0) return;
  std::vector<StridedOperand> operands;
  for (const Tensor* t : {a.in[0], a.in[1], a.in[2], &out}) operands.push_back(strided_operand(*t, size_t(out.ndim())));
  Gpu& gpu = gpu_of(out.device());
  for_each_space(sizes_of(out), operands, no_rows, [&](const Space& s) {
    const int64_t count = s.rows * s.n;
    const std::string call = fmt::format("select_points<{}, {}>", word(size_of(out.dtype())), index_type(count));
    gpu.launch(kernel_of(gpu, {move_family, "Space", call}), s, count);
  });
}

void run_copy(const KernelArgs& a) { copy_elements(*a.in[0], *a.out[0]); }
void run_bitcast(const KernelArgs& a) {
  const Tensor& x = *a.in[0];
  if (x.size() == 0) return;
  copy_on_gpu(x, *a.out[0]);  // only uses the size of x's elements
}

}  // namespace

std::span<const NamedKernel> move_kernels() {
  static const NamedKernel all[] = {
      {"bitcast", for_every_dtype<run_bitcast>}, {"concat", for_every_dtype<run_concat>},
      {"copy", for_every_dtype<run_copy>},       {"full", for_every_dtype<run_full>},
      {"iota", for_every_dtype<run_iota>},       {"pad", for_every_dtype<run_pad>},
      {"transfer", for_every_dtype<run_copy>},   {"update_slice", for_every_dtype<run_update_slice>},
      {"where", for_every_dtype<run_where>},
  };
  return all;
}

}  // namespace rill::cuda
