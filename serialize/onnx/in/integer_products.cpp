// Products and convolutions of integers, exactly. Those of bytes by weights are byte_matmul and byte_conv. Others use
// f32, which is exact as long as no partial sum, in any order of additions, exceeds the integers that f32 holds
// exactly: so the largest distance from the zero point to the ends of the dtype, times the sum of the magnitudes of the
// weights for one element, is compared with 2^24. Most fit as they are; longer sums are split into parts that fit,
// which are added up in f64.
#include <algorithm>
#include <optional>

#include "rill/ops/apply.h"
#include "rill/ops/enclosing_trace.h"
#include "rill/ops/product/byte_products.h"
#include "rill/serialize/onnx/in/quantised.h"

namespace rill::onnx_import {
namespace {

constexpr double most_exact = 1 << 24;
constexpr size_t max_parts = 8;  // with more, f64 is as fast

// The largest magnitude of a byte minus its zero point.
double most_of(DType dtype, const Tensor& zero, bool zero_is_known) {
  if (!zero_is_known) return 255;
  const EagerScope eager;
  const double low = dtype == u8 ? 0 : -128, high = low + 255;
  double most = 0;
  for (const double z : zero.astype(f64).to_vector<double>()) most = std::max({most, high - z, z - low});
  return most;
}

// The indices at which to split a sum so that each part is exact: `sums` has the largest contribution of each step to
// each of `width` elements.
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
// For `steps` that each add no more than `each`.
std::vector<int64_t> even_cuts(int64_t steps, double each) {
  const auto part = std::max<int64_t>(1, int64_t(most_exact / each));
  std::vector<int64_t> cuts;
  for (int64_t k = 0; k < steps && cuts.size() <= max_parts; k += part) cuts.push_back(k);
  cuts.push_back(steps);
  return cuts;
}
// Magnitudes of constant weights with the axis of the sum first: [steps, everything else].
std::vector<double> magnitudes(const Tensor& w, int64_t axis) {
  const EagerScope eager;
  const Tensor first = moveaxis(abs(w), axis, 0);
  return reshape(first, {first.dim(0), -1}).to_vector<double>();
}

bool are_bytes(const Centred& a, const Centred& b) { return a.is_byte() && b.is_byte(); }
Tensor wide(const Centred& v) { return v.values().astype(f64); }

Tensor zero_of(const Centred& v) {
  std::optional<EagerScope> now;
  if (!v.zero.is_symbolic()) now.emplace();
  if (v.constant && v.zero.size() > 1 && !any(v.zero != 0).item<bool>()) return full({}, 0, v.zero.dtype());
  return v.zero.size() == 1 ? reshape(v.zero, {}) : reshape(v.zero, {v.zero.size()});
}

// The sum of part(from, to) between the cuts.
template <class Part>
Tensor added_up(const std::vector<int64_t>& cuts, Part part) {
  Tensor total = part(cuts[0], cuts[1]);
  for (size_t i = 1; i + 1 < cuts.size(); ++i) total = total.astype(f64) + part(cuts[i], cuts[i + 1]).astype(f64);
  return total;
}

}  // namespace

Centred centred(const Call& c, size_t i, size_t zero_at, Tensor (*meet)(const Tensor& zero, const Tensor& x)) {
  Centred v;
  v.x = c.x(i);
  const auto known_now = [&](size_t k) { return !c.has(k) || (c.knows(k) && !c.x(k).is_symbolic()); };
  const bool zero_is_known = known_now(zero_at);
  v.constant = zero_is_known && known_now(i);
  std::optional<EagerScope> now;
  if (zero_is_known) now.emplace();
  v.zero = meet(c.has(zero_at) ? c.x(zero_at) : full({}, 0, v.x.dtype()), v.x);
  if (v.is_byte()) v.most = most_of(v.x.dtype(), v.zero, zero_is_known);
  return v;
}
Tensor Centred::values() const {
  std::optional<EagerScope> now;
  if (constant) now.emplace();
  const DType d = is_byte() ? f32 : f64;
  return x.astype(d) - zero.astype(d);
}
Centred transposed(Centred v) {
  std::optional<EagerScope> now;
  if (v.constant) now.emplace();
  v.x = matrix_transpose(v.x);
  if (v.zero.ndim() > 1) v.zero = matrix_transpose(v.zero);
  return v;
}

bool by_bytes(const Centred& a, const Centred& b, Dim columns) {
  return are_bytes(a, b) && b.constant && a.x.device().kind() != DeviceKind::gpu && a.zero.size() == 1 &&
         (b.zero.size() == 1 || b.zero.size() == columns);
}
// Groups of few channels use f32, which holds their sums: kernels of bytes compute one channel, or 32 at once.
bool by_bytes(const Centred& x, const Centred& w, const ConvOptions& options) {
  constexpr int64_t few = 16;
  if (!by_bytes(x, w, w.x.dim(0))) return false;
  const int64_t each = w.x.dim(0).plain() / options.groups;
  return options.groups == 1 || each >= few || (each == 1 && w.x.dim(1) == 1);
}

Tensor exact_matmul(const Centred& a, const Centred& b) {
  const Tensor& w = b.x;
  if (w.ndim() == 2 && a.x.ndim() > 0 && by_bytes(a, b, w.dim(1))) return byte_matmul(a.x, w, zero_of(a), zero_of(b));
  if (!are_bytes(a, b) || w.ndim() < 2 || w.dim(-2).is_open() || w.dim(-2) == 0) return matmul(wide(a), wide(b));
  const int64_t steps = w.dim(-2).plain();
  const Tensor left = a.values(), right = b.values();
  std::vector<int64_t> cuts;
  if (b.constant) {
    const std::vector<double> sums = magnitudes(right, -2);
    cuts = cuts_of(sums, sums.size() / size_t(steps), a.most);
  } else {
    cuts = even_cuts(steps, a.most * b.most);
  }
  if (cuts.size() > max_parts + 1) return matmul(wide(a), wide(b));
  if (cuts.size() == 2) return matmul(left, right);
  return added_up(cuts, [&](int64_t from, int64_t to) {
    return matmul(slice_axis(left, -1, from, to), slice_axis(right, -2, from, to));
  });
}

Tensor exact_conv(const Centred& x, const Centred& w, const ConvOptions& options) {
  if (by_bytes(x, w, options)) {
    ConvParams p{.strides = options.strides,
                 .pads_lo = options.padding.lo,
                 .pads_hi = options.padding.hi,
                 .dilation = options.dilation,
                 .groups = options.groups,
                 .layout = options.layout,
                 .sizes = {}};
    return byte_conv(x.x, w.x, zero_of(x), zero_of(w), p);
  }
  const bool known = are_bytes(x, w) && w.constant && w.x.dim(1) != 0;
  if (!known) return conv(wide(x), wide(w), options);
  const Tensor left = x.values(), right = w.values();
  const int64_t channels = w.x.dim(1).plain();
  std::vector<double> sums;  // of the elements of the kernel, for each input channel and output channel
  {
    const EagerScope eager;
    Tensor each = abs(right);
    while (each.ndim() > 2) each = sum(each, -1);
    sums = magnitudes(each, 1);
  }
  const std::vector<int64_t> cuts = cuts_of(sums, sums.size() / size_t(channels), x.most);
  const bool one_step_fits = std::ranges::all_of(sums, [&](double s) { return s * x.most <= most_exact; });
  if (cuts.size() == 2 && one_step_fits) return conv(left, right, options);
  if (!one_step_fits || options.groups != 1 || cuts.size() > max_parts + 1) return conv(wide(x), wide(w), options);
  return added_up(cuts, [&](int64_t from, int64_t to) {
    return conv(slice_axis(left, 1, from, to), slice_axis(right, 1, from, to), options);
  });
}

}  // namespace rill::onnx_import
