// The records of elementwise ops that run long loops (devices/cpu/elementwise/long_loops.h). For ops/*.cpp only.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "rill/devices/cpu/elementwise/long_loops.h"
#include "rill/ops/common_dtype.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/samples.h"

namespace rill::elementwise {

// --- Records ---------------------------------------------------------------------------------------------------------

struct Long {
  std::string_view name, doc;
  Vjp vjp = nullptr;
  uint64_t saves_in = save_none, saves_out = save_none;
  std::vector<Sample> (*samples)() = nullptr;
  double max_ulp = 4, norm_tolerance = 0;
  std::string_view no_gradient = "", no_finite_difference = "";
  std::string_view tensorflow = "";  // its TensorFlow operator
};

// The record of F with `Inputs` operands, which long_loops<name> runs.
template <cpu::Name name, class F, int Inputs, class Wide = long double>
OpSpec long_spec(const Long& p) {
  static const cpu::LongLoops<name, F, Inputs, Wide> loops;
  OpSpec s;
  s.name = p.name, s.doc = p.doc, s.kind = OpKind::elementwise, s.dtypes = float_set, s.inputs = Inputs;
  s.infer = infer_same, s.vjp = p.vjp, s.saves_in = p.saves_in, s.saves_out = p.saves_out,
  s.no_gradient = p.no_gradient;
  s.cpu = cpu::scalar_kernel<name>.run, s.ref = cpu::long_reference<F, Inputs>;
  s.samples = p.samples, s.max_ulp = p.max_ulp, s.norm_tolerance = p.norm_tolerance;
  s.no_finite_difference = p.no_finite_difference;
  s.exported = {"", p.tensorflow};
  return s;
}

// The operands as real floats of one dtype on one device. Throws for complex numbers and strings.
inline std::vector<Tensor> real_operands(std::string_view op, std::span<const Tensor* const> in, const Where& where) {
  CommonDtype common;
  for (const Tensor* t : in) {
    require_real(op, *t, where);
    common.add(t->spec());
  }
  std::vector<Tensor> out;
  for (const Tensor* t : in)
    out.push_back(as_operand(op, *t, to_floating(common.dtype), common.device, where, common.weak));
  return out;
}
inline Tensor long_call(const Op& op, std::initializer_list<const Tensor*> in, const Where& where) {
  const CallerScope caller(where, op.name.data());
  const std::vector<Tensor> t = real_operands(op.name, std::span(in.begin(), in.size()), where);
  if (t.size() == 1) return apply1(op, {&t[0]}, {}, where);
  if (t.size() == 2) return apply1(op, {&t[0], &t[1]}, {}, where);
  return apply1(op, {&t[0], &t[1], &t[2]}, {}, where);
}

// The derivative `op` at a call's operands; it has no derivatives itself, and throws if one is needed
// (incomplete_functions.cpp): without this, tapes would treat it as a constant.
Tensor derived_once(const Op& op, const VjpArgs& a);
// The same for a derivative that depends on `on`.
Tensor derived_once(const Tensor& derivative, const Tensor& on);

// polygamma(n, x) - polygamma(n, x + h), which keeps its digits for large x (zeta_functions.cpp).
Tensor polygamma_drop(const Tensor& n, const Tensor& x, const Tensor& h);

// derivative * cotangent, summed to the operand's shape.
inline Tensor share_of(const VjpArgs& a, int operand, const Callback<Tensor()>& derivative) {
  if (!a.needs(operand)) return Tensor();
  return unbroadcast(multiply_no_nan(derivative(), a.cotangent[0]), a.in[size_t(operand)]);
}

// The record `fn`_op of F at one operand x, computed in Wide, whose derivative is an expression of x; `tensorflow`: its
// TensorFlow operator, or "".
#define RILL_LONG_UNARY(fn, F, Wide, text, derivative, sample_fn, tolerance, tensorflow_operator)                \
  extern const Op fn##_op;                                                                                       \
  const Op fn##_op(long_spec<#fn, F, 1, Wide>({.name = #fn,                                                      \
                                               .doc = text,                                                      \
                                               .vjp =                                                            \
                                                   [](const VjpArgs& a) {                                        \
                                                     const Tensor& x = a.in[0];                                  \
                                                     return Tensors{share_of(a, 0, [&] { return derivative; })}; \
                                                   },                                                            \
                                               .saves_in = save(0),                                              \
                                               .samples = sample_fn,                                             \
                                               .max_ulp = 8,                                                     \
                                               .norm_tolerance = tolerance,                                      \
                                               .tensorflow = tensorflow_operator}));

}  // namespace rill::elementwise
