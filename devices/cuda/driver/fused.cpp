// Runs fused kernels; see fused.h. Start at FusedCall::run.
#include "rill/devices/cuda/driver/fused.h"

#include "rill/devices/cuda/driver/gpu.h"
#include "rill/devices/cuda/driver/rows.h"
#include "rill/devices/cuda/driver/spaces.h"
#include "rill/devices/cuda/families/families.h"
#include "rill/devices/driver.h"
#include "rill/devices/fused.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/ops/op.h"

namespace rill::cuda {

namespace {

// Kernels on GPUs store the terms of sums over rows; a fold sums them afterwards.
kernel::Kernel without_sums(kernel::Kernel k) {
  for (kernel::Output& o : k.outputs) o.added = false;
  return k;
}

std::string_view fold_name(kernel::Code c) {
  return c == kernel::Code::reduce_sum    ? "sum"
         : c == kernel::Code::reduce_prod ? "prod"
         : c == kernel::Code::reduce_max  ? "max"
                                          : "min";
}

class FusedCall {
 public:
  explicit FusedCall(const KernelArgs& args)
      : args_(args), f_(*args.attrs.as<FusedParams>().fused), device_(args.out[0]->device()) {
    for (const int64_t size : f_.space) sizes_.push_back(size);
  }

  void run() {
    for (const FusedKernel::Check& c : f_.checks) check_labels_on_gpu(*args_.in[size_t(c.operand)], c.classes, c.op);
    std::vector<StridedOperand> operands = input_operands(args_.in);
    if (f_.row_axes > 0 && !has_plain_rows(sizes_, operands, size_t(f_.row_axes))) {
      for (const Tensor* t : args_.in) dense_.push_back(dense_copy(*t));
      std::vector<const Tensor*> in;
      for (const Tensor& t : dense_) in.push_back(&t);
      operands = input_operands(in);
    }
    append_outputs(operands);
    append_keys(operands);
    Gpu& gpu = gpu_of(device_);
    const LoadedKernel& f = loaded();
    std::vector<Tensor> more = dense_;
    for (const std::vector<Tensor>* list : {&kept_, &whole_}) more.insert(more.end(), list->begin(), list->end());
    const bool rows = takes_rows(f_.kernel);
    for_each_space(sizes_, operands, rows ? f_.row_axes : no_rows, [&](const Space& s) {
      if (rows) start_rows(gpu, f, s);
      else gpu.launch_map(f, s, args_, more);
    });
    for (size_t o = 0; o < whole_.size(); ++o)
      if (whole_[o].defined()) fold_output(o);
  }

 private:
  const LoadedKernel& loaded() const {
    if (f_.code.code) return *static_cast<const LoadedKernel*>(f_.code.code.get());
    return *static_cast<const LoadedKernel*>(load_fused(f_, device_).get());
  }

  std::vector<StridedOperand> input_operands(Operands in) {
    std::vector<StridedOperand> all;
    for (size_t k = 0; k < f_.inputs.size(); ++k) {
      const FusedKernel::Access& a = f_.inputs[k];
      if (a.operand < 0) {
        all.push_back({FusedKernel::counter_start(), Ints(a.steps.begin(), a.steps.end())});
      } else if (a.random) {
        all.push_back(is_words(f_.kernel.inputs[k])
                          ? word_numbers()
                          : strided_operand(random_words(*in[size_t(a.operand)]), sizes_.size()));
      } else {
        const Tensor& t = *in[size_t(a.operand)];
        StridedOperand p{address(t), Ints(sizes_.size(), 0)};
        for (size_t i = 0; i < sizes_.size(); ++i)
          if (a.axes[i] >= 0) p.stride[i] = t.strides()[size_t(a.axes[i])] * int64_t(size_of(t.dtype()));
        all.push_back(std::move(p));
      }
    }
    return all;
  }

  // The words of random_bits for a key, one for each point of the space.
  const Tensor& random_words(const Tensor& key) {
    static const Op& op = *find_op("random_bits");
    RandomParams params;
    for (const int64_t size : sizes_) params.shape.push_back(size);
    kept_.push_back(empty_tensor(Spec{Shape(params.shape), DType::u32, false, device_}));
    const Tensor* in[] = {&key};
    Tensor* out[] = {&kept_.back()};
    const KernelArgs args{in, out, params, nullptr, &op};
    driver_of(device_).kernel(op, op.name, key.dtype(), nullptr)(args);
    return kept_.back();
  }

  // The number of each point's word.
  StridedOperand word_numbers() const {
    StridedOperand p{FusedKernel::counter_start(), Ints(sizes_.size(), 0)};
    int64_t step = 1;
    for (size_t i = sizes_.size(); i-- > 0; step *= sizes_[i]) p.stride[i] = step;
    return p;
  }
  void append_keys(std::vector<StridedOperand>& operands) {
    for (size_t k = 0; k < f_.inputs.size(); ++k) {
      if (!is_words(f_.kernel.inputs[k])) continue;
      const Tensor& key = *args_.in[size_t(f_.inputs[k].operand)];
      kept_.push_back(key.is_contiguous() ? key : dense_copy(key));
      operands.push_back({address(kept_.back()), Ints(sizes_.size(), 0)});
    }
  }

  void append_outputs(std::vector<StridedOperand>& operands) {
    for (size_t o = 0; o < f_.outputs.size(); ++o) {
      const kernel::Output& out = f_.kernel.outputs[o];
      whole_.emplace_back();
      if (out.added || (f_.fold && o == 0)) {  // to be folded afterwards
        whole_[o] = empty_tensor(Spec{Shape(sizes_.begin(), sizes_.end()), out.dtype, false, device_});
        operands.push_back(strided_operand(whole_[o], sizes_.size()));
        continue;
      }
      const size_t axes = sizes_.size() - (out.per_row ? size_t(f_.row_axes) : 0);
      StridedOperand p{address(*args_.out[o]), Ints(sizes_.size(), 0)};
      int64_t stride = int64_t(size_of(out.dtype));
      for (size_t i = axes; i-- > 0; stride *= sizes_[i]) p.stride[i] = stride;
      operands.push_back(std::move(p));
    }
  }

  // Folds the stored points into the output: sums over rows, or over the axes of the fold.
  void fold_output(size_t o) {
    const bool added = f_.kernel.outputs[o].added;
    const auto is_reduced = [&](size_t axis) {
      return added ? axis + size_t(f_.row_axes) < sizes_.size() : bool(f_.fold->reduced[axis]);
    };
    Shape shape;
    Strides strides;
    size_t reduced = 0;
    for (const bool wanted : {false, true})
      for (size_t i = 0; i < sizes_.size(); ++i) {
        if (is_reduced(i) != wanted) continue;
        shape.push_back(whole_[o].shape()[i]);
        strides.push_back(whole_[o].strides()[i]);
        reduced += wanted;
      }
    const Op& op = *find_op(added ? "sum" : fold_name(f_.fold->code));
    fold_last_axes(op, make_view(whole_[o], std::move(shape), std::move(strides), 0), *args_.out[o], reduced);
  }

  const KernelArgs& args_;
  const FusedKernel& f_;
  const Device device_;
  Ints sizes_;                                // of the space
  std::vector<Tensor> dense_, kept_, whole_;  // whole_: by output
};

}  // namespace

std::shared_ptr<const void> load_fused(const FusedKernel& f, Device d) {
  const kernel::Kernel stored = without_sums(f.kernel);
  const LoadedKernel& loaded = gpu_of(d).recorded(kernel::to_string(stored), [&] { return stored; });
  if (takes_rows(stored)) {
    int64_t n = 1;
    for (size_t i = f.space.size() - size_t(f.row_axes); i < f.space.size(); ++i) n *= f.space[i];
    load_rows(gpu_of(d), loaded, n);
  }
  return {std::shared_ptr<const void>(), &loaded};  // never unloaded
}

void run_fused(const KernelArgs& args) { FusedCall(args).run(); }

}  // namespace rill::cuda
