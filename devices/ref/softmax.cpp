// softmax, log_softmax and their gradients by their formulas, in double (long double for f64), rounded once.
#include <algorithm>
#include <cmath>
#include <limits>

#include "rill/devices/params/nn_params.h"
#include "rill/devices/ref/iterate.h"

namespace rill::ref {

namespace {

// One row along the axis, element by element.
template <class T>
struct Row {
  T* data;
  int64_t step;
  T& operator[](int64_t i) const { return data[i * step]; }
};

// body(size, row of each operand: inputs first, then the output) for each row, in the tensors' own dtype.
template <class F>
void each_row(const KernelArgs& args, F body) {
  const AxisView view(args.input(0).shape(), args.attrs.as<SoftmaxParams>().axis);
  auto run = [&](auto zero) {
    using T = decltype(zero);
    const int last = int(args.in.size()) - 1;
    for (int64_t o = 0; o < view.outer; ++o) {
      for (int64_t k = 0; k < view.inner; ++k) {
        const int64_t at = o * view.size * view.inner + k;
        body(view.size, Row<const T>{args.in_data<T>(0) + at, view.inner},
             Row<const T>{args.in_data<T>(last) + at, view.inner}, Row<T>{args.out_data<T>() + at, view.inner},
             Wide<T>());
      }
    }
  };
  switch (args.input(0).dtype()) {
    case DType::f16: return run(Half());
    case DType::bf16: return run(BFloat16());
    case DType::f64: return run(double());
    default: return run(float());
  }
}

// y g, but 0 where the cotangent g is 0, whatever y is.
template <class W>
W product(W y, W g) {
  return g == 0 ? W(0) : y * g;
}

// The maximum, and the sum of exp(x - maximum) minus 1; NaN if an element is.
template <class W, class T>
std::pair<W, W> top_and_rest(int64_t n, Row<const T> x) {
  W top = -std::numeric_limits<W>::infinity(), others = 0, tops = 0;
  for (int64_t i = 0; i < n; ++i) top = std::max(top, W(x[i]));
  for (int64_t i = 0; i < n; ++i) (W(x[i]) == top ? tops : others) += std::exp(W(x[i]) - top);
  return {top, tops - 1 + others};
}

}  // namespace

void softmax(const KernelArgs& args) {
  each_row(args, [](int64_t n, auto x, auto, auto y, auto wide) {
    using W = decltype(wide);
    auto [top, rest] = top_and_rest<W>(n, x);
    for (int64_t i = 0; i < n; ++i)
      y[i] = std::remove_reference_t<decltype(y[i])>(std::exp(W(x[i]) - top) / (1 + rest));
  });
}

void log_softmax(const KernelArgs& args) {
  each_row(args, [](int64_t n, auto x, auto, auto y, auto wide) {
    using W = decltype(wide);
    auto [top, rest] = top_and_rest<W>(n, x);
    for (int64_t i = 0; i < n; ++i) y[i] = std::remove_reference_t<decltype(y[i])>(W(x[i]) - top - std::log1p(rest));
  });
}

void softmax_grad(const KernelArgs& args) {
  each_row(args, [](int64_t n, auto y, auto g, auto dx, auto wide) {
    using W = decltype(wide);
    W dot = 0;
    for (int64_t i = 0; i < n; ++i) dot += product(W(y[i]), W(g[i]));
    for (int64_t i = 0; i < n; ++i) dx[i] = std::remove_reference_t<decltype(dx[i])>(product(W(y[i]), W(g[i]) - dot));
  });
}

void log_softmax_grad(const KernelArgs& args) {
  each_row(args, [](int64_t n, auto y, auto g, auto dx, auto wide) {
    using W = decltype(wide);
    W total = 0;
    for (int64_t i = 0; i < n; ++i) total += W(g[i]);
    for (int64_t i = 0; i < n; ++i)
      dx[i] = std::remove_reference_t<decltype(dx[i])>(W(g[i]) - product(std::exp(W(y[i])), total));
  });
}

}  // namespace rill::ref
