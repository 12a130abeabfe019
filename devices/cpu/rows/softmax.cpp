// softmax and log_softmax along one axis, and their gradients (row_programs.h has the arithmetic): each row is read
// into cache once and written once. float16 and bfloat16 are computed in float and rounded once.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/rows/softmax.cpp"
#include <hwy/foreach_target.h>

#include "rill/devices/cpu/rows/rows.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

template <class Program, class T, class C>
void each_row(const KernelArgs& args) {
  const AxisView view(args.input(0).shape(), args.attrs.as<SoftmaxParams>().axis);
  if (view.size == 0) return;
  parallel_for(view.outer * view.inner, row_grain(view.size), [&](int64_t begin, int64_t end) {
    RowReader<T, C> first(args.in_data<T>(0), view);
    RowReader<T, C> second(args.in_data<T>(int(args.in.size()) - 1), view);
    RowWriter<T, C> out(args.out_data<T>(), view, end);
    for (int64_t r = begin; r < end; ++r) {
      EagerRow<C> row{.attributes = args.attrs, .n = view.size, .in = {first(r)}, .out = {out(r)}};
      if (args.in.size() > 1) row.in[1] = second(r);
      Program::run(row);
      out.flush(r);
    }
  });
}

template <class Program>
void each_row(const KernelArgs& args) {
  switch (args.input(0).dtype()) {
    case DType::f16: return each_row<Program, Half, float>(args);
    case DType::bf16: return each_row<Program, BFloat16, float>(args);
    case DType::f64: return each_row<Program, double, double>(args);
    default: return each_row<Program, float, float>(args);
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
