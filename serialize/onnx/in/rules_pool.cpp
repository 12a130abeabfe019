// Pooling.
#include <cmath>
#include <limits>

#include "rill/serialize/onnx/in/quantised.h"
#include "rill/serialize/onnx/in/windows.h"

namespace rill::onnx_import {
namespace {

Axes space_of(const Tensor& x) {
  Axes axes;
  for (int64_t i = 2; i < x.ndim(); ++i) axes.push_back(i);
  return axes;
}

// Whether rill's own pooling computes it: no dilation, and windows that end where those of a floor do.
bool is_plain(const Call& c, const Windows& w, const Tensor& x) {
  bool plain = !c.flag("ceil_mode") && x.ndim() <= 5;
  for (Dim d : w.dilation) plain = plain && d == 1;
  return plain;
}

Tensor lowest(DType d) {
  if (is_floating(d)) return full({}, Tensor(-INFINITY), d);
  return full({}, Tensor(is_unsigned(d) ? int64_t(0) : INT64_MIN >> (64 - 8 * int64_t(size_of(d)))), d);
}

// The indices of elements in the entire operand, in row-major or column-major order of space (storage_order).
Tensor indices_in(const Tensor& x, bool columns) {
  Dim step = 1;
  Tensor places = zeros(x.shape(), i64);
  for (int64_t i = 0; i < x.ndim() - 2; ++i) {
    const int64_t axis = columns ? 2 + i : x.ndim() - 1 - i;
    places = places + iota(x.shape(), axis) * Tensor(step);
    step *= x.dim(axis);
  }
  return places + (iota(x.shape(), 0) * Tensor(x.dim(1)) + iota(x.shape(), 1)) * Tensor(step);
}

Values max_pool_rule(const Call& c) {
  // The largest of numbers that were restored by one positive scale is restored from the largest byte.
  if (const auto b = c.in[0].bytes; b && !c.wants(1) && has_one_scale(*b)) {
    Call of_bytes = c;
    of_bytes.in[0] = b->values;
    return {from_bytes({max_pool_rule(of_bytes)[0].tensor, b->scale, b->zero})};
  }
  const Tensor x = c.x();
  const Windows w = windows_of(c, x.shape());
  if (!c.wants(1) && is_plain(c, w, x))
    return {max_pool(x, w.kernel, {.strides = w.strides, .padding = w.padding(), .layout = Layout::nchw})};
  const std::vector<Tensor> in_window = window_elements(w, x, lowest(x.dtype()));
  Tensor best = in_window[0];
  if (!c.wants(1)) {
    for (const Tensor& t : in_window) best = maximum(best, t);
    return {best};
  }
  const std::vector<Tensor> places = window_elements(w, indices_in(x, c.flag("storage_order")), tensor(int64_t(-1)));
  Tensor at = places[0];
  for (size_t i = 1; i < in_window.size(); ++i) {  // padding is no element, even if all elements are the lowest number
    const Tensor is_better =
        logical_and(greater_equal(places[i], 0), logical_or(greater(in_window[i], best), less(at, 0)));
    best = where(is_better, in_window[i], best), at = where(is_better, places[i], at);
  }
  return {best, at};
}

// Sums are accumulated in this dtype: halves would round after each addition.
Tensor wide(const Tensor& x) { return is_half(x.dtype()) ? x.astype(f32) : x; }

Tensor total(const std::vector<Tensor>& parts) {
  Tensor sum = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) sum = sum + parts[i];
  return sum;
}

Values average_pool_rule(const Call& c) {
  const Tensor x = c.x();
  const Windows w = windows_of(c, x.shape());
  const bool padding_counts = c.flag("count_include_pad");
  if (is_plain(c, w, x))
    return {avg_pool(
        x, w.kernel,
        {.strides = w.strides, .padding = w.padding(), .layout = Layout::nchw, .count_include_pad = padding_counts})};
  const Tensor y = wide(x);
  Shape one = {1, 1};
  for (size_t i = 2; i < y.shape().size(); ++i) one.push_back(y.shape()[i]);
  Tensor present = ones(one, y.dtype());
  Windows over = w;
  if (padding_counts) {
    std::vector<Padding> widths(2);
    for (size_t i = 0; i < w.lo.size(); ++i) widths.push_back({w.lo[i], w.hi[i]}), over.lo[i] = 0;
    present = pad(present, widths, full({}, 1, y.dtype()));
  }
  const Tensor zero = full({}, 0, y.dtype());
  return {(total(window_elements(w, y, zero)) / total(window_elements(over, present, zero))).astype(x.dtype())};
}

Values lp_pool_rule(const Call& c) {
  const Tensor x = c.x(), y = wide(x);
  const double p = double(c.integer("p", 2));
  const Windows w = windows_of(c, y.shape());
  const Tensor sums = total(window_elements(w, power(abs(y), p), full({}, 0, y.dtype())));
  return {power(sums, 1 / p).astype(x.dtype())};
}
Values global_lp_pool_rule(const Call& c) {
  const Tensor x = c.x(), y = wide(x);
  const double p = double(c.integer("p", 2));
  return {power(sum(power(abs(y), p), space_of(y), true), 1 / p).astype(x.dtype())};
}

// Each element goes back to the index from which MaxPool took it.
Values max_unpool_rule(const Call& c) {
  const Tensor x = c.x(0), places = c.x(1);
  Shape out = x.shape();
  const Dims kernel = c.integers("kernel_shape"), strides = c.integers("strides", Dims(kernel.size(), 1));
  const Dims pads = c.integers("pads", Dims(2 * kernel.size(), 0));
  if (kernel.size() + 2 != out.size() || strides.size() != kernel.size() || pads.size() != 2 * kernel.size())
    c.reject("its attributes do not have an entry for each axis of space");
  for (size_t i = 0; i < kernel.size(); ++i)
    out[i + 2] = (x.shape()[i + 2] - 1) * strides[i] + kernel[i] - pads[i] - pads[i + kernel.size()];
  Shape given = out;
  if (c.has(2)) {
    given.clear();
    for (Dim d : c.dims(2)) given.push_back(d);
    if (given.size() != out.size()) c.reject("output_shape has another number of axes");
  }
  // Indices refer to the shape that follows from the attributes; a larger one is padded.
  GatherAttrs flat;
  flat.axes = {0};
  const Tensor y =
      reshape(scatter(zeros({out.numel()}, x.dtype()), {ravel(places)}, ravel(x), flat, ScatterMode::set), out);
  std::vector<Padding> widths;
  for (size_t i = 0; i < out.size(); ++i) widths.push_back({0, given[i] - out[i]});
  return {pad(y, widths, full({}, 0, x.dtype()))};
}

// Columns [n, channels * block, places], each added to the pixels that it was taken from.
Values col2im_rule(const Call& c) {
  const Tensor x = c.x(0);
  const Dims image = c.dims(1), block = c.dims(2);
  const size_t n = image.size();
  const Dims strides = c.integers("strides", Dims(n, 1)), dilation = c.integers("dilations", Dims(n, 1)),
             pads = c.integers("pads", Dims(2 * n, 0));
  if (x.ndim() != 3 || n == 0 || block.size() != n || strides.size() != n || dilation.size() != n ||
      pads.size() != 2 * n)
    c.reject("its operands and attributes do not have an entry for each axis of space");
  Shape parts = {x.dim(0), 0, 1};
  int64_t places = 1;
  for (size_t i = 0; i < n; ++i) {
    if (block[i] < 1 || strides[i] < 1 || dilation[i] < 1) c.reject("a block, stride or dilation below 1");
    const Dim room = image[i] + pads[i] + pads[i + n] - ((block[i] - 1) * dilation[i] + 1);
    if (room < 0) c.reject("a block that is larger than the image");
    parts.push_back(room / strides[i] + 1);
    places *= block[i];
  }
  parts[1] = x.dim(1) / places, parts[2] = places;
  const Tensor columns = reshape(wide(x), parts);
  Tensor y;
  for (int64_t k = 0; k < places; ++k) {
    std::vector<Padding> widths(2 + n);
    int64_t rest = k;
    for (size_t i = n; i-- > 0;) {
      const Dim at = Dim(rest % int64_t(block[i])) * dilation[i], size = (parts[i + 3] - 1) * strides[i] + 1;
      widths[i + 2] = {at - pads[i], image[i] + pads[i] - at - size, int64_t(strides[i]) - 1};
      rest /= int64_t(block[i]);
    }
    const Tensor part = pad(columns(all, all, k), widths, full({}, 0, columns.dtype()));
    y = y.defined() ? y + part : part;
  }
  return {y.astype(x.dtype())};
}

}  // namespace

const RuleTable& pool_rules() {
  static const RuleTable table = {
      {"AveragePool", {average_pool_rule}},
      {"Col2Im", {col2im_rule, 0b110}},
      {"GlobalAveragePool", {[](const Call& c) { return Values{mean(c.x(), space_of(c.x()), true)}; }}},
      {"GlobalLpPool", {global_lp_pool_rule}},
      {"GlobalMaxPool", {[](const Call& c) { return Values{max(c.x(), space_of(c.x()), true)}; }}},
      {"LpPool", {lp_pool_rule}},
      {"MaxPool", {max_pool_rule}},
      {"MaxUnpool", {max_unpool_rule, 0b100}},
  };
  return table;
}

}  // namespace rill::onnx_import
