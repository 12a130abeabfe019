// What the records of elementwise ops with one operand share: how an OpSpec is filled, and common kinds of
// records. For ops/*.cpp only; the file of a family includes it in its HWY_ONCE part.
#pragma once
#include "rill/devices/ref/elementwise.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/ops.h"

namespace rill::elementwise {

// The fields that most records share; others are set by name.
struct Unary {
  std::string_view name, doc;
  DTypeSet dtypes;
  cpu::ScalarKernel cpu;
  Kernel ref;
  Vjp vjp;
  uint64_t saves_in = save_none, saves_out = save_none;
  std::vector<Sample> (*samples)();
  double max_ulp = 4;
  ExportNames exported = {};
  Infer infer = infer_same;
  std::string_view no_gradient = "";
  std::string_view no_finite_difference = "";
};

inline OpSpec spec_of(const Unary& u) {
  OpSpec s;
  s.name = u.name, s.doc = u.doc, s.kind = OpKind::elementwise, s.dtypes = u.dtypes, s.infer = u.infer;
  s.vjp = u.vjp, s.saves_in = u.saves_in, s.saves_out = u.saves_out, s.no_gradient = u.no_gradient;
  s.cpu = u.cpu.run, s.record_point = u.cpu.record, s.ref = u.ref, s.samples = u.samples, s.max_ulp = u.max_ulp,
  s.exported = u.exported;
  s.no_finite_difference = u.no_finite_difference;
  return s;
}

inline constexpr DTypeSet analytic_set = float_set | complex_set;
inline constexpr unsigned analytic = ref::floats | ref::complexes;

// The cotangent times the conjugate of the derivative (conj() is the identity on reals); 0 if the cotangent is 0,
// even if the derivative is infinite.
inline Tensor chain(const VjpArgs& a, const Tensor& derivative) {
  return multiply_no_nan(conj(derivative), a.cotangent[0]);
}

}  // namespace rill::elementwise

// RILL_FLOAT_UNARY(name, doc, dtypes, kinds, reference(x), cotangent of x = in from y = out, what it saves, samples,
// ulp, onnx, tf)
#define RILL_FLOAT_UNARY(fn, doc_text, set, kinds, reference, derivative, saves, sample_fn, ulp, onnx_name, tf_name) \
  extern const Op fn##_op;                                                                                           \
  const Op fn##_op(spec_of({.name = #fn,                                                                             \
                            .doc = doc_text,                                                                         \
                            .dtypes = set,                                                                           \
                            .cpu = cpu::scalar_kernel<#fn>,                                                          \
                            .ref = ref::scalar_kernel<[](auto x) {                                                   \
                              using std::abs;                                                                        \
                              return reference;                                                                      \
                            },                                                                                       \
                                                      kinds>,                                                        \
                            .vjp =                                                                                   \
                                [](const VjpArgs& a) {                                                               \
                                  [[maybe_unused]] const Tensor &x = a.in[0], &y = a.out[0];                         \
                                  return Tensors{derivative};                                                        \
                                },                                                                                   \
                            saves,                                                                                   \
                            .samples = sample_fn,                                                                    \
                            .max_ulp = ulp,                                                                          \
                            .exported = {onnx_name, tf_name}}));                                                     \
  Tensor fn(const Tensor& x, Where where) { return unary(fn##_op, x, true, where); }

#define IN .saves_in = save(0)
#define OUT .saves_out = save(0)
#define SAMPLES(lo, hi) (unary_samples<lo, hi>)
