// Products of matrices by cuBLASLt. Its choice for a product is cached, by all that it depends on: see Key.
//
// The library's matrices are stored by columns, ours by rows, so it computes the transposed product: its A is our right
// operand, its B our left one. f32 is computed as f32 (as TF32 with RILL_TF32=on), halves are summed in f32.
#include "rill/devices/cuda/families/library_product.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <memory>

#include "rill/devices/cuda/driver/capture.h"
#include "rill/devices/cuda/driver/cublaslt.h"
#include "rill/devices/host_memory.h"

namespace rill::cuda {

namespace {

struct Types {
  int data, compute, scale;
};
Types types_of(DType d) {
  const int single = allows_tf32() ? lt::compute_tf32 : lt::compute_f32;
  switch (d) {
    case DType::f16: return {lt::real_f16, lt::compute_f32, lt::real_f32};
    case DType::bf16: return {lt::real_bf16, lt::compute_f32, lt::real_f32};
    case DType::f64: return {lt::real_f64, lt::compute_f64, lt::real_f64};
    case DType::c64: return {lt::complex_f32, single, lt::complex_f32};
    case DType::c128: return {lt::complex_f64, lt::compute_f64, lt::complex_f64};
    default: return {lt::real_f32, single, lt::real_f32};
  }
}

// One operand in the library's column-major order.
struct ColumnMajor {
  int64_t rows, columns, leading, batch;
  bool transposed;
};
// Of [rows, columns], with strides, the transposed matrix: dense where `column` is 1, else to be transposed.
ColumnMajor column_major(const Matrices& m, int64_t rows, int64_t columns) {
  const bool by_rows = columns == 1 || (m.column == 1 && (rows == 1 || m.row >= columns));
  if (by_rows) return {columns, rows, rows == 1 || columns == 1 ? std::max(columns, m.row) : m.row, m.batch, false};
  return {rows, columns, columns == 1 || rows == 1 ? std::max(rows, m.column) : m.column, m.batch, true};
}

uint32_t alignment_of(const char* p) {
  const auto at = reinterpret_cast<uintptr_t>(p);
  return uint32_t(std::min<uintptr_t>(256, at & (~at + 1)));
}

using Key = std::array<int64_t, 15>;

// What is created for a Key: the descriptions and the library's choice.
struct Plan {
  lt::Product product = nullptr;
  lt::Layout a = nullptr, b = nullptr, out = nullptr;
  lt::Heuristic choice{};
  bool refused = false;

  Plan() = default;
  Plan(const Plan&) = delete;
  ~Plan() {
    for (const lt::Layout layout : {a, b, out})
      if (layout) lt::library().cublasLtMatrixLayoutDestroy(layout);
    if (product) lt::library().cublasLtMatmulDescDestroy(product);
  }
};

lt::Layout layout_of(int type, const ColumnMajor& s, int64_t batch) {
  lt::Layout layout = nullptr;
  RILL_CUBLASLT(cublasLtMatrixLayoutCreate, &layout, type, uint64_t(s.rows), uint64_t(s.columns), s.leading);
  const auto count = int32_t(batch);
  RILL_CUBLASLT(cublasLtMatrixLayoutSetAttribute, layout, lt::batch_count, &count, sizeof count);
  RILL_CUBLASLT(cublasLtMatrixLayoutSetAttribute, layout, lt::batch_stride, &s.batch, sizeof s.batch);
  return layout;
}

struct OwnedPreference {
  lt::Preference preference = nullptr;
  OwnedPreference() { RILL_CUBLASLT(cublasLtMatmulPreferenceCreate, &preference); }
  OwnedPreference(const OwnedPreference&) = delete;
  ~OwnedPreference() { lt::library().cublasLtMatmulPreferenceDestroy(preference); }
  template <class T>
  void set(int attribute, T value) {
    RILL_CUBLASLT(cublasLtMatmulPreferenceSetAttribute, preference, attribute, &value, sizeof value);
  }
};

// A GPU's handle and plans.
class Plans {
 public:
  bool run(const LibraryProduct& p);

 private:
  // False, after a line on stderr, if the library cannot be used: decided once.
  bool start(const Gpu& gpu);
  std::shared_ptr<Plan> plan_for(const LibraryProduct& p);
  void make(Plan& plan, const LibraryProduct& p, const ColumnMajor& a, const ColumnMajor& b);

  std::mutex mutex_;
  lt::Handle handle_ = nullptr;
  bool cannot_start_ = false;
  std::map<Key, std::shared_ptr<Plan>> plans_;
};

void Plans::make(Plan& plan, const LibraryProduct& p, const ColumnMajor& a, const ColumnMajor& b) {
  const Types types = types_of(p.dtype);
  RILL_CUBLASLT(cublasLtMatmulDescCreate, &plan.product, types.compute, types.scale);
  const int32_t transpose_a = a.transposed ? lt::transposed : lt::not_transposed,
                transpose_b = b.transposed ? lt::transposed : lt::not_transposed;
  RILL_CUBLASLT(cublasLtMatmulDescSetAttribute, plan.product, lt::transposes_a, &transpose_a, sizeof transpose_a);
  RILL_CUBLASLT(cublasLtMatmulDescSetAttribute, plan.product, lt::transposes_b, &transpose_b, sizeof transpose_b);
  plan.a = layout_of(types.data, a, p.batch);
  plan.b = layout_of(types.data, b, p.batch);
  plan.out = layout_of(types.data, {p.n, p.m, p.n, p.m * p.n, false}, p.batch);
  OwnedPreference wanted;
  constexpr uint64_t workspace = uint64_t(32) << 20;  // what NVIDIA advises for Hopper
  wanted.set(lt::most_workspace, workspace);
  wanted.set(lt::reduction_schemes, lt::reduces_sums);
  wanted.set(lt::alignment_a, alignment_of(p.right.data));
  wanted.set(lt::alignment_b, alignment_of(p.left.data));
  wanted.set(lt::alignment_c, alignment_of(p.out));
  wanted.set(lt::alignment_d, alignment_of(p.out));
  int found = 0;
  const int status = lt::library().cublasLtMatmulAlgoGetHeuristic(handle_, plan.product, plan.a, plan.b, plan.out,
                                                                  plan.out, wanted.preference, 1, &plan.choice, &found);
  plan.refused = status == lt::not_supported || (status == 0 && (found == 0 || plan.choice.state != 0));
  if (!plan.refused) lt::require(status, "cublasLtMatmulAlgoGetHeuristic");
}

std::shared_ptr<Plan> Plans::plan_for(const LibraryProduct& p) {
  constexpr size_t most_plans = 4096;  // programs may have sizes that never recur
  const ColumnMajor a = column_major(p.right, p.k, p.n), b = column_major(p.left, p.m, p.k);
  const Key key{int64_t(p.dtype),
                p.batch,
                p.m,
                p.n,
                p.k,
                a.leading,
                a.batch,
                b.leading,
                b.batch,
                a.transposed,
                b.transposed,
                alignment_of(p.right.data),
                alignment_of(p.left.data),
                alignment_of(p.out),
                0};
  if (const auto known = plans_.find(key); known != plans_.end()) return known->second;
  auto plan = std::make_shared<Plan>();
  make(*plan, p, a, b);
  if (plans_.size() >= most_plans) plans_.clear();
  return plans_[key] = std::move(plan);
}

bool Plans::start(const Gpu& gpu) {
  if (handle_ || cannot_start_) return handle_;
  const int status = lt::library().cublasLtCreate(&handle_);
  cannot_start_ = status != 0;
  if (cannot_start_) {
    handle_ = nullptr;
    std::fprintf(stderr, "rill: cuBLASLt is not used on %s: cublasLtCreate fails with status %d\n",
                 to_string(gpu.device).c_str(), status);
  }
  return handle_;
}

bool Plans::run(const LibraryProduct& p) {
  p.gpu.enter();
  std::unique_lock hold(mutex_);
  if (!start(p.gpu)) return false;
  const std::shared_ptr<Plan> held = plan_for(p);
  Plan& plan = *held;
  if (plan.refused) return false;
  const Tensor workspace = take_workspace(p.gpu, plan.choice.workspace_bytes, hold);
  const double one[] = {1, 0}, zero[] = {0, 0};
  const float small_one[] = {1, 0}, small_zero[] = {0, 0};
  const bool is_double = types_of(p.dtype).compute == lt::compute_f64;
  const void *alpha = small_one, *beta = small_zero;
  if (is_double) alpha = one, beta = zero;
  const char* const operands[] = {p.right.data, p.left.data, p.out};
  const int status = library_call(p.gpu, operands, [&](Stream stream) {
    return lt::library().cublasLtMatmul(handle_, plan.product, alpha, p.right.data, plan.a, p.left.data, plan.b, beta,
                                        p.out, plan.out, p.out, plan.out, &plan.choice.algorithm,
                                        workspace.defined() ? address(workspace) : nullptr, plan.choice.workspace_bytes,
                                        stream);
  });
  plan.refused = status == lt::not_supported;
  if (!plan.refused) lt::require(status, "cublasLtMatmul");
  return !plan.refused;
}

}  // namespace

bool has_library_product(DType d) { return (is_floating(d) || is_complex(d)) && lt::library().missing.empty(); }

bool has_leading_dimension(const Matrices& m, int64_t rows, int64_t columns) {
  constexpr int64_t most = most_of_library;
  if (rows > most || columns > most || m.batch < 0) return false;
  const auto dense = [&](int64_t inner, int64_t inner_stride, int64_t outer, int64_t outer_stride) {
    return (inner == 1 || inner_stride == 1) && (outer == 1 || (outer_stride >= inner && outer_stride <= most));
  };
  return dense(columns, m.column, rows, m.row) || dense(rows, m.row, columns, m.column);
}

// At most this many matrices at once: the library's kernels number them along an axis of the grid, which is limited.
bool run_library_product(const LibraryProduct& p) try {
  constexpr int64_t most_matrices = 65535;
  Plans& plans = of_gpu<Plans>(p.gpu);
  const auto size = int64_t(size_of(p.dtype));
  for (int64_t first = 0; first < p.batch; first += most_matrices) {
    LibraryProduct some = p;
    some.batch = std::min(most_matrices, p.batch - first);
    some.left.data += first * p.left.batch * size;
    some.right.data += first * p.right.batch * size;
    some.out += first * p.m * p.n * size;
    if (!plans.run(some)) return false;
  }
  return true;
} catch (const host_memory::OutOfMemory&) {  // for the workspace: rill's own kernels need none
  if (Capture::current(p.gpu)) throw;        // those would be captured permanently
  return false;
}

}  // namespace rill::cuda
