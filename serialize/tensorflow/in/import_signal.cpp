// Fourier transforms: tf.signal.
#include <fmt/format.h>

#include "rill/ops/fft.h"
#include "rill/serialize/tensorflow/in/interpreter.h"

namespace rill::tensorflow_in {
namespace {

// The last `n` axes.
Axes last_axes(const Call& c, int64_t n) {
  if (c.x(0).ndim() < n) c.reject(fmt::format("transforms {} axes, and its operand has {}", n, c.x(0).ndim()));
  std::vector<int64_t> all;
  for (int64_t i = -n; i < 0; ++i) all.push_back(i);
  return Axes(all);
}
Shape lengths(const Call& c, size_t n) {
  const Dims d = c.dims(1);
  if (d.size() != n) c.reject("fft_length has not an entry for each axis");
  return Shape(d.begin(), d.end());
}
using Transform = Tensor (*)(const Tensor&, const fft::FftnOptions&, Where);

// Of complex numbers.
template <Transform f, int n>
Values whole_rule(const Call& c) {
  return {f(c.x(), {.axes = last_axes(c, n)}, Where::current())};
}
// Of real ones, or to them; the operand is cut or filled up to the lengths.
template <Transform f, int n>
Values half_rule(const Call& c) {
  return {f(c.x(0), {.s = lengths(c, size_t(n)), .axes = last_axes(c, n)}, Where::current())};
}

}  // namespace

const RuleTable& signal_rules() {
  static const RuleTable table = {
      {"FFT", whole_rule<fft::fftn, 1>},      {"FFT2D", whole_rule<fft::fftn, 2>},
      {"FFT3D", whole_rule<fft::fftn, 3>},    {"IFFT", whole_rule<fft::ifftn, 1>},
      {"IFFT2D", whole_rule<fft::ifftn, 2>},  {"IFFT3D", whole_rule<fft::ifftn, 3>},
      {"RFFT", half_rule<fft::rfftn, 1>},     {"RFFT2D", half_rule<fft::rfftn, 2>},
      {"RFFT3D", half_rule<fft::rfftn, 3>},   {"IRFFT", half_rule<fft::irfftn, 1>},
      {"IRFFT2D", half_rule<fft::irfftn, 2>}, {"IRFFT3D", half_rule<fft::irfftn, 3>},
  };
  return table;
}

}  // namespace rill::tensorflow_in
