// Prints and verifies kernels; the table of scalar functions that they call.
#include "rill/devices/kernel/ir.h"

#include <fmt/format.h>

#include <array>

#include "rill/devices/kernel/math/math_scalar.h"
#include "rill/tensor/error.h"

namespace rill::kernel {

namespace {

struct CodeInfo {
  std::string_view name;
  int operands;
};
constexpr CodeInfo info[] = {
    {"input", 0},       {"constant", 0},   {"add", 2},        {"sub", 2},        {"mul", 2},         {"div", 2},
    {"and", 2},         {"or", 2},         {"xor", 2},        {"eq", 2},         {"ne", 2},          {"lt", 2},
    {"le", 2},          {"gt", 2},         {"ge", 2},         {"min", 2},        {"max", 2},         {"copysign", 2},
    {"scale", 2},       {"mul_high", 2},   {"quotient", 2},   {"shift_left", 2}, {"shift_right", 2}, {"neg", 1},
    {"not", 1},         {"abs", 1},        {"sqrt", 1},       {"floor", 1},      {"ceil", 1},        {"trunc", 1},
    {"round_even", 1},  {"bitcast", 1},    {"convert", 1},    {"to_int", 1},     {"to_float", 1},    {"shl", 1},
    {"shr", 1},         {"select", 3},     {"fma", 3},        {"clamp", 3},      {"patch", 3},       {"reduce_sum", 1},
    {"reduce_prod", 1}, {"reduce_max", 1}, {"reduce_min", 1}, {"reduce_top", 1}, {"sum_where", 2},
};
static_assert(std::size(info) == code_count);

template <class F, class T>
void patch_numbers(size_t n, const uint8_t* flag, T* y, const T* x) {
  for (size_t i = 0; i < n; ++i)
    if (flag[i]) y[i] = F::call(x[i]);
}
template <class F>
constexpr PatchF32 patch_f32 = patch_numbers<F, float>;
template <class F>
constexpr PatchF64 patch_f64 = patch_numbers<F, double>;

constexpr std::string_view input_kinds[] = {"dense", "uniform", "counter", "coordinate"};

bool is_float(DType d) { return d == DType::f32 || d == DType::f64; }

}  // namespace

std::string_view name(Code c) { return info[int(c)].name; }
int operand_count(Code c) { return info[int(c)].operands; }
std::string_view name(Patch p) {
  constexpr std::string_view names[] = {"sin", "cos", "tan", "lgamma", "digamma"};
  static_assert(std::size(names) == patch_count);
  return names[int(p)];
}

std::span<const void* const> patch_table() {
  using namespace scalar_math;
  static const std::array<const void*, size_t(2 * patch_count)> table = {
#define RILL_BOTH(F) reinterpret_cast<const void*>(patch_f32<F>), reinterpret_cast<const void*>(patch_f64<F>)
      RILL_BOTH(Sin), RILL_BOTH(Cos), RILL_BOTH(Tan), RILL_BOTH(Lgamma), RILL_BOTH(Digamma)
#undef RILL_BOTH
  };
  return table;
}

std::vector<bool> row_level(const Kernel& k) {
  std::vector<bool> row;
  for (const Inst& i : k.body) {
    bool level = true;
    if (i.code == Code::input) level = is_row_level(k.inputs[size_t(i.imm)].kind);
    else if (!is_reduction(i.code))
      for (int j = 0; j < operand_count(i.code); ++j) level = level && row[size_t(i.in[j])];
    row.push_back(level);
  }
  return row;
}

std::string to_string(const Kernel& k) {
  std::string s = k.streaming ? "kernel streaming\n" : "kernel\n";
  auto out = std::back_inserter(s);
  for (size_t i = 0; i < k.inputs.size(); ++i)
    fmt::format_to(out, "in {}: {} {}\n", i, name(k.inputs[i].dtype), input_kinds[int(k.inputs[i].kind)]);
  for (size_t i = 0; i < k.body.size(); ++i) {
    const Inst& inst = k.body[i];
    fmt::format_to(out, "%{} = {} {}", i, name(inst.code), name(inst.type));
    for (int j = 0; j < operand_count(inst.code); ++j) fmt::format_to(out, "{}%{}", j ? ", " : " ", inst.in[j]);
    if (inst.code == Code::constant) fmt::format_to(out, " {:#x}", inst.imm);
    else if (inst.code == Code::input) fmt::format_to(out, " {}", inst.imm);
    else if (inst.code == Code::patch) fmt::format_to(out, " {}", name(Patch(inst.imm)));
    else if (inst.code == Code::shl || inst.code == Code::shr) fmt::format_to(out, " {}", inst.imm);
    else if (inst.code == Code::scale && inst.imm != 0) s += " small";
    s += '\n';
  }
  for (size_t i = 0; i < k.outputs.size(); ++i)
    fmt::format_to(out, "out {}: {} %{}{}\n", i, name(k.outputs[i].dtype), k.outputs[i].value,
                   k.outputs[i].per_row ? " per row"
                   : k.outputs[i].added ? " added"
                                        : "");
  return s;
}

namespace {

// Why the types of instruction `i` do not fit its code, or "".
std::string_view type_fault(const Kernel& k, const Inst& i) {
  auto type = [&](int j) { return k.body[size_t(i.in[j])].type; };
  const bool half = is_half(i.type);
  switch (i.code) {
    case Code::input: return i.type == k.inputs[size_t(i.imm)].dtype ? "" : "the input has another dtype";
    case Code::constant: return half ? "constants are widened" : "";
    case Code::eq:
    case Code::ne:
    case Code::lt:
    case Code::le:
    case Code::gt:
    case Code::ge:
      return i.type == DType::boolean && type(0) == type(1) && !is_half(type(0)) ? "" : "compares two of one type";
    case Code::select:
      return type(0) == DType::boolean && type(1) == i.type && type(2) == i.type ? "" : "takes a mask and two values";
    case Code::patch:
      return is_float(i.type) && type(0) == DType::boolean && type(1) == i.type && type(2) == i.type
                 ? ""
                 : "takes a mask and two floats";
    case Code::bitcast: return size_of(i.type) == size_of(type(0)) ? "" : "keeps the size";
    case Code::convert: return "";
    case Code::to_int:
      return (i.type == DType::i32 && type(0) == DType::f32) || (i.type == DType::i64 && type(0) == DType::f64)
                 ? ""
                 : "takes f32 to i32, f64 to i64";
    case Code::to_float:
      return (i.type == DType::f32 && type(0) == DType::i32) || (i.type == DType::f64 && type(0) == DType::i64)
                 ? ""
                 : "takes i32 to f32, i64 to f64";
    case Code::reduce_sum_where:
      return type(0) == i.type && !half && type(1) == DType::boolean ? "" : "takes numbers and a mask";
    case Code::div:
    case Code::reduce_top:
    case Code::copysign:
    case Code::scale:
    case Code::sqrt:
    case Code::floor:
    case Code::ceil:
    case Code::trunc:
    case Code::round_even:
    case Code::fma:
      if (!is_float(i.type)) return "is for f32 and f64";
      break;
    case Code::mul_high:
      if (i.type != DType::u32) return "is for u32";
      break;
    case Code::quotient:
    case Code::shift_left:
    case Code::shift_right:
      if (!is_integer(i.type)) return "is for integers";
      break;
    default: break;
  }
  if (half) return "f16 and bf16 are widened";
  for (int j = 0; j < operand_count(i.code); ++j)
    if (type(j) != i.type) return "operands have the type of the result";
  return "";
}

}  // namespace

void verify(const Kernel& k) {
  auto reject = [&](std::string what) { fail("kernel", fmt::format("{}\n{}", what, to_string(k))); };
  for (const Input& i : k.inputs)
    if (is_number(i.kind) && i.dtype != DType::i64 && !(i.kind == Input::Kind::counter && i.dtype == DType::u32))
      reject("counters and coordinates are i64, or count random words (devices/cuda/kernel_text.h)");
  for (size_t n = 0; n < k.body.size(); ++n) {
    const Inst& i = k.body[n];
    for (int j = 0; j < operand_count(i.code); ++j)
      if (i.in[j] < 0 || size_t(i.in[j]) >= n) reject(fmt::format("%{} takes what is no earlier value", n));
    if (i.code == Code::input && i.imm >= k.inputs.size()) reject(fmt::format("%{} reads input {}", n, i.imm));
    if (i.code == Code::patch && i.imm >= uint64_t(patch_count)) reject(fmt::format("%{} calls function {}", n, i.imm));
    if ((i.code == Code::shl || i.code == Code::shr) && i.imm >= 8 * size_of(i.type))
      reject(fmt::format("%{} shifts by {}", n, i.imm));
    if (std::string_view fault = type_fault(k, i); !fault.empty())
      reject(fmt::format("%{} = {} {}", n, name(i.code), fault));
  }
  const std::vector<bool> row = row_level(k);
  for (const Inst& i : k.body)
    if (i.code == Code::reduce_sum_where && !row[size_t(i.in[1])]) reject("a sum's condition is not of the row level");
  for (const Output& o : k.outputs) {
    if (o.value < 0 || size_t(o.value) >= k.body.size()) reject(fmt::format("an output is %{}", o.value));
    if (o.dtype != k.body[size_t(o.value)].type) reject(fmt::format("output %{} has another dtype", o.value));
    if (o.per_row && !row[size_t(o.value)]) reject(fmt::format("output %{} is not of the row level", o.value));
    if (o.added && (o.per_row || !is_float(o.dtype))) reject(fmt::format("output %{} cannot be added", o.value));
  }
}

}  // namespace rill::kernel
