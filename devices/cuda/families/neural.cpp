// Starts the kernels of neural.cuh.
#include "rill/devices/cuda/families/neural_params.h"

#include "rill/devices/cuda/driver/recorded.h"
#include "rill/devices/cuda/families/fold.h"
#include "rill/devices/kernel/record.h"
#include "rill/devices/params/nn_params.h"

namespace rill::cuda {

namespace {

// A dense tensor of [outer, channels, inner] by channels.
Folding by_channel(const Tensor& x, const AxisView& view) {
  const int64_t element = int64_t(size_of(x.dtype()));
  Folding s{};
  s.from = address(x);
  append(s.kept, view.size, view.inner * element);
  append(s.reduced, view.outer, view.size * view.inner * element);
  append(s.reduced, view.inner, element);
  return s;
}

Function neural_kernel(Gpu& gpu, std::string_view params, std::string_view name, DType d) {
  return kernel_of(gpu, {neural_family, params, fmt::format("{}<{}>", name, rill::name(d))});
}
std::string rule(std::string_view name, DType d) { return fmt::format("{}<{}>", name, rill::name(d)); }
Tensor like(const Tensor& t) { return empty_tensor(Spec{t.shape(), t.dtype(), false, t.device()}); }

void batch_norm(const KernelArgs& a) {
  const Tensor& x = *a.in[0];
  const DType d = x.dtype();
  const NormParams& params = a.attrs.as<NormParams>();
  const AxisView view(x.shape(), params.axis);
  const int64_t n = view.outer * view.inner;
  Gpu& gpu = gpu_of(x.device());
  Folding s = by_channel(x, view);
  s.out[0] = address(*a.out[1]);
  start_fold(gpu, neural_family, rule("Mean", d), 8, s, view.size, n);
  const Tensor factor = like(*a.in[1]);
  s.in[0] = address(*a.out[1]), s.in[1] = address(*a.in[1]);
  s.out[0] = address(*a.out[2]), s.out[1] = address(factor);
  s.epsilon = params.epsilon;
  start_fold(gpu, neural_family, rule("Variance", d), 8, s, view.size, n);
  const Normed p{x.size(),           view.size,       view.inner,        address(x),
                 address(*a.out[1]), address(factor), address(*a.in[2]), address(*a.out[0])};
  gpu.launch(neural_kernel(gpu, "Normed", "normalise", d), p, p.count);
}

void batch_norm_grad(const KernelArgs& a) {
  const Tensor &x = *a.in[0], &scale = *a.in[1];
  const DType d = x.dtype();
  const NormParams& params = a.attrs.as<NormParams>();
  const AxisView view(x.shape(), params.axis);
  const int64_t n = view.outer * view.inner;
  Gpu& gpu = gpu_of(x.device());
  const Tensor r = like(scale), factor = like(scale), mean_g = like(scale), mean_gh = like(scale), slope = like(scale),
               constant = like(scale);
  Folding s = by_channel(x, view);
  s.in[0] = address(*a.in[4]), s.in[1] = address(*a.in[2]), s.in[2] = address(*a.in[3]);
  s.out[0] = address(*a.out[2]), s.out[1] = address(*a.out[1]), s.out[2] = address(r);
  s.epsilon = params.epsilon;
  start_fold(gpu, neural_family, rule("ChannelSums", d), 24, s, view.size, n);
  const ChannelGradients c{view.size,          n,
                           address(*a.out[1]), address(*a.out[2]),
                           address(r),         address(scale),
                           address(*a.in[5]),  address(*a.in[6]),
                           address(factor),    address(mean_g),
                           address(mean_gh),   address(slope),
                           address(constant)};
  gpu.launch(neural_kernel(gpu, "ChannelGradients", "channel_gradients", d), c, c.channels);
  const NormedGradient p{x.size(),          view.size,         view.inner,        address(x),      address(*a.in[4]),
                         address(*a.in[2]), address(r),        address(factor),   address(mean_g), address(mean_gh),
                         address(slope),    address(constant), address(*a.out[0])};
  gpu.launch(neural_kernel(gpu, "NormedGradient", "normalise_gradient", d), p, p.count);
}

// A step of Adam as in devices/ref/optimizers.cpp.
template <class T>
kernel::Kernel record_adam(const AdamParams& params) {
  using R = kernel::Rec<T>;
  kernel::Recorder r;
  const kernel::Recording recording(r);
  const auto read = [&](kernel::Input::Kind kind) { return R::of(r.input({dtype_of<T>(), kind})); };
  constexpr auto each = kernel::Input::Kind::dense, one = kernel::Input::Kind::uniform;
  const R value = read(each), m = read(each), v = read(each), g = read(each);
  const R rate = read(one), correction = read(one), decay = read(one);
  const R next_m = R(T(params.beta1)) * m + R(T(1 - params.beta1)) * g;
  const R next_v = R(T(params.beta2)) * v + R(T(1 - params.beta2)) * g * g;
  const R step = rate * next_m / (sqrt(next_v) * correction + R(T(params.epsilon)));
  for (const R& out : {(R(T(1)) - decay) * value - step, next_m, next_v})
    r.kernel.outputs.push_back({out.id, dtype_of<T>()});
  return r.finish();
}

void adam_update(const KernelArgs& a) {
  const AdamParams& params = a.attrs.as<AdamParams>();
  const DType d = a.in[0]->dtype();
  start_map(a, fmt::format("adam_update {} {} {} {}", name(d), params.beta1, params.beta2, params.epsilon),
            [&] { return d == DType::f64 ? record_adam<double>(params) : record_adam<float>(params); });
}

template <Kernel kernel>
Kernel of_f32_and_f64(DType d) {
  return d == DType::f32 || d == DType::f64 ? kernel : nullptr;
}

}  // namespace

void sum_layer_norm_grad(const KernelArgs& a) {
  const Tensor &x = *a.in[0], &scale = *a.in[1];
  const int64_t n = scale.size(), rows = a.in[2]->size(), element = int64_t(size_of(x.dtype()));
  Folding s{};
  s.from = address(x);
  append(s.kept, n, element);
  append(s.reduced, rows, n * element);
  s.in[0] = address(*a.in[4]), s.in[1] = address(*a.in[2]), s.in[2] = address(*a.in[3]);
  s.out[0] = address(*a.out[1]), s.out[1] = address(*a.out[2]);
  s.epsilon = a.attrs.as<NormParams>().epsilon;
  start_fold(gpu_of(x.device()), neural_family, rule("LayerSums", x.dtype()), size_t(2 * element), s, n, rows);
}

std::span<const NamedKernel> neural_kernels() {
  static const NamedKernel all[] = {
      {"adam_update", of_f32_and_f64<adam_update>},
      {"batch_norm", of_f32_and_f64<batch_norm>},
      {"batch_norm_grad", of_f32_and_f64<batch_norm_grad>},
  };
  return all;
}

}  // namespace rill::cuda
