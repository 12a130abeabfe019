// Images sampled by a map: each pixel of the result has its source coordinates, and grid_sample() samples there.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "rill/data/images/geometry.h"
#include "rill/data/images/parts.h"
#include "rill/ops/images.h"

namespace rill::images {
namespace {

using Map = std::array<double, 8>;

double radians(double degrees) { return degrees * std::numbers::pi / 180; }

// The rows {a, b, c} and {d, e, f} such that the point (x, y) is moved by (dx, dy) first.
void move_first(Map& m, double dx, double dy) {
  m[2] += m[0] * dx + m[1] * dy;
  m[5] += m[3] * dx + m[4] * dy;
}

Tensor map_of(const Map& m) { return tensor(std::vector<double>(m.begin(), m.end()), {.device = Device()}); }

// Gauss' elimination, the largest pivot first; false where there is no solution.
bool solve(std::array<std::array<double, 9>, 8>& a, Map& out) {
  for (size_t i = 0; i < 8; ++i) {
    size_t best = i;
    for (size_t r = i; r < 8; ++r)
      if (std::abs(a[r][i]) > std::abs(a[best][i])) best = r;
    if (std::abs(a[best][i]) < 1e-12) return false;
    std::swap(a[i], a[best]);
    for (size_t r = 0; r < 8; ++r) {
      if (r == i) continue;
      const double by = a[r][i] / a[i][i];
      for (size_t c = i; c < 9; ++c) a[r][c] -= by * a[i][c];
    }
  }
  for (size_t i = 0; i < 8; ++i) out[i] = a[i][8] / a[i][i];
  return true;
}

}  // namespace

Tensor warp(const Tensor& x, const Tensor& map, const WarpOptions& o, Where where) {
  const CallerScope caller(where);
  require_image("images::warp", x, where);
  require_real("images::warp", map, where);
  if (!o.size.empty()) require_size("images::warp", o.size, where);
  const Tensor batch = as_batch(x);
  const Dim n = batch.shape()[0], h = height_of(x), w = width_of(x);
  const bool one = map.ndim() == 1;
  if (map.shape().back() != 8 || map.ndim() < 1 || map.ndim() > 2 ||
      (!one && map.shape()[0] != n && map.shape()[0] != 1))
    fail("images::warp",
         fmt::format("the map has 8 numbers, or [batch, 8]. operands: {}, {}", to_string(x.spec()),
                     to_string(map.spec())),
         where);
  const DType work = work_of(x.dtype());
  const Dim rows = o.size.empty() ? h : o.size[0], columns = o.size.empty() ? w : o.size[1];
  const Tensor m = astype(one ? reshape(map, {1, 8}) : map, work).to(x.device());
  const auto part = [&](int64_t i) { return reshape(m(all, i), {-1, 1, 1}); };
  const Tensor px = reshape(arange(columns, {work, x.device()}) + 0.5, {1, 1, -1});
  const Tensor py = reshape(arange(rows, {work, x.device()}) + 0.5, {1, -1, 1});
  const Tensor below = part(6) * px + part(7) * py + 1;
  // The nearest pixel is the one that contains the point: for points on an edge, which quarter turns have, the next
  // one.
  const auto source = [&](const Tensor& at) { return o.bilinear ? at : floor(at) + 0.5; };
  const Tensor fx = source((part(0) * px + part(1) * py + part(2)) / below),
               fy = source((part(3) * px + part(4) * py + part(5)) / below);
  Tensor grid = stack({fx * (2 / double(int64_t(w))) - 1, fy * (2 / double(int64_t(h))) - 1},
                      -1);  // as grid_sample() counts: from -1 to 1
  grid = broadcast_to(grid, {n, rows, columns, 2});
  const Tensor from = astype(batch, work) - o.fill;
  const Tensor y = grid_sample(from, grid, {.mode = o.bilinear ? SampleMode::linear : SampleMode::nearest}) + o.fill;
  return rounded_to(reshape(y, with_size(x, rows, columns)), x.dtype());
}

Tensor rotate(const Tensor& x, double degrees, const RotateOptions& o, Where where) {
  const CallerScope caller(where);
  require_image("images::rotate", x, where);
  require_finite("images::rotate", "the angle", degrees, where);
  const double turn = std::fmod(degrees, 360), angle = -radians(turn);  // exact
  const double h = double(int64_t(height_of(x))), w = double(int64_t(width_of(x)));
  // Quarter turns whose result has the image's pixels move them, as in Pillow and torchvision.
  if (std::fmod(turn, 90) == 0 && (std::fmod(turn, 180) == 0 || o.expand || h == w))
    return rotate90(x, int64_t(turn / 90));
  // To 15 digits, so that quarters are exact.
  const auto rounded = [](double v) { return std::round(v * 1e15) / 1e15; };
  const double c = rounded(std::cos(angle)), s = rounded(std::sin(angle));
  Map m = {c, s, w / 2, -s, c, h / 2, 0, 0};
  WarpOptions warped = {.bilinear = o.bilinear, .fill = o.fill};
  double columns = w, rows = h;
  if (o.expand) {  // all pixels that the rotated corners touch, as in Pillow
    const double across = (std::abs(c) * w + std::abs(s) * h) / 2, down = (std::abs(s) * w + std::abs(c) * h) / 2;
    columns = std::ceil(w / 2 + across) - std::floor(w / 2 - across);
    rows = std::ceil(h / 2 + down) - std::floor(h / 2 - down);
    warped.size = {int64_t(rows), int64_t(columns)};
  }
  move_first(m, -columns / 2, -rows / 2);
  return warp(x, map_of(m), warped);
}

Tensor affine(const Tensor& x, const AffineOptions& o, Where where) {
  const CallerScope caller(where);
  require_image("images::affine", x, where);
  require_option(std::isfinite(o.scale) && o.scale > 0, "images::affine", "scale", o.scale, "positive", where);
  if (o.translate.size() != 2 || o.shear.size() != 2)
    fail("images::affine", "translate and shear take two numbers each, {x, y}", where);
  const double turn = radians(o.degrees), sx = radians(o.shear[0]), sy = radians(o.shear[1]);
  // The inverse of: shear, then scale and turn.
  const double a = std::cos(turn - sy) / std::cos(sy),
               b = -std::cos(turn - sy) * std::tan(sx) / std::cos(sy) - std::sin(turn),
               c = std::sin(turn - sy) / std::cos(sy),
               d = -std::sin(turn - sy) * std::tan(sx) / std::cos(sy) + std::cos(turn);
  const double h = double(int64_t(height_of(x))), w = double(int64_t(width_of(x)));
  Map m = {d / o.scale, -b / o.scale, w / 2, -c / o.scale, a / o.scale, h / 2, 0, 0};
  move_first(m, -w / 2 - o.translate[0], -h / 2 - o.translate[1]);
  return warp(x, map_of(m), {.bilinear = o.bilinear, .fill = o.fill});
}

Tensor perspective(const Tensor& x, const std::vector<std::vector<double>>& from,
                   const std::vector<std::vector<double>>& to, const WarpOptions& o, Where where) {
  const CallerScope caller(where);
  const auto four_places = [](const std::vector<std::vector<double>>& v) {
    return v.size() == 4 && std::ranges::all_of(v, [](const auto& p) { return p.size() == 2; });
  };
  if (!four_places(from) || !four_places(to))
    fail("images::perspective", "takes four places {x, y} to go from and four to go to", where);
  std::array<std::array<double, 9>, 8> equations = {};
  for (size_t i = 0; i < 4; ++i) {
    const double u = from[i][0], v = from[i][1], px = to[i][0], py = to[i][1];
    equations[2 * i] = {px, py, 1, 0, 0, 0, -u * px, -u * py, u};
    equations[2 * i + 1] = {0, 0, 0, px, py, 1, -v * px, -v * py, v};
  }
  Map m = {};
  if (!solve(equations, m)) fail("images::perspective", "three of the four places lie on a line", where);
  return warp(x, map_of(m), o);
}

}  // namespace rill::images
