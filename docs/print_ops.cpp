// Prints docs/ops.md from the op records: ./dev docs. Nothing about an op is written there by hand.
#include <fmt/format.h>

#include <array>

#include "rill/devices/cuda/open.h"
#include "rill/ops/op.h"

using namespace rill;

namespace {

std::string dtypes(DTypeSet set) {
  struct Named {
    std::string_view name;
    DTypeSet set;
  };
  static constexpr Named groups[] = {{"any", every_set},      {"numbers and bools", plain_set},
                                     {"numbers", number_set}, {"reals", real_set},
                                     {"ints", int_set},       {"floats", float_set},
                                     {"complex", complex_set}};
  std::string out;
  for (const Named& g : groups)
    if ((set & g.set) == g.set) {
      out += (out.empty() ? "" : ", ") + std::string(g.name);
      set &= ~g.set;
    }
  for (int d = 0; d < dtype_count; ++d)
    if (contains(set, DType(d))) out += (out.empty() ? "" : ", ") + std::string(name(DType(d)));
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

std::string gradient(const Op& op) { return op.vjp ? "yes" : fmt::format("no: {}", op.no_gradient); }
std::string cpu(const Op& op) { return op.call ? "none" : op.view ? "view" : op.cpu ? "own" : "reference"; }
// By the dtypes of the first operand, or of what an op without operands makes.
std::string gpu(const Op& op) {
  if (op.call || op.view) return cpu(op);
  DTypeSet there = 0;
  for (int d = 0; d < dtype_count; ++d)
    if (contains(op.dtypes, DType(d)) && cuda::has_kernel(op, DType(d))) there |= one_of({DType(d)});
  if (there == 0) return "none";
  return (op.dtypes & plain_set) == there ? "own" : dtypes(there);
}
std::string tolerance(const Op& op) {
  if (op.sum_tolerance) return fmt::format("{} eps of the sum", op.sum_tolerance);
  if (op.norm_tolerance) return fmt::format("{} eps of the largest", op.norm_tolerance);
  return op.view || op.call ? "exact" : fmt::format("{} ulp", op.max_ulp);
}

}  // namespace

int main() {
  const auto& ops = all_ops();
  int differentiable = 0;
  for (const Op* op : ops) differentiable += op->vjp != nullptr;
  fmt::print(
      "# Operations\n\nPrinted from the op records by `./dev docs`; do not edit. {} records, {} of them "
      "differentiable. Everything else in the\n"
      "public headers is a composite of these. [math.md](math.md) has the largest errors of functions, measured "
      "against "
      "MPFR.\n\n",
      ops.size(), differentiable);
  for (OpKind kind : {OpKind::elementwise, OpKind::view, OpKind::reduction, OpKind::library, OpKind::creation}) {
    fmt::print(
        "## {}\n\n| op | what it gives | first operand | gradient | cpu:0 | gpu:0 | cpu:0 against ref:0 | ONNX | "
        "TensorFlow "
        "|\n|---|---|---|---|---|---|---|---|---|\n",
        name(kind));
    for (const Op* op : ops)
      if (op->kind == kind)
        fmt::print("| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", op->name, escaped(op->doc), dtypes(op->dtypes),
                   gradient(*op), cpu(*op), gpu(*op), tolerance(*op), op->exported.onnx, op->exported.tensorflow);
    fmt::print("\n");
  }
  fmt::print("Next: [Platforms](platforms.md)\n");
}
