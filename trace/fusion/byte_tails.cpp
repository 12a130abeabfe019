// See byte_tails.h; start at tail_of().
#include "rill/trace/fusion/byte_tails.h"

#include <algorithm>
#include <optional>

#include "rill/devices/driver.h"
#include "rill/devices/params/byte_params.h"
#include "rill/devices/params/conv_params.h"
#include "rill/devices/registry.h"
#include "rill/ops/apply.h"
#include "rill/trace/fusion/fusion.h"
#include "rill/trace/graph/rewriter.h"

namespace rill {

extern const Op byte_matmul_op, byte_conv_op;

namespace {

OutSpecs infer_byte_tail(const InferArgs& args) {
  const auto& outputs = args.attrs.as<ByteTailParams>().fused->outputs;
  return OutSpecs(outputs.begin(), outputs.end());
}

const Op& product_of(const ByteTailParams& p) { return p.is_conv ? byte_conv_op : byte_matmul_op; }

void run_byte_tail_plainly(const KernelArgs& args) {
  const ByteTailParams& p = args.attrs.as<ByteTailParams>();
  SmallVec<const Spec*, 4> specs;
  for (const Tensor* t : args.in.first(4)) specs.push_back(&t->spec());
  Tensor sums = empty_tensor(infer(product_of(p), {specs.data(), specs.size()}, p.attrs, Where::current())[0]);
  Tensor* const out[] = {&sums};
  run_kernel(product_of(p), args.in.first(4), out, p.attrs);
  std::vector<const Tensor*> in(args.in.begin() + 4, args.in.end());
  in.insert(in.begin() + p.operand, &sums);
  run_kernel(fused_op, in, args.out, FusedParams{p.fused});
}

double flops_of_byte_tail(std::span<const Spec* const> in, const Spec&, AttrsView attrs) {
  const ByteTailParams& p = attrs.as<ByteTailParams>();
  const OutSpecs sums = infer(product_of(p), in.first(4), p.attrs, Where::current());
  return product_of(p).flops(in.first(4), sums[0], p.attrs);
}

}  // namespace

const Op byte_tail_op({.name = "byte_tail",
                       .doc = "a product or convolution of bytes with the fused kernel behind it",
                       .kind = OpKind::library,
                       .dtypes = every_set,
                       .inputs = -1,
                       .outputs = -1,
                       .infer = infer_byte_tail,
                       .no_gradient = "made after differentiation",
                       .cpu = cpu::byte_tail,
                       .ref = run_byte_tail_plainly,
                       .packs = true,
                       .flops = flops_of_byte_tail,
                       .title = [](AttrsView attrs) { return attrs.as<ByteTailParams>().ops(); },
                       .may_throw = [](AttrsView) { return false; },
                       .listed = false});

namespace {

// Whether the kernel's index space is that of `product`, and its input `k` has one element for each point, in order.
bool has_space_of(const FusedKernel& f, size_t k, const Spec& product) {
  std::vector<int64_t> sizes;
  std::vector<int> axes;
  for (size_t i = 0; i < product.shape.size(); ++i)
    if (product.shape[i] != 1) sizes.push_back(product.shape[i]), axes.push_back(int(i));
  return f.kernel.inputs[k].kind == kernel::Input::Kind::dense && f.space == sizes && f.inputs[k].axes == axes;
}
// Whether the kernel may run on pieces of its index space, and needs only dense operands.
bool runs_in_pieces(const FusedKernel& f) {
  bool fits = !f.fold && f.row_axes == 0 && !f.sums_rows && f.checks.empty() && !f.kernel.streaming &&
              !f.layout.gathers && f.layout.joined && f.layout.rows * f.layout.n > 0;
  for (const kernel::Output& o : f.kernel.outputs) fits &= !o.per_row && !o.added;
  return fits;
}

class TailFinder {
 public:
  explicit TailFinder(const Graph& g) : g_(g), reads_(g.nodes().size(), 0) {
    for (const Node& n : g.nodes())
      for (ValueId v : n.inputs) ++reads_[size_t(v.node)];
    for (ValueId v : g.outputs) ++reads_[size_t(v.node)];
    for (const GraphAssign& a : g.assigns) ++reads_[size_t(a.value.node)];
  }

  // The operand of fused node `n` that is a product whose sums it can run on: the one with most operations, the first
  // of several; -1 if there is none.
  int product_operand(const Node& n) const {
    if (n.op != &fused_op || !is_host(n.outputs[0].device)) return -1;
    const FusedKernel& f = *n.attrs.as<FusedParams>().fused;
    if (!runs_in_pieces(f)) return -1;
    int best = -1;
    double most_flops = 0;
    for (size_t k = 0; k < f.inputs.size(); ++k) {
      const int i = f.inputs[k].operand;
      const auto same = [&](const FusedKernel::Access& a) { return a.operand == i; };
      if (i < 0 || std::ranges::count_if(f.inputs, same) != 1 || !is_product(n.inputs[size_t(i)])) continue;
      const Node& product = node(n.inputs[size_t(i)]);
      const double flops = product.op->flops(specs(product), product.outputs[0], product.attrs);
      if (flops > most_flops && has_space_of(f, k, product.outputs[0])) best = i, most_flops = flops;
    }
    return best;
  }

  const Node& node(ValueId v) const { return g_.nodes()[size_t(v.node)]; }

 private:
  bool is_product(ValueId v) const {
    const Node& n = node(v);
    if (n.kind != Node::Kind::op || (n.op != &byte_matmul_op && n.op != &byte_conv_op) || reads_[size_t(v.node)] != 1 ||
        !(n.outputs[0].device == Device()))
      return false;
    for (ValueId in : n.inputs)
      if (g_.spec(in).shape.numel() == 0) return false;
    return n.op == &byte_matmul_op || n.attrs.as<ConvParams>().layout == Layout::nhwc;
  }
  std::vector<const Spec*> specs(const Node& n) const {
    std::vector<const Spec*> in;
    for (ValueId v : n.inputs) in.push_back(&g_.spec(v));
    return in;
  }

  const Graph& g_;
  std::vector<int> reads_;
};

Node joined(const Graph& g, const Node& n, int operand) {
  const Node& product = g.nodes()[size_t(n.inputs[size_t(operand)].node)];
  Node to = n;
  to.op = &byte_tail_op;
  to.attrs = ByteTailParams{product.op == &byte_conv_op, product.attrs, operand, n.attrs.as<FusedParams>().fused};
  to.inputs.erase(to.inputs.begin() + operand);
  to.inputs.insert(to.inputs.begin(), product.inputs.begin(), product.inputs.end());
  return to;
}

}  // namespace

Graph join_byte_tails(const Graph& g) {
  const TailFinder finder(g);
  std::vector<int> operands;
  std::vector<bool> inside(g.nodes().size(), false);
  for (const Node& n : g.nodes()) {
    operands.push_back(n.kind == Node::Kind::op ? finder.product_operand(n) : -1);
    if (operands.back() >= 0) inside[size_t(n.inputs[size_t(operands.back())].node)] = true;
  }
  if (std::ranges::none_of(operands, [](int i) { return i >= 0; })) return g;
  Graph to;
  std::vector<int32_t> map(g.nodes().size(), -1);
  const auto moved = [&](ValueId v) { return ValueId{map[size_t(v.node)], v.index}; };
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    if (inside[i]) continue;
    Node n = operands[i] >= 0 ? joined(g, g.nodes()[i], operands[i]) : g.nodes()[i];
    for (ValueId& v : n.inputs) v = moved(v);
    map[i] = to.append(std::move(n));
  }
  return rebuilt(g, std::move(to), Numbers::changed, moved);
}

}  // namespace rill
