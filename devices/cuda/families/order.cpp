// Starts the kernels of order.cuh.
#include "rill/devices/cuda/families/order.h"

#include <algorithm>
#include <utility>

#include "rill/devices/cuda/families/order_params.h"
#include "rill/devices/params/nn_params.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/tensor/error.h"

namespace rill::cuda {

namespace {

constexpr int64_t longest_tile = 2048;  // as in order.cuh
constexpr int64_t most_selected = longest_tile / 8;
constexpr int64_t longest_across = 256;  // lines across memory: of longer ones, a tile has less than 8 neighbours

std::string type_name(DType d) { return d == DType::boolean ? "bool" : std::string(name(d)); }

Tensor uninitialized(Gpu& gpu, int64_t count, DType d) {
  return empty_tensor(Spec{Shape({Dim(count)}), d, false, gpu.device});
}

Function order_kernel(Gpu& gpu, std::string call) { return kernel_of(gpu, {order_family, "Sorting", std::move(call)}); }

// Passes of the radix sort over lines of n elements of a type.
class Passes {
 public:
  Passes(Gpu& gpu, const std::string& type, bool with_order, int64_t lines, int64_t n) : gpu_(gpu) {
    // A GPU runs 4 blocks on each processor at once: a few more keep all busy.
    const int64_t tiles = (n + tile - 1) / tile, pieces = std::max<int64_t>(1, int64_t(gpu.processors) * 6 / lines);
    piece_ = (tiles + pieces - 1) / pieces * tile;
    pieces_ = (n + piece_ - 1) / piece_;
    blocks_ = std::min<int64_t>(lines * pieces_, int64_t(gpu.processors) * 32);
    move_ = order_kernel(gpu, fmt::format("move_by_digits<{}, {}>", type, with_order));
    if (pieces_ == 1) return;  // a block that moves a line counts its digits itself
    count_ = order_kernel(gpu, fmt::format("count_digits<{}>", type));
    sum_ = order_kernel(gpu, "sum_counts");
    counts_ = uninitialized(gpu, lines * 256 * (pieces_ + 1), DType::u32);
  }

  void run(Sorting s) const {
    s.piece = piece_, s.pieces = pieces_;
    if (pieces_ > 1) {
      s.counts = address(counts_);
      gpu_.launch_blocks(count_, s, blocks_, 256);
      gpu_.launch(sum_, s, s.lines * 256 * 32);
    }
    gpu_.launch_blocks(move_, s, blocks_, 256);
  }

 private:
  static constexpr int64_t tile = 4096;  // Tile<T>::each * 256 of order.cuh is this, or half of it

  Gpu& gpu_;
  int64_t piece_, pieces_, blocks_;
  Function count_ = nullptr, sum_ = nullptr, move_ = nullptr;
  Tensor counts_;
};

// Each pass reads what the one before has stored, and the last one stores the result.
void sort_by_digits(Gpu& gpu, const Sorting& s, DType type) {
  const bool with_order = s.indices;
  const int passes = int(size_of(type));
  const Passes each(gpu, type_name(type), with_order, s.lines, s.n);
  struct Stored {
    Tensor elements, order;
  } stored[2];
  for (int i = 0; i < passes; ++i) {
    Sorting pass = s;
    pass.shift = 8 * i;
    Stored &before = stored[(i + 1) % 2], &after = stored[i % 2];
    if (i > 0) {
      pass.from = address(before.elements);
      if (with_order) pass.order = address(before.order);
    }
    if (i + 1 < passes) {
      if (!after.elements.defined()) {
        after.elements = uninitialized(gpu, s.lines * s.n, type);
        if (with_order) after.order = uninitialized(gpu, s.lines * s.n, DType::u32);
      }
      pass.values = address(after.elements), pass.indices = nullptr, pass.kept = s.n;
      if (with_order) pass.order_to = address(after.order);
    }
    each.run(pass);
  }
}

// Stores the first s.kept elements of each line.
void select(Gpu& gpu, const Sorting& all, DType type) {
  Sorting s = all;
  const Function f = order_kernel(gpu, fmt::format("select_tiles<{}>", type_name(type)));
  Tensor order;
  for (s.candidates = s.n, s.pieces = 0; s.pieces != 1; s.candidates = s.pieces * s.kept) {
    s.pieces = (s.candidates + longest_tile - 1) / longest_tile;
    Tensor best;
    if (s.pieces > 1) best = uninitialized(gpu, s.lines * s.pieces * s.kept, DType::u32);
    s.order = order.defined() ? address(order) : nullptr;
    s.order_to = best.defined() ? address(best) : nullptr;
    gpu.launch_blocks(f, s, std::min<int64_t>(s.lines * s.pieces, int64_t(gpu.processors) * 32), 256);
    order = std::move(best);
  }
}

void sort_short(Gpu& gpu, const Sorting& s, DType type) {
  int64_t width = 1;
  while (width < s.n) width *= 2;
  const int64_t lines = longest_tile / width, tiles = (s.lines + lines - 1) / lines;
  const std::string call = fmt::format("sort_tiles<{}, {}>", type_name(type), index_type(s.lines));
  gpu.launch_blocks(order_kernel(gpu, call), s, std::min<int64_t>(tiles, int64_t(gpu.processors) * 32), 256);
}

// x with this axis last.
Tensor turned(const Tensor& x, int64_t axis) {
  Shape shape = x.shape();
  Strides strides = x.strides();
  std::rotate(shape.begin() + axis, shape.begin() + axis + 1, shape.end());
  std::rotate(strides.begin() + axis, strides.begin() + axis + 1, strides.end());
  return make_view(x, shape, strides, 0);
}
Tensor empty_like(const Tensor& x) { return empty_tensor(Spec{x.shape(), x.dtype(), false, x.device()}); }

void sort_lines(const Tensor& x, int64_t axis, bool descending, int64_t kept, const Tensor* values,
                const Tensor* indices);

// The same with results that have the axis last, and are copied.
void sort_turned(const Tensor& x, int64_t axis, bool descending, int64_t kept, const Tensor* values,
                 const Tensor* indices) {
  Tensor to[2], sorted[2];
  for (int i = 0; i < 2; ++i)
    if (const Tensor* result = i == 0 ? values : indices) to[i] = turned(*result, axis), sorted[i] = empty_like(to[i]);
  sort_lines(turned(x, axis), x.ndim() - 1, descending, kept, values ? &sorted[0] : nullptr,
             indices ? &sorted[1] : nullptr);
  for (int i = 0; i < 2; ++i)
    if (to[i].defined()) copy_on_gpu(sorted[i], to[i]);
}

void sort_lines(const Tensor& x, int64_t axis, bool descending, int64_t kept, const Tensor* values,
                const Tensor* indices) {
  const AxisView view(x.shape(), axis);
  Sorting s{};
  s.lines = view.outer * view.inner, s.n = view.size, s.inner = view.inner, s.kept = kept;
  if (s.lines == 0 || s.n == 0 || kept == 0) return;
  if (s.n >= int64_t(1) << 32) fail("sort", "GPUs sort lines of less than 2^32 elements", Where());
  if (s.inner > 1 && s.n > longest_across) return sort_turned(x, axis, descending, kept, values, indices);
  if (!x.is_contiguous()) {
    const Tensor dense = empty_like(x);
    copy_on_gpu(x, dense);
    return sort_lines(dense, axis, descending, kept, values, indices);
  }
  s.from = address(x);
  s.values = values ? address(*values) : nullptr;
  s.indices = indices ? address(*indices) : nullptr;
  s.descending = descending;
  const auto start = s.n <= longest_tile ? sort_short : kept <= most_selected ? select : sort_by_digits;
  start(gpu_of(x.device()), s, x.dtype());
}

void run_sort(const KernelArgs& a) {
  const SortParams& p = a.attrs.as<SortParams>();
  sort_lines(*a.in[0], p.axis, p.descending, a.in[0]->shape()[size_t(p.axis)], a.out[0], nullptr);
}
void run_argsort(const KernelArgs& a) {
  const SortParams& p = a.attrs.as<SortParams>();
  sort_lines(*a.in[0], p.axis, p.descending, a.in[0]->shape()[size_t(p.axis)], nullptr, a.out[0]);
}
void run_topk(const KernelArgs& a) {
  const TopKParams& p = a.attrs.as<TopKParams>();
  sort_lines(*a.in[0], p.axis, p.largest, p.k, a.out[0], a.out[1]);
}

template <Kernel kernel>
Kernel of_reals(DType d) {
  return d == DType::string || is_complex(d) ? nullptr : kernel;
}

}  // namespace

void sort_keys(Tensor& keys, Tensor& order, int bits) {
  Sorting s{};
  s.lines = 1, s.n = s.kept = keys.size();
  if (s.n == 0 || bits == 0) return;
  Gpu& gpu = gpu_of(keys.device());
  const Passes each(gpu, "u32", true, 1, s.n);
  Tensor keys_to = uninitialized(gpu, s.n, DType::u32), order_to = uninitialized(gpu, s.n, DType::u32);
  for (; s.shift < bits; s.shift += 8) {
    s.from = address(keys), s.order = address(order);
    s.values = address(keys_to), s.order_to = address(order_to);
    each.run(s);
    std::swap(keys, keys_to), std::swap(order, order_to);
  }
}

std::span<const NamedKernel> order_kernels() {
  static const NamedKernel all[] = {
      {"argsort", of_reals<run_argsort>},
      {"sort", of_reals<run_sort>},
      {"topk", of_reals<run_topk>},
  };
  return all;
}

}  // namespace rill::cuda
