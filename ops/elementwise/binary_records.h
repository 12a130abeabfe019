// What the records of elementwise ops with two operands share, like unary_records.h for one. For ops/*.cpp only.
#pragma once
#include "rill/devices/ref/elementwise.h"
#include "rill/ops/elementwise/elementwise_records.h"
#include "rill/ops/ops.h"

namespace rill::elementwise {

struct Binary {
  std::string_view name, doc;
  DTypeSet dtypes;
  cpu::ScalarKernel cpu;
  Kernel ref;
  Vjp vjp = nullptr;
  uint64_t saves_in = save_none, saves_out = save_none;
  std::array<uint64_t, 2> saves_for = {save_all, save_all};
  uint64_t linear_in = save_none;
  std::vector<Sample> (*samples)();
  double max_ulp = 1;  // correctly rounded; the reference rounds from long double and so, rarely, twice
  ExportNames exported = {};
  Infer infer = infer_same;
  std::string_view no_gradient = "";
  std::string_view no_special_values = "";
  double norm_tolerance = 0;
  TailOp tail_op = TailOp::none;
};

inline OpSpec spec_of(const Binary& b) {
  OpSpec s;
  s.name = b.name, s.doc = b.doc, s.kind = OpKind::elementwise, s.dtypes = b.dtypes, s.inputs = 2, s.infer = b.infer;
  s.vjp = b.vjp, s.saves_in = b.saves_in, s.saves_out = b.saves_out, s.saves_for = b.saves_for,
  s.linear_in = b.linear_in, s.no_gradient = b.no_gradient;
  s.cpu = b.cpu.run, s.record_point = b.cpu.record, s.tail_op = b.tail_op, s.ref = b.ref, s.samples = b.samples,
  s.max_ulp = b.max_ulp;
  s.exported = b.exported, s.no_special_values = b.no_special_values;
  s.norm_tolerance = b.norm_tolerance;
  return s;
}

// Cotangents of both operands, each computed only if it is needed.
template <class Dx, class Dy>
Tensors both(const VjpArgs& a, Dx&& dx, Dy&& dy) {
  return {a.needs(0) ? unbroadcast(dx(), a.in[0]) : Tensor(), a.needs(1) ? unbroadcast(dy(), a.in[1]) : Tensor()};
}

inline constexpr uint64_t save_both = save(0) | save(1);

}  // namespace rill::elementwise

#define REF2(kinds, ...) (ref::scalar_kernel<[](auto x, auto y) { return __VA_ARGS__; }, kinds, 2>)
#define VJP2(dx, dy)                                                                              \
  [](const VjpArgs& a) {                                                                          \
    [[maybe_unused]] const Tensor &x = a.in[0], &y = a.in[1], &z = a.out[0], &g = a.cotangent[0]; \
    return both(a, [&] { return dx; }, [&] { return dy; });                                       \
  }
#define REAL_SAMPLES (binary_samples<-300, 300, -300, 300>)
#define RILL_BINARY(fn, floating, ...)                   \
  extern const Op fn##_op;                               \
  const Op fn##_op(spec_of({.name = #fn, __VA_ARGS__})); \
  Tensor fn(const Tensor& x, const Tensor& y, Where where) { return binary(fn##_op, x, y, floating, where); }
