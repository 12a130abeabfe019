// Starts the kernels of pools.cuh.
#include <algorithm>

#include "rill/devices/cuda/families/families.h"
#include "rill/devices/cuda/families/pools_params.h"
#include "rill/devices/params/conv_params.h"

namespace rill::cuda {

namespace {

// A record's call: `x` is the input, or has its shape.
struct Pooling {
  Gpu& gpu;
  const DType dtype;
  const bool is_small;  // indices and the numbers of elements fit 32 bits
  Windows p{};

  Pooling(const PoolParams& params, const Tensor& x, const Sliding& s)
      : gpu(gpu_of(x.device())), dtype(x.dtype()), is_small(fits(s)) {
    p.batch = s.batch, p.channels = s.in_channels;
    p.channels_last = params.layout == Layout::nhwc;
    if (params.count_include_pad) p.inside_all = s.window[0] * s.window[1] * s.window[2];
    for (size_t a = 0; a < 3; ++a)
      p.in[a] = s.in[a], p.out_size[a] = s.out[a], p.window[a] = s.window[a], p.stride[a] = s.stride[a],
      p.lo[a] = s.lo[a];
  }
  static bool fits(const Sliding& s) {
    constexpr int64_t most = (int64_t(1) << 30) - 1;
    for (size_t a = 0; a < 3; ++a)
      if (s.in[a] + s.window[a] + s.stride[a] > most) return false;
    const int64_t in = s.in[0] * s.in[1] * s.in[2], out = s.out[0] * s.out[1] * s.out[2];
    return in <= most && out <= most && s.batch * s.in_channels * std::max(in, out) <= 4 * most;
  }
  DType index() const { return is_small ? DType::i32 : DType::i64; }
  // A thread for each of `count` numbers.
  void start(std::string_view kernel, int64_t count) const {
    const std::string call = fmt::format("{}<{}, {}>", kernel, name(dtype), name(index()));
    if (count > 0) gpu.launch(kernel_of(gpu, {pools_family, "Windows", call}), p, count);
  }
};

// The tensor that the window slides over: the input, or, for avg_pool_grad, the result.
Pooling pooling_over(const KernelArgs& args, const Tensor& x) {
  const PoolParams& params = args.attrs.as<PoolParams>();
  Pooling call(params, x, sliding(params, x.shape()));
  call.p.x = address(args.input(0));
  call.p.other = address(args.in.size() > 1 ? args.input(1) : args.input(0));
  call.p.out = address(args.output());
  return call;
}

void run_max_pool(const KernelArgs& args) { pooling_over(args, args.input(0)).start("max_pool", args.output().size()); }
void run_avg_pool(const KernelArgs& args) { pooling_over(args, args.input(0)).start("avg_pool", args.output().size()); }
void run_max_pool_pick(const KernelArgs& args) {
  pooling_over(args, args.input(0)).start("max_pool_pick", args.output().size());
}
void run_avg_pool_grad(const KernelArgs& args) {
  pooling_over(args, args.output()).start("avg_pool_grad", args.output().size());
}
void run_max_pool_grad(const KernelArgs& args) {
  Pooling call = pooling_over(args, args.input(0));
  const Tensor chosen = empty_tensor(Spec{args.input(1).shape(), call.index(), false, args.output().device()});
  call.p.chosen = address(chosen);
  call.start("choose_largest", chosen.size());
  call.start("max_pool_grad", args.output().size());
}

template <Kernel kernel>
Kernel of_numbers(DType d) {
  return is_complex(d) || d == DType::boolean || d == DType::string ? nullptr : kernel;
}

}  // namespace

std::span<const NamedKernel> pool_kernels() {
  static const NamedKernel all[] = {
      {"max_pool", of_numbers<run_max_pool>},           {"max_pool_grad", of_numbers<run_max_pool_grad>},
      {"max_pool_pick", of_numbers<run_max_pool_pick>}, {"avg_pool", of_numbers<run_avg_pool>},
      {"avg_pool_grad", of_numbers<run_avg_pool_grad>},
  };
  return all;
}

}  // namespace rill::cuda
