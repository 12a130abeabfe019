// Starts the kernels of random.cuh.
#include "rill/devices/cuda/families/families.h"
#include "rill/devices/cuda/families/random_params.h"

namespace rill::cuda {

namespace {

// `count`: elements, or rows, that have their own words; a thread draws `each` of them.
void start(const KernelArgs& a, const std::string& call, int64_t count, int64_t each, int64_t classes) {
  Draws p{address(*a.in[0]), a.in[0]->strides()[0] * 8, count, {}, {}, classes};
  for (size_t i = 1; i < a.in.size(); ++i) p.in[i - 1] = address(*a.in[i]);
  for (size_t k = 0; k < a.out.size(); ++k) p.out[k] = address(*a.out[k]);
  Gpu& gpu = gpu_of(a.out[0]->device());
  gpu.launch(kernel_of(gpu, {random_family, "Draws", call}), p, (count + each - 1) / each);
}

void run_bits(const KernelArgs& a) { start(a, "random_bits", a.out[0]->size(), 4, 0); }
void run_gamma(const KernelArgs& a) {
  start(a, fmt::format("gamma<{}>", name(a.in[1]->dtype())), a.out[0]->size(), 1, 0);
}
void run_poisson(const KernelArgs& a) { start(a, "poisson", a.out[0]->size(), 1, 0); }
void run_binomial(const KernelArgs& a) { start(a, "binomial", a.out[0]->size(), 1, 0); }
void run_multinomial(const KernelArgs& a) {
  const int64_t rows = a.in[1]->size();
  if (a.out[0]->size() > 0) start(a, "multinomial", rows, 1, a.out[0]->size() / rows);
}

}  // namespace

std::span<const NamedKernel> random_kernels() {
  static const NamedKernel all[] = {
      {"random_binomial", for_every_dtype<run_binomial>}, {"random_bits", for_every_dtype<run_bits>},
      {"random_gamma", for_every_dtype<run_gamma>},       {"random_multinomial", for_every_dtype<run_multinomial>},
      {"random_poisson", for_every_dtype<run_poisson>},
  };
  return all;
}

}  // namespace rill::cuda
