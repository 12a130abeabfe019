// One step of Adam by its formula, in double (long double for f64), rounded once.
#include <cmath>

#include "rill/devices/params/nn_params.h"

namespace rill::ref {

namespace {

template <class T, class W>
void adam(const KernelArgs& args) {
  const AdamParams& params = args.attrs.as<AdamParams>();
  const W beta1 = W(params.beta1), beta2 = W(params.beta2), epsilon = W(params.epsilon);
  const W rate = W(*args.in_data<T>(4)), correction = W(*args.in_data<T>(5)), decay = W(*args.in_data<T>(6));
  for (int64_t i = 0, n = args.input(0).size(); i < n; ++i) {
    const W g = W(args.in_data<T>(3)[i]);
    const W m = beta1 * W(args.in_data<T>(1)[i]) + (1 - beta1) * g;
    const W v = beta2 * W(args.in_data<T>(2)[i]) + (1 - beta2) * g * g;
    args.out_data<T>(0)[i] =
        T((1 - decay) * W(args.in_data<T>(0)[i]) - rate * m / (std::sqrt(v) * correction + epsilon));
    args.out_data<T>(1)[i] = T(m);
    args.out_data<T>(2)[i] = T(v);
  }
}

}  // namespace

void adam_update(const KernelArgs& args) {
  if (args.input(0).dtype() == DType::f64) adam<double, long double>(args);
  else adam<float, double>(args);
}

}  // namespace rill::ref
