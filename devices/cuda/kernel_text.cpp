#include "rill/devices/cuda/kernel_text.h"

#include <fmt/format.h>

#include "rill/tensor/error.h"

namespace rill::cuda {

using kernel::Code;
using kernel::Input;
using kernel::Inst;
using kernel::Kernel;

namespace {

std::string_view type_name(DType d) { return d == DType::boolean ? "bool" : name(d); }

std::string constant_text(const Inst& i) {
  if (i.type == DType::boolean) return (i.imm & 0xff) != 0 ? "true" : "false";
  if (is_floating(i.type))
    return fmt::format("rill::same_bits<{}>(u{}(0x{:x}ull))", name(i.type), 8 * size_of(i.type), i.imm);
  return fmt::format("{}(0x{:x}ull)", name(i.type), i.imm);
}

// Operand `k`'s value at this point: at[k] is its offset in bytes, or numbers.
std::string input_text(const Kernel& kernel, const Inst& i) {
  const Input& in = kernel.inputs[i.imm];
  if (kernel::is_number(in.kind)) return fmt::format("(i64)(s.base[{}] + at{})", i.imm, i.imm);
  return fmt::format("rill::Stored<{}>::load(s.base[{}] + at{})", type_name(in.dtype), i.imm, i.imm);
}

// The prelude's function for a code; C++ reserves the words and, or, xor and not.
std::string_view function_name(Code c) {
  switch (c) {
    case Code::bit_and: return "bit_and";
    case Code::bit_or: return "bit_or";
    case Code::bit_xor: return "bit_xor";
    case Code::bit_not: return "bit_not";
    default: return kernel::name(c);
  }
}

constexpr std::string_view rare[] = {"Sin", "Cos", "Tan", "Lgamma", "Digamma"};  // by Patch

std::string inst_text(const Kernel& kernel, const Inst& i) {
  const auto value = [&](int k) { return fmt::format("v{}", i.in[k]); };
  switch (i.code) {
    case Code::input: return input_text(kernel, i);
    case Code::constant: return constant_text(i);
    case Code::bitcast: return fmt::format("rill::same_bits<{}>({})", type_name(i.type), value(0));
    case Code::convert: return fmt::format("rill::Convert<{}>::of({})", type_name(i.type), value(0));
    // A cast of what does not fit may give any value, but must not be undefined.
    case Code::to_int: return fmt::format("rill::Convert<{}>::of({})", type_name(i.type), value(0));
    case Code::to_float: return fmt::format("({}){}", type_name(i.type), value(0));
    case Code::shl:
    case Code::shr: return fmt::format("rill::{}({}, {})", function_name(i.code), value(0), i.imm);
    case Code::patch:
      return fmt::format("rill::rare<rill::scalar_math::{}>({}, {}, {})", rare[i.imm], value(0), value(1), value(2));
    default: break;
  }
  std::string text = fmt::format("rill::{}(", function_name(i.code));
  for (int k = 0; k < kernel::operand_count(i.code); ++k) text += (k ? ", " : "") + value(k);
  return text + ")";
}

void require_points(const Kernel& k, size_t operands) {
  if (operands > size_t(Space::most_operands))
    fail("cuda", fmt::format("a kernel has {} operands, and {} are the most", operands, Space::most_operands), Where());
  for (const Inst& i : k.body)
    if (kernel::is_reduction(i.code)) fail("cuda", "a kernel of points holds no reductions", Where());
  for (const kernel::Output& o : k.outputs)
    if (o.per_row || o.added) fail("cuda", "a kernel of points has outputs with an element for each point", Where());
}

}  // namespace

std::string kernel_text(const Kernel& k, std::string_view name) {
  const size_t operands = k.inputs.size() + k.outputs.size();
  require_points(k, operands);
  std::string text = fmt::format(R"(extern "C" __global__ void {}(const Space s) {{
  const i64 all = s.rows * s.n, threads = (i64)gridDim.x * blockDim.x;
  for (i64 q = (i64)blockIdx.x * blockDim.x + threadIdx.x; q < all; q += threads) {{
    i64 row = q / s.n;
    const i64 p = q - row * s.n;
)",
                                 name);
  for (size_t i = 0; i < operands; ++i) text += fmt::format("    i64 at{} = p * s.point[{}];\n", i, i);
  text += "    for (i64 a = s.axes; a-- > 0;) {\n      const i64 place = row % s.outer[a];\n      row /= s.outer[a];\n";
  for (size_t i = 0; i < operands; ++i) text += fmt::format("      at{} += place * s.stride[{}][a];\n", i, i);
  text += "    }\n";
  for (size_t i = 0; i < k.body.size(); ++i)
    text += fmt::format("    const {} v{} = {};\n", type_name(k.body[i].type), i, inst_text(k, k.body[i]));
  for (size_t i = 0; i < k.outputs.size(); ++i)
    text += fmt::format("    rill::store(s.base[{0}] + at{0}, v{1});\n", k.inputs.size() + i, k.outputs[i].value);
  return text + "  }\n}\n";
}

}  // namespace rill::cuda
