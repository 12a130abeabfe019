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

}  // namespace rill::nn
