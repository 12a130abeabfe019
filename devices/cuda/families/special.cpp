// Starts the kernels of special.cuh.
#include <utility>

#include "rill/devices/cuda/driver/spaces.h"
#include "rill/devices/cuda/families/families.h"
#include "rill/devices/cuda/families/special_params.h"

namespace rill::cuda {

namespace {

void start(const KernelArgs& args, const std::string& call, int dtype) {
  const Tensor& out = *args.out[0];
  if (out.size() == 0) return;
  std::vector<StridedOperand> operands;
  for (const Tensor* t : args.in) operands.push_back(strided_operand(*t, size_t(out.ndim())));
  operands.push_back(strided_operand(out, size_t(out.ndim())));
  Gpu& gpu = gpu_of(out.device());
  const Function f = kernel_of(gpu, {special_family, "Points", call});
  for_each_space(Ints(out.shape().begin(), out.shape().end()), operands, no_rows,
                 [&](const Space& s) { gpu.launch(f, Points{s, dtype}, s.rows * s.n); });
}

// --- Long functions --------------------------------------------------------------------------------------------------

// The records of long_records.h, and their functions.
struct Long {
  std::string_view op, function;
};
constexpr Long longs[] = {
    {"j0", "J0"},
    {"j1", "J1"},
    {"y0", "Y0"},
    {"y1", "Y1"},
    {"k0", "K<0>"},
    {"k1", "K<1>"},
    {"k0e", "ScaledK<0>"},
    {"k1e", "ScaledK<1>"},
    {"j1_slope", "J1Slope"},
    {"k0e_derivative", "ScaledK0Derivative"},
    {"k1e_derivative", "ScaledK1Derivative"},
    {"i0e_derivative", "ScaledI0Derivative"},
    {"i1e_derivative", "ScaledI1Derivative"},
    {"jv", "Jv"},
    {"iv", "Iv"},
    {"kv", "Kv"},
    {"spherical_jn", "SphericalJ"},
    {"airy_ai", "Airy<false, false>"},
    {"airy_ai_slope", "Airy<false, true>"},
    {"airy_bi", "Airy<true, false>"},
    {"airy_bi_slope", "Airy<true, true>"},
    {"exp1", "E1"},
    {"expi", "Ei"},
    {"sine_integral", "SineIntegral"},
    {"cosine_integral", "CosineIntegral"},
    {"dawsn", "Dawson"},
    {"dawsn_derivative", "DawsonDerivative"},
    {"erfcx_derivative", "ErfcxDerivative"},
    {"fresnel_sine_slope", "FresnelSineSlope"},
    {"fresnel_cosine_slope", "FresnelCosineSlope"},
    {"fresnel_sine", "FresnelSine"},
    {"fresnel_cosine", "FresnelCosine"},
    {"tgamma", "Gamma"},
    {"beta", "Beta"},
    {"binom", "Binomial"},
    {"lambertw", "LambertW"},
    {"igamma", "LowerGamma"},
    {"igammac", "UpperGamma"},
    {"igamma_by_a", "LowerGammaByA"},
    {"igammac_by_a", "UpperGammaByA"},
    {"gamma_density", "GammaDensity"},
    {"betainc", "LowerBeta"},
    {"betainc_by_a", "LowerBetaByA"},
    {"betainc_by_b", "LowerBetaByB"},
    {"beta_density", "BetaDensity"},
    {"log_gamma_sample_slope", "LogGammaSlope"},
    {"zeta", "Zeta"},
    {"zeta_by_s", "ZetaByS"},
    {"polygamma", "Polygamma"},
    {"betaln", "LogBeta"},
    {"polygamma_drop", "PolygammaDrop"},
};

template <size_t i>
void run_long(const KernelArgs& args) {
  const DType d = args.out[0]->dtype();
  const int dtype = d == DType::f16 ? 0 : d == DType::bf16 ? 1 : d == DType::f32 ? 2 : 3;
  start(args, fmt::format("map_long<rill::special::{}, {}>", longs[i].function, args.in.size()), dtype);
}

// --- Functions of two numbers ----------------------------------------------------------------------------------------

void run_pairs(const KernelArgs& args, std::string_view function) {
  start(args, fmt::format("map_pairs<{}, {}>", function, name(args.out[0]->dtype())), 0);
}
#define RILL_PAIRS(name, function) \
  void name(const KernelArgs& args) { run_pairs(args, function); }
RILL_PAIRS(run_fmod, "InFloats<Fmod>")
RILL_PAIRS(run_remainder, "InFloats<Remainder>")
RILL_PAIRS(run_floor_divide, "InFloats<FloorDivide>")
RILL_PAIRS(run_nextafter, "NextAfter")
RILL_PAIRS(run_gcd, "Divisor")
RILL_PAIRS(run_lcm, "Multiple")
#undef RILL_PAIRS

template <Kernel kernel>
Kernel of_integers(DType d) {
  return is_integer(d) ? kernel : nullptr;
}

std::vector<NamedKernel> make_table() {
  std::vector<NamedKernel> all = {
      {"fmod", for_floats<run_fmod>},
      {"remainder", for_floats<run_remainder>},
      {"floor_divide", for_floats<run_floor_divide>},
      {"nextafter", for_floats<run_nextafter>},
      {"gcd", of_integers<run_gcd>},
      {"lcm", of_integers<run_lcm>},
  };
  [&]<size_t... i>(std::index_sequence<i...>) {
    (all.push_back({longs[i].op, for_floats<run_long<i>>}), ...);
  }(std::make_index_sequence<std::size(longs)>());
  return all;
}

}  // namespace

std::span<const NamedKernel> special_kernels() {
  static const std::vector<NamedKernel> all = make_table();
  return all;
}

}  // namespace rill::cuda
