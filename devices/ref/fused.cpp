// Fused kernels through the interpreter, one row after another.
#include "rill/devices/fused.h"

#include <algorithm>
#include <cstring>

#include "rill/devices/kernel/interpret.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/registry.h"

namespace rill::ref {

namespace {

// The sum of all rows of `rows`, as the eager reduction computes it.
void sum_rows(const Tensor& rows, Tensor& out) {
  ReduceParams params;
  params.axes.push_back(0);
  const Tensor* in[] = {&rows};
  Tensor* to[] = {&out};
  cpu::reduce_sum({in, to, params});
}

// Reduces the points in `all`, a tensor of the space's shape, as the eager reduction does.
void fold(const FusedKernel& f, const Tensor& all, Tensor& out) {
  ReduceParams params;
  for (size_t i = 0; i < f.space.size(); ++i)
    if (f.fold->reduced[i]) params.axes.push_back(int64_t(i));
  const Tensor* in[] = {&all};
  Tensor* to[] = {&out};
  const KernelArgs args{in, to, params};
  switch (f.fold->code) {
    case kernel::Code::reduce_sum: return cpu::reduce_sum(args);
    case kernel::Code::reduce_prod: return cpu::reduce_prod(args);
    case kernel::Code::reduce_max: return cpu::reduce_max(args);
    default: return cpu::reduce_min(args);
  }
}

}  // namespace

void run_fused(const KernelArgs& args) {
  const FusedKernel& f = *args.attrs.as<FusedParams>().fused;
  f.check(args.in);
  Tensor all;
  if (f.fold) all = empty_tensor(Spec{Shape(f.space.begin(), f.space.end()), f.kernel.outputs[0].dtype, false, {}});
  std::vector<Tensor> dense;
  for (const Tensor* t : args.in) dense.push_back(t->contiguous());
  // Each kernel input as a dense row of its own, element by element.
  const FusedLayout& l = f.layout;
  const size_t inputs = f.inputs.size(), operands = inputs + f.outputs.size();
  std::vector<Tensor> added(f.outputs.size());  // the rows of each output that is summed
  for (size_t o = 0; o < added.size(); ++o)
    if (const kernel::Output& out = f.kernel.outputs[o]; out.added) {
      added[o] = empty_tensor(Spec{{l.rows, l.n}, out.dtype, false, {}});
      std::memset(added[o].mutable_rep()->data, 0, size_t(l.rows * l.n) * size_of(out.dtype));
    }
  std::vector<std::vector<char>> rows(inputs);
  for (int64_t row = 0; row < l.rows; ++row) {
    std::vector<char*> p;
    for (const FusedKernel::Access& a : f.inputs)
      p.push_back(a.operand < 0 ? FusedKernel::counter_start() : dense[size_t(a.operand)].rep()->data);
    for (Tensor* t : args.out) p.push_back(t->mutable_rep()->data);
    if (f.fold) p[inputs] = all.mutable_rep()->data;
    for (size_t o = 0; o < added.size(); ++o)
      if (added[o].defined())
        p[inputs + o] = added[o].mutable_rep()->data + row * l.n * int64_t(size_of(added[o].dtype()));
    int64_t rest = row;
    for (size_t i = l.outer.size(); i-- > 0; rest /= l.outer[i])
      for (size_t k = 0; k < operands; ++k) p[k] += rest % l.outer[i] * l.outer_stride[i][k];
    for (size_t k = 0; k < inputs; ++k) {
      if (f.kernel.inputs[k].kind != kernel::Input::Kind::dense) continue;
      const size_t element = size_of(f.kernel.inputs[k].dtype);
      rows[k].resize(size_t(l.n) * element);
      if (f.inputs[k].random) {
        const uint64_t* key = dense[size_t(f.inputs[k].operand)].data<uint64_t>().data();
        cpu::random_words(key[0], key[1], uint64_t(row * l.n), l.n, reinterpret_cast<uint32_t*>(rows[k].data()));
      } else
        for (int64_t i = 0; i < l.n; ++i)
          std::copy_n(p[k] + i * l.row_stride[k], element, rows[k].data() + size_t(i) * element);
      p[k] = rows[k].data();
    }
    kernel::interpret(f.kernel, p.data(), l.no_stride.data(), 1, l.n);
  }
  if (f.fold) fold(f, all, args.output());
  for (size_t o = 0; o < added.size(); ++o)
    if (added[o].defined()) sum_rows(added[o], *args.out[o]);
}

}  // namespace rill::ref
