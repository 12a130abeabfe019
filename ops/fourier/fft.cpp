// Fourier transforms: the records of fft (complex to complex, along any axes), rfft and irfft (along one), and all
// other functions of fft.h, which are composed of them. The kernels are in devices/cpu/fourier/.
//
// The adjoint of a transform is the unnormalised one of the other direction, divided by the same number.
#include "rill/ops/fft.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "rill/devices/params/fft_params.h"
#include "rill/devices/params/read_attrs.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/samples.h"

namespace rill {
namespace {

const ReadableAttrs readable_fft{std::type_identity<FftParams>()};
const ReadableAttrs readable_real_fft{std::type_identity<RealFftParams>()};

constexpr std::string_view known_results =
    "complex numbers are tested against numpy and torch (tests/matrices/test_fft.cpp)";

extern const Op fft_op, rfft_op, irfft_op;

Spec plain(const Spec& s, DType dtype) { return {s.shape, dtype, false, s.device}; }

void check_axis(const InferArgs& args, int64_t axis) {
  args.check_axis(axis);
  if (args[0].shape[size_t(axis)] == 0)
    args.reject(fmt::format("axis {} is empty: a transform has at least one element. n gives it another length", axis));
}

OutSpecs infer_fft(const InferArgs& args) {
  for (int64_t axis : args.attrs.as<FftParams>().axes) check_axis(args, axis);
  return {plain(args[0], args[0].dtype)};
}
OutSpecs infer_rfft(const InferArgs& args) {
  const auto& p = args.attrs.as<RealFftParams>();
  check_axis(args, p.axis);
  if (args[0].shape[size_t(p.axis)] != p.n || p.n < 1)
    args.reject(fmt::format("axis {} has {} elements, and the transform {}; both must be the same number, at least 1",
                            p.axis, args[0].shape[size_t(p.axis)], p.n));
  Spec out = plain(args[0], args[0].dtype == DType::f32 ? DType::c64 : DType::c128);
  out.shape[size_t(p.axis)] = p.n / 2 + 1;
  return {out};
}
OutSpecs infer_irfft(const InferArgs& args) {
  const auto& p = args.attrs.as<RealFftParams>();
  check_axis(args, p.axis);
  if (p.n < 1 || args[0].shape[size_t(p.axis)] != p.n / 2 + 1)
    args.reject(fmt::format("{} real numbers come from {} complex ones, and axis {} has {}", p.n, p.n / 2 + 1, p.axis,
                            args[0].shape[size_t(p.axis)]));
  Spec out = plain(args[0], real_of(args[0].dtype));
  out.shape[size_t(p.axis)] = p.n;
  return {out};
}

// Along the axis of a half transform of n numbers: `inner` for the elements whose conjugates are left out, 1 for the
// first and, of an even n, the last.
Tensor weights(const Tensor& half, const RealFftParams& p, double inner) {
  Shape shape(std::vector<int64_t>(size_t(half.ndim()), 1));
  shape[size_t(p.axis)] = p.n / 2 + 1;
  const Tensor k = iota(shape, p.axis, {DType::i64, half.device()});
  const TensorOptions real{real_of(half.dtype()), half.device()};
  return where(logical_or(k == 0, 2 * k == p.n), full({}, 1.0, real), full({}, inner, real));
}

Tensors fft_vjp(const VjpArgs& args) {
  FftParams p = args.attrs.as<FftParams>();
  p.inverse = !p.inverse;
  return {apply1(fft_op, {&args.cotangent[0]}, p, Where::current())};
}
Tensors rfft_vjp(const VjpArgs& args) {
  const auto& p = args.attrs.as<RealFftParams>();
  const Tensor g = args.cotangent[0] * weights(args.cotangent[0], p, 0.5);
  return {apply1(irfft_op, {&g}, p, Where::current())};
}
Tensors irfft_vjp(const VjpArgs& args) {
  const auto& p = args.attrs.as<RealFftParams>();
  const Tensor g = apply1(rfft_op, {&args.cotangent[0]}, p, Where::current());
  return {g * weights(g, p, 2)};
}

Tensor complex_sample(const Shape& shape) {
  const Tensor x = samples::uniform(shape), y = samples::uniform(shape, -2, 2, 2);
  const EagerScope now;
  return complex(x, y);
}

double flops_of(double points, double lines) { return 5 * points * std::log2(std::max(2.0, points)) * lines; }

const Op fft_op({
    .name = "fft",
    .doc = "y[k] = n^(-halves/2) sum_j x[j] exp(-2 pi i jk / n) (inverse: +2 pi i) along each of the axes",
    .dtypes = complex_set,
    .infer = infer_fft,
    .vjp = fft_vjp,
    .linear_in = save(0),
    .batch = batch_axes<&FftParams::axes>,
    .cpu = cpu::fft,
    .ref = ref::fft,
    .wants_contiguous = true,
    .flops =
        [](std::span<const Spec* const> in, const Spec&, AttrsView attrs) {
          double total = 0;
          for (int64_t axis : attrs.as<FftParams>().axes) {
            const double n = double(in[0]->shape[size_t(axis)]);
            total += flops_of(n, double(in[0]->shape.numel()) / n);
          }
          return total;
        },
    .may_throw = [](AttrsView) { return false; },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> s = {{{complex_sample({2, 3, 4})}, FftParams{{1}, false, 1}},
                               {{complex_sample({4, 5, 6})}, FftParams{{0, 2}, true, 2}},
                               {{complex_sample({40, 8})}, FftParams{{1}, true, 0}},
                               {{complex_sample({0, 3})}, FftParams{{1}, true, 0}},
                               {{complex_sample({3, 2})}, FftParams{{}, true, 0}}};
      for (int64_t n : {1, 2, 3, 7, 11, 13, 16, 17, 30, 97, 128, 143, 1001})
        s.push_back({{complex_sample({n})}, FftParams{{0}, false, 0}});
      return s;
    },
    .norm_tolerance = 16,
    .no_finite_difference = known_results,
});

const Op rfft_op({
    .name = "rfft",
    .doc = "the first n/2 + 1 elements of fft of a real x along the axis, divided by n^(halves/2)",
    .dtypes = one_of({DType::f32, DType::f64}),
    .infer = infer_rfft,
    .vjp = rfft_vjp,
    .linear_in = save(0),
    .batch = batch_axes<&RealFftParams::axis>,
    .cpu = cpu::rfft,
    .ref = ref::rfft,
    .wants_contiguous = true,
    .may_throw = [](AttrsView) { return false; },
    .samples = []() -> std::vector<Sample> {
      using samples::uniform;
      std::vector<Sample> s = {{{uniform({2, 3, 4})}, RealFftParams{1, 3, 1}},
                               {{uniform({2, 6})}, RealFftParams{1, 6, 2}},
                               {{uniform({40, 9})}, RealFftParams{1, 9, 0}}};
      for (int64_t n : {1, 2, 5, 16, 34, 97}) s.push_back({{uniform({n})}, RealFftParams{0, n, 0}});
      return s;
    },
    .norm_tolerance = 16,
    .no_finite_difference = known_results,
});

const Op irfft_op({
    .name = "irfft",
    .doc = "the n real numbers whose rfft, without a divisor, is x n^(halves/2 - 1)",
    .dtypes = complex_set,
    .infer = infer_irfft,
    .vjp = irfft_vjp,
    .linear_in = save(0),
    .batch = batch_axes<&RealFftParams::axis>,
    .cpu = cpu::irfft,
    .ref = ref::irfft,
    .wants_contiguous = true,
    .may_throw = [](AttrsView) { return false; },
    .samples = []() -> std::vector<Sample> {
      std::vector<Sample> s = {{{complex_sample({2, 3, 4})}, RealFftParams{1, 4, 1}},
                               {{complex_sample({40, 4})}, RealFftParams{1, 7, 2}}};
      for (int64_t n : {1, 2, 5, 16, 34, 97}) s.push_back({{complex_sample({n / 2 + 1})}, RealFftParams{0, n, 0}});
      return s;
    },
    .norm_tolerance = 16,
    .no_finite_difference = known_results,
});

// --- Operands and options --------------------------------------------------------------------------------------------

using fft::Norm;

int64_t halves_of(Norm norm, bool inverse) {
  if (norm == Norm::ortho) return 1;
  return (norm == Norm::forward) != inverse ? 2 : 0;
}
Norm turned(Norm norm) { return norm == Norm::ortho ? norm : norm == Norm::forward ? Norm::backward : Norm::forward; }

Tensor as_real(std::string_view op, const Tensor& x, const Where& where) {
  require_operand(op, x, where);
  reject_float8(op, x, where);
  if (is_complex(x.dtype()))
    fail(op, fmt::format("the operand must be real. fft takes complex ones. operands: {}", to_string(x.spec())), where);
  return x.dtype() == DType::f64 ? x : astype(x, DType::f32, where);
}
Tensor as_complex(std::string_view op, const Tensor& x, const Where& where) {
  require_operand(op, x, where);
  reject_float8(op, x, where);
  return is_complex(x.dtype()) ? x : astype(x, x.dtype() == DType::f64 ? DType::c128 : DType::c64, where);
}

// Cut, or continued with zeros, to `n` elements along the axis.
Tensor resized(const Tensor& x, int64_t axis, Dim n) {
  const Dim own = x.shape()[size_t(axis)];
  if (own == n) return x;
  if (own > n) return slice_axis(x, axis, 0, n);
  std::vector<Padding> widths(size_t(x.ndim()), Padding{});
  widths[size_t(axis)].hi = n - own;
  return pad(x, widths);
}

void require_length(std::string_view op, Dim n, const Where& where) {
  require_option(n >= 1, op, "n", n, "at least 1", where);
}

Tensor along_one(std::string_view op, const Tensor& operand, const fft::FftOptions& o, bool inverse,
                 const Where& where) {
  CallerScope caller(where, op.data());
  const Tensor x = as_complex(op, operand, where);
  const int64_t axis = normal_axis(o.axis, x, op, where);
  if (o.n) require_length(op, *o.n, where);
  const Tensor in = o.n ? resized(x, axis, *o.n) : x;
  return apply1(fft_op, {&in}, FftParams{{axis}, inverse, halves_of(o.norm, inverse)}, where);
}

Tensor real_along(const Tensor& x, int64_t axis, std::optional<Dim> n, Norm norm, const Where& where) {
  const Tensor in = n ? resized(x, axis, *n) : x;
  return apply1(rfft_op, {&in}, RealFftParams{axis, in.shape()[size_t(axis)], halves_of(norm, false)}, where);
}
Tensor to_real_along(std::string_view op, const Tensor& x, int64_t axis, std::optional<Dim> n, Norm norm,
                     const Where& where) {
  if (n) require_length(op, *n, where);
  else if (x.shape()[size_t(axis)] < 2)
    fail(op,
         fmt::format("axis {} has {} elements, which make 2 (m - 1) = {} real numbers. n says how many there are. "
                     "operands: {}",
                     axis, x.shape()[size_t(axis)], 2 * (x.shape()[size_t(axis)] - 1), to_string(x.spec())),
         where);
  const Dim length = n ? *n : 2 * (x.shape()[size_t(axis)] - 1);
  const Tensor in = resized(x, axis, length / 2 + 1);
  return apply1(irfft_op, {&in}, RealFftParams{axis, length, halves_of(norm, true)}, where);
}

// The axes of a transform along several, and their lengths, where they are given.
struct Grid {
  Dims axes;
  std::optional<Shape> s;
};
Grid grid_of(std::string_view op, const Tensor& x, const fft::FftnOptions& o, const Where& where) {
  require_operand(op, x, where);
  Grid g{{}, o.s};
  if (o.axes) {
    g.axes = normal_axes(*o.axes, x, op, where);
  } else {
    const int64_t count = o.s ? o.s->ndim() : x.ndim();
    if (count > x.ndim())
      fail(op, fmt::format("{} lengths are given for an operand of {} axes", count, x.ndim()), where);
    for (int64_t a = x.ndim() - count; a < x.ndim(); ++a) g.axes.push_back(a);
  }
  if (g.s && g.s->size() != g.axes.size())
    fail(op, fmt::format("{} lengths are given for {} axes", g.s->size(), g.axes.size()), where);
  if (g.s)
    for (Dim n : *g.s) require_length(op, n, where);
  return g;
}
// The operand with the lengths of the first `count` axes.
Tensor resized(Tensor x, const Grid& g, size_t count) {
  for (size_t i = 0; g.s && i < count; ++i) x = resized(x, g.axes[i], (*g.s)[i]);
  return x;
}
Dims without_last(const Dims& axes) {
  Dims out = axes;
  out.pop_back();
  return out;
}
std::optional<Dim> last_length(const Grid& g) { return g.s ? std::optional<Dim>(g.s->back()) : std::nullopt; }

Tensor along_several(std::string_view op, const Tensor& operand, const fft::FftnOptions& o, bool inverse,
                     const Where& where) {
  CallerScope caller(where, op.data());
  const Grid g = grid_of(op, operand, o, where);
  const Tensor in = resized(as_complex(op, operand, where), g, g.axes.size());
  return apply1(fft_op, {&in}, FftParams{g.axes, inverse, halves_of(o.norm, inverse)}, where);
}

Tensor real_along_several(std::string_view op, const Tensor& operand, const fft::FftnOptions& o, const Where& where) {
  CallerScope caller(where, op.data());
  const Grid g = grid_of(op, operand, o, where);
  if (g.axes.empty()) fail(op, "at least one axis is needed", where);
  const Tensor in = resized(as_real(op, operand, where), g, g.axes.size() - 1);
  Tensor y = real_along(in, g.axes.back(), last_length(g), o.norm, where);
  if (g.axes.size() == 1) return y;
  return apply1(fft_op, {&y}, FftParams{without_last(g.axes), false, halves_of(o.norm, false)}, where);
}

Tensor to_real_along_several(std::string_view op, const Tensor& operand, const fft::FftnOptions& o,
                             const Where& where) {
  CallerScope caller(where, op.data());
  const Grid g = grid_of(op, operand, o, where);
  if (g.axes.empty()) fail(op, "at least one axis is needed", where);
  Tensor x = resized(as_complex(op, operand, where), g, g.axes.size() - 1);
  if (g.axes.size() > 1)
    x = apply1(fft_op, {&x}, FftParams{without_last(g.axes), true, halves_of(o.norm, true)}, where);
  return to_real_along(op, x, g.axes.back(), last_length(g), o.norm, where);
}

fft::FftnOptions as_several(const fft::Fft2Options& o) { return {.s = o.s, .axes = o.axes, .norm = o.norm}; }

void require_two_axes(std::string_view op, const fft::Fft2Options& o, const Where& where) {
  if (o.axes.size() != 2) fail(op, fmt::format("two axes are needed, not {}", o.axes.size()), where);
}

// Each axis rolled by a half of its size, rounded down or, where `up`, up.
Tensor shifted(std::string_view op, const Tensor& x, const Axes& axes, bool up, const Where& where) {
  CallerScope caller(where, op.data());
  require_operand(op, x, where);
  Axes all = normal_axes(axes, x, op, where), by;
  if (axes.empty())
    for (int64_t a = 0; a < x.ndim(); ++a) all.push_back(a);
  for (int64_t a : all) by.push_back((x.shape()[size_t(a)] + (up ? 1 : 0)) / 2);
  return all.empty() ? x : roll(x, by, all, where);
}

// The dtype of frequencies. Throws for one that is not real and floating.
DType frequency_dtype(std::string_view op, const TensorOptions& o, const Where& where) {
  const DType d = o.dtype.value_or(DType::f32);
  if (!is_floating(d))
    fail(op, fmt::format("frequencies are not whole numbers, and real. use f32 or f64, not {}", name(d)), where);
  return d;
}
void require_spacing(std::string_view op, double d, const Where& where) {
  require_option(std::isfinite(d) && d != 0, op, "d", d, "finite and not 0", where);
}

}  // namespace

namespace fft {

Tensor fft(const Tensor& x, const FftOptions& o, Where where) { return along_one("fft", x, o, false, where); }
Tensor ifft(const Tensor& x, const FftOptions& o, Where where) { return along_one("ifft", x, o, true, where); }
Tensor fftn(const Tensor& x, const FftnOptions& o, Where where) { return along_several("fftn", x, o, false, where); }
Tensor ifftn(const Tensor& x, const FftnOptions& o, Where where) { return along_several("ifftn", x, o, true, where); }

Tensor rfft(const Tensor& x, const FftOptions& o, Where where) {
  CallerScope caller(where);
  const Tensor in = as_real("rfft", x, where);
  if (o.n) require_length("rfft", *o.n, where);
  return real_along(in, normal_axis(o.axis, in, "rfft", where), o.n, o.norm, where);
}
Tensor irfft(const Tensor& x, const FftOptions& o, Where where) {
  CallerScope caller(where);
  const Tensor in = as_complex("irfft", x, where);
  return to_real_along("irfft", in, normal_axis(o.axis, in, "irfft", where), o.n, o.norm, where);
}
Tensor rfftn(const Tensor& x, const FftnOptions& o, Where where) { return real_along_several("rfftn", x, o, where); }
Tensor irfftn(const Tensor& x, const FftnOptions& o, Where where) {
  return to_real_along_several("irfftn", x, o, where);
}

Tensor hfft(const Tensor& x, const FftOptions& o, Where where) {
  CallerScope caller(where);
  const Tensor in = conj(as_complex("hfft", x, where));
  return to_real_along("hfft", in, normal_axis(o.axis, in, "hfft", where), o.n, turned(o.norm), where);
}
Tensor ihfft(const Tensor& x, const FftOptions& o, Where where) {
  CallerScope caller(where);
  const Tensor in = as_real("ihfft", x, where);
  if (o.n) require_length("ihfft", *o.n, where);
  return conj(real_along(in, normal_axis(o.axis, in, "ihfft", where), o.n, turned(o.norm), where));
}

Tensor fft2(const Tensor& x, const Fft2Options& o, Where where) {
  require_two_axes("fft2", o, where);
  return along_several("fft2", x, as_several(o), false, where);
}
Tensor ifft2(const Tensor& x, const Fft2Options& o, Where where) {
  require_two_axes("ifft2", o, where);
  return along_several("ifft2", x, as_several(o), true, where);
}
Tensor rfft2(const Tensor& x, const Fft2Options& o, Where where) {
  require_two_axes("rfft2", o, where);
  return real_along_several("rfft2", x, as_several(o), where);
}
Tensor irfft2(const Tensor& x, const Fft2Options& o, Where where) {
  require_two_axes("irfft2", o, where);
  return to_real_along_several("irfft2", x, as_several(o), where);
}

Tensor fftfreq(Dim n, double d, const TensorOptions& options, Where where) {
  CallerScope caller(where);
  require_length("fftfreq", n, where);
  require_spacing("fftfreq", d, where);
  const DType dtype = frequency_dtype("fftfreq", options, where);
  const Tensor k = iota({n}, 0, {DType::i64, options.device}), turn = rill::where(k > (n - 1) / 2, k - n, k);
  return astype(turn, dtype) / n / d;
}
Tensor rfftfreq(Dim n, double d, const TensorOptions& options, Where where) {
  CallerScope caller(where);
  require_length("rfftfreq", n, where);
  require_spacing("rfftfreq", d, where);
  const DType dtype = frequency_dtype("rfftfreq", options, where);
  const Tensor k = iota({n / 2 + 1}, 0, {DType::i64, options.device});
  return astype(k, dtype) / n / d;
}

Tensor fftshift(const Tensor& x, const Axes& axes, Where where) { return shifted("fftshift", x, axes, false, where); }
Tensor ifftshift(const Tensor& x, const Axes& axes, Where where) { return shifted("ifftshift", x, axes, true, where); }

}  // namespace fft
}  // namespace rill
