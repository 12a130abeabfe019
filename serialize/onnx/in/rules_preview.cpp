// Operators of the domains ai.onnx.preview and ai.onnx.preview.training: attention with functions of the scores, and
// steps of optimizers. And DeformConv, a convolution with offsets from another network.
#include <cmath>

#include "rill/ops/linear_algebra.h"
#include "rill/serialize/onnx/in/interpreter.h"
#include "rill/serialize/onnx/in/windows.h"

namespace rill::onnx_import {
namespace {

// --- Attention -------------------------------------------------------------------------------------------------------

Tensor modified(const Call& c, const char* name, const Tensor& x) {
  if (!c.has_attribute(name)) return x;
  const Values y = run_inner(c, c.graph(name), {Value(x)});
  if (y.size() != 1) c.reject(std::string("its graph '") + name + "' does not give one value");
  return as_tensor(y[0], name).astype(x.dtype());
}

Values flex_attention_rule(const Call& c) {
  const Tensor q = c.x(0);
  Tensor k = c.x(1), v = c.x(2);
  if (q.ndim() != 4 || k.ndim() != 4 || v.ndim() != 4) c.reject("takes [batch, heads, length, size] three times");
  if (q.dim(1) != k.dim(1)) {
    if (k.dim(1) < 1 || q.dim(1) % k.dim(1) != 0) c.reject("the queries' heads are no multiple of the keys'");
    const Dim each = q.dim(1) / k.dim(1);
    k = repeat(k, int64_t(each), Axis(1)), v = repeat(v, int64_t(each), Axis(1));
  }
  const auto scale = float(c.real("scale", 1 / std::sqrt(double(int64_t(q.dim(3))))));
  const Tensor root = full({}, double(std::sqrt(scale)), q.dtype());
  const DType precise = c.dtype("softmax_precision", q.dtype() == f64 ? f64 : f32);
  const Tensor scores = matmul(q * root, matrix_transpose(k * root)).astype(precise);
  const Tensor probabilities = modified(c, "prob_mod", softmax(modified(c, "score_mod", scores), -1));
  return {matmul(probabilities, v.astype(precise)).astype(v.dtype())};
}

// --- Steps of optimizers ---------------------------------------------------------------------------------------------

// The operands after the rate and the number of steps so far: lists of equal length, one after the other.
struct Step {
  const Call& c;
  size_t count;
  Tensor rate, steps;

  Step(const Call& call, size_t lists) : c(call), count((call.count() - std::min<size_t>(call.count(), 2)) / lists) {
    if (c.count() < 2 + lists || (c.count() - 2) % lists) c.reject("its lists of tensors differ in length");
    rate = reshape(c.x(0), {});
    steps = reshape(c.x(1), {});
  }
  Tensor at(size_t list, size_t i) const { return c.x(2 + list * count + i); }
  // With the node's weight decay.
  Tensor gradient(size_t i) const { return at(0, i) * float(c.real("norm_coefficient", 0)) + at(1, i); }
};
Values joined_lists(std::initializer_list<Values> lists) {
  Values all;
  for (const Values& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

Values adagrad_rule(const Call& c) {
  const Step s(c, 3);
  const Tensor rate = s.rate / (1 + s.steps.astype(s.rate.dtype()) * float(c.real("decay_factor", 0)));
  Values x, squares;
  for (size_t i = 0; i < s.count; ++i) {
    const Tensor g = s.gradient(i), sum = s.at(2, i) + g * g;
    x.emplace_back(s.at(0, i) - rate * g / (sqrt(sum) + float(c.real("epsilon", 1e-6f))));
    squares.emplace_back(sum);
  }
  return joined_lists({x, squares});
}

Values momentum_rule(const Call& c) {
  const Step s(c, 3);
  const auto alpha = float(c.real("alpha", 0));
  const Tensor beta = where(s.steps > 0, float(c.real("beta", 0)), 1.0f);
  const bool nesterov = c.text("mode", "standard") == "nesterov";
  Values x, sums;
  for (size_t i = 0; i < s.count; ++i) {
    const Tensor g = s.gradient(i), sum = s.at(2, i) * alpha + beta * g;
    x.emplace_back(s.at(0, i) - s.rate * (nesterov ? g + sum * alpha : sum));
    sums.emplace_back(sum);
  }
  return joined_lists({x, sums});
}

Values adam_rule(const Call& c) {
  const Step s(c, 4);
  const auto alpha = float(c.real("alpha", 0.9f)), beta = float(c.real("beta", 0.999f));
  const Tensor t = s.steps.astype(s.rate.dtype());
  const Tensor adjusted =
      s.rate * sqrt(1 - pow(full({}, beta, t.dtype()), t)) / (1 - pow(full({}, alpha, t.dtype()), t));
  const Tensor rate = where(s.steps > 0, adjusted, s.rate);
  Values x, means, squares;
  for (size_t i = 0; i < s.count; ++i) {
    const Tensor g = s.gradient(i);
    const Tensor mean = s.at(2, i) * alpha + g * (1 - alpha), square = s.at(3, i) * beta + g * g * (1 - beta);
    const Tensor next = s.at(0, i) - rate * mean / (sqrt(square) + float(c.real("epsilon", 1e-6f)));
    x.emplace_back(next * float(1 - c.real("norm_coefficient_post", 0)));
    means.emplace_back(mean);
    squares.emplace_back(square);
  }
  return joined_lists({x, means, squares});
}

// --- DeformConv ------------------------------------------------------------------------------------------------------

// x [n, groups, channels, pixels] interpolated at rows and columns [n, groups, 1, ...]; 0 outside.
Tensor interpolated(const Tensor& x, Dim height, Dim width, const Tensor& row, const Tensor& column) {
  Tensor sum;
  for (int corner = 0; corner < 4; ++corner) {
    const Tensor r = floor(row) + corner / 2, q = floor(column) + corner % 2;
    const Tensor weight = (1 - abs(row - r)) * (1 - abs(column - q));
    const Tensor inside =
        (r >= 0) & (r <= Tensor(height - 1).astype(r.dtype())) & (q >= 0) & (q <= Tensor(width - 1).astype(q.dtype()));
    const Tensor at = where(inside, r * Tensor(width).astype(r.dtype()) + q, 0).astype(i64);
    Shape places = at.shape();
    places[2] = x.dim(2);
    const Tensor part = take_along_axis(x, broadcast_to(at, places), 3) * where(inside, weight, 0);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

Values deform_conv_rule(const Call& c) {
  const Tensor x = c.x(0), w = c.x(1), offset = c.x(2);
  if (x.ndim() != 4 || w.ndim() != 4 || offset.ndim() != 4) c.reject("is understood of pictures");
  const Windows windows = windows_of(c, x.shape(), Dims(w.shape().begin() + 2, w.shape().end()));
  const int64_t groups = c.integer("group", 1), sets = c.integer("offset_group", 1);
  const int64_t taps = int64_t(windows.kernel[0]) * int64_t(windows.kernel[1]);
  const Dim n = x.dim(0), h = offset.dim(2), v = offset.dim(3), places = h * v;
  if (groups < 1 || sets < 1 || x.dim(1) % sets != 0 || w.dim(0) % groups != 0 || w.dim(1) * groups != x.dim(1) ||
      offset.dim(1) != 2 * sets * taps)
    c.reject("its operands' channels do not fit");
  const DType d = x.dtype();
  const Tensor moved = reshape(offset, {n, sets, taps, 2, places});
  // The positions of taps without an offset: [taps, places].
  const auto grid = [&](size_t axis) {
    const Tensor tap = iota({taps}, 0), place = iota({places}, 0);
    const Tensor k = axis == 0 ? tap / int64_t(windows.kernel[1]) : remainder(tap, int64_t(windows.kernel[1]));
    const Tensor of_tap = floor(k.astype(d)) * double(int64_t(windows.dilation[axis]));
    const Tensor pixel = axis == 0 ? floor_divide(place, Tensor(v)) : remainder(place, Tensor(v));
    return expand_dims(of_tap, 1) + pixel.astype(d) * double(int64_t(windows.strides[axis])) -
           double(int64_t(windows.lo[axis]));
  };
  const auto at = [&](size_t axis) {
    const Tensor by = squeeze(slice_axis(moved, 3, int64_t(axis), int64_t(axis) + 1), 3);
    return reshape(by + grid(axis), {n, sets, 1, places * taps});
  };
  Tensor seen =
      interpolated(reshape(x, {n, sets, x.dim(1) / sets, x.dim(2) * x.dim(3)}), x.dim(2), x.dim(3), at(0), at(1));
  if (c.has(4)) seen = seen * reshape(c.x(4), {n, sets, 1, places * taps});
  const Tensor columns = reshape(seen, {n, groups, w.dim(1) * taps, places});
  const Tensor rows = reshape(w, {groups, w.dim(0) / groups, w.dim(1) * taps});
  const Tensor y = reshape(matmul(rows, columns), {n, w.dim(0), h, v});
  return {c.has(3) ? y + along_channels(c.x(3), 4) : y};
}

}  // namespace

const RuleTable& preview_rules() {
  static const RuleTable table = {
      {"Adagrad", {adagrad_rule}},
      {"Adam", {adam_rule}},
      {"FlexAttention", {flex_attention_rule}},
      {"Momentum", {momentum_rule}},
  };
  return table;
}
const RuleTable& deform_rules() {
  static const RuleTable table = {{"DeformConv", {deform_conv_rule}}};
  return table;
}

}  // namespace rill::onnx_import
