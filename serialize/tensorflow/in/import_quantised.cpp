// Fake quantisation: floats rounded to as many values as some bits can represent, as quantisation-aware training puts
// it into networks. The gradient is that of the clipping.
#include <cmath>

#include "rill/serialize/tensorflow/in/interpreter.h"

namespace rill::tensorflow_in {
namespace {

// y, with the gradient of x: the added difference is 0.
Tensor straight_through(const Tensor& y, const Tensor& x) { return stop_gradient(y) + (x - stop_gradient(x)); }
int64_t bits_of(const Call& c, int64_t bits) {
  if (bits < 2 || bits > 32) c.reject("takes 2 to 32 bits");
  return bits;
}

// From `low` to `high` in steps, of which one is 0.
Tensor fake(const Call& c, const Tensor& x, const Tensor& low, const Tensor& high) {
  const double first = c.flag("narrow_range") ? 1 : 0,
               last = std::ldexp(1.0, int(bits_of(c, c.integer("num_bits", 8)))) - 1;
  const Tensor none = equal(low, 0) & equal(high, 0);
  const Tensor step = where(none, 1, (high - low) / (last - first));
  const Tensor zero = clip(floor(first - low / step + 0.5), first, last);
  const Tensor least = (first - zero) * step, most = (last - zero) * step;
  const Tensor inside = minimum(maximum(x, least), most);
  const Tensor y = floor((inside - least) * (1 / step) + 0.5) * step + least;
  return where(none, 0, straight_through(y, inside));
}
Values fake_args_rule(const Call& c) {
  const Tensor x = c.x(0);
  return {fake(c, x, full({}, c.real("min", -6), x.dtype()), full({}, c.real("max", 6), x.dtype()))};
}
Values fake_rule(const Call& c) { return {fake(c, c.x(0), c.x(1), c.x(2))}; }

// Symmetric steps around 0, as many as the range needs, which is given or the operand's own.
Values round_trip_rule(const Call& c) {
  const Tensor x = c.x(0);
  const bool given = c.flag("range_given"), with_sign = c.flag("signed_input", true), narrow = c.flag("narrow_range");
  const int64_t bits =
      bits_of(c, c.node.op() == "QuantizeAndDequantizeV3" ? int64_t(c.dim(3)) : c.integer("num_bits", 8));
  const int64_t axis = c.integer("axis", -1);
  Tensor low = c.x(1), high = c.x(2);
  if (!given) {
    std::vector<int64_t> others;
    for (int64_t i = 0; i < x.ndim(); ++i)
      if (i != axis) others.push_back(i);
    low = others.empty() ? x : min(x, Axes(others)), high = others.empty() ? x : max(x, Axes(others));
  }
  if (axis >= 0) {
    Shape along(size_t(x.ndim()), 1);
    along[size_t(axis_of(c, axis, x.ndim()))] = x.dim(axis);
    low = reshape(low, along), high = reshape(high, along);
  } else {
    low = reshape(low, {}), high = reshape(high, {});
  }
  const double half = std::ldexp(1.0, int(bits) - 1);
  const double first = with_sign ? (narrow ? 1 - half : -half) : 0, last = with_sign ? half - 1 : 2 * half - 1;
  constexpr double none = 3.4028234663852886e38;
  const Tensor by_low = where(first * low > 0, first / where(first * low > 0, low, 1), none);
  const Tensor by_high = where(last * high > 0, last / where(last * high > 0, high, 1), none);
  const Tensor lower = by_low < by_high, scale = where(lower, by_low, by_high);
  const Tensor step = where(lower, first == 0 ? full({}, 1.0, x.dtype()) : low / first, high / last);
  const Tensor least = where(lower, low, first * step), most = where(lower, last * step, high);
  const Tensor inside = given ? minimum(maximum(x, least), most) : x;
  const bool even = c.text("round_mode", "HALF_TO_EVEN") != "HALF_UP";
  const Tensor units = minimum(even ? round(inside * scale) : floor(inside * scale + 0.5), last);
  return {straight_through(units * step, inside)};
}

}  // namespace

const RuleTable& quantised_rules() {
  static const RuleTable table = {
      {"FakeQuantWithMinMaxArgs", fake_args_rule},      {"FakeQuantWithMinMaxVars", fake_rule},
      {"FakeQuantWithMinMaxVarsPerChannel", fake_rule}, {"QuantizeAndDequantizeV2", round_trip_rule},
      {"QuantizeAndDequantizeV3", round_trip_rule},     {"QuantizeAndDequantizeV4", round_trip_rule},
  };
  return table;
}

}  // namespace rill::tensorflow_in
