// Cross entropy of softmax over the last axis, for labels given as probabilities or as class indices, in float and
// double. The forward pass reads each row and writes three numbers, the loss and log(sum(exp(x))) in two parts; the
// backward pass recomputes the probabilities from those, which costs less than to store and load them. The arithmetic
// is in row_programs.h.
#include "rill/devices/kernel/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rill/devices/cpu/rows/losses.cpp"
#include <hwy/foreach_target.h>

#include "rill/devices/cpu/rows/rows.h"

HWY_BEFORE_NAMESPACE();
namespace rill {
namespace HWY_NAMESPACE {

// Forward, the losses are a result; in a gradient, log(sum(exp(x))) is an operand.
int64_t rows_of(const KernelArgs& args) { return args.in.size() == 2 ? args.output(0).size() : args.input(2).size(); }

// Row r of the operands and results; for those with one number per row, that number.
template <class C>
EagerRow<C> row_of(const KernelArgs& args, int64_t r, int64_t n, bool has_label) {
  EagerRow<C> row{.attributes = args.attrs, .n = n};
  const auto step = [&](const Tensor& t) { return t.ndim() == args.input(0).ndim() ? n : 1; };
  for (int i = 0; i < int(args.in.size()); ++i)
    if (i != 1 || !has_label) row.in[i] = args.in_data<C>(i) + r * step(args.input(i));
  for (int o = 0; o < int(args.out.size()); ++o) row.out[o] = args.out_data<C>(o) + r * step(args.output(o));
  return row;
}

template <class Program, class C>
void dense_rows(const KernelArgs& args) {
  const int64_t n = args.input(0).shape().back();
  parallel_for(rows_of(args), row_grain(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      EagerRow<C> row = row_of<C>(args, r, n, false);
      Program::run(row);
    }
  });
}

template <class Program, class C>
void sparse_rows(const KernelArgs& args) {
  const int64_t n = args.input(0).shape().back();
  const std::vector<int64_t> labels = checked_labels(args.input(1), n, "sparse_softmax_cross_entropy");
  parallel_for(rows_of(args), row_grain(n), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      EagerRow<C> row = row_of<C>(args, r, n, true);
      row.label = labels[size_t(r)];
      Program::run(row);
    }
  });
}

template <class Program>
void dense_any(const KernelArgs& args) {
  if (args.input(0).dtype() == DType::f64) dense_rows<Program, double>(args);
  else dense_rows<Program, float>(args);
}
template <class Program>
void sparse_any(const KernelArgs& args) {
  if (args.input(0).dtype() == DType::f64) sparse_rows<Program, double>(args);
  else sparse_rows<Program, float>(args);
}
void dense(const KernelArgs& args) { dense_any<DenseEntropyRow>(args); }
void dense_grad(const KernelArgs& args) { dense_any<DenseEntropyGradRow>(args); }
void sparse(const KernelArgs& args) { sparse_any<SparseEntropyRow>(args); }
void sparse_grad(const KernelArgs& args) { sparse_any<SparseEntropyGradRow>(args); }

}  // namespace HWY_NAMESPACE
}  // namespace rill
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rill::cpu {

HWY_EXPORT(dense);
HWY_EXPORT(dense_grad);
HWY_EXPORT(sparse);
HWY_EXPORT(sparse_grad);

void softmax_cross_entropy(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(dense)(args); }
void softmax_cross_entropy_grad(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(dense_grad)(args); }
void sparse_softmax_cross_entropy(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(sparse)(args); }
void sparse_softmax_cross_entropy_grad(const KernelArgs& args) { HWY_DYNAMIC_DISPATCH(sparse_grad)(args); }

}  // namespace rill::cpu
#endif  // HWY_ONCE
