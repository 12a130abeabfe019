// Draws by rejection (devices/kernel/math/variates_scalar.h) for all elements; variates.h lists the distributions.
#include "rill/devices/cpu/elementwise/variates.h"

#include <algorithm>

#include "rill/devices/kernel/math/variates_scalar.h"
#include "rill/devices/threads.h"

namespace rill::cpu {
namespace {

using namespace variates;

constexpr int64_t grain = 1 << 9;  // least number of elements for each thread

Key key_of(const KernelArgs& args) {
  const uint64_t* words = args.in_data<uint64_t>(0);
  return {words[0], words[args.input(0).strides()[0]]};
}

template <class T>
void gamma_loop(const KernelArgs& args) {
  const Key key = key_of(args);
  const T* a = args.in_data<T>(1);
  T *x = args.out_data<T>(0), *log_x = args.out_data<T>(1);
  parallel_for(args.output().size(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Stream s(key, i);
      const GammaDraw draw = draw_gamma(s, double(a[i]));
      x[i] = T(draw.x), log_x[i] = T(draw.log_x);
    }
  });
}

}  // namespace

void random_gamma(const KernelArgs& args) {
  if (args.input(1).dtype() == DType::f64) gamma_loop<double>(args);
  else gamma_loop<float>(args);
}

void random_poisson(const KernelArgs& args) {
  const Key key = key_of(args);
  const double* rate = args.in_data<double>(1);
  int64_t* out = args.out_data<int64_t>();
  parallel_for(args.output().size(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Stream s(key, i);
      out[i] = int64_t(draw_poisson(s, rate[i]));
    }
  });
}

void random_binomial(const KernelArgs& args) {
  const Key key = key_of(args);
  const double *n = args.in_data<double>(1), *p = args.in_data<double>(2);
  int64_t* out = args.out_data<int64_t>();
  parallel_for(args.output().size(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Stream s(key, i);
      out[i] = int64_t(draw_binomial(s, n[i], p[i]));
    }
  });
}

void random_multinomial(const KernelArgs& args) {
  const Key key = key_of(args);
  const int64_t rows = args.input(1).size();
  if (rows == 0 || args.output().size() == 0) return;
  const int64_t classes = args.output().size() / rows;
  const double *n = args.in_data<double>(1), *p = args.in_data<double>(2);
  int64_t* out = args.out_data<int64_t>();
  parallel_for(rows, std::max<int64_t>(1, grain / classes), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      Stream s(key, row);
      draw_multinomial(
          s, n[row], classes, [&](int64_t k) { return p[row * classes + k]; },
          [&](int64_t k, int64_t count) { out[row * classes + k] = count; });
    }
  });
}

}  // namespace rill::cpu
