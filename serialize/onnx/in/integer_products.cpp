// Products and convolutions of integers of 8 bits, exactly. A product of f32 is exact as long as no partial sum can leave
// the integers that f32 holds, whatever the order of the additions: so what stands between the zero point and the ends of
// the dtype, times the magnitudes of the weights that meet in one element, is held against 2^24. Most layers fit as they
// are; longer sums are cut into parts that fit, which are added up in f64. (Products of pairs in integers of 16 bits, as
// x86 has them before VNNI, saturate; these do not.)
#include <algorithm>
#include <optional>

#include "rill/ops/apply.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/serialize/onnx/in/quantised.h"

namespace rill::onnx_import {
namespace {

constexpr double most_exact = 1 << 24;
constexpr size_t most_parts = 8;  // beyond, f64 is as fast

bool is_byte(DType d) { return d == u8 || d == i8; }

// The largest magnitude of a byte less its zero point.
double most_of(DType dtype, const Tensor& zero, bool zero_is_known) {
  if (!zero_is_known) return 255;
  const EagerScope eager;
  const double low = dtype == u8 ? 0 : -128, high = low + 255;
  double most = 0;
  for (const double z : zero.astype(f64).to_vector<double>()) most = std::max({most, high - z, z - low});
  return most;
}

// Where to cut a sum, so that each part is exact: `sums` has what each step adds, at most, to each of `width` elements.
std::vector<int64_t> cuts_of(const std::vector<double>& sums, size_t width, double most) {
  std::vector<int64_t> cuts = {0};
  std::vector<double> so_far(width, 0);
  const size_t steps = width ? sums.size() / width : 0;
  for (size_t k = 0; k < steps; ++k) {
    bool fits = true;
    for (size_t j = 0; j < width; ++j) fits &= (so_far[j] + sums[k * width + j]) * most <= most_exact;
    if (!fits) cuts.push_back(int64_t(k)), std::ranges::fill(so_far, 0);
    for (size_t j = 0; j < width; ++j) so_far[j] += sums[k * width + j];
  }
  cuts.push_back(int64_t(steps));
  return cuts;
}
// Of `steps` that each add no more than `each`.
std::vector<int64_t> even_cuts(int64_t steps, double each) {
  const auto part = std::max<int64_t>(1, int64_t(most_exact / each));
  std::vector<int64_t> cuts;
  for (int64_t k = 0; k < steps && cuts.size() <= most_parts; k += part) cuts.push_back(k);
  cuts.push_back(steps);
  return cuts;
}
// Magnitudes of constant weights with the axis of the sum first: [steps, everything else].
std::vector<double> magnitudes(const Tensor& w, int64_t axis) {
  const EagerScope eager;
  const Tensor first = moveaxis(abs(w), axis, 0);
  return reshape(first, {first.dim(0), -1}).to_vector<double>();
}

bool has_parts(const Centred& a, const Centred& b) { return a.values.dtype() == f32 && b.values.dtype() == f32; }
Tensor wide(const Centred& v) { return v.values.astype(f64); }

// The sum of part(from, to) between the cuts.
template <class Part>
Tensor added_up(const std::vector<int64_t>& cuts, Part part) {
  Tensor total = part(cuts[0], cuts[1]);
  for (size_t i = 1; i + 1 < cuts.size(); ++i) total = total.astype(f64) + part(cuts[i], cuts[i + 1]).astype(f64);
  return total;
}

}  // namespace

Centred centred(const Call& c, size_t i, size_t zero_at, Tensor (*meet)(const Tensor& zero, const Tensor& x)) {
  const Tensor x = c.x(i);
  const bool byte = is_byte(x.dtype());
  const DType d = byte ? f32 : f64;
  const auto known_now = [&](size_t k) { return !c.has(k) || (c.knows(k) && !c.x(k).is_symbolic()); };
  const bool zero_is_known = known_now(zero_at);
  Centred v;
  v.constant = zero_is_known && known_now(i);
  std::optional<EagerScope> now;
  if (zero_is_known) now.emplace();
  const Tensor zero = meet(c.has(zero_at) ? c.x(zero_at) : tensor(0), x).astype(d);
  if (byte) v.most = most_of(x.dtype(), zero, zero_is_known);
  if (!v.constant) now.reset();
  v.values = x.astype(d) - zero;
  return v;
}
Centred transposed(Centred v) {
  std::optional<EagerScope> now;
  if (v.constant) now.emplace();
  v.values = matrix_transpose(v.values);
  return v;
}

Tensor exact_matmul(const Centred& a, const Centred& b) {
  if (!has_parts(a, b) || b.values.ndim() < 2 || b.values.dim(-2).is_open() || b.values.dim(-2) == 0)
    return matmul(wide(a), wide(b));
  const int64_t steps = b.values.dim(-2).plain();
  std::vector<int64_t> cuts;
  if (b.constant) {
    const std::vector<double> sums = magnitudes(b.values, -2);
    cuts = cuts_of(sums, sums.size() / size_t(steps), a.most);
  } else {
    cuts = even_cuts(steps, a.most * b.most);
  }
  if (cuts.size() > most_parts + 1) return matmul(wide(a), wide(b));
  if (cuts.size() == 2) return matmul(a.values, b.values);
  return added_up(cuts, [&](int64_t from, int64_t to) {
    return matmul(slice_axis(a.values, -1, from, to), slice_axis(b.values, -2, from, to));
  });
}

Tensor exact_conv(const Centred& x, const Centred& w, const ConvOptions& options) {
  const bool known = has_parts(x, w) && w.constant && w.values.dim(1) != 0;
  if (!known) return conv(wide(x), wide(w), options);
  const int64_t channels = w.values.dim(1).plain();
  std::vector<double> sums;  // of the places in the kernel, for each input channel and output channel
  {
    const EagerScope eager;
    Tensor each = abs(w.values);
    while (each.ndim() > 2) each = sum(each, -1);
    sums = magnitudes(each, 1);
  }
  const std::vector<int64_t> cuts = cuts_of(sums, sums.size() / size_t(channels), x.most);
  const bool one_step_fits = std::ranges::all_of(sums, [&](double s) { return s * x.most <= most_exact; });
  if (cuts.size() == 2 && one_step_fits) return conv(x.values, w.values, options);
  if (!one_step_fits || options.groups != 1 || cuts.size() > most_parts + 1) return conv(wide(x), wide(w), options);
  return added_up(cuts, [&](int64_t from, int64_t to) {
    return conv(slice_axis(x.values, 1, from, to), slice_axis(w.values, 1, from, to), options);
  });
}

}  // namespace rill::onnx_import
