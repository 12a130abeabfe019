// Measures of images; see measure.h.
#include "rill/data/images/measure.h"

#include <cmath>

#include "rill/data/images/parts.h"

namespace rill::images {
namespace {

void require_pair(std::string_view op, const Tensor& a, const Tensor& b, double max_value, const Where& where) {
  require_image(op, a, where);
  require_image(op, b, where);
  require_option(max_value > 0, op, "max_value", max_value, "positive", where);
  if (a.shape() != b.shape())
    fail(op, fmt::format("takes two images of one shape. operands: {}, {}", to_string(a.spec()), to_string(b.spec())),
         where);
}
Tensor as_floats(const Tensor& x) { return astype(x, work_of(x.dtype())); }

// Weighted means of `weights.size()` neighbours along an axis, where all are inside.
Tensor filtered(const Tensor& x, int64_t axis, const std::vector<double>& weights) {
  const auto size = int64_t(weights.size()), n = int64_t(x.shape()[size_t(axis)]) - size + 1;
  Tensor sum;
  for (int64_t i = 0; i < size; ++i) {
    const Tensor term = slice_axis(x, axis, i, i + n) * weights[size_t(i)];
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}
std::vector<double> gaussian(const SsimOptions& o) {
  std::vector<double> w;
  double all = 0;
  for (int64_t i = 0; i < o.filter_size; ++i) {
    const double at = (double(i) - double(o.filter_size - 1) / 2) / o.filter_sigma;
    w.push_back(std::exp(-0.5 * at * at));
    all += w.back();
  }
  for (double& v : w) v /= all;
  return w;
}

// The means over pixels of similarity, and of contrast and structure only: [..., channels].
struct Similarity {
  Tensor all, structure;
};
Similarity similarity(std::string_view op, const Tensor& a, const Tensor& b, double max_value, const SsimOptions& o,
                      const Where& where) {
  require_option(o.filter_size >= 1, op, "filter_size", o.filter_size, "1 or more", where);
  require_option(o.filter_sigma > 0, op, "filter_sigma", o.filter_sigma, "positive", where);
  if (height_of(a) < o.filter_size || width_of(a) < o.filter_size)
    fail(op, fmt::format("a filter of {} pixels does not fit into {}", o.filter_size, to_string(a.spec())), where);
  const std::vector<double> w = gaussian(o);
  const auto local = [&](const Tensor& x) { return filtered(filtered(x, x.ndim() - 3, w), x.ndim() - 2, w); };
  const double c1 = o.k1 * max_value * o.k1 * max_value, c2 = o.k2 * max_value * o.k2 * max_value;
  // Variances of the difference from the image's mean, whose squares are more accurate for a low contrast.
  const Tensor of_a = stop_gradient(mean(a, {-3, -2}, true)), of_b = stop_gradient(mean(b, {-3, -2}, true));
  const Tensor da = a - of_a, db = b - of_b, la = local(da), lb = local(db), ma = la + of_a, mb = lb + of_b;
  const Tensor light = (ma * mb * 2 + c1) / (square(ma) + square(mb) + c1);
  const Tensor structure =
      (local(da * db) * 2 - la * lb * 2 + c2) / (local(square(da) + square(db)) - square(la) - square(lb) + c2);
  return {mean(light * structure, {-3, -2}), mean(structure, {-3, -2})};
}

}  // namespace

Tensor psnr(const Tensor& a, const Tensor& b, double max_value, Where where) {
  const CallerScope caller(where);
  require_pair("images::psnr", a, b, max_value, where);
  const Tensor error = mean(square(as_floats(a) - as_floats(b)), {-3, -2, -1});
  return 20 * std::log10(max_value) - log(error) * (10 / std::log(10.0));
}

Tensor ssim(const Tensor& a, const Tensor& b, double max_value, const SsimOptions& o, Where where) {
  const CallerScope caller(where);
  require_pair("images::ssim", a, b, max_value, where);
  return mean(similarity("images::ssim", as_floats(a), as_floats(b), max_value, o, where).all, -1);
}

Tensor ssim_multiscale(const Tensor& a, const Tensor& b, double max_value, const std::vector<double>& powers,
                       const SsimOptions& o, Where where) {
  const CallerScope caller(where);
  constexpr std::string_view op = "images::ssim_multiscale";
  require_pair(op, a, b, max_value, where);
  if (powers.empty()) fail(op, "there are no powers, one for each scale", where);
  Tensor x = as_floats(a), y = as_floats(b), product;
  for (size_t i = 0; i < powers.size(); ++i) {
    if (i > 0) {  // means of 2 x 2 pixels; for an odd side the last one counts twice
      const auto halved = [](const Tensor& t) {
        std::vector<Padding> widths(size_t(t.ndim()));
        widths[widths.size() - 3].hi = int64_t(height_of(t)) % 2;
        widths[widths.size() - 2].hi = int64_t(width_of(t)) % 2;
        const Tensor even = pad(t, widths, PadMode::symmetric);
        return reshape(avg_pool(as_batch(even), {2, 2}, {.strides = {2, 2}}),
                       with_size(t, int64_t(height_of(even)) / 2, int64_t(width_of(even)) / 2));
      };
      x = halved(x), y = halved(y);
    }
    const Similarity s = similarity(op, x, y, max_value, o, where);
    const Tensor part = pow(relu(i + 1 == powers.size() ? s.all : s.structure), powers[i]);
    product = product.defined() ? product * part : part;
  }
  return mean(product, -1);
}

Tensor total_variation(const Tensor& x, Where where) {
  const CallerScope caller(where);
  require_image("images::total_variation", x, where);
  const Tensor y = as_floats(x);
  return sum(abs(diff(y, 1, -3)), {-3, -2, -1}) + sum(abs(diff(y, 1, -2)), {-3, -2, -1});
}

Tensor sobel_edges(const Tensor& x, Where where) {
  const CallerScope caller(where);
  require_image("images::sobel_edges", x, where);
  if (height_of(x) < 2 || width_of(x) < 2)
    fail("images::sobel_edges", fmt::format("takes images of 2 x 2 pixels or more. got {}", to_string(x.spec())),
         where);
  std::vector<Padding> widths(size_t(x.ndim()));
  widths[widths.size() - 3] = widths[widths.size() - 2] = {1, 1};
  const Tensor wide = pad(as_floats(x), widths, PadMode::reflect);
  const int64_t y = x.ndim() - 3, across = x.ndim() - 2;
  const std::vector<double> slope = {-1, 0, 1}, smooth = {1, 2, 1};
  return stack({filtered(filtered(wide, across, smooth), y, slope), filtered(filtered(wide, across, slope), y, smooth)},
               -1);
}

std::pair<Tensor, Tensor> image_gradients(const Tensor& x, Where where) {
  const CallerScope caller(where);
  require_image("images::image_gradients", x, where);
  const Tensor y = as_floats(x);
  const auto along = [&](int64_t axis) {
    std::vector<Padding> widths(size_t(x.ndim()));
    widths[size_t(axis)].hi = 1;
    return pad(diff(y, 1, axis), widths);
  };
  return {along(x.ndim() - 3), along(x.ndim() - 2)};
}

}  // namespace rill::images
