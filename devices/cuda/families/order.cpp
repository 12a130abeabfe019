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

std::string type_name(DType d) { return d == DType::boolean ? "bool" : std::string(name(d)); }

Tensor uninitialized(Gpu& gpu, int64_t count, DType d) {
  return empty_tensor(Spec{Shape({Dim(count)}), d, false, gpu.device});
}

// The keys of lines and their elements' indices, before or after a pass of the radix sort.
struct Keys {
  Tensor keys, order;
};

// Sorts by the lowest `bits` bits of the keys.
void sort_by_digits(Gpu& gpu, Sorting s, Keys& now, int bits) {
  const std::string_view key = now.keys.dtype() == DType::u64 ? "u64" : "u32";
  const auto function = [&](std::string_view kernel) {
    return kernel_of(gpu, {order_family, "Sorting", fmt::format("{}<{}>", kernel, key)});
  };
  const int64_t enough = int64_t(gpu.processors) * 8;  // blocks
  s.piece = 4096;
  while (s.piece < s.n && s.lines * ((s.n + s.piece - 1) / s.piece) > enough) s.piece *= 2;
  s.pieces = (s.n + s.piece - 1) / s.piece;
  const int64_t blocks = std::min<int64_t>(s.lines * s.pieces, enough * 4);
  Keys next{uninitialized(gpu, now.keys.size(), now.keys.dtype()), uninitialized(gpu, now.order.size(), DType::u32)};
  const Tensor counts = uninitialized(gpu, s.lines * 256 * s.pieces, DType::u32);
  s.counts = address(counts);
  for (s.shift = 0; s.shift < bits; s.shift += 8) {
    s.keys = address(now.keys), s.order = address(now.order);
    s.keys_to = address(next.keys), s.order_to = address(next.order);
    gpu.launch_blocks(function("count_digits"), s, blocks, 256);
    scan_counts(counts, s.lines);
    gpu.launch_blocks(function("move_by_digits"), s, blocks, 256);
    std::swap(now, next);
  }
}

// The indices of the first s.kept elements of each line, in order.
Tensor select(Gpu& gpu, Sorting s, const std::string& types) {
  const Function f = kernel_of(gpu, {order_family, "Sorting", fmt::format("select_tiles<{}>", types)});
  Tensor order;
  for (s.candidates = s.n, s.pieces = 0; s.pieces != 1; s.candidates = s.pieces * s.kept) {
    s.pieces = (s.candidates + longest_tile - 1) / longest_tile;
    Tensor best = uninitialized(gpu, s.lines * s.pieces * s.kept, DType::u32);
    s.order = order.defined() ? address(order) : nullptr;
    s.order_to = address(best);
    gpu.launch_blocks(f, s, std::min<int64_t>(s.lines * s.pieces, int64_t(gpu.processors) * 32), 256);
    order = std::move(best);
  }
  return order;
}

void sort_lines(const Tensor& x, int64_t axis, bool descending, int64_t kept, const Tensor* values,
                const Tensor* indices) {
  if (!x.is_contiguous()) {
    Tensor dense = empty_tensor(Spec{x.shape(), x.dtype(), false, x.device()});
    copy_on_gpu(x, dense);
    return sort_lines(dense, axis, descending, kept, values, indices);
  }
  const AxisView view(x.shape(), axis);
  Sorting s{};
  s.from = address(x);
  s.values = values ? address(*values) : nullptr;
  s.indices = indices ? address(*indices) : nullptr;
  s.lines = view.outer * view.inner, s.n = view.size, s.inner = view.inner, s.kept = kept;
  s.descending = descending;
  if (s.lines * s.n * kept == 0) return;
  if (s.n >= int64_t(1) << 32) fail("sort", "GPUs sort lines of less than 2^32 elements", Where());
  Gpu& gpu = gpu_of(x.device());
  const std::string_view key = size_of(x.dtype()) == 8 ? "u64" : "u32";
  const std::string types = fmt::format("{}, {}", type_name(x.dtype()), key);
  if (s.n <= longest_tile) {
    int64_t width = 1;
    while (width < s.n) width *= 2;
    const int64_t lines = longest_tile / width, tiles = (s.lines + lines - 1) / lines;
    return gpu.launch_blocks(kernel_of(gpu, {order_family, "Sorting", fmt::format("sort_tiles<{}>", types)}), s,
                             std::min<int64_t>(tiles, int64_t(gpu.processors) * 32), 256);
  }
  Tensor order;
  if (kept <= most_selected) {
    order = select(gpu, s, types);
  } else {
    Keys keys{uninitialized(gpu, s.lines * s.n, key == "u64" ? DType::u64 : DType::u32),
              uninitialized(gpu, s.lines * s.n, DType::u32)};
    s.keys = address(keys.keys), s.order = address(keys.order);
    gpu.launch(kernel_of(gpu, {order_family, "Sorting", fmt::format("make_keys<{}>", types)}), s, s.lines * s.n);
    sort_by_digits(gpu, s, keys, int(8 * size_of(x.dtype())));
    order = keys.order;
  }
  s.order = address(order), s.candidates = order.size() / s.lines;
  gpu.launch(kernel_of(gpu, {order_family, "Sorting", fmt::format("store_order<{}>", type_name(x.dtype()))}), s,
             s.lines * kept);
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
  s.lines = 1, s.n = keys.size(), s.inner = 1;
  if (s.n == 0) return;
  Keys both{keys, order};
  sort_by_digits(gpu_of(keys.device()), s, both, bits);
  keys = both.keys, order = both.order;
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
