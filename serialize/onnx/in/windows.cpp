// See windows.h.
#include "rill/serialize/onnx/in/windows.h"

#include <fmt/format.h>

#include "rill/ops/apply.h"

namespace rill::onnx_import {
namespace {

constexpr int64_t largest = INT32_MAX;          // of an attribute, so that no product of two overflows
constexpr int64_t max_taps = int64_t(1) << 16;  // each is a slice

Dims all_or(const Call& c, const std::string& name, size_t n, Dim otherwise) {
  Dims given = c.integers(name);
  if (given.empty()) return Dims(n, otherwise);
  if (given.size() != n) c.reject("attribute '" + name + "' does not have an entry for each axis of space");
  return given;
}

}  // namespace

SpacePadding Windows::padding() const {
  SpacePadding p(0);
  p.kind = SpacePadding::Kind::each;
  p.lo = lo, p.hi = hi;
  return p;
}

void check_kernel_shape(const Call& c, const Dims& kernel) {
  if (const Dims said = c.integers("kernel_shape"); !said.empty() && said != kernel)
    c.reject("attribute 'kernel_shape' is not the shape of the kernel");
}

Windows windows_of(const Call& c, const Shape& x, Dims kernel) {
  if (x.size() < 3) c.reject("takes [batch, channels, space...]");
  const size_t n = x.size() - 2;
  Windows w;
  w.kernel = kernel.empty() ? c.integers("kernel_shape") : kernel;
  if (!kernel.empty()) check_kernel_shape(c, kernel);
  if (w.kernel.size() != n) c.reject("the kernel does not have a size for each axis of space");
  w.strides = all_or(c, "strides", n, 1);
  w.dilation = all_or(c, "dilations", n, 1);
  for (size_t i = 0; i < n; ++i)
    if (w.kernel[i] < 1 || w.strides[i] < 1 || w.dilation[i] < 1) c.reject("a kernel, stride or dilation below 1");
  const Dims pads = all_or(c, "pads", 2 * n, 0);
  for (size_t i = 0; i < n; ++i)
    for (const Dim d : {w.kernel[i], w.strides[i], w.dilation[i], pads[i], pads[i + n]})
      if (d > largest || d < -largest) c.reject("a kernel, stride, dilation or padding of more than 2147483647");
  const std::string kind = c.text("auto_pad", "NOTSET");
  const bool ceil = c.flag("ceil_mode");
  for (size_t i = 0; i < n; ++i) {
    const Dim in = x[i + 2], reach = (w.kernel[i] - 1) * w.dilation[i] + 1, stride = w.strides[i];
    Dim lo = 0, hi = 0;
    if (kind == "SAME_UPPER" || kind == "SAME_LOWER") {
      const Dim all = larger(((in + stride - 1) / stride - 1) * stride + reach - in, 0);
      lo = kind == "SAME_UPPER" ? Dim(all / 2) : Dim(all - all / 2);
      hi = all - lo;
    } else if (kind != "VALID") {
      lo = pads[i], hi = pads[i + n];
    }
    const Dim room = in + lo + hi - reach;
    const Dim first = ceil && kind == "NOTSET" ? room + stride - 1 : room;  // below 0, no window fits
    Dim out = !first.is_open() && first < 0 ? Dim(0) : first / stride + 1;
    if (ceil && kind == "NOTSET") {  // a last window must begin inside the operand or its left padding
      if ((out - 1) * stride >= in + lo) out = out - 1;
    }
    w.lo.push_back(lo), w.hi.push_back(hi), w.out.push_back(out);
  }
  return w;
}

std::vector<Tensor> window_elements(const Windows& w, const Tensor& x, const Tensor& outside) {
  const size_t n = w.kernel.size();
  std::vector<Padding> widths(2);
  int64_t places = 1;
  for (size_t i = 0; i < n; ++i) {
    const Dim reach = (w.out[i] - 1) * w.strides[i] + (w.kernel[i] - 1) * w.dilation[i] + 1;
    widths.push_back({w.lo[i], larger(reach - w.lo[i] - x.shape()[i + 2], 0)});
    places *= w.kernel[i];
    if (places > max_taps) fail("pooling", fmt::format("a kernel of more than {} elements", max_taps));
    if (!w.out[i].is_open() && w.out[i] < 1)
      fail("pooling", fmt::format("a window of {} does not fit axis {} of space", w.kernel[i], i));
  }
  const Tensor all = pad(x, widths, outside);
  std::vector<Tensor> in_window;
  for (int64_t position = 0; position < places; ++position) {
    Dims from(2, 0), to = {x.dim(0), x.dim(1)}, by(2, 1);
    int64_t rest = position;
    Dims at(n, 0);
    for (size_t i = n; i-- > 0;) at[i] = rest % int64_t(w.kernel[i]), rest /= int64_t(w.kernel[i]);
    for (size_t i = 0; i < n; ++i) {
      const Dim first = at[i] * w.dilation[i];
      from.push_back(first), to.push_back(first + (w.out[i] - 1) * w.strides[i] + 1), by.push_back(w.strides[i]);
    }
    in_window.push_back(strided_slice(all, from, to, by));
  }
  return in_window;
}

}  // namespace rill::onnx_import
