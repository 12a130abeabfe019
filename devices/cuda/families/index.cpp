// Starts the kernels of index.cuh.
#include <algorithm>
#include <bit>
#include <numeric>

#include "rill/devices/cuda/driver/spaces.h"
#include "rill/devices/cuda/families/families.h"
#include "rill/devices/cuda/families/index_params.h"
#include "rill/devices/params/gather_layout.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/tensor/error.h"

namespace rill::cuda {

namespace {

int64_t bytes_of(DType d) { return int64_t(size_of(d)); }

// The kind of IndexedElements: an integer's bytes, negative if it is signed.
int kind_of(DType d) { return is_signed_int(d) ? -int(size_of(d)) : int(size_of(d)); }

// Which axes of gather's result, or of scatter's updates, belong to slices and which to the index tensors.
struct Axes {
  Axes(const GatherLayout& g, const Tensor& indexed)
      : slices(g.slice_axes.size()), index_axes(g.index_shape.size()), at(g.at) {
    for (size_t i = 0; i < slices; ++i) slice_sizes.push_back(indexed.shape()[size_t(g.slice_axes[i])]);
    for (const Dim n : g.index_shape) index_sizes.push_back(n);
  }
  size_t slice_axis(size_t i) const { return i < at ? i : i + index_axes; }
  size_t index_axis(size_t d) const { return at + d; }

  size_t slices, index_axes, at;
  Ints slice_sizes, index_sizes;
};

// Strides along the axes of the result; `slice` and `index` return those along an axis of either kind.
template <class F, class G>
Ints strides_of(const Axes& axes, F&& slice, G&& index) {
  Ints out(axes.slices + axes.index_axes);
  for (size_t i = 0; i < axes.slices; ++i) out[axes.slice_axis(i)] = slice(i);
  for (size_t d = 0; d < axes.index_axes; ++d) out[axes.index_axis(d)] = index(d);
  return out;
}

// The stride along the batch axes of the indexed tensor of dimension d of the indices, in elements.
int64_t batch_stride(const GatherLayout& g, const Tensor& indexed, size_t d) {
  int64_t stride = 0;
  for (size_t i = 0; i < g.attrs.batch_dims.size(); ++i)
    if (size_t(g.attrs.batch_dims[i]) == d) stride += indexed.strides()[size_t(g.attrs.batch_axes[i])];
  return stride;
}

// All of IndexedElements but its Space; strides count `unit` elements.
IndexedElements indexed_elements_of(Gpu& gpu, const GatherLayout& g, const Tensor& indexed, int64_t unit) {
  IndexedElements p{};
  if (g.indices.size() > size_t(IndexedElements::most))
    fail("index", fmt::format("a GPU takes at most {} index tensors. got {}", IndexedElements::most, g.indices.size()),
         Where());
  p.count = int(g.indices.size());
  p.skips = g.attrs.skips;
  p.fault = gpu.fault_slot();
  for (size_t j = 0; j < g.indices.size(); ++j) {
    const int64_t axis = g.attrs.axes[j];
    p.kind[j] = kind_of(g.indices[j]->dtype());
    p.code[j] =
        gpu.fault_code("index", fmt::format("index {{value}} is out of bounds for axis {} of size {{limit}}", axis));
    p.size[j] = indexed.shape()[size_t(axis)];
    p.stride[j] = indexed.strides()[size_t(axis)] / unit;
  }
  return p;
}

// The strides of index tensor j, in bytes, along the axes of the indices.
Ints index_strides(const GatherLayout& g, size_t j) {
  Ints out;
  for (const int64_t s : g.index_strides[j]) out.push_back(s * bytes_of(g.indices[j]->dtype()));
  return out;
}

void run_gather(const KernelArgs& a) {
  const Tensor &x = *a.in[0], &out = *a.out[0];
  if (out.size() == 0) return;
  Gpu& gpu = gpu_of(out.device());
  const GatherLayout g(x, a.in.subspan(1), a.attrs.as<GatherAttrs>());
  const Axes axes(g, x);
  const int64_t size = bytes_of(x.dtype());
  std::vector<StridedOperand> operands(2);
  operands[0] = {address(x), strides_of(
                                 axes, [&](size_t i) { return x.strides()[size_t(g.slice_axes[i])] * size; },
                                 [&](size_t d) { return batch_stride(g, x, d) * size; })};
  operands[1] = strided_operand(out, size_t(out.ndim()));
  for (size_t j = 0; j < g.indices.size(); ++j) {
    const Ints steps = index_strides(g, j);
    operands.push_back(
        {address(*g.indices[j]), strides_of(axes, [](size_t) { return 0; }, [&](size_t d) { return steps[d]; })});
  }
  IndexedElements p = indexed_elements_of(gpu, g, x, 1);
  for (int j = 0; j < p.count; ++j) p.stride[j] *= size;
  for_each_space(Ints(out.shape().begin(), out.shape().end()), operands, no_rows, [&](const Space& s) {
    p.space = s;
    const bool slices = std::all_of(s.point + 2, s.point + 2 + p.count, [](int64_t step) { return step == 0; });
    uintptr_t steps = 0;  // from slice to slice: in a view they may have any size
    for (int j = 0; j < p.count; ++j) steps |= uintptr_t(p.stride[j]);
    const size_t bytes = slices ? widen_points(p.space, 2, size_t(size), steps) : size_t(size);
    const std::string_view type = bytes == 16 && size < 16 ? "AlignedU64x2" : word(bytes);
    const int64_t count = p.space.rows * p.space.n;
    const std::string call = fmt::format("gather_points<{}, {}>", type, index_type(count));
    gpu.launch(kernel_of(gpu, {index_family, "IndexedElements", call}), p, count);
  });
}

// --- Scatter ---------------------------------------------------------------------------------------------------------

// The only Space of an index space. Throws if it needs several.
Space one_space(const Ints& sizes, const std::vector<StridedOperand>& operands) {
  Space found;
  int spaces = 0;
  for_each_space(sizes, operands, no_rows, [&](const Space& s) { found = s, ++spaces; });
  if (spaces != 1)
    fail("scatter", fmt::format("a GPU takes indices of at most {} axes", Space::most_axes + 1), Where());
  return found;
}

Tensor words_on(Device d, int64_t count, DType dtype = DType::u64) {
  return empty_tensor(Spec{Shape{count}, dtype, false, d});
}

// Sorts by the bits [low, high) of words that are sorted by the bits below; all of them differ.
Tensor sorted(Gpu& gpu, Tensor words, int low, int high) {
  constexpr int64_t few = 4096;  // for which comparing each with all is faster than three kernels for each digit
  const int64_t count = words.size();
  Tensor other = words_on(gpu.device, count);
  if (count <= few) {
    const SortStep s{address(words), address(other), nullptr, count, 0, 0, 0};
    gpu.launch(kernel_of(gpu, {index_family, "SortStep", "sort_by_rank"}), s, count);
    return other;
  }
  const int64_t tiles = (count + 255) / 256, most = int64_t(gpu.processors) * 4;
  const int64_t chunk = (tiles + most - 1) / most * 256, blocks = (count + chunk - 1) / chunk;
  const Tensor counts = words_on(gpu.device, 256 * blocks, DType::u32);
  for (int shift = low; shift < high; shift += 8) {
    const SortStep s{address(words), address(other), address(counts), count, chunk, blocks, shift};
    gpu.launch_blocks(kernel_of(gpu, {index_family, "SortStep", "count_digits"}), s, blocks, 256);
    gpu.launch_blocks(kernel_of(gpu, {index_family, "SortStep", "sum_digits"}), s, 1, 256);
    gpu.launch_blocks(kernel_of(gpu, {index_family, "SortStep", "move_digits"}), s, blocks, 256);
    std::swap(words, other);
  }
  return words;
}

// The greatest common divisor of the targets' offsets, in elements.
int64_t unit_of(const GatherLayout& g, const Tensor& x) {
  int64_t unit = 0;
  for (const int64_t axis : g.attrs.axes) unit = std::gcd(unit, x.strides()[size_t(axis)]);
  for (const int64_t axis : g.attrs.batch_axes) unit = std::gcd(unit, x.strides()[size_t(axis)]);
  return std::max<int64_t>(unit, 1);
}

// The words of the updates, in their order.
Tensor find_targets(Gpu& gpu, const GatherLayout& g, const Axes& axes, const Tensor& x, int64_t unit, int bits,
                    int64_t count) {
  Tensor words = words_on(gpu.device, count);
  std::vector<StridedOperand> operands(2);
  int64_t step = 8;
  operands[1] = {address(words), Ints(axes.index_axes)};
  for (size_t d = axes.index_axes; d-- > 0; step *= axes.index_sizes[d]) operands[1].stride[d] = step;
  for (size_t d = 0; d < axes.index_axes; ++d) operands[0].stride.push_back(batch_stride(g, x, d) / unit);
  for (size_t j = 0; j < g.indices.size(); ++j) operands.push_back({address(*g.indices[j]), index_strides(g, j)});
  IndexedElements p = indexed_elements_of(gpu, g, x, unit);
  p.space = one_space(axes.index_sizes, operands);
  p.bits = bits;
  gpu.launch(kernel_of(gpu, {index_family, "IndexedElements", fmt::format("find_targets<{}>", index_type(count))}), p,
             count);
  return words;
}

std::string_view update_of(ScatterMode mode) {
  switch (mode) {
    case ScatterMode::add: return "AddUpdate";
    case ScatterMode::multiply: return "MultiplyUpdate";
    case ScatterMode::min: return "MinUpdate";
    default: return "MaxUpdate";
  }
}

// Whether the order of additions does not change the sum, and GPUs have atomic additions of the dtype.
bool adds_in_any_order(DType d, ScatterMode mode) {
  return mode == ScatterMode::add && is_integer(d) && size_of(d) >= 4;
}

// Widens the points of an update's elements, if alignment allows.
size_t widen_columns(Scatter& p, size_t size) {
  uintptr_t steps = uintptr_t(p.unit) | uintptr_t(p.update.point[0]);
  for (int64_t a = 0; a < p.update.axes; ++a) steps |= uintptr_t(p.update.stride[0][a]);
  return widen_points(p.column, 2, size, steps);
}

void start_updates(Gpu& gpu, Scatter p, DType dtype, ScatterMode mode) {
  std::string type(name(is_complex(dtype) ? dtype == DType::c64 ? DType::f32 : DType::f64 : dtype));
  if (mode == ScatterMode::set) {
    const size_t size = size_of(dtype), bytes = widen_columns(p, size);
    type = bytes == 16 && size < 16 ? "AlignedU64x2" : word(bytes);
  }
  p.columns = p.column.rows * p.column.n;
  const int64_t count = p.count * p.columns;
  const std::string_view index = index_type(count);
  const std::string call =
      mode == ScatterMode::set ? fmt::format("set_last<{}, {}>", type, index)
      : adds_in_any_order(dtype, mode)
          ? fmt::format("add_in_any_order<u{}, {}>", size_of(dtype) * 8, index)
          : fmt::format("update_in_order<{}, {}, {}, {}>", type, update_of(mode), index, p.update.axes == 0);
  gpu.launch(kernel_of(gpu, {index_family, "Scatter", call}), p, count);
}

void run_scatter(const KernelArgs& a) {
  const ScatterAttrs& attrs = a.attrs.as<ScatterAttrs>();
  const Tensor &x = *a.in[0], &updates = *a.in[1], &out = *a.out[0];
  if (address(x) != address(out)) copy_on_gpu(x, out);  // else it is updated in place
  if (updates.size() == 0) return;
  Gpu& gpu = gpu_of(out.device());
  const GatherLayout g(out, a.in.subspan(2), attrs.where);
  const Axes axes(g, out);
  const int64_t count = g.index_shape.numel(), unit = unit_of(g, out), size = bytes_of(out.dtype());
  const int bits = std::bit_width(uint64_t(count - 1)), target_bits = std::bit_width(uint64_t(out.size() / unit + 1));
  if (bits > 32 || bits + target_bits > 63)
    fail("scatter", fmt::format("{} updates of {} elements are too many for a GPU", count, out.size() / unit), Where());
  Tensor words = find_targets(gpu, g, axes, out, unit, bits, count);
  if (!adds_in_any_order(out.dtype(), attrs.mode)) words = sorted(gpu, std::move(words), bits, bits + target_bits);

  Scatter p{};
  p.words = address(words);
  p.count = count;
  p.unit = unit * size;
  p.none = std::numeric_limits<int64_t>::max() >> bits;
  p.bits = bits;
  StridedOperand update;
  for (size_t d = 0; d < axes.index_axes; ++d) update.stride.push_back(updates.strides()[axes.index_axis(d)] * size);
  p.update = one_space(axes.index_sizes, {update});
  StridedOperand from{address(updates), {}}, to{address(out), {}};
  for (size_t i = 0; i < axes.slices; ++i) {
    from.stride.push_back(updates.strides()[axes.slice_axis(i)] * size);
    to.stride.push_back(out.strides()[size_t(g.slice_axes[i])] * size);
  }
  Ints sizes = axes.slice_sizes;
  if (is_complex(out.dtype()) && attrs.mode == ScatterMode::add) {  // two numbers each
    sizes.push_back(2);
    from.stride.push_back(size / 2);
    to.stride.push_back(size / 2);
  }
  for_each_space(sizes, {from, to}, no_rows, [&](const Space& s) {
    p.column = s;
    start_updates(gpu, p, out.dtype(), attrs.mode);
  });
}

void run_searchsorted(const KernelArgs& a) {
  const Tensor &x = *a.in[0], &values = *a.in[1], &out = *a.out[0];
  Gpu& gpu = gpu_of(out.device());
  const Search p{address(x), address(values), address(out), x.size(), out.size(), a.attrs.as<SearchParams>().right};
  gpu.launch(kernel_of(gpu, {index_family, "Search", fmt::format("search<{}>", name(x.dtype()))}), p, p.count);
}

}  // namespace

std::span<const NamedKernel> index_kernels() {
  static const NamedKernel all[] = {
      {"gather", for_every_dtype<run_gather>},
      {"scatter", for_every_dtype<run_scatter>},
      {"scatter_reduce", for_every_dtype<run_scatter>},
      {"searchsorted", for_every_dtype<run_searchsorted>},
  };
  return all;
}

}  // namespace rill::cuda
