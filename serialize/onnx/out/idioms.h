// Idioms: functions that rill computes by several records and a format by one operator or a few, such as exact gelu,
// silu and rms_norm. The pattern is rill's own function, traced: if a graph contains that trace, the operator is
// written instead, so the pattern follows changes of the function. The records round to the last digit even for large
// arguments, where a runtime's operator may not (docs/onnx.md). Start at find_idioms.
#pragma once
#include <map>
#include <span>

#include "rill/serialize/onnx/out/exporter.h"

namespace rill::onnx_out {

struct Idiom {
  std::string_view name;
  // `p`: a number of the function, such as a slope; the trace has it as a constant. Not every function has one.
  Tensor (*function)(const Tensor& x, double p);
  // `x` is f32.
  Value (*write)(Exporter& e, const Value& x, double p);
  // Whether only the dtype of the operand matters, and not its sizes.
  bool elementwise = true;
};

// ONNX's.
std::span<const Idiom> idioms();

// x sigmoid(x), by operators that all formats have.
Value write_silu(Exporter& e, const Value& x, double p);

// By the node whose result is the idiom's.
std::map<int32_t, IdiomMatch> find_idioms(const Graph& g, std::span<const Idiom> idioms);

}  // namespace rill::onnx_out
