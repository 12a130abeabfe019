// Convolution and pooling. ONNX only has [batch, channels, space...], with weights [out, in / groups, space...]; other
// layouts are transposed around the operator.
#include <limits>

#include "rill/devices/params/conv_params.h"
#include "rill/ops/ops.h"
#include "rill/serialize/onnx/out/export_rules.h"

namespace rill::onnx_out {

namespace {

using In = std::span<const Tensor>;

// --- Layouts ---------------------------------------------------------------------------------------------------------

// The axes of an activation, of weights, in ONNX's order.
Order activation_order(Layout l, size_t rank) {
  Order order{0};
  if (l == Layout::nhwc) order.push_back(int64_t(rank) - 1);
  for (size_t i = 1; i < rank; ++i)
    if (l == Layout::nchw || i + 1 < rank) order.push_back(int64_t(i));
  return order;
}
Order weight_order(Layout l, size_t rank) {
  Order order;
  if (l == Layout::nhwc) order = {int64_t(rank) - 1, int64_t(rank) - 2};
  for (size_t i = 0; i < rank; ++i)
    if (l == Layout::nchw || i + 2 < rank) order.push_back(int64_t(i));
  return order;
}
// Attributes are numbers.
std::vector<int64_t> plain(const Call& c, const Dims& dims) {
  std::vector<int64_t> out;
  for (Dim d : dims) {
    if (d.is_open()) c.e.refuse(c.node, "its window depends on an open size");
    out.push_back(d.plain());
  }
  return out;
}
// Padding as the attribute `pads`; if it depends on an open size (as "SAME" with strides does), x is padded first.
std::vector<int64_t> padded(Call& c, Value& x, Dims lo, const Dims& hi, double fill = 0) {
  bool open = false;
  for (size_t i = 0; i < lo.size(); ++i) open |= lo[i].is_open() || hi[i].is_open();
  if (open) {
    Dims all(2, 0);
    for (Dim d : lo) all.push_back(d);
    for (int i = 0; i < 2; ++i) all.push_back(0);
    for (Dim d : hi) all.push_back(d);
    x = c.e.op("Pad", {x, c.e.sizes(all), c.e.number(fill, x.dtype)});
    return std::vector<int64_t>(lo.size() + hi.size(), 0);
  }
  for (Dim d : hi) lo.push_back(d);
  return plain(c, lo);
}
// --- Convolution -----------------------------------------------------------------------------------------------------

Values write_conv(Call& c) {
  if (is_empty(c)) return zeros_of(c, c.in[0].dtype);
  const ConvParams& p = c.attrs<ConvParams>();
  const Order order = activation_order(p.layout, c.rank());
  Value x = c.e.transposed(c.in[0], order);
  const Value w = c.e.transposed(c.in[1], weight_order(p.layout, c.rank(1)));
  const std::vector<int64_t> pads = padded(c, x, p.pads_lo, p.pads_hi);
  const Value y = c.e.op(
      "Conv", {x, w},
      {{"strides", plain(c, p.strides)}, {"pads", pads}, {"dilations", plain(c, p.dilation)}, {"group", p.groups}});
  return {c.e.transposed(y, inverse(order))};
}

// Its padding is the zero point. Runtimes accept one zero point for all weights: for several, that times the sums of
// the windows is subtracted, which are the convolution with ones.
Values write_byte_conv(Call& c) {
  if (is_empty(c)) return zeros_of(c, DType::i32);
  Exporter& e = c.e;
  const ConvParams& p = c.attrs<ConvParams>();
  const Order order = activation_order(p.layout, c.rank()), of_weights = weight_order(p.layout, c.rank(1));
  Dims pads = p.pads_lo;
  for (Dim d : p.pads_hi) pads.push_back(d);
  const Value x = e.transposed(c.in[0], order), w = e.transposed(c.in[1], of_weights);
  const auto convolved = [&](const Value& weights, bool with_zero) {
    Values in{x, weights, c.in[2]};
    if (with_zero) in.push_back(c.in[3]);
    return e.op("ConvInteger", in,
                {{"strides", plain(c, p.strides)},
                 {"pads", plain(c, pads)},
                 {"dilations", plain(c, p.dilation)},
                 {"group", p.groups}},
                DType::i32);
  };
  const bool one_zero = c.specs[3].shape.ndim() == 0;
  Value y = convolved(w, one_zero);
  if (!one_zero) {
    const Value ones = e.op("Expand", {e.number(1, w.dtype), e.sizes(permuted(c.specs[1].shape, of_weights))});
    Shape by_channel(p.strides.size() + 1, 1);
    by_channel[0] = c.specs[3].shape[0];
    const Value zeros = e.reshaped(e.cast(c.in[3], DType::i32), by_channel);
    y = e.op("Sub", {y, e.op("Mul", {convolved(ones, false), zeros})});
  }
  return {e.transposed(y, inverse(order))};
}

// Cropped to [lo, lo + size) along the axes of space, and padded with zeros if it is shorter.
Value cut(Call& c, const Value& x, const Shape& shape, const Dims& lo, const Dims& size) {
  Exporter& e = c.e;
  Dims none(shape.size(), 0), behind(shape.size(), 0), starts, stops;
  Order axes;
  bool pad = false;
  for (size_t i = 0; i < lo.size(); ++i) {
    const Dim missing = larger(lo[i] + size[i] - shape[i + 2], 0);
    behind[i + 2] = missing;
    pad |= missing.is_open() || missing != 0;
    starts.push_back(lo[i]);
    stops.push_back(lo[i] + size[i]);
    axes.push_back(int64_t(i) + 2);
  }
  Value y = x;
  if (pad) {
    for (Dim d : behind) none.push_back(d);
    y = e.op("Pad", {x, e.sizes(none)});
  }
  return e.op("Slice", {y, e.sizes(starts), e.sizes(stops), e.ints(axes)});
}

// The transposed convolution of g without padding, cropped to the input.
Values write_conv_grad_input(Call& c) {
  if (is_empty(c)) return zeros_of(c, c.in[0].dtype);
  const ConvParams& p = c.attrs<ConvParams>();
  const Order order = activation_order(p.layout, c.rank()), weights = weight_order(p.layout, c.rank(1));
  const Value g = c.e.transposed(c.in[0], order), w = c.e.transposed(c.in[1], weights);
  const Value y = c.e.op("ConvTranspose", {g, w},
                         {{"strides", plain(c, p.strides)}, {"dilations", plain(c, p.dilation)}, {"group", p.groups}});
  Shape shape = permuted(c.specs[0].shape, order);
  const Shape window = permuted(c.specs[1].shape, weights);
  for (size_t i = 0; i < p.sizes.size(); ++i)
    shape[i + 2] = (shape[i + 2] - 1) * p.strides[i] + (window[i + 2] - 1) * p.dilation[i] + 1;
  return {c.e.transposed(cut(c, y, shape, p.pads_lo, p.sizes), inverse(order))};
}

// A convolution of x with g as the kernel, batch and channels exchanged; each group by itself.
Values write_conv_grad_weight(Call& c) {
  if (is_empty(c)) return zeros_of(c, c.in[0].dtype);
  Exporter& e = c.e;
  const ConvParams& p = c.attrs<ConvParams>();
  const Order order = activation_order(p.layout, c.rank());
  Value x = e.transposed(c.in[0], order);
  const Value g = e.transposed(c.in[1], order);
  const std::vector<int64_t> pads = padded(c, x, p.pads_lo, p.pads_hi);
  const Shape xs = permuted(c.specs[0].shape, order), gs = permuted(c.specs[1].shape, order);
  Order turned{1, 0};
  for (size_t i = 2; i < xs.size(); ++i) turned.push_back(int64_t(i));
  const int64_t in = xs[1] / p.groups, out = gs[1] / p.groups;
  Values parts;
  for (int64_t k = 0; k < p.groups; ++k) {
    auto part = [&](const Value& v, int64_t n) {
      return p.groups == 1 ? v : e.op("Slice", {v, e.ints({k * n}), e.ints({k * n + n}), e.ints({1})});
    };
    const Value y = e.op("Conv", {e.transposed(part(x, in), turned), e.transposed(part(g, out), turned)},
                         {{"strides", plain(c, p.dilation)}, {"pads", pads}, {"dilations", plain(c, p.strides)}});
    parts.push_back(e.transposed(y, turned));  // [out, in, space]
  }
  Value all = parts.size() == 1 ? parts[0] : e.op("Concat", parts, {{"axis", int64_t(0)}});
  Dims starts(p.sizes.size(), 0);
  Order axes;
  for (size_t i = 0; i < p.sizes.size(); ++i) axes.push_back(int64_t(i) + 2);
  all = e.op("Slice", {all, e.sizes(starts), e.sizes(p.sizes), e.ints(axes)});
  return {e.transposed(all, inverse(weight_order(p.layout, c.out().shape.size())))};
}

// --- Pooling ---------------------------------------------------------------------------------------------------------

// x is padded if the pads depend on open sizes.
Attributes pool_attributes(Call& c, Value& x, double fill) {
  const PoolParams& p = c.attrs<PoolParams>();
  return {{"kernel_shape", plain(c, p.window)},
          {"strides", plain(c, p.strides)},
          {"pads", padded(c, x, p.pads_lo, p.pads_hi, fill)}};
}
bool has_open(const Dims& dims) {
  for (Dim d : dims)
    if (d.is_open()) return true;
  return false;
}
struct Pooled {
  Order order;
  Shape shape;       // of x with the padding that is added first
  bool pads_first;   // whether any padding is added first
  Value y, indices;  // both [batch, channels, space...]; indices refer to `shape`
  Pooled(Call& c, bool with_places)
      : order(activation_order(c.attrs<PoolParams>().layout, c.rank())), shape(permuted(c.specs[0].shape, order)) {
    const PoolParams& p = c.attrs<PoolParams>();
    pads_first = has_open(p.pads_lo) || has_open(p.pads_hi);
    Value x = c.e.transposed(c.in[0], order);
    const Attributes a = pool_attributes(c, x, -std::numeric_limits<double>::infinity());
    if (!with_places) {
      y = c.e.op("MaxPool", {x}, a);
      return;
    }
    for (size_t i = 0; pads_first && i < p.pads_lo.size(); ++i)
      shape[i + 2] = shape[i + 2] + p.pads_lo[i] + p.pads_hi[i];
    const Values both = c.e.ops("MaxPool", {x}, a, {x.dtype, DType::i64});
    y = both[0], indices = both[1];
  }
};

Values write_max_pool(Call& c) {
  if (is_empty(c)) return zeros_of(c, c.in[0].dtype);
  if (whole_pool::is(c)) return whole_pool::max(c);
  const bool is_integral = is_integer(c.in[0].dtype);  // the operator only has 8-bit integers; f64 holds all of 32 bits
  if (is_integral) c.in[0] = c.e.cast(c.in[0], DType::f64);
  const Pooled pool(c, false);
  return {c.e.transposed(pool.y, inverse(pool.order))};
}
Values write_max_pool_pick(Call& c) {
  if (is_empty(c)) return zeros_of(c, c.in[0].dtype);
  if (whole_pool::is(c)) return whole_pool::max_pick(c);
  Exporter& e = c.e;
  const Pooled pool(c, true);
  Value t = e.transposed(c.in[1], pool.order);
  if (pool.pads_first) padded(c, t, c.attrs<PoolParams>().pads_lo, c.attrs<PoolParams>().pads_hi);
  const Value flat = e.op("Reshape", {t, e.ints({-1})});
  return {e.transposed(e.op("Gather", {flat, pool.indices}, {{"axis", int64_t(0)}}), inverse(pool.order))};
}
Values write_max_pool_grad(Call& c) {
  if (is_empty(c)) return zeros_of(c, c.in[0].dtype);
  if (whole_pool::is(c)) return whole_pool::max_grad(c);
  Exporter& e = c.e;
  const Pooled pool(c, true);
  auto flat = [&](const Value& v) { return e.op("Reshape", {v, e.ints({-1})}); };
  const Value none = flat(e.op("Expand", {e.number(0, c.in[0].dtype), e.sizes(pool.shape)}));
  const Value sums = e.op("ScatterElements", {none, flat(pool.indices), flat(e.transposed(c.in[1], pool.order))},
                          {{"axis", int64_t(0)}, {"reduction", std::string("add")}});
  Value dx = e.reshaped(sums, pool.shape);
  if (pool.pads_first) {
    const Shape x = permuted(c.specs[0].shape, pool.order);
    dx = cut(c, dx, pool.shape, c.attrs<PoolParams>().pads_lo, Dims(x.begin() + 2, x.end()));
  }
  return {e.transposed(dx, inverse(pool.order))};
}

// If x is padded first, so is a tensor of ones, which counts the elements of each window.
Values write_avg_pool(Call& c) {
  if (is_empty(c)) return zeros_of(c, c.in[0].dtype);
  if (whole_pool::is(c)) return whole_pool::avg(c);
  Exporter& e = c.e;
  const PoolParams& p = c.attrs<PoolParams>();
  const Order order = activation_order(p.layout, c.rank());
  const bool pads_first = has_open(p.pads_lo) || has_open(p.pads_hi);
  auto pooled = [&](Value x) {
    Attributes a = pool_attributes(c, x, 0);
    a.push_back({"count_include_pad", int64_t(p.count_include_pad)});
    return e.op("AveragePool", {x}, a);
  };
  const Value x = e.transposed(c.in[0], order);
  Value y = pooled(x);
  if (pads_first && !p.count_include_pad) {
    const Value shape = e.op("Shape", {x}, {}, DType::i64);
    y = e.op("Div", {y, pooled(e.op("Expand", {e.number(1, x.dtype), shape}))});
  }
  return {e.transposed(y, inverse(order))};
}
// g divided by the element count of each window, distributed over the windows: the transpose of a convolution with
// ones, each channel by itself (as a batch of one channel).
Values write_avg_pool_grad(Call& c) {
  if (is_empty(c)) return zeros_of(c, c.in[0].dtype);
  if (whole_pool::is(c)) return whole_pool::avg_grad(c);
  Exporter& e = c.e;
  const PoolParams& p = c.attrs<PoolParams>();
  const Order order = activation_order(p.layout, c.rank());
  const DType dtype = c.in[0].dtype;
  Shape shape = permuted(c.specs[0].shape, order), window{1, 1}, one{1, 1};
  const Shape given = shape;
  shape[0] = shape[0] * shape[1];
  shape[1] = 1;
  for (Dim d : p.window) window.push_back(d);
  for (Dim d : p.sizes) one.push_back(d);
  const Value ones = e.op("Expand", {e.number(1, dtype), e.sizes(window)});
  Value g = e.reshaped(e.transposed(c.in[0], order), shape);
  if (p.count_include_pad) {
    int64_t n = 1;
    for (Dim d : p.window) n *= d;
    g = e.op("Div", {g, e.number(double(n), dtype)});
  } else {
    Value all = e.op("Expand", {e.number(1, dtype), e.sizes(one)});
    const std::vector<int64_t> pads = padded(c, all, p.pads_lo, p.pads_hi);
    const Value counts = e.op("Conv", {all, ones}, {{"strides", plain(c, p.strides)}, {"pads", pads}});
    g = e.op("Div", {g, e.op("Max", {counts, e.number(1, dtype)})});
  }
  Value y = e.op("ConvTranspose", {g, ones}, {{"strides", plain(c, p.strides)}});
  for (size_t i = 0; i < p.sizes.size(); ++i) shape[i + 2] = (shape[i + 2] - 1) * p.strides[i] + p.window[i];
  y = cut(c, y, shape, p.pads_lo, p.sizes);
  Shape result{given[0], given[1]};
  for (Dim d : p.sizes) result.push_back(d);
  return {e.transposed(e.reshaped(y, result), inverse(order))};
}

// --- Pools over all of space -----------------------------------------------------------------------------------------

bool is_same_size(Dim a, Dim b) {
  return a.is_open() ? b.is_open() && a.number() == b.number() : !b.is_open() && a.plain() == b.plain();
}
// The axes that are pooled entirely; along the others windows have one element.
Axes pooled_axes(const PoolParams& p) {
  Axes axes;
  for (size_t i = 0; i < p.window.size(); ++i)
    if (p.window[i].is_open() || p.window[i] != 1) axes.push_back(int64_t(space_axis(p.layout, i)));
  return axes;
}
Values composed_pool(Call& c, Tensor (*f)(In in, const PoolParams& p)) {
  const PoolParams& p = c.attrs<PoolParams>();
  return c.e.composed(c.in, c.specs, [&](In in) { return Tensors{f(in, p)}; });
}
// The pooled axes flattened to one, after the others.
Tensor flattened(const Tensor& x, const PoolParams& p) {
  const Axes axes = pooled_axes(p);
  Axes last;
  for (size_t i = 0; i < axes.size(); ++i) last.push_back(int64_t(i) - int64_t(axes.size()));
  const Tensor y = moveaxis(x, axes, last);
  Shape shape(y.shape().begin(), y.shape().end() - axes.size());
  Dim all = 1;
  for (int64_t axis : axes) all = all * x.shape()[size_t(axis)];
  shape.push_back(all);
  return reshape(y, shape);
}
Tensor unflattened(const Tensor& flat, const Shape& shape, const PoolParams& p) {
  const Axes axes = pooled_axes(p);
  Axes last;
  for (size_t i = 0; i < axes.size(); ++i) last.push_back(int64_t(i) - int64_t(axes.size()));
  Shape moved(flat.shape().begin(), flat.shape().end() - 1);
  for (int64_t axis : axes) moved.push_back(shape[size_t(axis)]);
  return moveaxis(reshape(flat, moved), last, axes);
}
// Which element of each window is its maximum: the first of equal ones.
Tensor is_chosen(const Tensor& flat) { return argmax(flat, -1, true) == arange(flat.dim(-1), {.dtype = i64}); }

}  // namespace

namespace whole_pool {

bool is(const Call& c) {
  const PoolParams& p = c.attrs<PoolParams>();
  bool open = false;
  for (size_t i = 0; i < p.window.size(); ++i) {
    if (p.pads_lo[i].is_open() || p.pads_hi[i].is_open() || p.pads_lo[i] != 0 || p.pads_hi[i] != 0) return false;
    const Dim in = p.sizes.empty() ? c.specs[0].shape[space_axis(p.layout, i)] : p.sizes[i];
    const bool is_integral = is_same_size(p.window[i], in);
    if (!is_integral && !(is_same_size(p.window[i], 1) && is_same_size(p.strides[i], 1))) return false;
    open |= is_integral && in.is_open();
  }
  return open;
}
Values max(Call& c) {
  return composed_pool(c, [](In in, const PoolParams& p) { return rill::max(in[0], pooled_axes(p), true); });
}
Values max_pick(Call& c) {
  return composed_pool(c, [](In in, const PoolParams& p) {
    const Tensor sums = sum(where(is_chosen(flattened(in[0], p)), flattened(in[1], p), 0), -1);
    return expand_dims(sums, pooled_axes(p));
  });
}
Values max_grad(Call& c) {
  return composed_pool(c, [](In in, const PoolParams& p) {
    const Tensor chosen = is_chosen(flattened(in[0], p));
    return unflattened(where(chosen, flattened(in[1], p), 0), in[0].shape(), p);
  });
}
Values avg(Call& c) {
  return composed_pool(c, [](In in, const PoolParams& p) { return mean(in[0], pooled_axes(p), true); });
}
Values avg_grad(Call& c) {
  return composed_pool(c, [](In in, const PoolParams& p) {
    Shape x = in[0].shape();
    Dim all = 1;
    for (size_t i = 0; i < p.sizes.size(); ++i) x[space_axis(p.layout, i)] = p.sizes[i], all = all * p.window[i];
    return broadcast_to(in[0] / all, x);
  });
}

}  // namespace whole_pool

std::span<const Rule> window_rules() {
  static const Rule rules[] = {
      {"conv", write_conv},
      {.op = "byte_conv", .direct = write_byte_conv, .moves = true},
      {"conv_grad_input", write_conv_grad_input},
      {"conv_grad_weight", write_conv_grad_weight},
      {"max_pool", write_max_pool},
      {"max_pool_pick", write_max_pool_pick},
      {"max_pool_grad", write_max_pool_grad},
      {"avg_pool", write_avg_pool},
      {"avg_pool_grad", write_avg_pool_grad},
  };
  return rules;
}

}  // namespace rill::onnx_out
