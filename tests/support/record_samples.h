// The records' samples for tests: in any dtype, with directions for derivatives.
#pragma once
#include <optional>

#include "catch.h"
#include "op_check.h"
#include "rill/ops/samples.h"

namespace record_samples {

using op_check::Inputs;
using namespace rill;

// The main dtype of a sample: its first float operand's, else its first operand's. Operands of it are cast.
inline DType main_dtype(const Sample& s) {
  for (const Tensor& t : s.in)
    if (t.dtype() == f32) return f32;
  return s.in.empty() ? f32 : s.in[0].dtype();
}

// The sample in another dtype, or nothing if the op does not support it.
inline std::optional<Inputs> in_dtype(const Op& op, const Sample& s, DType d) {
  DType main = main_dtype(s);
  if ((main == DType::string) != (d == DType::string)) return std::nullopt;  // neither is cast to the other
  Inputs out;
  for (const Tensor& t : s.in) out.push_back(t.dtype() == main ? t.astype(d) : t);
  if (!out.empty() && !contains(op.dtypes, out[0].dtype())) return std::nullopt;
  std::vector<const Spec*> specs;
  for (const Tensor& t : out) specs.push_back(&t.spec());
  try {
    infer(op, specs, s.attrs, Where::current());
  } catch (const Error&) {
    if (d == main) throw;
    return std::nullopt;  // the op has narrower rules for its other operands
  }
  return out;
}

inline bool has_gradient(const Op& op, const Sample& s) {
  return op.vjp && op.no_finite_difference.empty() && main_dtype(s) == f32 && in_dtype(op, s, f64);
}

inline Inputs moved(const Inputs& in, const Inputs& direction, double h) {
  Inputs out;
  for (size_t i = 0; i < in.size(); ++i) out.push_back(direction[i].defined() ? in[i] + h * direction[i] : in[i]);
  return out;
}

inline Inputs directions(const Inputs& in, uint64_t seed) {
  Inputs out;
  for (const Tensor& t : in)
    out.push_back(t.dtype() == f64 ? samples::uniform(t.shape(), -1, 1, seed++).to(t.device()).astype(f64) : Tensor());
  return out;
}

template <class F>
void for_each_op(F&& f) {
  for (const Op* op : all_ops()) {
    if (op->call) continue;  // control flow and effects have no kernels: tests/trace/test_control_flow.cpp
    INFO(op->name);
    f(*op);
  }
}

}  // namespace record_samples
