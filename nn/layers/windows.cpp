#include "rill/nn/layers/windows.h"

#include <fmt/format.h>

#include "rill/ops/option_checks.h"

namespace rill::nn {

Dims checked_window(const Dims& window, size_t axes, std::string_view op, const Where& where) {
  for (int64_t size : window) require_option(size >= 1, op, "a size of the window", size, "1 or more", where);
  if (window.size() == 1) return Dims(axes, window[0]);
  if (window.size() != axes)
    fail(op,
         fmt::format("a window has 1 {}sizes but {} are given", axes > 1 ? fmt::format("or {} ", axes) : "",
                     window.size()),
         where);
  return window;
}

Dims checked_steps(const Dims& steps, std::string_view op, std::string_view option, const Where& where) {
  for (int64_t step : steps) require_option(step >= 1, op, option, step, "1 or more", where);
  return steps;
}

Fans window_fans(const Dims& window, int64_t in, int64_t out, int64_t groups) {
  double places = 1;
  for (int64_t size : window) places *= double(size);
  return {places * double(in) / double(groups), places * double(out) / double(groups)};
}

namespace {
// The entry for axis i of a list that has one for all or one each; 1 where it is empty.
int64_t step_of(const Dims& steps, size_t i) { return steps.empty() ? 1 : int64_t(steps[steps.size() == 1 ? 0 : i]); }
}  // namespace

Tensor padded_space(const Tensor& x, PadMode mode, const SpacePadding& padding, const Dims& window, const Dims& strides,
                    const Dims& dilation, const Where& where) {
  using Kind = SpacePadding::Kind;
  if (padding.kind == Kind::valid) return x;
  std::vector<Padding> widths(window.size() + 2);
  for (size_t i = 0; i < window.size(); ++i) {
    Padding& p = widths[i + 1];
    if (padding.kind == Kind::same) {
      const int64_t stride = step_of(strides, i), reach = (int64_t(window[i]) - 1) * step_of(dilation, i) + 1;
      const Dim in = x.dim(int64_t(i) + 1),
                total = stride == 1 ? Dim(reach - 1) : ((in + stride - 1) / stride - 1) * stride + reach - in;
      if (stride == 1 || total > 0) p = {total / 2, total - total / 2};
    } else {
      const size_t at = padding.kind == Kind::all ? 0 : i;
      if (at >= padding.lo.size())
        fail("padding", fmt::format("there are {} pairs for {} axes of space", padding.lo.size(), window.size()),
             where);
      p = {padding.lo[at], padding.hi[at]};
    }
  }
  return pad(x, widths, mode);
}

}  // namespace rill::nn
