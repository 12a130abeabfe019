// Computes products: by cuBLASLt if it supports them, else by the kernels of products.cuh: which, and in how many
// parts. matmul is in matmul.cpp, convolutions are in convolutions.cpp.
#include "rill/devices/cuda/families/products.h"

#include <algorithm>

#include "rill/devices/axes.h"
#include "rill/devices/cuda/families/families.h"

namespace rill::cuda {

bool add_digit(IndexLayout& w, int64_t size, int64_t stride, const std::array<int64_t, 3>& step) {
  if (size == 1) return true;
  if (w.digits > 0) {
    const int last = w.digits - 1;
    bool joins = is_one_run(w.stride[last], stride, size);
    for (size_t a = 0; a < 3; ++a) joins = joins && is_one_run(w.step[last][a], step[a], size);
    if (joins) {
      --w.digits;
      size *= w.size[last];
    }
  }
  if (w.digits == IndexLayout::most_digits) return false;
  const int d = w.digits++;
  w.size[d] = size;
  w.stride[d] = stride;
  for (size_t a = 0; a < 3; ++a) w.step[d][a] = step[a];
  return true;
}

bool fits_32_bits(const Product& p, LeftRead read) {
  constexpr int64_t most = (int64_t(1) << 31) - 1;
  if (p.batch > most || p.m > most || p.n > most || p.k > most) return false;
  if (read == LeftRead::plain) return true;
  int64_t reach = 1;  // between the first and the last index along a spatial axis
  for (size_t a = 0; a < 3; ++a) {
    reach = std::max<int64_t>(reach, std::abs(p.start[a]) + p.limit[a]);
    for (const IndexLayout* w : {&p.left_m, &p.left_k})
      for (int d = 0; d < w->digits; ++d) {
        if (std::abs(w->step[d][a]) > most) return false;
        reach += (w->size[d] - 1) * std::abs(w->step[d][a]);
        if (reach > most) return false;
      }
    if (p.divide[a] > most) return false;
  }
  return reach <= most;
}

namespace {

int64_t ceil_divide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The dtype in which products.cuh keeps sums of a dtype: of the same size.
DType sums_dtype(DType d) {
  switch (d) {
    case DType::f64: return DType::f64;
    case DType::c64: return DType::c64;
    case DType::c128: return DType::c128;
    case DType::i64:
    case DType::u64: return DType::u64;
    default: return DType::f32;
  }
}

std::string element_name(DType d) {
  if (d == DType::c64) return "Parts<f32>";
  if (d == DType::c128) return "Parts<f64>";
  return std::string(name(d));
}

// How many elements along the innermost digit are neighbours in memory; `space`: the offset of a step along each
// spatial axis.
int64_t dense_run(const IndexLayout& w, const long long* space = nullptr) {
  if (w.digits == 0) return 1;
  const int last = w.digits - 1;
  int64_t moves = w.stride[last];
  for (size_t a = 0; space && a < 3; ++a) moves += w.step[last][a] * space[a];
  return moves == 1 || moves == -1 ? w.size[last] : 1;
}

// The layout of an operand without a window: digits that differ only in their steps are joined.
IndexLayout without_window_steps(const IndexLayout& w) {
  IndexLayout out{};
  for (int d = 0; d < w.digits; ++d) add_digit(out, w.size[d], w.stride[d]);
  return out;
}

enum class Algorithm { tiles, direct, dots };

// Threads or warps compute a result each if tiles of 64 x 64 would be nearly empty.
Algorithm choose_algorithm(const Product& p) {
  constexpr int64_t few = 4, long_sum = 128;
  if (std::min(p.m, p.n) > few) return Algorithm::tiles;
  if (p.k < long_sum) return Algorithm::direct;
  return p.left_by_k && p.right_by_k ? Algorithm::dots : Algorithm::tiles;
}

// Divides sums into parts (split-K), so that all multiprocessors have work and no part is too short.
void divide_sums(Product& p, int64_t pieces_of_work, int64_t wanted, int64_t least_part) {
  const int64_t most = std::max<int64_t>(1, p.k / least_part);
  p.parts = std::clamp<int64_t>(wanted / std::max<int64_t>(1, pieces_of_work), 1, std::min<int64_t>(most, 256));
  p.part = p.parts == 1 ? p.k : ceil_divide(ceil_divide(p.k, p.parts), 32) * 32;
  p.parts = std::max<int64_t>(1, p.part == 0 ? 1 : ceil_divide(p.k, p.part));
}

// The order of the result's elements, for kernels that iterate over all of them.
void find_dense_axis(Product& p) {
  p.m_is_dense = dense_run(p.out_m) > 1;
  p.batch_is_dense = dense_run(p.out_batch) > 1;
}

}  // namespace

void correct_nans(const Tensor& out, Product p, LeftRead read) {
  if (read == LeftRead::plain || out.size() == 0) return;
  find_dense_axis(p);
  p.parts = 1;
  Gpu& gpu = gpu_of(out.device());
  NanCorrection c{p, nullptr, 0};
  Tensor found;
  if (out.is_contiguous()) {  // then a fast pass finds out whether there is any
    c.finders = std::min<int64_t>((out.size() * int64_t(size_of(out.dtype())) + 4095) / 4096, gpu.processors * 4);
    found = empty_tensor(Spec{{c.finders}, DType::u32, false, out.device()});
    c.found = address(found);
    gpu.launch_blocks(kernel_of(gpu, {products_family, "NanSearch", fmt::format("find_nans<{}>", name(out.dtype()))}),
                      NanSearch{address(out), address(found), out.size()}, c.finders, 256);
  }
  const std::string call =
      fmt::format("without_padding<{}, {}, {}>", name(out.dtype()), fits_32_bits(p, read) ? "u32" : "u64", int(read));
  gpu.launch(kernel_of(gpu, {products_family, "NanCorrection", call}), c, p.batch * p.m * p.n);
}

void run_product(const Tensor& out, Product p, LeftRead read) {
  if (out.size() == 0) return;
  const long long* space = read == LeftRead::through_divided_window ? p.space : nullptr;
  p.left_by_k = dense_run(p.left_k, space) >= dense_run(p.left_m, space);
  p.right_by_k = dense_run(p.right_k) > dense_run(p.right_n);
  find_dense_axis(p);
  if (read == LeftRead::plain) p.left_m = without_window_steps(p.left_m), p.left_k = without_window_steps(p.left_k);
  if (run_by_library(out, p, read)) return;
  Gpu& gpu = gpu_of(out.device());
  const DType dtype = out.dtype();
  p.out_count = out.size();
  const Algorithm algorithm = choose_algorithm(p);
  const bool large = ceil_divide(p.m, 128) * ceil_divide(p.n, 128) * p.batch >= gpu.processors &&
                     std::min(p.m, p.n) > 64 && size_of(sums_dtype(dtype)) == 4;
  const int64_t tile = large ? 128 : 64, tiles = ceil_divide(p.m, tile) * ceil_divide(p.n, tile) * p.batch;
  p.parts = 1, p.part = p.k;
  if (algorithm == Algorithm::tiles) divide_sums(p, tiles, 2 * gpu.processors, 256);
  if (algorithm == Algorithm::dots) divide_sums(p, ceil_divide(p.batch * p.m * p.n, 8), 4 * gpu.processors, 1024);

  Tensor sums;
  if (p.parts > 1) {
    sums = empty_tensor(Spec{{p.parts * p.out_count}, sums_dtype(dtype), false, out.device()});
    p.out = address(sums);
  }
  const std::string type = element_name(dtype), index = fits_32_bits(p, read) ? "u32" : "u64";
  const auto kernel = [&](std::string_view name, std::string_view more) {
    return kernel_of(gpu,
                     {products_family, "Product", fmt::format("{}<{}, {}, {}{}>", name, type, index, int(read), more)});
  };
  switch (algorithm) {
    case Algorithm::tiles: {
      const int64_t most_blocks = int64_t(1) << 30;
      gpu.launch_blocks(kernel("product", large ? ", 8" : ", 4"), p, std::min<int64_t>(tiles * p.parts, most_blocks),
                        256);
      break;
    }
    case Algorithm::direct: gpu.launch(kernel("direct", ""), p, p.batch * p.m * p.n); break;
    case Algorithm::dots: gpu.launch(kernel("dots", ""), p, p.batch * p.m * p.n * p.parts * 32); break;
  }
  if (p.parts > 1) {
    const Join j{address(sums), address(out), p.out_count, p.parts};
    gpu.launch(kernel_of(gpu, {products_family, "Join", fmt::format("join<{}>", type)}), j, j.count);
  }
}

}  // namespace rill::cuda
