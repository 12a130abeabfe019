// Products by cuBLASLt, also of operands whose strides it does not support: these are copied first (for a convolution
// that is im2col, in pieces), and the result is copied to its tensor. That costs memory bandwidth, and is worth it if
// rows are long, above all for halves, which the library multiplies on tensor cores.
#include <algorithm>

#include "rill/devices/cuda/families/families.h"
#include "rill/devices/cuda/families/library_product.h"
#include "rill/devices/cuda/families/products.h"

namespace rill::cuda {

namespace {

int64_t stride_of(const IndexLayout& w) { return w.digits == 0 ? 0 : w.stride[0]; }
Matrices matrices(const char* data, const IndexLayout& batch, const IndexLayout& rows, const IndexLayout& columns) {
  return {data, stride_of(batch), stride_of(rows), stride_of(columns)};
}
bool has_strides(const IndexLayout& batch, const IndexLayout& rows, const IndexLayout& columns) {
  return batch.digits <= 1 && rows.digits <= 1 && columns.digits <= 1;
}

// Whether the result's elements are in the order [batch, m, n].
bool is_dense_result(const Product& p) {
  if (!has_strides(p.out_batch, p.out_m, p.out_n)) return false;
  return (p.n == 1 || stride_of(p.out_n) == 1) && (p.m == 1 || stride_of(p.out_m) == p.n) &&
         (p.batch == 1 || stride_of(p.out_batch) == p.m * p.n);
}

bool left_fits(const Product& p) {
  return has_strides(p.left_batch, p.left_m, p.left_k) &&
         has_leading_dimension(matrices(p.left, p.left_batch, p.left_m, p.left_k), p.m, p.k);
}
bool right_fits(const Product& p) {
  return has_strides(p.right_batch, p.right_k, p.right_n) &&
         has_leading_dimension(matrices(p.right, p.right_batch, p.right_k, p.right_n), p.k, p.n);
}

// --- Storing operands ---

bool all_multiples(const IndexLayout& w, int64_t of, int first_digits) {
  for (int d = 0; d < first_digits; ++d)
    if (w.stride[d] % of != 0) return false;
  return true;
}

// How many elements unfold() can move as one word of at most 16 bytes: neighbours in one run, with all runs aligned.
int64_t elements_of_a_word(const Product& p, int64_t size) {
  const IndexLayout &fast = p.left_by_k ? p.left_k : p.left_m, &slow = p.left_by_k ? p.left_m : p.left_k;
  if (fast.digits == 0) return 1;
  const int last = fast.digits - 1;
  if (fast.stride[last] != 1 || std::any_of(fast.step[last], fast.step[last] + 3, [](int64_t s) { return s != 0; }))
    return 1;
  for (int64_t n = 16 / size; n > 1; n /= 2)
    if (fast.size[last] % n == 0 && all_multiples(fast, n, last) && all_multiples(slow, n, slow.digits) &&
        all_multiples(p.left_batch, n, p.left_batch.digits) &&
        reinterpret_cast<uintptr_t>(p.left) % uint64_t(n * size) == 0 &&
        std::all_of(p.space, p.space + 3, [&](int64_t s) { return s % n == 0; }))
      return n;
  return 1;
}
// Sizes and strides in words of n elements.
void count_in_words(Product& p, int64_t n) {
  IndexLayout& fast = p.left_by_k ? p.left_k : p.left_m;
  fast.size[fast.digits - 1] /= n;
  for (IndexLayout* w : {&p.left_k, &p.left_m, &p.left_batch})
    for (int d = 0; d < w->digits; ++d)
      if (w != &fast || d + 1 < w->digits) w->stride[d] /= n;
  for (auto& s : p.space) s /= n;
  (p.left_by_k ? p.k : p.m) /= n;
  if (!p.left_by_k) p.first_m /= n;
}

// The type that holds every index, and the number of every one of this many elements.
std::string_view index_type(const Product& p, LeftRead read, int64_t elements) {
  return fits_32_bits(p, read) && elements < int64_t(1) << 31 ? "u32" : "u64";
}

struct StoredOperand {
  Tensor memory;
  Matrices at;
};
// The left operand's rows from `first` on.
StoredOperand store_left(Gpu& gpu, DType dtype, Product p, LeftRead read, int64_t first, int64_t rows) {
  StoredOperand s{empty_tensor(Spec{{p.batch, rows, p.k}, dtype, false, gpu.device}), {}};
  s.at = {address(s.memory), rows * p.k, p.left_by_k ? p.k : 1, p.left_by_k ? 1 : rows};
  p.out = address(s.memory);
  p.m = rows, p.first_m = first;
  const std::string_view index = index_type(p, read, p.batch * p.m * p.k);
  const int64_t size = int64_t(size_of(dtype)), n = elements_of_a_word(p, size);
  if (n > 1) count_in_words(p, n);
  gpu.launch(kernel_of(gpu, {products_family, "Product",
                             fmt::format("unfold<{}, {}, {}>", word(size_t(n * size)), index, int(read))}),
             p, p.batch * p.m * p.k);
  return s;
}
StoredOperand store_right(Gpu& gpu, DType dtype, const Product& p) {
  Product turned{};  // its columns as rows
  turned.left = p.right, turned.batch = p.batch, turned.m = p.n, turned.k = p.k;
  turned.left_batch = p.right_batch, turned.left_m = p.right_n, turned.left_k = p.right_k;
  turned.left_by_k = p.right_by_k;
  StoredOperand s = store_left(gpu, dtype, turned, LeftRead::plain, 0, p.n);
  std::swap(s.at.row, s.at.column);
  return s;
}

void fold_back(Gpu& gpu, DType dtype, Product p, const Tensor& result) {
  p.left = address(result);
  const std::string call =
      fmt::format("fold_back<{}, {}>", word(size_of(dtype)), index_type(p, LeftRead::plain, p.batch * p.m * p.n));
  gpu.launch(kernel_of(gpu, {products_family, "Product", call}), p, p.batch * p.m * p.n);
}

// Whether rows are so long that the library's speed outweighs a copy of the operand.
bool is_worth_storing(const Product& p, DType dtype) {
  const int64_t least_n = is_half(dtype) ? 32 : 64;
  return p.n >= least_n && p.m >= 64 && p.k >= 32 && double(p.m) * double(p.n) * double(p.k) >= 1 << 18;
}

bool run_unfolded(const Tensor& out, const Product& p, LeftRead read) {
  constexpr int64_t most_bytes = int64_t(32) << 20, whole_rows = 64;  // a piece stays in an H100's L2
  const DType dtype = out.dtype();
  const int64_t size = int64_t(size_of(dtype));
  const int64_t fitting = std::max<int64_t>(whole_rows, most_bytes / (p.k * size) / whole_rows * whole_rows);
  if (p.batch > 1 && p.batch * p.m > fitting) return false;
  Gpu& gpu = gpu_of(out.device());
  StoredOperand right{{}, matrices(p.right, p.right_batch, p.right_k, p.right_n)};
  if (!right_fits(p)) right = store_right(gpu, dtype, p);
  Tensor result;
  if (!is_dense_result(p)) result = empty_tensor(Spec{{p.batch, p.m, p.n}, dtype, false, out.device()});
  char* to = result.defined() ? address(result) : p.out;
  for (int64_t first = 0; first < p.m; first += fitting) {
    const int64_t rows = std::min<int64_t>(fitting, p.m - first);
    const StoredOperand left = store_left(gpu, dtype, p, read, first, rows);
    if (!run_library_product({gpu, dtype, p.batch, rows, p.n, p.k, left.at, right.at, to + first * p.n * size}))
      return false;
  }
  if (result.defined()) fold_back(gpu, dtype, p, result);
  correct_nans(out, p, read);
  return true;
}

}  // namespace

bool run_by_library(const Tensor& out, const Product& p, LeftRead read) {
  if (!has_library_product(out.dtype()) || p.k == 0) return false;
  if (std::max({p.batch, p.m, p.n, p.k}) > most_of_library) return false;
  if (read == LeftRead::plain && is_dense_result(p) && left_fits(p) && right_fits(p))
    return run_library_product({gpu_of(out.device()), out.dtype(), p.batch, p.m, p.n, p.k,
                                matrices(p.left, p.left_batch, p.left_m, p.left_k),
                                matrices(p.right, p.right_batch, p.right_k, p.right_n), p.out});
  return is_worth_storing(p, out.dtype()) && run_unfolded(out, p, read);
}

}  // namespace rill::cuda
