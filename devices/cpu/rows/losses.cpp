// Cross entropy of softmax over the last axis, for labels given as probabilities or as class numbers, in float and
// double. The forward pass reads each row and writes three numbers, the loss and log(sum(exp(x))) in two parts; the
// backward pass makes the probabilities again from those, which costs less than to store and load them.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/rows/losses.cpp"
#include <hwy/foreach_target.h>

#include "rill/devices/cpu/rows/rows.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

// log(sum(exp(x))) = top + log_total, kept apart because x - top is exact where x is near the top.
template <class C>
struct LogSum {
  C top, log_total;

  LogSum(const C* x, int64_t n) {
    using V = Lane<C>;
    top = row_max<V>(x, n);
    const V t(top);
    log_total =
        C(log(double(row_sum<V>(n, [&](int64_t i, size_t k) RILL_ROW { return exp(load_k<V>(x + i, k) - t); }))));
  }

  void write(const KernelArgs& args, int64_t r) const {
    args.out_data<C>(1)[r] = top;
    args.out_data<C>(2)[r] = log_total;
  }
};

// The probabilities of row r times `to_p`; 0 in a row that no cotangent reaches, whatever its logits are.
template <class C>
struct ProbabilityPart {
  using V = Lane<C>;
  V top, log_total, to_p, none{C(0)};

  ProbabilityPart(const KernelArgs& args, int64_t r, C scale)
      : top(args.in_data<C>(2)[r]), log_total(args.in_data<C>(3)[r]), to_p(scale) {}
  HWY_INLINE V operator()(V x) const { return select(to_p == none, none, to_p * exp((x - top) - log_total)); }
};

template <class C>
void dense_rows(const KernelArgs& args) {
  using V = Lane<C>;
  const int64_t rows = args.output(0).size(), n = args.input(0).shape().back();
  parallel_for(rows, row_grain(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const C* x = args.in_data<C>(0) + r * n;
      const C* labels = args.in_data<C>(1) + r * n;
      const LogSum<C> lse(x, n);
      const V top(lse.top), log_total(lse.log_total);
      args.out_data<C>(0)[r] = C(row_sum<V>(n, [&](int64_t i, size_t k) RILL_ROW {
        return load_k<V>(labels + i, k) * ((top - load_k<V>(x + i, k)) + log_total);
      }));
      lse.write(args, r);
    }
  });
}

// Inputs: logits, labels, top, log_total, and the cotangents of loss and lse.
template <class C>
void dense_grad_rows(const KernelArgs& args) {
  using V = Lane<C>;
  const int64_t rows = args.input(2).size(), n = args.input(0).shape().back();
  parallel_for(rows, row_grain(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const C* x = args.in_data<C>(0) + r * n;
      const C* labels = args.in_data<C>(1) + r * n;
      C* dx = args.out_data<C>(0) + r * n;
      const C g = args.in_data<C>(4)[r];
      const C mass = C(row_sum<V>(n, [&](int64_t i, size_t k) RILL_ROW { return load_k<V>(labels + i, k); }));
      const ProbabilityPart<C> part(args, r, g * mass + args.in_data<C>(5)[r]);
      const V to_label(g);
      row_each<V>(n, [&](int64_t i, size_t k) RILL_ROW {
        store_k(part(load_k<V>(x + i, k)) - to_label * load_k<V>(labels + i, k), dx + i, k);
      });
    }
  });
}

template <class C>
void sparse_rows(const KernelArgs& args) {
  const int64_t rows = args.output(0).size(), n = args.input(0).shape().back();
  const std::vector<int64_t> labels = checked_labels(args.input(1), n, "sparse_softmax_cross_entropy");
  parallel_for(rows, row_grain(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const C* x = args.in_data<C>(0) + r * n;
      const LogSum<C> lse(x, n);
      args.out_data<C>(0)[r] = (lse.top - x[labels[size_t(r)]]) + lse.log_total;
      lse.write(args, r);
    }
  });
}

template <class C>
void sparse_grad_rows(const KernelArgs& args) {
  using V = Lane<C>;
  const int64_t rows = args.input(2).size(), n = args.input(0).shape().back();
  const std::vector<int64_t> labels = checked_labels(args.input(1), n, "sparse_softmax_cross_entropy");
  parallel_for(rows, row_grain(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const C* x = args.in_data<C>(0) + r * n;
      C* dx = args.out_data<C>(0) + r * n;
      const C g = args.in_data<C>(4)[r];
      const ProbabilityPart<C> part(args, r, g + args.in_data<C>(5)[r]);
      row_each<V>(n, [&](int64_t i, size_t k) RILL_ROW { store_k(part(load_k<V>(x + i, k)), dx + i, k); });
      dx[labels[size_t(r)]] -= g;
    }
  });
}

void dense_any(const KernelArgs& args) {
  if (args.input(0).dtype() == DType::f64) dense_rows<double>(args);
  else dense_rows<float>(args);
}
void dense_grad_any(const KernelArgs& args) {
  if (args.input(0).dtype() == DType::f64) dense_grad_rows<double>(args);
  else dense_grad_rows<float>(args);
}
void sparse_any(const KernelArgs& args) {
  if (args.input(0).dtype() == DType::f64) sparse_rows<double>(args);
  else sparse_rows<float>(args);
}
void sparse_grad_any(const KernelArgs& args) {
  if (args.input(0).dtype() == DType::f64) sparse_grad_rows<double>(args);
  else sparse_grad_rows<float>(args);
}

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(dense_any);
HWY_EXPORT(dense_grad_any);
HWY_EXPORT(sparse_any);
HWY_EXPORT(sparse_grad_any);

void softmax_cross_entropy(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(dense_any)(args); }
void softmax_cross_entropy_grad(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(dense_grad_any)(args); }
void sparse_softmax_cross_entropy(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(sparse_any)(args); }
void sparse_softmax_cross_entropy_grad(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(sparse_grad_any)(args); }

}  // namespace rill::cpu
#endif  // HWY_ONCE
