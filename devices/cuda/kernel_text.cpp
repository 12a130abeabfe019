// A kernel as CUDA C++; see kernel_text.h. Start at kernel_text.
#include "rill/devices/cuda/kernel_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

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

std::string inst_text(const Inst& i) {
  const auto value = [&](int k) { return fmt::format("v{}", i.in[k]); };
  switch (i.code) {
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

void require_known(const Kernel& k, size_t operands) {
  if (operands > size_t(Space::most_operands))
    fail("cuda", fmt::format("a kernel has {} operands, and {} are the most", operands, Space::most_operands), Where());
  for (const kernel::Output& o : k.outputs)
    if (o.added) fail("cuda", "sums over rows are not written for GPUs", Where());
}

class Writer {
 public:
  explicit Writer(const Kernel& k)
      : k_(k), row_level_(kernel::row_level(k)), operands_(k.inputs.size() + k.outputs.size()), pass_(k.body.size()) {
    require_known(k, operands_);
    number_passes();
  }

  std::string points(std::string_view name) {
    open(name);
    line("const i64 all = s.rows * s.n, threads = (i64)gridDim.x * blockDim.x;");
    begin("for (i64 q = (i64)blockIdx.x * blockDim.x + threadIdx.x; q < all; q += threads)");
    line("const i64 row = q / s.n, p = q - row * s.n;");
    offsets();
    for (size_t i = 0; i < k_.body.size(); ++i) value(i, row_level_[i] ? "" : " + p * s.point");
    for (size_t o = 0; o < k_.outputs.size(); ++o) store(o, " + p * s.point");
    return close();
  }

  std::string rows(std::string_view name) {
    open(name);
    line("const i64 warps = (i64)gridDim.x * blockDim.x / 32;");
    line("const int lane = threadIdx.x % 32;");
    begin("for (i64 row = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32; row < s.rows; row += warps)");
    offsets();
    const int passes = *std::max_element(pass_.begin(), pass_.end());
    for (int pass = 0; pass <= passes; ++pass) {
      for (size_t i = 0; i < k_.body.size(); ++i)
        if (row_level_[i] && pass_[i] == pass && !kernel::is_reduction(k_.body[i].code)) value(i, "");
      walk(pass, pass == passes);
    }
    for (size_t o = 0; o < k_.outputs.size(); ++o)
      if (k_.outputs[o].per_row) {
        begin("if (lane == 0)");
        store(o, "");
        end();
      }
    return close();
  }

 private:
  // A value is known after so many passes over the row; a reduction is computed by the pass before.
  void number_passes() {
    for (size_t i = 0; i < k_.body.size(); ++i) {
      for (int j = 0; j < kernel::operand_count(k_.body[i].code); ++j)
        pass_[i] = std::max(pass_[i], pass_[size_t(k_.body[i].in[j])]);
      pass_[i] += kernel::is_reduction(k_.body[i].code);
    }
  }

  // One pass over the row's points: folds what the next one needs, or stores.
  void walk(int pass, bool last) {
    std::vector<bool> needed(k_.body.size());
    bool any = false;
    const auto folds = [&](size_t i) { return kernel::is_reduction(k_.body[i].code) && pass_[i] == pass + 1; };
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (folds(i)) needed[size_t(k_.body[i].in[0])] = any = true;
    for (const kernel::Output& o : k_.outputs)
      if (last && !o.per_row) needed[size_t(o.value)] = any = true;
    if (!any) return;
    for (size_t i = k_.body.size(); i-- > 0;)
      for (int j = 0; needed[i] && !row_level_[i] && j < kernel::operand_count(k_.body[i].code); ++j)
        needed[size_t(k_.body[i].in[j])] = true;
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (folds(i))
        line(fmt::format("rill::Fold<{0}, rill::{1}<{0}>> fold{2};", name_of(i), fold_name(k_.body[i].code), i));
    begin("for (i64 p = lane; p < s.n; p += 32)");
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (needed[i] && !row_level_[i]) value(i, " + p * s.point");
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (folds(i)) line(fmt::format("fold{}.take(p, v{});", i, k_.body[i].in[0]));
    for (size_t o = 0; last && o < k_.outputs.size(); ++o)
      if (!k_.outputs[o].per_row) store(o, " + p * s.point");
    end();
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (folds(i)) line(fmt::format("const {} v{} = fold{}.finish(s.n, lane);", name_of(i), i, i));
  }

  static std::string_view fold_name(Code c) {
    return c == Code::reduce_sum ? "Sum" : c == Code::reduce_prod ? "Prod" : c == Code::reduce_max ? "Max" : "Min";
  }
  std::string_view name_of(size_t i) const { return type_name(k_.body[i].type); }

  // Where the row's points begin in each operand.
  void offsets() {
    for (size_t i = 0; i < operands_; ++i) line(fmt::format("i64 at{} = 0;", i));
    line("i64 left = row;");
    begin("for (i64 a = s.axes; a-- > 0;)");
    line("const i64 place = left % s.outer[a];");
    line("left /= s.outer[a];");
    for (size_t i = 0; i < operands_; ++i) line(fmt::format("at{0} += place * s.stride[{0}][a];", i));
    end();
  }
  // `point` says how far a point lies behind the row's begin: "", or a stride of `s` by operand.
  std::string address(size_t operand, std::string_view point) const {
    return fmt::format("s.base[{0}] + at{0}", operand) + (point.empty() ? "" : fmt::format("{}[{}]", point, operand));
  }
  void value(size_t i, std::string_view point) {
    const Inst& inst = k_.body[i];
    std::string text;
    if (inst.code == Code::input) {
      const Input& in = k_.inputs[inst.imm];
      const std::string at = address(inst.imm, kernel::is_row_level(in.kind) ? "" : point);
      text = kernel::is_number(in.kind) ? "(i64)(" + at + ")"
                                        : fmt::format("rill::Stored<{}>::load({})", type_name(in.dtype), at);
    } else {
      text = inst_text(inst);
    }
    line(fmt::format("const {} v{} = {};", name_of(i), i, text));
  }
  void store(size_t output, std::string_view point) {
    line(fmt::format("rill::store({}, v{});", address(k_.inputs.size() + output, point), k_.outputs[output].value));
  }

  void open(std::string_view name) { begin(fmt::format("RILL_KERNEL({}, Space)", name)); }
  std::string close() {
    while (depth_ > 0) end();
    return std::move(text_);
  }
  void line(const std::string& text) { text_ += std::string(size_t(2 * depth_), ' ') + text + "\n"; }
  void begin(const std::string& head) {
    line(head + " {");
    ++depth_;
  }
  void end() {
    --depth_;
    line("}");
  }

  const Kernel& k_;
  const std::vector<bool> row_level_;
  const size_t operands_;
  std::vector<int> pass_;  // by instruction
  std::string text_;
  int depth_ = 0;
};

}  // namespace

bool takes_rows(const Kernel& k) {
  return std::any_of(k.body.begin(), k.body.end(), [](const Inst& i) { return kernel::is_reduction(i.code); }) ||
         std::any_of(k.outputs.begin(), k.outputs.end(), [](const kernel::Output& o) { return o.per_row; });
}

std::string kernel_text(const Kernel& k, std::string_view name) {
  Writer w(k);
  return takes_rows(k) ? w.rows(name) : w.points(name);
}

}  // namespace rill::cuda
