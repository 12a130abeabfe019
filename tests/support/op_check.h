// Compares kernels with their reference: one device's kernel alone, with the error that an op's record allows.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <optional>
#include <string>
#include <vector>

#include "rill/devices/driver.h"
#include "rill/ops/apply.h"
#include "rill/rill.h"

namespace op_check {

using namespace rill;
using Inputs = std::vector<Tensor>;

inline std::vector<const Tensor*> pointers(const Inputs& in) {
  std::vector<const Tensor*> p;
  for (const Tensor& t : in) p.push_back(&t);
  return p;
}

inline std::string describe(const Op& op, const Inputs& in, const Attrs& attrs) {
  std::string s = std::string(op.name) + "(";
  for (const Tensor& t : in) s += to_string(t.spec()) + " ";
  return s + to_string(attrs) + ")";
}

inline Inputs run(const Op& op, const Inputs& in, const Attrs& attrs, Where where = Where::current()) {
  auto p = pointers(in);
  Tensors out = apply(op, Operands(p), attrs, where);
  return {out.begin(), out.end()};
}

// On another device; strings stay on the host.
inline Inputs to(const Inputs& in, Device d) {
  Inputs out;
  for (const Tensor& t : in) out.push_back(t.dtype() == DType::string ? t : t.to(d));
  return out;
}

// Runs one device's kernel on dense tensors; the results are on the host.
inline Inputs run_on(Device device, const Op& op, const Inputs& in, const Attrs& attrs) {
  const Device place = is_host(device) ? Device("cpu:0") : device;  // all the host's kernels run on its memory
  const WithDevice here(place);
  const Inputs moved = to(in, place);
  std::vector<const Spec*> specs;
  for (const Tensor& t : moved) specs.push_back(&t.spec());
  OutSpecs out_specs = infer(op, specs, attrs, Where::current());
  Inputs out;
  std::vector<Tensor*> out_pointers;
  for (Spec& s : out_specs) {
    s.device = place;  // a sample of a creation op may name another
    out.push_back(empty_tensor(s));
  }
  for (Tensor& t : out) out_pointers.push_back(&t);
  DType d = in.empty() ? out[0].dtype() : in[0].dtype();
  auto p = pointers(moved);
  run_on_device(kernel_for(op, device, d), {p, out_pointers, attrs, nullptr, &op});
  return to(out, Device("cpu:0"));
}

// For such magnitudes, `op` gives cancelling signs in the complex plane: adds up the parts.
inline Tensor summed_parts(const Tensor& t) {
  return is_complex(t.dtype()) ? complex(abs(real(t)) + abs(imag(t)), abs(real(t)) + abs(imag(t))) : t;
}

inline double epsilon(DType d) {
  switch (real_of(d)) {
    case DType::f16: return 0x1p-10;
    case DType::bf16: return 0x1p-7;
    case DType::f32: return 0x1p-23;
    case DType::f64: return 0x1p-52;
    case DType::f8_e4m3fn: return 0x1p-3;
    case DType::f8_e5m2: return 0x1p-2;
    default: return 0;
  }
}
inline double smallest(DType d) {
  if (is_float8(d)) return d == f8_e4m3fn ? 0x1p-9 : 0x1p-16;
  return real_of(d) == f16 ? 0x1p-24 : real_of(d) == f64 ? 0x1p-1074 : real_of(d) == bf16 ? 0x1p-133 : 0x1p-149;
}

// The largest finite number.
inline double greatest(DType d) {
  switch (real_of(d)) {
    case DType::f16: return 65504;
    case DType::bf16: return 0x1.fep127;
    case DType::f32: return 0x1.fffffep127;
    default: return 0x1.fffffffffffffp1023;
  }
}

// One unit in the last place of `d` at `x`.
inline double ulp_at(double x, DType d) {
  if (x == 0 || !std::isfinite(x)) return smallest(d);
  return std::max(smallest(d), std::ldexp(epsilon(d), std::ilogb(x)));
}

// The parts of a tensor as doubles: real and imaginary ones alternate.
inline std::vector<double> numbers(const Tensor& t) {
  const Tensor here = t.to("cpu:0");
  if (!is_complex(t.dtype())) return here.astype(f64).to_vector<double>();
  std::vector<double> out;
  for (std::complex<double> z : here.to_vector<std::complex<double>>())
    out.push_back(z.real()), out.push_back(z.imag());
  return out;
}

// How `got` differs from `want` beyond what the record allows, or "". `magnitude`: the op's result for the operands'
// magnitudes, if the tolerance is relative to the sum of the terms. `ignored`: an error that is always allowed.
inline std::string mismatch(const Op& op, const Tensor& got, const Tensor& want, const Tensor& magnitude,
                            double ignored = 0) {
  if (!(got.shape() == want.shape()) || got.dtype() != want.dtype())
    return to_string(got.spec()) + " where " + to_string(want.spec()) + " is right";
  if (got.dtype() == DType::string)
    return got.to_vector<std::string>() == want.to_vector<std::string>() ? "" : "other strings";
  auto a = numbers(got), b = numbers(want), m = magnitude.defined() ? numbers(magnitude) : b;
  double largest = 0;
  for (double x : b)
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < a.size(); ++i) {
    if ((std::isnan(a[i]) && std::isnan(b[i])) || a[i] == b[i]) continue;
    double allowed = ignored;
    if (is_differentiable(got.dtype())) {
      allowed += op.max_ulp * ulp_at(b[i], got.dtype());
      // Half precision is computed in f32 and rounded once more.
      if (got.dtype() == f16 || got.dtype() == bf16) allowed = std::max(allowed, ulp_at(b[i], got.dtype()));
      allowed += op.norm_tolerance * epsilon(got.dtype()) * largest;
      // (A fraction of an infinite magnitude would allow anything.)
      if (op.sum_tolerance)
        allowed += op.sum_tolerance * epsilon(got.dtype()) * std::min(std::abs(m[i]), greatest(got.dtype())) +
                   smallest(got.dtype());
    }
    if (!(std::abs(a[i] - b[i]) <= allowed))
      return fmt::format("element {}: {}, reference {}, off by {} ulp", i, a[i], b[i],
                         std::abs(a[i] - b[i]) / ulp_at(b[i], got.dtype()));
  }
  return "";
}

inline Inputs magnitudes(const Inputs& in) {
  Inputs out;
  for (const Tensor& t : in) {
    if (is_complex(t.dtype())) out.push_back((abs(real(t)) + abs(imag(t))) * complex(1.0f, 1.0f).astype(t.dtype()));
    else out.push_back(is_floating(t.dtype()) ? abs(t) : t);
  }
  return out;
}

}  // namespace op_check
