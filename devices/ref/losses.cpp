// Cross entropy of softmax by its formula, in double (long double for f64), rounded once; and the check of labels that
// every device's kernel makes first.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "rill/devices/params/nn_params.h"
#include "rill/devices/ref/iterate.h"
#include "rill/tensor/visit_dtype.h"

namespace rill {

namespace {
// f(i, label) for each.
template <class F>
void each_label(const Tensor& labels, F f) {
  visit_dtype(labels.dtype(), [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T>) {
      const T* data = reinterpret_cast<const T*>(labels.rep()->data);
      for (int64_t i = 0; i < labels.size(); ++i) f(i, int64_t(data[i]));
    }
  });
}
}  // namespace

void check_labels(const Tensor& labels, int64_t classes, std::string_view op) {
  each_label(labels, [&](int64_t i, int64_t label) {
    if (label >= 0 && label < classes) return;
    fail(op, "label " + (labels.dtype() == DType::u64 ? std::to_string(uint64_t(label)) : std::to_string(label)) +
                 " at position " + std::to_string(i) + " is out of range for " + std::to_string(classes) +
                 " classes. labels lie in [0, " + std::to_string(classes) + ")");
  });
}

std::vector<int64_t> checked_labels(const Tensor& labels, int64_t classes, std::string_view op) {
  check_labels(labels, classes, op);
  std::vector<int64_t> result(size_t(labels.size()));
  each_label(labels, [&](int64_t i, int64_t label) { result[size_t(i)] = label; });
  return result;
}

}  // namespace rill

namespace rill::ref {

namespace {

// log(sum(exp(x))) in two parts, the largest x and the rest.
template <class T>
struct LogSum {
  using W = Wide<T>;
  W top = -std::numeric_limits<W>::infinity(), rest = 0;

  LogSum(const T* x, int64_t n) {
    W others = 0, tops = 0;  // separate, for the others may be too small to change a sum with 1
    for (int64_t i = 0; i < n; ++i) top = std::max(top, W(x[i]));
    for (int64_t i = 0; i < n; ++i) (W(x[i]) == top ? tops : others) += std::exp(W(x[i]) - top);
    rest = std::log1p(tops - 1 + others);
  }
};

// f(row, n, x, dense label probabilities of the row)
template <class T, class F>
void each_row(const KernelArgs& args, bool sparse, F f) {
  const int64_t n = args.input(0).shape().back();
  const int64_t rows = n ? args.input(0).size() / n : args.output(0).size();
  const std::vector<int64_t> classes =
      sparse ? checked_labels(args.input(1), n, "sparse_softmax_cross_entropy") : std::vector<int64_t>();
  std::vector<T> labels(static_cast<size_t>(n));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < n; ++i)
      labels[size_t(i)] = sparse ? T(classes[size_t(r)] == i) : args.in_data<T>(1)[r * n + i];
    f(r, n, args.in_data<T>(0) + r * n, labels);
  }
}

template <class T>
void forward(const KernelArgs& args, bool sparse) {
  using W = Wide<T>;
  each_row<T>(args, sparse, [&](int64_t r, int64_t n, const T* x, const std::vector<T>& labels) {
    const LogSum<T> lse(x, n);
    W loss = 0;
    // A class with label 0 adds nothing, even if its logit is infinite.
    for (int64_t i = 0; i < n; ++i)
      if (labels[size_t(i)] != T(0)) loss += W(labels[size_t(i)]) * ((lse.top - W(x[i])) + lse.rest);
    args.out_data<T>(0)[r] = T(loss);
    args.out_data<T>(1)[r] = T(lse.top);
    args.out_data<T>(2)[r] = T(lse.rest);
  });
}

template <class T>
void backward(const KernelArgs& args, bool sparse) {
  using W = Wide<T>;
  each_row<T>(args, sparse, [&](int64_t r, int64_t n, const T* x, const std::vector<T>& labels) {
    const W lse = W(args.in_data<T>(2)[r]) + W(args.in_data<T>(3)[r]);
    const W g = W(args.in_data<T>(4)[r]), lse_gradient = W(args.in_data<T>(5)[r]);
    W mass = 0;
    for (int64_t i = 0; i < n; ++i) mass += W(labels[size_t(i)]);
    const W to_p = g * mass + lse_gradient;
    for (int64_t i = 0; i < n; ++i)
      args.out_data<T>(0)[r * n + i] = T((to_p == 0 ? 0 : to_p * std::exp(W(x[i]) - lse)) - g * W(labels[size_t(i)]));
  });
}

void forward(const KernelArgs& args, bool sparse) {
  if (args.input(0).dtype() == DType::f64) forward<double>(args, sparse);
  else forward<float>(args, sparse);
}
void backward(const KernelArgs& args, bool sparse) {
  if (args.input(0).dtype() == DType::f64) backward<double>(args, sparse);
  else backward<float>(args, sparse);
}

}  // namespace

void softmax_cross_entropy(const KernelArgs& args) { forward(args, false); }
void softmax_cross_entropy_grad(const KernelArgs& args) { backward(args, false); }
void sparse_softmax_cross_entropy(const KernelArgs& args) { forward(args, true); }
void sparse_softmax_cross_entropy_grad(const KernelArgs& args) { backward(args, true); }

}  // namespace rill::ref
