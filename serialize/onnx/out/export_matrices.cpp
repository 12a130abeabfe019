// Linear algebra, of which ONNX only has the determinant; and Fourier transforms, with complex numbers as in ONNX:
// pairs of real ones along one more axis, the last, which DFT takes and returns. Creating such numbers from real ones,
// transforming them and making real ones of them can be written; other ops on them have no operators.
#include "rill/devices/params/elementwise_params.h"
#include "rill/devices/params/fft_params.h"
#include "rill/ops/apply.h"
#include "rill/ops/creation.h"
#include "rill/serialize/onnx/out/export_rules.h"

namespace rill::onnx_out {

namespace {

Values write_byte_matmul(Call& c) {
  return is_empty(c) ? zeros_of(c, DType::i32) : Values{c.e.op("MatMulInteger", c.in, {}, DType::i32)};
}
Values write_det(Call& c) { return {c.e.op("Det", c.in)}; }

constexpr std::string_view no_operator = "ONNX has no operator that does this. compute it outside of the model";

constexpr std::string_view no_blocks =
    "its weights are quantised blocks, for which there is no operator. Blocks::values() gives numbers";

}  // namespace

std::span<const Rule> matrix_rules() {
  static const Rule rules[] = {
      {.op = "block_matmul", .refusal = no_blocks},
      {.op = "from_blocks", .refusal = no_blocks},
      {.op = "byte_matmul", .direct = write_byte_matmul, .moves = true},
      {"det", write_det},
      {.op = "cholesky", .refusal = no_operator},
      {.op = "eig", .refusal = no_operator},
      {.op = "eigh", .refusal = no_operator},
      {.op = "eigvals", .refusal = no_operator},
      {.op = "eigvalsh", .refusal = no_operator},
      {.op = "expm", .refusal = no_operator},
      {.op = "fft", .refusal = no_operator},
      {.op = "irfft", .refusal = no_operator},
      {.op = "lstsq", .refusal = no_operator},
      {.op = "lu", .refusal = no_operator},
      {.op = "pinv", .refusal = no_operator},
      {.op = "qr", .refusal = no_operator},
      {.op = "rfft", .refusal = no_operator},
      {.op = "slogdet", .refusal = no_operator},
      {.op = "solve", .refusal = no_operator},
      {.op = "svd", .refusal = no_operator},
      {.op = "svdvals", .refusal = no_operator},
      {.op = "triangular_solve", .refusal = no_operator},
  };
  return rules;
}

// --- Pairs -----------------------------------------------------------------------------------------------------------

namespace {

constexpr int64_t last = -1;

Value scalar(Exporter& e, int64_t n) {
  const EagerScope eager;
  return e.constant(tensor(n, {.device = Device()}));
}
Value with_last_axis(Exporter& e, const Value& v) { return e.op("Unsqueeze", {v, e.ints({last})}); }
Value pair(Exporter& e, const Value& re, const Value& im) {
  return e.op("Concat", {with_last_axis(e, re), with_last_axis(e, im)}, {{"axis", last}});
}
Value part(Exporter& e, const Value& v, int64_t which) {
  return e.op("Gather", {v, scalar(e, which)}, {{"axis", last}});
}
Value conjugate(Exporter& e, const Value& v) {
  const EagerScope eager;
  return e.op("Mul", {v, e.constant(tensor({1.0, -1.0}).astype(v.dtype))});
}

Values write_complex(Call& c) { return {pair(c.e, c.in[0], c.in[1])}; }
template <int64_t which>
Values write_part(Call& c) {
  return {part(c.e, c.in[0], which)};
}
Values write_conj(Call& c) { return {conjugate(c.e, c.in[0])}; }
Values write_complex_abs(Call& c) {
  return {c.e.op("ReduceL2", {c.in[0], c.e.ints({last})}, {{"keepdims", int64_t(0)}})};
}
Values write_complex_cast(Call& c) {
  const DType to = c.attrs<CastAttrs>().dtype;
  if (!is_complex(to)) c.e.refuse(c.node, "it takes the real part of complex numbers. ask for that by real()");
  const DType real = real_of(to);
  if (is_complex(c.specs[0].dtype)) return {c.e.cast(c.in[0], real)};
  const Value re = c.e.cast(c.in[0], real);
  return {pair(c.e, re, c.e.op("Mul", {re, c.e.number(0, real)}))};
}

// DFT only divides by n in the inverse.
Value scaled(Call& c, const Value& v, Dim n, bool inverse, int64_t halves) {
  const int64_t more = halves - (inverse ? 2 : 0);
  if (more == 0) return v;
  Value factor = c.e.cast(c.e.op("Squeeze", {c.e.size(n)}, {}, DType::i64), v.dtype);
  if (more % 2) factor = c.e.op("Sqrt", {factor});
  return c.e.op(more > 0 ? "Div" : "Mul", {v, factor});
}
Value dft(Call& c, const Value& v, int64_t axis, bool inverse, bool one_sided) {
  return c.e.op("DFT", {v, {}, scalar(c.e, axis)}, {{"inverse", int64_t(inverse)}, {"onesided", int64_t(one_sided)}});
}

Values write_fft(Call& c) {
  const FftParams& p = c.attrs<FftParams>();
  Value v = c.in[0];
  for (const Dim axis : p.axes)
    v = scaled(c, dft(c, v, axis, p.inverse, false), c.specs[0].shape[size_t(axis.plain())], p.inverse, p.halves);
  return {v};
}
Values write_rfft(Call& c) {
  const RealFftParams& p = c.attrs<RealFftParams>();
  return {scaled(c, dft(c, with_last_axis(c.e, c.in[0]), p.axis, false, true), p.n, false, p.halves)};
}
// The other half is the conjugate of this one, without its first element and, for an even n, its last.
Values write_irfft(Call& c) {
  const RealFftParams& p = c.attrs<RealFftParams>();
  const ExactDims sizes;
  const Value axes = c.e.ints({p.axis}), first = c.in[0];
  const Value others = c.e.op("Slice", {first, c.e.size(p.n - p.n / 2 - 1), c.e.ints({0}), axes, c.e.ints({-1})});
  const Value whole = c.e.op("Concat", {first, conjugate(c.e, others)}, {{"axis", p.axis}});
  return {scaled(c, part(c.e, dft(c, whole, p.axis, true, false), 0), p.n, true, p.halves)};
}

}  // namespace

const Rule* pair_rule_of(const Op& op) {
  static const Rule rules[] = {{"abs", write_complex_abs}, {"cast", write_complex_cast}, {"complex", write_complex},
                               {"conj", write_conj},       {"fft", write_fft},           {"imag", write_part<1>},
                               {"irfft", write_irfft},     {"real", write_part<0>},      {"rfft", write_rfft}};
  for (const Rule& r : rules)
    if (r.op == op.name) return &r;
  return nullptr;
}

}  // namespace rill::onnx_out
