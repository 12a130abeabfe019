// Starts the kernels of matrix.cuh.
#include <algorithm>
#include <limits>

#include "rill/devices/cuda/driver/spaces.h"
#include "rill/devices/cuda/families/families.h"
#include "rill/devices/cuda/families/matrix_params.h"
#include "rill/devices/params/matrix_params.h"

namespace rill::cuda {

namespace {

std::string_view type_of(DType d) {
  return d == DType::f32 ? "f32" : d == DType::f64 ? "f64" : d == DType::c64 ? "Complex<f32>" : "Complex<f64>";
}

// The operands, and the results.
MatrixBatch matrices(const KernelArgs& args) {
  MatrixBatch s{};
  const Shape& shape = args.in[0]->shape();
  s.a = address(*args.in[0]);
  s.rows = shape[shape.size() - 2], s.columns = shape[shape.size() - 1], s.count = 1;
  for (size_t i = 0; i + 2 < shape.size(); ++i) s.count *= shape[i];
  if (args.in.size() > 1) s.b = address(*args.in[1]), s.right = args.in[1]->shape()[shape.size() - 1];
  for (size_t k = 0; k < args.out.size(); ++k) s.out[k] = address(*args.out[k]);
  return s;
}

// `numbers` and `integers`: how many of the wide type and of i64 a warp needs as workspace; `message`: the error for
// a matrix that a kernel reports.
struct Call {
  std::string_view op, function;
  int64_t numbers, integers = 0;
  std::string_view message = "";
  bool is_complex = false;  // the wide type is, whatever the operands are
};
bool is_empty(const KernelArgs& args, const MatrixBatch& s) {
  return s.count == 0 || std::all_of(args.out.begin(), args.out.end(), [](const Tensor* t) { return t->size() == 0; });
}
void set_message(const KernelArgs& args, MatrixBatch& s, const Call& call) {
  if (call.message.empty()) return;
  Gpu& gpu = gpu_of(args.out[0]->device());
  const std::string_view which = args.in[0]->ndim() > 2 ? "matrix {position} of the batch" : "the matrix";
  s.fault = gpu.fault_slot();
  s.code = gpu.fault_code(call.op, fmt::format("{} {}", which, call.message));
}
// How many numbers of this size a kernel holds in shared memory for a workspace of `room`; 0 if that is too small.
int64_t held_numbers(int64_t room, size_t size) {
  for (const int64_t bytes : {4096, 16384, 49152})
    if (room <= bytes / int64_t(size)) return bytes / int64_t(size);
  return 0;
}
void start(const KernelArgs& args, MatrixBatch s, const Call& call) {
  if (is_empty(args, s)) return;
  const DType dtype = args.in[0]->dtype();
  const DType wide = call.is_complex || is_complex(dtype) ? DType::c128 : DType::f64;
  Gpu& gpu = gpu_of(args.out[0]->device());
  s.room = call.numbers + call.integers;  // an i64 is no larger than a number of the wide type
  constexpr int64_t most_bytes = int64_t(1) << 28;
  const int64_t held = held_numbers(s.room, size_of(wide)),
                bytes = std::max<int64_t>(1, s.room) * int64_t(size_of(wide)),
                warps = std::clamp<int64_t>(most_bytes / bytes, 1, std::min<int64_t>(s.count, 32 * gpu.processors));
  Tensor work;
  if (held == 0) {
    work = empty_tensor(Spec{{warps * s.room}, wide, false, args.out[0]->device()});
    s.work = address(work);
  }
  set_message(args, s, call);
  const std::string function = fmt::format("{}<{}, {}>", call.function, type_of(dtype), held);
  gpu.launch_blocks(kernel_of(gpu, {matrix_family, "MatrixBatch", function}), s, warps, 32);
}

constexpr std::string_view no_convergence = "is one on which the iteration does not converge. scale it, or use f64";

// A block has a small matrix's lower triangle in shared memory.
void run_cholesky(const KernelArgs& args) {
  MatrixBatch s = matrices(args);
  const Call call{
      "cholesky", "cholesky", s.rows * s.rows, 0,
      "is not positive definite. add a little to its diagonal, or take linalg::eigh, which takes any Hermitian "
      "matrix"};
  const DType dtype = args.in[0]->dtype();
  if (s.rows > (is_complex(dtype) ? 64 : 96)) return start(args, s, call);  // what Triangle::room has in 48 KB
  if (is_empty(args, s)) return;
  Gpu& gpu = gpu_of(args.out[0]->device());
  set_message(args, s, call);
  const int side = s.rows <= 32 ? 32 : s.rows <= 64 ? 64 : 96;
  const std::string function = fmt::format("short_cholesky<{}, {}>", type_of(dtype), side);
  gpu.launch_blocks(kernel_of(gpu, {matrix_family, "MatrixBatch", function}), s,
                    std::min<int64_t>(s.count, 64 * gpu.processors), side > 32 ? 128 : 32);
}
void run_solve(const KernelArgs& args) {
  const MatrixBatch s = matrices(args);
  start(args, s,
        {"solve", "solve", s.rows * (s.rows + s.right), s.rows,
         "is singular. linalg::lstsq and linalg::pinv take singular matrices"});
}
void run_triangular_solve(const KernelArgs& args) {
  const auto& p = args.attrs.as<TriangularParams>();
  MatrixBatch s = matrices(args);
  s.lower = p.lower, s.adjoint = p.adjoint, s.unit = p.unit;
  start(args, s, {"triangular_solve", "triangular_solve", s.rows * (s.rows + s.right)});
}
void run_det(const KernelArgs& args) {
  const MatrixBatch s = matrices(args);
  start(args, s, {"det", "det", s.rows * s.rows, s.rows});
}
void run_lu(const KernelArgs& args) {
  const MatrixBatch s = matrices(args);
  start(args, s, {"lu", "lu", s.rows * s.columns, std::min(s.rows, s.columns)});
}
void run_qr(const KernelArgs& args) {
  MatrixBatch s = matrices(args);
  s.full = args.attrs.as<FactorParams>().full;
  const int64_t least = std::min(s.rows, s.columns);
  start(args, s, {"qr", "qr", s.rows * (s.columns + (s.full ? s.rows : least)) + least});
}
void run_expm(const KernelArgs& args) {
  const MatrixBatch s = matrices(args);
  start(args, s, {"expm", "expm", 8 * s.rows * s.rows, s.rows, "has no exponential that the dtype holds"});
}

template <bool vectors>
void run_eigh(const KernelArgs& args) {
  MatrixBatch s = matrices(args);
  s.vectors = vectors;
  start(args, s, {"eigh", "eigh", s.rows * s.rows * (vectors ? 2 : 1), s.rows});
}
void start_svd(const KernelArgs& args, MatrixBatch s, std::string_view function, int64_t more_room = 0) {
  const int64_t rows = std::max(s.rows, s.columns), columns = std::min(s.rows, s.columns);
  const int64_t factors = s.vectors ? 2 * columns * columns + rows * (s.full ? rows : columns) : 0;
  start(args, s, {"svd", function, rows * columns + factors + columns + more_room, columns});
}
void run_svd(const KernelArgs& args) {
  MatrixBatch s = matrices(args);
  s.vectors = true, s.full = args.attrs.as<FactorParams>().full;
  start_svd(args, s, "svd");
}
void run_svdvals(const KernelArgs& args) { start_svd(args, matrices(args), "svd"); }
// The vectors, and which singular values are nonzero.
MatrixBatch ranked_matrices(const KernelArgs& args) {
  MatrixBatch s = matrices(args);
  const double rtol = args.attrs.as<PinvParams>().rtol;
  const double epsilon = real_of(args.in[0]->dtype()) == DType::f64 ? std::numeric_limits<double>::epsilon()
                                                                    : std::numeric_limits<float>::epsilon();
  s.vectors = true, s.cutoff = rtol >= 0 ? rtol : double(std::max(s.rows, s.columns)) * epsilon;
  return s;
}
void run_pinv(const KernelArgs& args) { start_svd(args, ranked_matrices(args), "pinv"); }
void run_lstsq(const KernelArgs& args) {
  const MatrixBatch s = ranked_matrices(args);
  start_svd(args, s, "lstsq", std::min(s.rows, s.columns));
}
template <bool vectors>
void run_eig(const KernelArgs& args) {
  MatrixBatch s = matrices(args);
  s.vectors = vectors;
  start(args, s,
        {vectors ? "eig" : "eigvals", "eig", s.rows * s.rows * (vectors ? 3 : 2) + 3 * s.rows, s.rows, no_convergence,
         true});
}

}  // namespace

std::span<const NamedKernel> matrix_kernels() {
  static const NamedKernel all[] = {
      {"cholesky", for_every_dtype<run_cholesky>},
      {"solve", for_every_dtype<run_solve>},
      {"triangular_solve", for_every_dtype<run_triangular_solve>},
      {"det", for_every_dtype<run_det>},
      {"slogdet", for_every_dtype<run_det>},
      {"lu", for_every_dtype<run_lu>},
      {"qr", for_every_dtype<run_qr>},
      {"expm", for_every_dtype<run_expm>},
      {"eigh", for_every_dtype<run_eigh<true>>},
      {"eigvalsh", for_every_dtype<run_eigh<false>>},
      {"svd", for_every_dtype<run_svd>},
      {"svdvals", for_every_dtype<run_svdvals>},
      {"pinv", for_every_dtype<run_pinv>},
      {"lstsq", for_every_dtype<run_lstsq>},
      {"eig", for_every_dtype<run_eig<true>>},
      {"eigvals", for_every_dtype<run_eig<false>>},
  };
  return all;
}

}  // namespace rill::cuda
