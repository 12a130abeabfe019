// Tone changes of all pixels, and blurs; see colour.h.
#include <algorithm>
#include <array>
#include <cmath>

#include "rill/data/images/codec.h"
#include "rill/data/images/colour.h"
#include "rill/data/images/parts.h"
#include "rill/devices/cpu/image/blend_rows.h"
#include "rill/devices/host_memory.h"

namespace rill::images {
namespace {

using Counts = std::array<int64_t, 256>;
using Table = std::array<uint8_t, 256>;

// Maps each channel of each u8 image by a table computed from its histogram.
template <class F>
Tensor by_tables(const Tensor& x, F table_of) {
  const Tensor dense = x.to(Device()).contiguous();
  const auto from = dense.data<uint8_t>();
  const auto c = size_t(int64_t(x.shape().back())), each = size_t(int64_t(height_of(x)) * int64_t(width_of(x))) * c;
  const Pixels out(x.shape(), DType::u8);
  for (size_t image = 0; image < from.size(); image += each)
    for (size_t k = 0; k < c; ++k) {
      Counts counts = {};
      for (size_t i = k; i < each; i += c) ++counts[from[image + i]];
      const Table table = table_of(counts);
      for (size_t i = k; i < each; i += c) out.bytes()[image + i] = table[from[image + i]];
    }
  return out.tensor.to(x.device());
}

Table unchanged() {
  Table t = {};
  for (size_t i = 0; i < 256; ++i) t[i] = uint8_t(i);
  return t;
}
// Pillow's ImageOps.equalize().
Table equalizing(const Counts& counts) {
  int64_t all = 0, last = 0;
  for (int64_t n : counts)
    if (n > 0) all += n, last = n;
  const int64_t step = (all - last) / 255;
  if (step == 0) return unchanged();
  Table t = {};
  int64_t n = step / 2;
  for (size_t i = 0; i < 256; ++i) t[i] = uint8_t(std::min<int64_t>(n / step, 255)), n += counts[i];
  return t;
}
void require_bytes(std::string_view op, const Tensor& x, const Where& where) {
  require_image(op, x, where);
  if (x.dtype() != DType::u8) fail(op, fmt::format("takes u8 images. got {}", to_string(x.spec())), where);
}

void copy_pixels(const uint8_t* from, int64_t right, int64_t across, int64_t w, int64_t c, uint8_t* to) {
  if (c == 3)  // nearly always: no loop a pixel
    for (int64_t i = 0; i < w; ++i, from += right, to += 3)
      to[0] = from[0], to[1] = from[across], to[2] = from[2 * across];
  else
    for (int64_t i = 0; i < w; ++i, from += right)
      for (int64_t k = 0; k < c; ++k) *to++ = from[k * across];
}

// One image of bytes, row by row; its pixels may be in any memory order, for it may be mirrored.
Tensor normalized_rows(const Tensor& x, const std::vector<double>& by, const std::vector<double>& less) {
  const int64_t h = x.shape()[0], w = x.shape()[1], c = x.shape()[2];
  std::vector<float> times(size_t(w * c)), minus(size_t(w * c));
  for (size_t i = 0; i < times.size(); i += size_t(c))
    for (size_t k = 0; k < size_t(c); ++k) times[i + k] = float(by[k]), minus[i + k] = float(less[k]);
  const int64_t down = x.strides()[0], right = x.strides()[1], across = x.strides()[2];
  const bool side_by_side = right == c && across == 1, mirrored = right == -c && across == 1;
  std::vector<uint8_t> row(size_t(w * c));
  const Pixels out(x.shape(), DType::f32);
  auto* to = reinterpret_cast<float*>(out.bytes());
  const auto* from = reinterpret_cast<const uint8_t*>(x.rep()->data);
  const bool past_caches = host_memory::is_from_lender(*out.tensor.rep()->buffer);
  for (int64_t y = 0; y < h; ++y, from += down, to += w * c) {
    if (mirrored) cpu::mirror_pixels(from - (w - 1) * c, w, c, row.data());
    else if (!side_by_side) copy_pixels(from, right, across, w, c, row.data());
    cpu::scale_bytes(side_by_side ? from : row.data(), times.data(), minus.data(), to, w * c, past_caches);
  }
  if (past_caches) cpu::end_of_scaling();
  return out.tensor;
}

// The sum of pixels around each, along one axis, mirrored at the edges.
Tensor blurred(const Tensor& x, int64_t axis, int64_t size, double sigma) {
  const double width = sigma > 0 ? sigma : 0.15 * double(size) + 0.35;
  std::vector<double> weights;
  double all = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double at = (double(i) - double(size - 1) / 2) / width;
    weights.push_back(std::exp(-0.5 * at * at));
    all += weights.back();
  }
  std::vector<Padding> widths(size_t(x.ndim()));
  widths[size_t(axis)] = {size / 2, size / 2};
  const Tensor wide = pad(x, widths, PadMode::reflect);
  const int64_t n = x.shape()[size_t(axis)];
  Tensor sum;
  for (int64_t i = 0; i < size; ++i) {
    const Tensor term = slice_axis(wide, axis, i, i + n) * (weights[size_t(i)] / all);
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

}  // namespace

Tensor normalize(const Tensor& x, const std::vector<double>& mean, const std::vector<double>& stddev, Where where) {
  const CallerScope caller(where);
  require_image("images::normalize", x, where);
  const auto c = size_t(int64_t(x.shape().back()));
  if ((mean.size() != c && mean.size() != 1) || (stddev.size() != c && stddev.size() != 1))
    fail("images::normalize",
         fmt::format("takes a mean and a standard deviation for each of the {} channels, or one for all. got {} and {}",
                     c, mean.size(), stddev.size()) +
             hint_of_channels_first(x),
         where);
  for (double m : mean) require_finite("images::normalize", "a mean", m, where);
  for (double s : stddev) require_option(s > 0, "images::normalize", "a standard deviation", s, "positive", where);
  // One product and one sum a number: x (1 / (scale stddev)) - mean / stddev.
  const double white = is_floating(x.dtype()) ? 1 : white_of(x.dtype());
  // By entire rows, if their length is known: rows of three numbers take several times as long.
  const bool rows = !x.is_symbolic() && x.size() > 0;
  const size_t times = rows ? size_t(int64_t(width_of(x))) : 1;
  std::vector<double> by, less;
  by.reserve(c * times), less.reserve(c * times);
  for (size_t i = 0; i < c; ++i) {
    const double s = stddev[stddev.size() == 1 ? 0 : i], m = mean[mean.size() == 1 ? 0 : i];
    by.push_back(1 / (white * s)), less.push_back(m / s);
  }
  if (x.dtype() == DType::u8 && x.ndim() == 3 && rows && only_values_count(x)) return normalized_rows(x, by, less);
  for (size_t i = c; i < c * times; ++i) by.push_back(by[i - c]), less.push_back(less[i - c]);
  const DType work = work_of(x.dtype());
  const TensorOptions made = {.dtype = work, .device = x.device()};
  const Tensor from = rows ? reshape(x, {-1, int64_t(c * times)}) : x;
  const Tensor y = reshape(astype(from, work) * tensor(by, made) - tensor(less, made), x.shape());
  return is_floating(x.dtype()) ? astype(y, x.dtype()) : y;
}

Tensor standardize(const Tensor& x, Where where) {
  const CallerScope caller(where);
  require_image("images::standardize", x, where);
  const Tensor y = astype(x, work_of(x.dtype()));
  const double n = double(int64_t(height_of(x))) * double(int64_t(width_of(x))) * double(int64_t(x.shape().back()));
  const Tensor middle = mean(y, {-3, -2, -1}, true);
  const Tensor spread = sqrt(mean(square(y - middle), {-3, -2, -1}, true));
  const Tensor z = (y - middle) / maximum(spread, 1 / std::sqrt(n));
  return is_floating(x.dtype()) ? astype(z, x.dtype()) : z;
}

Tensor invert(const Tensor& x, Where where) {
  const CallerScope caller(where);
  require_image("images::invert", x, where);
  return x.dtype() == DType::u8 ? bitwise_xor(x, 255)
                                : rounded_to(white_of(x.dtype()) - astype(x, work_of(x.dtype())), x.dtype());
}
Tensor posterize(const Tensor& x, int bits, Where where) {
  const CallerScope caller(where);
  require_bytes("images::posterize", x, where);
  require_option(bits >= 0 && bits <= 8, "images::posterize", "bits", bits, "from 0 to 8", where);
  return bitwise_and(x, 256 - (1 << (8 - bits)));
}
Tensor solarize(const Tensor& x, double threshold, Where where) {
  const CallerScope caller(where);
  require_image("images::solarize", x, where);
  return rill::where(astype(x, work_of(x.dtype())) >= threshold, invert(x), x);
}
Tensor autocontrast(const Tensor& x, Where where) {
  const CallerScope caller(where);
  require_image("images::autocontrast", x, where);
  const bool bytes = x.dtype() == DType::u8;
  const Tensor y = bytes ? astype(x, DType::f64) : to_unit(x);
  const Tensor low = min(y, {-3, -2}, true), high = max(y, {-3, -2}, true), flat = high <= low;
  const Tensor reach = rill::where(flat, 1, high - low);
  if (!bytes) return from_unit(rill::where(flat, y, (y - low) / reach), x.dtype());
  const Tensor scale = 255 / reach;  // as in Pillow's ImageOps.autocontrast(), truncated
  return rill::where(flat, x, astype(clip(y * scale + -low * scale, 0, 255), DType::u8));
}
Tensor equalize(const Tensor& x, Where where) {
  const CallerScope caller(where);
  require_bytes("images::equalize", x, where);
  return by_tables(x, equalizing);
}

Tensor gaussian_blur(const Tensor& x, const Dims& size, double sigma, Where where) {
  const CallerScope caller(where);
  require_image("images::gaussian_blur", x, where);
  require_size("images::gaussian_blur", size, where);
  require_not_negative("images::gaussian_blur", "sigma", sigma, where);
  const int64_t sides[] = {size[0], size[1]}, now[] = {height_of(x), width_of(x)};
  Tensor y = astype(x, work_of(x.dtype()));
  for (int64_t i = 0; i < 2; ++i) {
    if (sides[i] % 2 == 0 || sides[i] / 2 >= now[i])
      fail("images::gaussian_blur",
           fmt::format("sizes are odd, and half of one is less than the image's. got {} for {}", to_string(Shape(size)),
                       to_string(x.spec())),
           where);
    y = blurred(y, x.ndim() - 3 + i, sides[i], sigma);
  }
  return rounded_to(y, x.dtype());
}

}  // namespace rill::images
