// softmax and log_softmax along one axis, and their gradients: each row is read into cache once and written once.
// float16 and bfloat16 are computed in float and rounded once.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/rows/softmax.cpp"
#include <hwy/foreach_target.h>

#include "rill/devices/cpu/rows/rows.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

// y = exp(x - max) / sum: the greatest exponent is 0, so that nothing overflows.
template <class C>
struct SoftmaxRow {
  using V = Lane<C>;
  static HWY_INLINE void run(const C* x, C* y, int64_t n) {
    const V top(row_max<V>(x, n));
    const C total = row_sum<V>(n, [&](int64_t i, size_t k) RILL_ROW {
      fetch_next_row(x + i, y + i, n);
      const V e = exp(load_k<V>(x + i, k) - top);
      store_k(e, y + i, k);
      return e;
    });
    const V scale(C(1) / total);
    row_each<V>(n, [&](int64_t i, size_t k) RILL_ROW { store_k(load_k<V>(y + i, k) * scale, y + i, k); });
  }
};

template <class C>
struct LogSoftmaxRow {
  using V = Lane<C>;
  static HWY_INLINE void run(const C* x, C* y, int64_t n) {
    const V top(row_max<V>(x, n));
    const C total = row_sum<V>(n, [&](int64_t i, size_t k) RILL_ROW {
      fetch_next_row(x + i, y + i, n);
      return exp(load_k<V>(x + i, k) - top);
    });
    const V log_total = V(C(log(double(total))));
    row_each<V>(n, [&](int64_t i, size_t k) RILL_ROW { store_k(load_k<V>(x + i, k) - top - log_total, y + i, k); });
  }
};

// y g, and 0 where no cotangent g arrives: a row of NaN that is not used poisons nothing.
template <class V>
HWY_INLINE V product(V y, V g) {
  return select(g == V(0), V(0), y * g);
}

template <class C>
struct SoftmaxGradRow {
  using V = Lane<C>;
  static HWY_INLINE void run(const C* y, const C* g, C* dx, int64_t n) {
    const V dot(
        row_sum<V>(n, [&](int64_t i, size_t k) RILL_ROW { return product(load_k<V>(y + i, k), load_k<V>(g + i, k)); }));
    row_each<V>(n, [&](int64_t i, size_t k)
                       RILL_ROW { store_k(product(load_k<V>(y + i, k), load_k<V>(g + i, k) - dot), dx + i, k); });
  }
};

template <class C>
struct LogSoftmaxGradRow {
  using V = Lane<C>;
  static HWY_INLINE void run(const C* y, const C* g, C* dx, int64_t n) {
    const V total(row_sum<V>(n, [&](int64_t i, size_t k) RILL_ROW { return load_k<V>(g + i, k); }));
    row_each<V>(n, [&](int64_t i, size_t k) RILL_ROW {
      store_k(load_k<V>(g + i, k) - product(exp(load_k<V>(y + i, k)), total), dx + i, k);
    });
  }
};

template <template <class> class Row, class T, class C>
void each_row(const KernelArgs& args) {
  const AxisView view(args.input(0).shape(), args.attrs.as<SoftmaxParams>().axis);
  if (view.size == 0) return;
  parallel_for(view.outer * view.inner, row_grain(view.size), [&](int64_t begin, int64_t end) {
    RowReader<T, C> first(args.in_data<T>(0), view);
    RowWriter<T, C> out(args.out_data<T>(), view);
    if (args.in.size() == 1) {
      if constexpr (requires { Row<C>::run(nullptr, nullptr, 0); }) {
        for (int64_t r = begin; r < end; ++r) Row<C>::run(first(r), out(r), view.size), out.flush(r);
      }
    } else {
      if constexpr (requires { Row<C>::run(nullptr, nullptr, nullptr, 0); }) {
        RowReader<T, C> second(args.in_data<T>(1), view);
        for (int64_t r = begin; r < end; ++r) Row<C>::run(first(r), second(r), out(r), view.size), out.flush(r);
      }
    }
  });
}

template <template <class> class Row>
void each_row(const KernelArgs& args) {
  switch (args.input(0).dtype()) {
    case DType::f16: return each_row<Row, Half, float>(args);
    case DType::bf16: return each_row<Row, BFloat16, float>(args);
    case DType::f64: return each_row<Row, double, double>(args);
    default: return each_row<Row, float, float>(args);
  }
}

void softmax_rows(const KernelArgs& args) { each_row<SoftmaxRow>(args); }
void log_softmax_rows(const KernelArgs& args) { each_row<LogSoftmaxRow>(args); }
void softmax_grad_rows(const KernelArgs& args) { each_row<SoftmaxGradRow>(args); }
void log_softmax_grad_rows(const KernelArgs& args) { each_row<LogSoftmaxGradRow>(args); }

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(softmax_rows);
HWY_EXPORT(log_softmax_rows);
HWY_EXPORT(softmax_grad_rows);
HWY_EXPORT(log_softmax_grad_rows);

void softmax(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(softmax_rows)(args); }
void log_softmax(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(log_softmax_rows)(args); }
void softmax_grad(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(softmax_grad_rows)(args); }
void log_softmax_grad(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(log_softmax_grad_rows)(args); }

}  // namespace rill::cpu
#endif  // HWY_ONCE
