// Starts the kernels of scan.cuh: chooses one for the lines, and the rule of a record.
#include <algorithm>

#include "rill/devices/cuda/families/families.h"
#include "rill/devices/cuda/families/scan_params.h"
#include "rill/devices/params/nn_params.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/ops/op.h"

namespace rill::cuda {

namespace {

std::string type_name(DType d) {
  if (is_complex(d)) return fmt::format("Complex<{}>", name(real_of(d)));
  return d == DType::boolean ? "bool" : std::string(name(d));
}
// Sums and products: in f64, those of integers in i64.
DType wide(DType d) { return is_complex(d) ? DType::c128 : is_floating(d) ? DType::f64 : DType::i64; }

Scanning lines_of(const KernelArgs& a, const Tensor& from) {
  const CumulativeParams& p = a.attrs.as<CumulativeParams>();
  const AxisView view(from.shape(), p.axis);
  Scanning s{};
  s.from = address(from);
  s.to = address(*a.out[0]);
  s.lines = view.outer * view.inner, s.n = view.size, s.inner = view.inner;
  s.piece = s.n, s.pieces = 1;
  s.reverse = p.reverse, s.exclusive = p.exclusive;
  return s;
}

struct Scanner {
  Gpu& gpu;
  std::string rule;

  Function function(std::string_view kernel, std::string_view more = "") const {
    return kernel_of(gpu, {scan_family, "Scanning", fmt::format("{}<{}{}>", kernel, rule, more)});
  }
  void step_by_step(const Scanning& s) const {
    if (s.lines * s.n == 0) return;
    if (s.inner == 1) gpu.launch(function("step_warps"), s, s.lines * 32);
    else gpu.launch(function("step_threads"), s, s.lines);
  }
  void in_pieces(Scanning s, size_t accumulator_bytes) const {
    if (s.lines * s.n == 0) return;
    const int64_t enough = int64_t(gpu.processors) * 8;  // blocks
    if (s.inner > 1 && s.lines >= enough * 64) return step_by_step(s);
    if (s.n <= 256 || s.lines >= enough * 16) return gpu.launch(function("scan", ", 1, false"), s, s.lines * 32);
    s.piece = 4096;
    while (s.piece < s.n && s.lines * ((s.n + s.piece - 1) / s.piece) > enough) s.piece *= 2;
    s.pieces = (s.n + s.piece - 1) / s.piece;
    const int64_t blocks = std::min<int64_t>(s.lines * s.pieces, enough * 4);
    if (s.pieces == 1) return gpu.launch_blocks(function("scan", ", 8, false"), s, blocks, 256);
    const Tensor totals =
        empty_tensor(Spec{Shape({Dim(s.lines * s.pieces * int64_t(accumulator_bytes))}), DType::u8, false, gpu.device});
    s.totals = address(totals);
    gpu.launch_blocks(function("scan", ", 8, true"), s, blocks, 256);
    gpu.launch_blocks(function("scan_totals"), s, std::min<int64_t>(s.lines, enough * 4), 256);
    gpu.launch_blocks(function("scan", ", 8, false"), s, blocks, 256);
  }
};

std::string rule_of(std::string_view name, DType in, DType acc, DType out, std::string_view more = "") {
  return fmt::format("{}<{}, {}, {}{}>", name, type_name(in), type_name(acc), type_name(out), more);
}

void run_sum(const KernelArgs& a) {
  const Tensor& x = *a.in[0];
  const DType acc = wide(x.dtype());
  Scanner{gpu_of(x.device()), rule_of("Sums", x.dtype(), acc, a.out[0]->dtype())}.in_pieces(lines_of(a, x),
                                                                                            size_of(acc));
}
void run_product(const KernelArgs& a) {
  const Tensor& x = *a.in[0];
  const DType acc = wide(x.dtype());
  const Scanner scanner{gpu_of(x.device()), rule_of("Products", x.dtype(), acc, a.out[0]->dtype())};
  if (acc == DType::i64) scanner.in_pieces(lines_of(a, x), size_of(acc));
  else scanner.step_by_step(lines_of(a, x));
}
template <bool largest>
void run_extreme(const KernelArgs& a) {
  const Tensor& x = *a.in[0];
  const DType d = x.dtype(), acc = is_half(d) ? DType::f32 : d;
  Scanner{gpu_of(x.device()), rule_of("Extremes", d, acc, d, largest ? ", true" : ", false")}.in_pieces(lines_of(a, x),
                                                                                                        size_of(acc));
}
void run_recurrence(const KernelArgs& a) {
  const DType d = a.in[0]->dtype();
  Scanning s = lines_of(a, *a.in[1]);
  s.factors = address(*a.in[0]);
  Scanner{gpu_of(a.in[0]->device()), rule_of("Recurrence", d, wide(d), d)}.step_by_step(s);
}

template <Kernel kernel, bool complex_too>
Kernel numbers(DType d) {
  return d == DType::string || (is_complex(d) && !complex_too) ? nullptr : kernel;
}

}  // namespace

std::span<const NamedKernel> scan_kernels() {
  static const NamedKernel all[] = {
      {"cummax", numbers<run_extreme<true>, false>}, {"cummin", numbers<run_extreme<false>, false>},
      {"cumprod", numbers<run_product, true>},       {"cumsum", numbers<run_sum, true>},
      {"recurrence", numbers<run_recurrence, true>},
  };
  return all;
}

}  // namespace rill::cuda
