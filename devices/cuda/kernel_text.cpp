// A kernel as CUDA C++; see kernel_text.h. Start at kernel_text.
#include "rill/devices/cuda/kernel_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "rill/devices/fused.h"
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

constexpr std::string_view patch_names[] = {"Sin", "Cos", "Tan", "Lgamma", "Digamma"};  // by Patch

std::string inst_text(const Inst& i) {
  const auto value = [&](int k) { return fmt::format("v{}", i.in[k]); };
  switch (i.code) {
    case Code::constant: return constant_text(i);
    case Code::bitcast: return fmt::format("rill::same_bits<{}>({})", type_name(i.type), value(0));
    case Code::convert: return fmt::format("rill::Convert<{}>::of({})", type_name(i.type), value(0));
    // A cast of an out-of-range number may give any value, but must not be undefined.
    case Code::to_int: return fmt::format("rill::Convert<{}>::of({})", type_name(i.type), value(0));
    case Code::to_float: return fmt::format("({}){}", type_name(i.type), value(0));
    case Code::shl:
    case Code::shr: return fmt::format("rill::{}({}, {})", function_name(i.code), value(0), i.imm);
    case Code::patch:
      return fmt::format("rill::patch<rill::scalar_math::{}>({}, {}, {})", patch_names[i.imm], value(0), value(1),
                         value(2));
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

// The number of passes over the row after which a value is known; a reduction is computed by the pass before.
std::vector<int> passes_of(const Kernel& k) {
  std::vector<int> pass(k.body.size());
  for (size_t i = 0; i < k.body.size(); ++i) {
    for (int j = 0; j < kernel::operand_count(k.body[i].code); ++j)
      pass[i] = std::max(pass[i], pass[size_t(k.body[i].in[j])]);
    pass[i] += kernel::is_reduction(k.body[i].code);
  }
  return pass;
}

// For each pass over the row, which values it computes for each point: its folds or, in the last one, its outputs, and
// their operands.
using Needed = std::vector<std::vector<bool>>;
Needed needed_by_pass(const Kernel& k, const std::vector<int>& pass, const std::vector<bool>& row_level, int passes) {
  Needed all;
  for (int p = 0; p <= passes; ++p) {
    std::vector<bool>& needed = all.emplace_back(k.body.size());
    for (size_t i = 0; i < k.body.size(); ++i)
      if (kernel::is_reduction(k.body[i].code) && pass[i] == p + 1) needed[size_t(k.body[i].in[0])] = true;
    for (const kernel::Output& o : k.outputs)
      if (p == passes && !o.per_row) needed[size_t(o.value)] = true;
    for (size_t i = k.body.size(); i-- > 0;)
      for (int j = 0; needed[i] && !row_level[i] && j < kernel::operand_count(k.body[i].code); ++j)
        needed[size_t(k.body[i].in[j])] = true;
    for (size_t i = 0; i < needed.size(); ++i) needed[i] = needed[i] && !row_level[i];
  }
  return all;
}
bool is_load(const Kernel& k, size_t i) {
  return k.body[i].code == Code::input && !kernel::is_number(k.inputs[k.body[i].imm].kind);
}
// Whether instruction i loads what more than one pass needs.
bool is_kept(const Kernel& k, const Needed& needed, size_t i) {
  return is_load(k, i) && std::count_if(needed.begin(), needed.end(), [&](const auto& n) { return n[i]; }) > 1;
}

RowPasses passes_in(const Kernel& k, const std::vector<int>& pass) {
  RowPasses r;
  for (size_t i = 0; i < k.body.size(); ++i)
    if (kernel::is_reduction(k.body[i].code)) ++r.folds, r.passes = std::max(r.passes, pass[i]);
  for (const kernel::Output& o : k.outputs) (o.per_row ? r.stores_rows : r.stores_points) = true;
  const Needed needed = needed_by_pass(k, pass, kernel::row_level(k), r.passes);
  for (size_t i = 0; i < k.body.size(); ++i)
    if (is_kept(k, needed, i)) r.kept_bytes += int(size_of(k.inputs[k.body[i].imm].dtype));
  return r;
}

class Writer {
 public:
  explicit Writer(const Kernel& k, RowVariant variant = {})
      : k_(k),
        variant_(variant),
        row_level_(kernel::row_level(k)),
        operands_(k.inputs.size() + k.outputs.size()),
        all_operands_(operand_count(k)),
        pass_(passes_of(k)),
        passes_(passes_in(k, pass_)),
        needed_(needed_by_pass(k, pass_, row_level_, passes_.passes)) {
    require_known(k, all_operands_);
  }

  std::string points(std::string_view name) {
    open(name, "Space");
    line("const u32 all = u32(s.rows * s.n), n = u32(s.n), threads = gridDim.x * blockDim.x;");
    line("const u32 first = blockIdx.x * blockDim.x + threadIdx.x;");
    line("u32 done = 0;");
    if (const int count = pack_size(); count > 1) packed_points(count);
    begin("for (u32 q = done + first; q < all; q += threads)");
    line("const u32 row = q / n;");
    line("const i64 p = q - row * n;");
    offsets();
    for (size_t i = 0; i < k_.body.size(); ++i) value(i, row_level_[i] ? "" : " + p * s.point");
    for (size_t o = 0; o < k_.outputs.size(); ++o) store(o, " + p * s.point");
    return close();
  }

  // A block finds its run and computes block_points of its points.
  std::string runs(std::string_view name) {
    of_runs_ = true;
    open(name, "Runs");
    const size_t words = Runs::words_of_run(all_operands_);
    line(fmt::format("const int at = {} * rill::run_of_block(s, {});", words, words));
    line("const u32 n = u32(i64(s.word[at + 1]));");
    line(fmt::format("const u32 first = (blockIdx.x - u32(i64(s.word[at]))) * {};", Runs::block_points));
    line(fmt::format("const u32 end = n - first < {0} ? n : first + {0};", Runs::block_points));
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (row_level_[i]) value(i, "");
    begin("for (u32 q = first + threadIdx.x; q < end; q += blockDim.x)");
    line("const i64 p = q;");
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (!row_level_[i]) value(i, " + p * s.point");
    for (size_t o = 0; o < k_.outputs.size(); ++o) store(o, " + p * s.point");
    return close();
  }

  std::string rows(std::string_view name) {
    open(name, "RowSpace");
    line("__shared__ u64 shared[8][32];");
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (keeps(i)) line(fmt::format("__shared__ {} kept{}[{}];", name_of_input(i), i, 1024 * variant_.keeping_warps));
    line("const rill::RowLoop me(s);");
    if (is_kept_variant()) line("const int mine = threadIdx.x / 32 * 1024 + me.lane;");
    begin("for (i64 tile = me.first; tile < me.tiles; tile += me.stride)");
    line("const rill::RowTile t(s, me, tile);");
    line("const u32 row = u32(t.row);");
    offsets();
    const RowPasses& r = passes_;
    for (int pass = 0; pass <= r.passes; ++pass) {
      for (size_t i = 0; i < k_.body.size(); ++i)
        if (row_level_[i] && pass_[i] == pass && !kernel::is_reduction(k_.body[i].code)) value(i, "");
      if (pass < r.passes) fold(pass);
    }
    if (r.stores_points) {
      begin(fmt::format("if (s.step < 0 || s.step == {})", 2 * r.passes));
      walk(r.passes);
      end();
    }
    if (r.stores_rows) {
      // Stores may be where other threads have read a number of the row.
      line("if (s.warps > 1) __syncthreads();");
      line("else __syncwarp();");
      begin(fmt::format("if ((s.step < 0 || s.step == {}) && t.in_range && me.lane == 0 && me.warp == 0)",
                        r.stores_points ? 2 * r.passes + 1 : 2 * r.passes - 1));
      for (size_t o = 0; o < k_.outputs.size(); ++o)
        if (k_.outputs[o].per_row) store(o, "");
      end();
    }
    return close();
  }

 private:
  bool folds_in(int pass, size_t i) const { return kernel::is_reduction(k_.body[i].code) && pass_[i] == pass + 1; }
  std::string fold_type(size_t i) const {
    return fmt::format("{0}, rill::{1}<{0}>", name_of(i), fold_name(k_.body[i].code));
  }

  // The reductions that a pass over the row computes, or a step of it.
  void fold(int pass) {
    std::vector<size_t> folds;
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (folds_in(pass, i)) folds.push_back(i);
    for (const size_t i : folds) line(fmt::format("{} v{};", name_of(i), i));
    const bool is_last = pass + 1 == passes_.passes;
    const int first = numbered_;  // of the folds, in the order of the passes
    numbered_ += int(folds.size());
    const auto each = [&](const char* text) {
      for (size_t j = 0; j < folds.size(); ++j)
        line(fmt::format(fmt::runtime(text), fmt::arg("i", folds[j]), fmt::arg("type", name_of(folds[j])),
                         fmt::arg("fold", fold_type(folds[j])), fmt::arg("number", first + int(j))));
    };
    if (is_kept_variant()) {
      walk(pass);
      each("if (s.warps > 1) v{i} = rill::join_warps<{fold}>(v{i}, shared, t.warps);");
      each("v{i} = rill::join_lanes<{fold}>(v{i}, s);");
    } else {
      begin(fmt::format("if (s.step < 0 || s.step == {})", 2 * pass));
      each("rill::PairwiseFold<{fold}> blocks{i};");
      walk(pass);
      each("v{i} = blocks{i}.result();");
      each("if (s.warps > 1) v{i} = rill::join_warps<{fold}>(v{i}, shared, t.warps);");
      begin(fmt::format("if (s.step == {})", 2 * pass));
      each("rill::keep_part(s, {number}, t, v{i});");
      line("continue;");
      end();
      each("v{i} = rill::join_lanes<{fold}>(v{i}, s);");
      next(fmt::format("else if (s.step == {})", 2 * pass + 1));
      each("v{i} = rill::join_parts<{fold}>(s, {number}, t.row, shared);");
      if (!is_last) line("continue;");
      next("else");
      each("v{i} = *RILL_AT((const {type}*)rill::total<{type}>(s, {number}, t.row));");
      end();
    }
    for (const size_t i : folds)
      if (k_.body[i].code == Code::reduce_sum_where)
        line(fmt::format("if (!v{}) v{} = {}(0);", k_.body[i].in[1], i, name_of(i)));
  }

  bool is_load(size_t i) const { return cuda::is_load(k_, i); }
  // Then a warp has no more points than a block of the tree.
  bool is_kept_variant() const { return variant_.keeping_warps > 0; }
  bool keeps(size_t i) const { return is_kept_variant() && is_kept(k_, needed_, i); }

  void begin_folds(int pass) {
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (folds_in(pass, i))
        line(fmt::format("{} fold{} = rill::{}<{}>::identity();", name_of(i), i, fold_name(k_.body[i].code),
                         name_of(i)));
  }
  // The values of point p, whose loads are in[j], and their folds.
  void fold_point(int pass) {
    for (size_t i = 0; i < k_.body.size(); ++i) {
      if (!needed_[size_t(pass)][i]) continue;
      if (is_load(i)) line(fmt::format("const {} v{} = in{}[j];", name_of(i), i, i));
      else value(i, " + p * s.point");
    }
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (folds_in(pass, i))
        line(fmt::format("fold{0} = rill::{1}<{2}>::of(fold{0}, v{3});", i, fold_name(k_.body[i].code), name_of(i),
                         k_.body[i].in[0]));
  }

  // Iterates over the points, a block of the tree at a time. A lane loads the operands of its next points before it
  // computes the first, so that several loads are in flight.
  void walk(int pass) {
    if (variant_.dense) return walk_dense(pass);
    const std::vector<bool>& needed = needed_[size_t(pass)];
    const auto count = std::count(needed.begin(), needed.end(), true);
    const int ahead = count <= 24 ? 4 : count <= 64 ? 2 : 1;
    begin("for (i64 block = t.begin; block < t.end; block += 1024)");
    line("const i64 stop = block + 1024 < t.end ? block + 1024 : t.end;");
    begin_folds(pass);
    begin(fmt::format("for (i64 first = block + me.lane; first < stop; first += {})", 32 * ahead));
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (needed[i] && is_load(i)) line(fmt::format("{} in{}[{}];", name_of_input(i), i, ahead));
    line("#pragma unroll");
    begin(fmt::format("for (int j = 0; j < {}; ++j)", ahead));
    begin("if (first + 32 * j < stop)");
    line("const i64 p = first + 32 * j;");
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (needed[i] && is_load(i))
        line(fmt::format("in{}[j] = rill::Stored<{}>::load({});", i, name_of_input(i),
                         address(k_.body[i].imm, " + p * s.point")));
    end();
    end();
    line("#pragma unroll");
    begin(fmt::format("for (int j = 0; j < {}; ++j)", ahead));
    begin("if (first + 32 * j < stop)");
    line("const i64 p = first + 32 * j;");
    fold_point(pass);
    for (size_t o = 0; pass == passes_.passes && o < k_.outputs.size(); ++o)
      if (!k_.outputs[o].per_row) store(o, " + p * s.point");
    for (int open = 0; open < 3; ++open) end();
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (folds_in(pass, i)) line(fmt::format("blocks{0}.push(fold{0});", i));
    end();
  }

  // The same where neighbouring points are neighbours in memory: addresses are a pointer and a constant, and only the last
  // points of a block are compared with its end.
  void walk_dense(int pass) {
    int count = 0;  // of instructions; a patch is a function
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (needed_[size_t(pass)][i]) count += k_.body[i].code == Code::patch ? 40 : 1;
    const int ahead = count <= 32 ? 8 : count <= 96 ? 4 : count <= 200 ? 2 : 1;
    begin(is_kept_variant() ? "" : "for (i64 block = t.begin; block < t.end; block += 1024)");
    if (is_kept_variant()) line("const i64 block = t.begin;");
    line("const int left = int(t.end - block < 1024 ? t.end - block : 1024) - me.lane;");
    begin_folds(pass);
    for (size_t k = 0; k < operands_; ++k)
      if (moves_in(pass, k))
        line(fmt::format("char* from{} = {} + (block + me.lane) * i64(sizeof({}));", k, address(k, ""),
                         operand_type(k)));
    line("int c = 0;");
    if (ahead > 1) {
      begin(fmt::format("for (; c + {} < left; c += {})", 32 * (ahead - 1), 32 * ahead));
      some_points(pass, ahead);
      end();
    }
    line("#pragma unroll 1");
    begin("for (; c < left; c += 32)");
    some_points(pass, 1);
    end();
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (folds_in(pass, i))
        line(fmt::format(fmt::runtime(is_kept_variant() ? "v{0} = fold{0};" : "blocks{0}.push(fold{0});"), i));
    end();
  }
  // `ahead` points of a lane, the first of them c after its first one of the block.
  void some_points(int pass, int ahead) {
    const std::vector<bool>& needed = needed_[size_t(pass)];
    const auto each = [&] {
      line("#pragma unroll");
      begin(fmt::format("for (int j = 0; j < {}; ++j)", ahead));
    };
    for (size_t i = 0; i < k_.body.size(); ++i) {
      if (!needed[i] || !is_load(i)) continue;
      line(fmt::format("{} in{}[{}];", name_of_input(i), i, ahead));
      each();
      line(was_kept_before(pass, i)
               ? fmt::format("in{0}[j] = kept{0}[mine + c + 32 * j];", i)
               : fmt::format("in{}[j] = rill::Stored<{}>::load({});", i, name_of_input(i), place(k_.body[i].imm)));
      end();
      if (!keeps(i) || was_kept_before(pass, i)) continue;
      each();
      line(fmt::format("kept{0}[mine + c + 32 * j] = in{0}[j];", i));
      end();
    }
    each();
    line("const i64 p = block + me.lane + c + 32 * j;");
    fold_point(pass);
    for (size_t o = 0; pass == passes_.passes && o < k_.outputs.size(); ++o)
      if (!k_.outputs[o].per_row)
        line(fmt::format("rill::store({}, v{});", place(k_.inputs.size() + o), k_.outputs[o].value));
    end();
  }
  // Whether a pass finds an input where an earlier one has kept it.
  bool was_kept_before(int pass, size_t i) const {
    return keeps(i) && std::any_of(needed_.begin(), needed_.begin() + pass, [&](const auto& n) { return n[i]; });
  }
  // Whether a pass loads or stores points of an operand.
  bool moves_in(int pass, size_t operand) const {
    if (operand >= k_.inputs.size()) return pass == passes_.passes && !k_.outputs[operand - k_.inputs.size()].per_row;
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (needed_[size_t(pass)][i] && is_load(i) && k_.body[i].imm == operand && !was_kept_before(pass, i)) return true;
    return false;
  }
  std::string_view operand_type(size_t k) const {
    return type_name(k < k_.inputs.size() ? k_.inputs[k].dtype : k_.outputs[k - k_.inputs.size()].dtype);
  }
  std::string place(size_t operand) const {
    return fmt::format("from{} + (c + 32 * j) * int(sizeof({}))", operand, operand_type(operand));
  }

  // How many neighbouring points a thread computes at once if operands are dense: 16 bytes of the largest ones, or
  // fewer if the kernel is so long that loads matter less, and compiling it several times over would take long.
  int pack_size() const {
    size_t largest = 1;
    for (const Input& i : k_.inputs)
      if (!kernel::is_number(i.kind)) largest = std::max(largest, size_of(i.dtype));
    for (const kernel::Output& o : k_.outputs) largest = std::max(largest, size_of(o.dtype));
    size_t count = std::min<size_t>(8, 16 / largest), instructions = 0;
    for (const Inst& i : k_.body) instructions += i.code == Code::patch ? 1000 : 1;
    while (count > 1 && count * instructions > 512) count /= 2;
    return int(count);
  }

  // The loop over packs. `done` counts the points computed: all but the last few of a single row.
  void packed_points(int count) {
    std::string dense = fmt::format("(s.axes == 0 || n % {} == 0)", count);
    for (size_t i = 0; i < k_.inputs.size(); ++i)
      if (!kernel::is_number(k_.inputs[i].kind) && !kernel::is_row_level(k_.inputs[i].kind))
        dense += fmt::format(" && (s.point[{0}] == 0 || rill::is_packed<{1}, {2}>(s, {0}))", i,
                             type_name(k_.inputs[i].dtype), count);
    for (size_t o = 0; o < k_.outputs.size(); ++o)
      dense += fmt::format(" && rill::is_packed<{}, {}>(s, {})", type_name(k_.outputs[o].dtype), count,
                           k_.inputs.size() + o);
    const auto whole_blocks = [&](size_t i) { return is_words(k_.inputs[i]) && count % 2 == 0; };
    for (size_t i = 0; i < k_.inputs.size(); ++i)
      if (whole_blocks(i)) dense += fmt::format(" && rill::counts_blocks<{}>(s, {})", count, i);
    begin(fmt::format("if ({})", dense));
    begin(fmt::format("for (u32 q = first; q < all / {}; q += threads)", count));
    line(fmt::format("const u32 point = q * {}, row = s.axes == 0 ? 0 : point / n;", count));
    line("const i64 start = point - row * n;");
    offsets();
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (row_level_[i]) value(i, "");
    const auto moving = [&](size_t i) { return is_load(i) && !row_level_[i]; };
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (moving(i))
        line(fmt::format("const rill::Pack<{0}, {1}> in{2} = rill::load_pack<{0}, {1}>({3}, s.point[{4}] != 0);",
                         name_of_input(i), count, i, address(k_.body[i].imm, " + start * s.point"), k_.body[i].imm));
    const auto drawn = [&](size_t i) { return k_.body[i].code == Code::input && whole_blocks(k_.body[i].imm); };
    for (size_t i = 0; i < k_.body.size(); ++i)
      if (drawn(i))
        line(fmt::format("const rill::Words<{0}> in{1} = rill::random_words<{0}>({2});", count, i,
                         words_of(k_.body[i].imm, " + start * s.point")));
    for (size_t o = 0; o < k_.outputs.size(); ++o)
      line(fmt::format("rill::Pack<{}, {}> out{};", type_name(k_.outputs[o].dtype), count, o));
    line("#pragma unroll");
    begin(fmt::format("for (int j = 0; j < {}; ++j)", count));
    line("const i64 p = start + j;");
    for (size_t i = 0; i < k_.body.size(); ++i) {
      if (row_level_[i]) continue;
      if (moving(i)) line(fmt::format("const {0} v{1} = rill::element<{0}>(in{1}.v[j]);", name_of(i), i));
      else if (drawn(i)) line(fmt::format("const u32 v{0} = in{0}.v[j];", i));
      else value(i, " + p * s.point");
    }
    for (size_t o = 0; o < k_.outputs.size(); ++o) line(fmt::format("out{}.v[j] = v{};", o, k_.outputs[o].value));
    end();
    for (size_t o = 0; o < k_.outputs.size(); ++o)
      line(fmt::format("rill::store_pack({}, out{});", address(k_.inputs.size() + o, " + start * s.point"), o));
    end();
    line(fmt::format("done = all / {0} * {0};", count));
    end();
  }

  static std::string_view fold_name(Code c) {
    switch (c) {
      case Code::reduce_sum:
      case Code::reduce_sum_where: return "Sum";
      case Code::reduce_prod: return "Prod";
      case Code::reduce_min: return "Min";
      default: return "Max";
    }
  }
  std::string_view name_of(size_t i) const { return type_name(k_.body[i].type); }
  std::string_view name_of_input(size_t i) const { return type_name(k_.inputs[k_.body[i].imm].dtype); }

  // The offset at which the row's points start in each operand.
  void offsets() {
    for (size_t i = 0; i < operands_; ++i) line(fmt::format("i64 at{} = 0;", i));
    line("u32 left = row;");
    begin("for (int a = int(s.axes); a-- > 0;)");
    line("const u32 size = u32(s.outer[a]);");
    line("const i64 index = left % size;");
    line("left /= size;");
    for (size_t i = 0; i < operands_; ++i) line(fmt::format("at{0} += index * s.stride[{0}][a];", i));
    end();
  }
  std::string base(size_t operand) const {
    return of_runs_ ? fmt::format("s.word[at + {}]", operand + 2) : fmt::format("s.base[{}]", operand);
  }
  // For random words the key, and the number of a point's word.
  std::string words_of(size_t input, std::string_view point) const {
    const auto before = std::count_if(k_.inputs.begin(), k_.inputs.begin() + long(input), is_words);
    return fmt::format("{}, (i64)({}) - {}", base(operands_ + size_t(before)), address(input, point),
                       FusedKernel::counter_base);
  }
  // `point` is a point's distance from the start of the row: "", or a stride of `s` by operand.
  std::string address(size_t operand, std::string_view point) const {
    const std::string begin = of_runs_ ? base(operand) : fmt::format("{} + at{}", base(operand), operand);
    return begin + (point.empty() ? "" : fmt::format("{}[{}]", point, operand));
  }
  void value(size_t i, std::string_view point) {
    const Inst& inst = k_.body[i];
    std::string text;
    if (inst.code == Code::input) {
      const Input& in = k_.inputs[inst.imm];
      const std::string at = address(inst.imm, kernel::is_row_level(in.kind) ? "" : point);
      text = is_words(in)                 ? "rill::random_word(" + words_of(inst.imm, point) + ")"
             : kernel::is_number(in.kind) ? "(i64)(" + at + ")"
                                          : fmt::format("rill::Stored<{}>::load({})", type_name(in.dtype), at);
    } else {
      text = inst_text(inst);
    }
    line(fmt::format("const {} v{} = {};", name_of(i), i, text));
  }
  void store(size_t output, std::string_view point) {
    line(fmt::format("rill::store({}, v{});", address(k_.inputs.size() + output, point), k_.outputs[output].value));
  }

  void open(std::string_view name, std::string_view params) { begin(fmt::format("RILL_KERNEL({}, {})", name, params)); }
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
  void next(const std::string& head) {
    --depth_;
    begin("} " + head);
  }

  const Kernel& k_;
  const RowVariant variant_;
  const std::vector<bool> row_level_;
  const size_t operands_, all_operands_;  // without and with the keys of random words
  std::vector<int> pass_;                 // by instruction
  RowPasses passes_;
  Needed needed_;
  std::string text_;
  int depth_ = 0, numbered_ = 0;
  bool of_runs_ = false;  // the parameter is a Runs
};

}  // namespace

bool is_words(const Input& in) { return in.kind == Input::Kind::counter && in.dtype == DType::u32; }

size_t operand_count(const Kernel& k) {
  return k.inputs.size() + k.outputs.size() + size_t(std::count_if(k.inputs.begin(), k.inputs.end(), is_words));
}

bool takes_rows(const Kernel& k) {
  return std::any_of(k.body.begin(), k.body.end(), [](const Inst& i) { return kernel::is_reduction(i.code); }) ||
         std::any_of(k.outputs.begin(), k.outputs.end(), [](const kernel::Output& o) { return o.per_row; });
}

RowPasses row_passes(const Kernel& k) { return passes_in(k, passes_of(k)); }

RowSpace cut_rows(const Space& rows, const RowPasses& passes, int processors) {
  constexpr int64_t block_points = 1024, warps = 8;  // points of the tree's blocks; warps of a block of threads
  RowSpace s{rows};
  s.piece = s.n;
  if (s.n <= 16) s.lanes = int64_t(std::bit_ceil(uint64_t(std::max<int64_t>(s.n, 1))));
  if (s.n <= 2 * block_points || s.rows >= int64_t(processors) * 16) return s;
  const auto pieces = [&] { return (s.n + s.piece - 1) / s.piece; };
  s.warps = warps;
  s.piece = warps * block_points;
  // A block for each row; if that leaves multiprocessors idle, about four pieces for each.
  const int64_t wanted = passes.folds > 0 && s.rows < processors ? int64_t(processors) * 4 : s.rows;
  while (s.rows * pieces() > wanted && pieces() > 1) s.piece *= 2;
  s.pieces = pieces();
  return s;
}

RowVariant row_variant(const Kernel& k, const RowPasses& passes, const Space& s) {
  constexpr int64_t short_row = 256, longest_kept = 8192;
  constexpr int most_bytes = 40 << 10;
  RowVariant v;
  const auto is_dense = [&](size_t operand, DType d) { return s.point[operand] == int64_t(size_of(d)); };
  for (size_t i = 0; i < k.inputs.size(); ++i)
    if (!kernel::is_number(k.inputs[i].kind) && !kernel::is_row_level(k.inputs[i].kind) &&
        !is_dense(i, k.inputs[i].dtype))
      return v;
  for (size_t o = 0; o < k.outputs.size(); ++o)
    if (!k.outputs[o].per_row && !is_dense(k.inputs.size() + o, k.outputs[o].dtype)) return v;
  if (s.n <= short_row) return v;
  v.dense = true;
  const int warps = s.n <= longest_kept / 2 ? 4 : 8;
  if (passes.kept_bytes > 0 && s.n <= longest_kept && warps * 1024 * passes.kept_bytes <= most_bytes)
    v.keeping_warps = warps;
  return v;
}

RowSpace cut_kept_rows(const Space& rows) {
  RowSpace s{rows};
  s.warps = (s.n + 1023) / 1024;
  s.piece = s.warps > 1 ? 8192 : s.n;
  return s;
}

std::string kernel_text(const Kernel& k, std::string_view name, RowVariant v) {
  Writer w(k, v);
  return takes_rows(k) ? w.rows(name) : w.points(name);
}

std::string text_of_runs(const Kernel& k, std::string_view name) { return Writer(k).runs(name); }

}  // namespace rill::cuda
