// Chooses which nodes become one kernel; see fusion_groups.h. Start at Grouper::run.
#include "rill/trace/fusion/fusion_groups.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "rill/devices/driver.h"
#include "rill/devices/kernel/compiler.h"
#include "rill/devices/kernel/record.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/registry.h"
#include "rill/ops/op.h"

namespace rill {

extern const Op transpose_op;

namespace {

// Limits of nodes and instructions: beyond them compiling takes longer than it saves (it is quadratic; 4000 take a
// second), and a program that ends waits for the kernel that is being compiled.
constexpr size_t max_group_size = 400;
constexpr int largest_kernel = 4000;
// A patch, a call with all values alive, takes as long to compile as so many instructions
constexpr int patch_cost = 40;
constexpr int row_cost = 40;  // roughly the instructions of nodes that are not maps
// A reduction of so few rows keeps only one thread busy if each is so long; the library's reduction splits it. A GPU's
// row kernels do so themselves.
constexpr int64_t few_rows = 8, long_row = 1 << 16;
constexpr size_t max_gpu_operands = 24;      // operands of a kernel: what its parameters can hold there (kernel_text.h)
constexpr int64_t max_sum_length = 1 << 16;  // points of rows that are summed: each thread keeps several such rows

bool can_hold(DType d) { return d != DType::string && !is_complex(d) && !is_float8(d); }

std::vector<bool> reduced_axes(const Shape& in, const Node& n) {
  std::vector<bool> reduced(in.size(), false);
  for (int64_t a : n.attrs.as<ReduceParams>().axes) reduced[size_t(a)] = true;
  return reduced;
}

// The number of the input's long axes that a reduction folds, if they are the last ones; else 0.
int folded_axes(const Graph& g, const Node& n) {
  const Shape& in = g.spec(n.inputs[0]).shape;
  std::vector<bool> reduced = reduced_axes(in, n);
  int folded = 0;
  bool kept = false;
  int64_t rows = 1, length = 1;
  for (size_t i = in.size(); i-- > 0;) {
    if (in[i] == 1) continue;
    if (reduced[i] && kept) return 0;
    if (reduced[i]) ++folded, length *= in[i];
    else kept = true, rows *= in[i];
  }
  const bool splits = is_host(g.spec(n.inputs[0]).device) && rows < few_rows && length > long_row;
  return length == 0 || splits ? 0 : folded;
}

// The number of long axes that make a row of a row op, or 0.
int row_op_axes(const Graph& g, const Node& n) {
  const Spec& x = g.spec(n.inputs[0]);
  int rank = n.op->row_rank(x, n.attrs), folded = 0;
  for (int i = 0; i < rank; ++i) folded += x.shape[x.shape.size() - 1 - size_t(i)] != 1;
  if (n.op->row_sums) {
    int64_t length = 1;
    for (int i = 0; i < rank; ++i) length *= x.shape[x.shape.size() - 1 - size_t(i)];
    if (length > max_sum_length) return 0;
  }
  return x.shape.numel() == 0 ? 0 : folded;
}

// Whether a reduction reads a value that another kernel stored with its axes permuted. The library's reductions read it
// in place; a fused kernel would gather each row first, and could fuse nothing more.
bool folds_transposed(const Graph& g, const Node& n) {
  const Node& from = g.nodes()[size_t(access_of(g, n.inputs[0]).base.node)];
  return from.kind == Node::Kind::op && from.op == &transpose_op && is_host(from.outputs[0].device);
}

// The dtype in which kernels compute for tensors of this one.
DType widened(DType d) { return is_half(d) ? DType::f32 : d; }
// Records the arithmetic of a map node; null for other nodes.
RecordPoint record_of(const Graph& g, const Node& n) {
  return n.op->record_point ? n.op->record_point(widened(g.spec(n.inputs.back()).dtype)) : nullptr;
}

}  // namespace

Form form_of(const Graph& g, const Node& n) {
  if (n.kind != Node::Kind::op || n.op->view) return Form::none;
  for (const Spec& s : n.outputs)
    if (!can_hold(s.dtype) || !fuses(s.device)) return Form::none;
  for (ValueId v : n.inputs)
    if (!can_hold(g.spec(v).dtype)) return Form::none;
  if (n.op->generated == Generated::counts) return Form::make;
  if (n.op->generated == Generated::random_words)  // a single word is no row to fill
    return n.outputs[0].shape.numel() == 1 ? Form::none : Form::make;
  if (n.inputs.empty()) return Form::none;
  if (record_of(g, n)) return Form::map;
  if (n.op->fold) {
    if (!is_floating(g.spec(n.inputs[0]).dtype) || g.spec(n.inputs[0]).shape.numel() == n.outputs[0].shape.numel() ||
        folds_transposed(g, n))
      return Form::none;
    return folded_axes(g, n) > 0 ? Form::fold : Form::outer_fold;
  }
  if (n.op->record_row) return row_op_axes(g, n) > 0 ? Form::row : Form::none;
  return Form::none;
}

kernel::Kernel recorded(const Graph& g, const Node& n) {
  kernel::Recorder r;
  kernel::Recording recording(r);
  std::vector<int32_t> in;
  for (ValueId v : n.inputs) in.push_back(r.input({widened(g.spec(v).dtype), kernel::Input::Kind::dense}));
  record_of(g, n)(in.data());
  return std::move(r.kernel);
}

bool is_row_sum(const Graph& g, const FusionGroup& group, ValueId v) {
  const Node& n = g.nodes()[size_t(v.node)];
  return std::binary_search(group.sums.begin(), group.sums.end(), v.node) ||
         (n.kind == Node::Kind::op && n.op->row_sums >> v.index & 1);
}

bool is_row_level(const FusionGroup& group, const Node& n, size_t output) {
  return group.row_axes > 0 && long_sizes(n.outputs[output].shape) != group.space;
}

std::vector<int> operand_axes(const Graph& g, const Node& n, size_t i) {
  // Operands are aligned with the last axes of the shape that the member runs over, whose long axes are the first of
  // the space; or, if they have one number for each row, with its first axes.
  const Shape& operand = g.spec(n.inputs[i]).shape;
  const Shape& over = form_of(g, n) <= Form::make ? n.outputs[0].shape : g.spec(n.inputs[0]).shape;
  std::vector<int> space_axis;
  int next = 0;
  for (int64_t size : over) space_axis.push_back(size == 1 ? -1 : next++);
  std::vector<int> axes(operand.size(), -1);
  for (size_t a = 0; a < operand.size(); ++a)
    if (operand[a] != 1)
      axes[a] = space_axis[a + (i < 64 && n.op->row_numbers >> i & 1 ? 0 : over.size() - operand.size())];
  return axes;
}

bool FusionGroup::holds(int32_t node) const {
  return std::binary_search(nodes.begin(), nodes.end(), node) ||
         std::binary_search(repeated.begin(), repeated.end(), node);
}

namespace {

// Whether a kernel can read the operands of member `i`.
bool accesses_fit(const Graph& g, const FusionGroup& m, int32_t i) {
  const int split = int(m.space.size()) - m.row_axes;
  const Node& n = g.nodes()[size_t(i)];
  if (n.op->generated == Generated::counts && m.row_axes > 1) return false;  // it may count along a part of the row
  for (size_t j = 0; j < n.inputs.size(); ++j) {
    const Access s = access_of(g, n.inputs[j]);
    const bool inside = m.holds(s.base.node);
    if (form_of(g, n) == Form::make) {  // its operand is a key, not a point of the space
      if (inside) return false;
      continue;
    }
    const std::vector<int> to_space = operand_axes(g, n, j);
    // These only exist when all points are folded.
    if (s.base.node == m.outer_fold || (inside && is_row_sum(g, m, s.base))) return false;
    // Labels are checked before the kernel, in memory.
    if (int(j) == n.op->row_label && (inside || g.spec(s.base).shape.numel() != g.spec(n.inputs[j]).shape.numel()))
      return false;
    int next = 0, in_row = 0;
    for (int axis : s.axes) {
      if (axis < 0) continue;
      const int at = to_space[size_t(axis)];
      if (at < 0 || (inside && at != next++)) return false;
      in_row += at >= split;
    }
    if (m.row_axes > 0 && in_row != 0 && in_row != m.row_axes) return false;
  }
  return true;
}

// Whether all sums of rows accumulate in one dtype.
bool sums_fit(const Graph& g, const FusionGroup& group) {
  bool wide = false, narrow = false;
  for (int32_t i : group.sums) (g.spec(g.nodes()[size_t(i)].inputs[0]).dtype == DType::f64 ? wide : narrow) = true;
  for (int32_t i : group.nodes)
    if (const Node& n = g.nodes()[size_t(i)]; n.op->row_sums) (n.outputs[0].dtype == DType::f64 ? wide : narrow) = true;
  return !(wide && narrow);
}

}  // namespace

bool accesses_fit(const Graph& g, const FusionGroup& group) {
  auto fits = [&](int32_t i) { return accesses_fit(g, group, i); };
  return sums_fit(g, group) && std::all_of(group.nodes.begin(), group.nodes.end(), fits) &&
         std::all_of(group.repeated.begin(), group.repeated.end(), fits);
}

namespace {

constexpr int longest_search = 1 << 14;

class Grouper {
 public:
  explicit Grouper(const Graph& g) : g_(g), after_(control_dependencies(g)), group_(g.nodes().size(), -1) {}

  std::vector<FusionGroup> run() {
    for (int32_t i = 0; i < int32_t(g_.nodes().size()); ++i) {
      const Node& n = g_.nodes()[size_t(i)];
      const Form form = form_of(g_, n);
      kernel::throw_if_stopped();
      cuts_.push_back(i);
      if (form == Form::none) continue;
      FusionGroup own;
      own.nodes = {i};
      own.space = long_sizes(form <= Form::make ? n.outputs[0].shape : g_.spec(n.inputs[0]).shape);
      own.row_axes = form == Form::fold ? folded_axes(g_, n) : form == Form::row ? row_op_axes(g_, n) : 0;
      own.outer_fold = form == Form::outer_fold ? i : -1;
      own.makes = form == Form::make;
      own.instructions = form == Form::map ? instructions_of(n) : row_cost;
      group_[size_t(i)] = int(groups_.size());
      groups_.push_back(std::move(own));
      for (ValueId v : n.inputs) {
        const int from = group_[size_t(access_of(g_, v).base.node)];
        if (from >= 0) merge(from, group_[size_t(i)]);
      }
    }
    std::vector<FusionGroup> result;
    for (FusionGroup& group : groups_)
      if (group.nodes.size() > 1) result.push_back(std::move(group));
    return result;
  }

 private:
  // Once for each op and dtype.
  int instructions_of(const Node& n) {
    const auto [at, is_new] = instructions_.try_emplace({n.op, g_.spec(n.inputs.back()).dtype}, 1);
    if (is_new)
      for (const kernel::Inst& i : recorded(g_, n).body)
        at->second += i.code == kernel::Code::patch ? patch_cost : i.code != kernel::Code::input;
    return at->second;
  }

  // The merged group, or one without nodes if the index spaces do not match.
  FusionGroup merged(const FusionGroup& a, const FusionGroup& b) const {
    FusionGroup m;
    m.makes = a.makes || b.makes;
    m.instructions = a.instructions + b.instructions;
    auto rows_of = [](const FusionGroup& outer, const FusionGroup& inner) {
      return inner.row_axes > 0 && outer.row_axes == 0 && !outer.makes &&
             std::vector<int64_t>(inner.space.begin(), inner.space.end() - inner.row_axes) == outer.space;
    };
    if (a.space == b.space) {
      if (a.row_axes && b.row_axes && a.row_axes != b.row_axes) return m;
      m.space = a.space, m.row_axes = std::max(a.row_axes, b.row_axes);
    } else if (rows_of(a, b)) {
      m.space = b.space, m.row_axes = b.row_axes;
    } else if (rows_of(b, a)) {
      m.space = a.space, m.row_axes = a.row_axes;
    } else {
      return m;
    }
    std::merge(a.sums.begin(), a.sums.end(), b.sums.begin(), b.sums.end(), std::back_inserter(m.sums));
    for (int32_t fold : {a.outer_fold, b.outer_fold}) {
      if (fold < 0) continue;
      if (m.row_axes == 0 && m.outer_fold < 0) m.outer_fold = fold;
      else if (sums_rows(fold, m)) m.sums.insert(std::upper_bound(m.sums.begin(), m.sums.end(), fold), fold);
      else return m;
    }
    std::merge(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(), std::back_inserter(m.nodes));
    return m;
  }

  // Whether the node, an outer fold, sums all rows of the group's space.
  bool sums_rows(int32_t fold, const FusionGroup& group) const {
    const Node& n = g_.nodes()[size_t(fold)];
    const Shape& in = g_.spec(n.inputs[0]).shape;
    if (group.row_axes == 0 || n.op->fold != kernel::Code::reduce_sum || long_sizes(in) != group.space) return false;
    const std::vector<bool> reduced = reduced_axes(in, n);
    size_t outer = group.space.size() - size_t(group.row_axes);
    int64_t length = 1;
    for (size_t i = 0; i < in.size(); ++i) {
      if (in[i] == 1) continue;
      if (reduced[i] != (outer > 0)) return false;
      if (outer > 0) --outer;
      else length *= in[i];
    }
    return length <= max_sum_length;
  }

  // Whether a path leaves the group and comes back to it. Groups count as one node: a path into a member of another
  // group reaches all of it. Nodes before the last cut ahead of the group cannot be reached from after that cut, which
  // keeps the search local in a long graph. Where a group of nodes far apart leaves no cut near, the search ends at
  // longest_search nodes with yes, which is always safe.
  bool makes_cycle(const FusionGroup& m) {
    const auto ahead = std::lower_bound(cuts_.begin(), cuts_.end(), m.nodes.front());
    const int32_t cut = ahead == cuts_.begin() ? -1 : ahead[-1];
    std::vector<int32_t> stack;
    ++search_;
    searched_groups_.resize(groups_.size(), 0);
    auto visit = [&](int32_t i) {
      if (i > cut && searched_[size_t(i)] != search_) searched_[size_t(i)] = search_, stack.push_back(i);
    };
    for (int32_t i : m.nodes)
      for (ValueId v : g_.nodes()[size_t(i)].inputs)  // the kernel reads through transparent views
        if (int32_t base = access_of(g_, v).base.node; !m.holds(base)) visit(base);
    for (int left = longest_search; !stack.empty(); --left) {
      const int32_t i = stack.back();
      stack.pop_back();
      if (left == 0 || m.holds(i)) return true;
      for (ValueId v : g_.nodes()[size_t(i)].inputs) visit(v.node);
      if (after_[size_t(i)] >= 0) visit(after_[size_t(i)]);
      if (const int other = group_[size_t(i)]; other >= 0 && searched_groups_[size_t(other)] != search_) {
        searched_groups_[size_t(other)] = search_;
        for (int32_t k : groups_[size_t(other)].nodes) visit(k);
      }
    }
    return false;
  }

  void merge(int from, int to) {
    if (from == to) return;
    FusionGroup &a = groups_[size_t(from)], &b = groups_[size_t(to)];
    FusionGroup m = merged(a, b);
    if (m.nodes.empty() || m.nodes.size() > max_group_size || m.instructions > largest_kernel || !accesses_fit(g_, m) ||
        makes_cycle(m) || (on_gpu(m) && operands(m) > max_gpu_operands))
      return;
    for (int32_t i : m.nodes) group_[size_t(i)] = from;
    const int32_t now = cuts_.back();
    while (!cuts_.empty() && cuts_.back() >= m.nodes.front()) cuts_.pop_back();
    cuts_.push_back(now);
    a = std::move(m);
    b.nodes.clear();
  }

  bool on_gpu(const FusionGroup& m) const { return !is_host(g_.nodes()[size_t(m.nodes.front())].outputs[0].device); }
  // The number of values that the group's kernel reads and stores.
  size_t operands(const FusionGroup& m) {
    if (readers_.empty()) find_readers();
    std::set<std::pair<int32_t, int32_t>> values;
    for (const int32_t i : m.nodes) {
      for (const ValueId v : g_.nodes()[size_t(i)].inputs)
        if (const ValueId base = access_of(g_, v).base; !m.holds(base.node)) values.insert({base.node, base.index});
      for (const Reader& r : readers_[size_t(i)])
        if (r.node < 0 || !m.holds(r.node)) values.insert({i, r.index});
    }
    return values.size();
  }
  void find_readers() {
    readers_.resize(g_.nodes().size());
    const auto add = [&](ValueId v, int32_t reader) {
      const ValueId base = access_of(g_, v).base;
      if (base.node >= 0) readers_[size_t(base.node)].push_back({reader, int32_t(base.index)});
    };
    for (int32_t i = 0; i < int32_t(g_.nodes().size()); ++i)
      for (const ValueId v : g_.nodes()[size_t(i)].inputs) add(v, i);
    for (const ValueId v : g_.outputs) add(v, -1);
    for (const GraphAssign& a : g_.assigns) add(a.value, -1);
  }

  const Graph& g_;
  const std::vector<int32_t> after_;  // control dependencies
  std::vector<int> group_;            // by node
  std::vector<FusionGroup> groups_;
  std::map<std::pair<const Op*, DType>, int> instructions_;
  std::vector<int32_t> cuts_;  // nodes that no group has members on both sides of, ascending: the last is this one
  // Who reads a result of a node, and which; -1 is what the graph gives. Made where it is needed.
  struct Reader {
    int32_t node, index;
  };
  std::vector<std::vector<Reader>> readers_;
  // The number of this search, by node and by group, where it has been.
  uint32_t search_ = 0;
  std::vector<uint32_t> searched_ = std::vector<uint32_t>(g_.nodes().size(), 0), searched_groups_;
};

}  // namespace

std::vector<FusionGroup> find_groups(const Graph& g) { return Grouper(g).run(); }

}  // namespace rill
