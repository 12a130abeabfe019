// Finds chains of elementwise ops after a product and runs them as its epilogue; start at Chain. Steps with an operand
// become oneDNN's binary post-ops, which round as our own ops do. An activation runs in place with the op's own kernel,
// but relu, which rill's own products have: oneDNN's loses NaN, and its tanh gives other bits.
#include "rill/trace/fusion/epilogues.h"

#include "rill/devices/params/contraction_tail.h"
#include "rill/devices/registry.h"
#include "rill/ops/apply.h"
#include "rill/trace/graph/rewriter.h"

namespace rill {

extern const Op add_op, negative_op, relu_op;

namespace {

constexpr size_t most_steps = 6;

struct EpilogueParams {
  const Op* product = nullptr;
  Attrs attrs;  // the product's
  std::vector<TailStep> steps;
  std::vector<const Op*> step_ops;
  const Op* activation = nullptr;

  std::string ops() const {
    std::string text(product->name);
    for (const Op* op : step_ops) text += ", " + std::string(op->name);
    if (activation) text += ", " + std::string(activation->name);
    return text;
  }
  // Each step by its kind and how its operand broadcasts.
  Dims codes() const {
    Dims d;
    for (const TailStep& s : steps) d.push_back(int64_t(s.kind) * 4 + int64_t(s.broadcast));
    return d;
  }
  template <class S, class V>
  static void fields(S& s, V&& v) {
    v("ops", s.ops());
    v("steps", s.codes());
    v("of", to_string(AttrsView(s.attrs)));
  }
};

OutSpecs infer_epilogue(const InferArgs& args) {
  const EpilogueParams& p = args.attrs.as<EpilogueParams>();
  return infer(*p.product, args.in.first(2), p.attrs, args.where);
}

// Runs the ops one after another, all in the output's memory, which may also be an operand's.
void run_steps(const EpilogueParams& p, const KernelArgs& given) {
  SmallVec<const Tensor*, 8> in(given.in.begin(), given.in.end());
  Tensor kept;
  for (const Tensor*& t : in)
    if (t->rep()->data == given.output().rep()->data) {
      kept = empty_tensor(t->spec());
      copy_elements(*t, kept);
      t = &kept;
    }
  const KernelArgs args{Operands(in.data(), in.size()), given.out, given.attrs};
  run_kernel(*p.product, args.in.first(2), args.out, p.attrs);
  Tensor* const out = &args.output();
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const Tensor *x = out, *t = &args.input(int(i) + 2);
    if (p.steps[i].kind == TailStep::Kind::subtract_from) std::swap(x, t);
    const Tensor* const in[] = {x, t};
    run_kernel(*p.step_ops[i], in, args.out, {});
  }
}

void run_epilogue(const KernelArgs& args) {
  const EpilogueParams& p = args.attrs.as<EpilogueParams>();
  SmallVec<Tensor, 4> copies;
  SmallVec<const Tensor*, 8> in;
  copies.reserve(args.in.size());
  for (size_t i = 0; i < args.in.size(); ++i) {
    const Tensor& t = args.input(int(i));
    const bool any_strides = i < 2 && !p.product->wants_contiguous;
    if (any_strides || t.is_contiguous()) {
      in.push_back(&t);
      continue;
    }
    Tensor& copy = copies.emplace_back(empty_tensor(t.spec()));
    copy_elements(t, copy);
    in.push_back(&copy);
  }
  SmallVec<TailStep, most_steps + 1> steps(p.steps.begin(), p.steps.end());
  for (size_t i = 0; i < steps.size(); ++i)
    if (in[i + 2]->rep()->data == args.output().rep()->data) steps[i].broadcast = TailStep::Broadcast::in_place;
  const KernelArgs dense{Operands(in.data(), in.size()), args.out, p.attrs, args.packed};
  if (p.activation == &relu_op) {
    steps.push_back({TailStep::Kind::relu, TailStep::Broadcast::scalar});
    if (p.product->cpu_with_tail(dense, {steps.data(), steps.size()})) return;
    steps.pop_back();
  }
  if (!p.product->cpu_with_tail(dense, {steps.data(), steps.size()})) run_steps(p, args);
  if (!p.activation) return;
  const Tensor* const x[] = {&args.output()};
  run_kernel(*p.activation, x, args.out, {});
}

void run_epilogue_plainly(const KernelArgs& args) {
  const EpilogueParams& p = args.attrs.as<EpilogueParams>();
  run_steps(p, args);
  if (!p.activation) return;
  const Tensor* const x[] = {&args.output()};
  run_kernel(*p.activation, x, args.out, {});
}

// Operands that are added to the result, or that it is subtracted from.
bool epilogue_may_overwrite(AttrsView attrs, size_t i, const Spec&) {
  if (i < 2) return false;
  const TailStep& s = attrs.as<EpilogueParams>().steps[i - 2];
  return s.broadcast == TailStep::Broadcast::full &&
         (s.kind == TailStep::Kind::add || s.kind == TailStep::Kind::subtract_from);
}

double flops_of_product(std::span<const Spec* const> in, const Spec& out, AttrsView attrs) {
  const EpilogueParams& p = attrs.as<EpilogueParams>();
  return p.product->flops(in.first(2), out, p.attrs);
}

}  // namespace

const Op epilogue_op({.name = "epilogue",
                      .doc = "a product of matrices or a convolution with the elementwise ops behind it",
                      .kind = OpKind::library,
                      .dtypes = one_of({DType::f32}),
                      .inputs = -1,
                      .infer = infer_epilogue,
                      .no_gradient = "made after differentiation",
                      .cpu = run_epilogue,
                      .ref = run_epilogue_plainly,
                      .packs = true,
                      .flops = flops_of_product,
                      .title = [](AttrsView attrs) { return attrs.as<EpilogueParams>().ops(); },
                      .may_throw = [](AttrsView) { return false; },
                      .may_overwrite = epilogue_may_overwrite,
                      .listed = false});

// --- Finding them ----------------------------------------------------------------------------------------------------

namespace {

struct Use {
  int32_t node = -1;  // the only reader, if `count` is 1
  int count = 0;
};

// The readers of each node's first output.
std::vector<Use> uses_of(const Graph& g) {
  std::vector<Use> uses(g.nodes().size());
  auto use = [&](ValueId v, int32_t by) { uses[size_t(v.node)] = {by, uses[size_t(v.node)].count + 1}; };
  for (int32_t i = 0; i < int32_t(g.nodes().size()); ++i)
    for (ValueId v : g.nodes()[size_t(i)].inputs) use(v, i);
  for (ValueId v : g.outputs) use(v, -1);
  for (const GraphAssign& a : g.assigns) use(a.value, -1);
  return uses;
}

// A product and what becomes its epilogue.
struct Chain {
  std::vector<int32_t> nodes;  // the product, then the steps
  EpilogueParams params;
  std::vector<ValueId> operands;  // of the steps
  std::vector<size_t> negated;    // indices in `operands` of constants to negate
};

class Finder {
 public:
  explicit Finder(const Graph& g) : g_(g), uses_(uses_of(g)), taken_(g.nodes().size(), false) {}

  std::vector<Chain> run() {
    std::vector<Chain> chains;
    for (int32_t i = 0; i < int32_t(g_.nodes().size()); ++i) {
      const Node& n = g_.nodes()[size_t(i)];
      if (taken_[size_t(i)] || tail_axes(n) < 0) continue;
      Chain c{{i}, {n.op, n.attrs, {}, {}, nullptr}, {}, {}};
      while (add_step(c)) continue;
      add_activation(c);
      if (c.nodes.size() == 1) continue;
      for (int32_t k : c.nodes) taken_[size_t(k)] = true;
      chains.push_back(std::move(c));
    }
    return chains;
  }

 private:
  // The number of the result's last axes that a row operand has, if `n` is a product whose kernel supports a tail; else
  // -1.
  int tail_axes(const Node& n) const {
    if (n.kind != Node::Kind::op || !n.op->tail_axes) return -1;
    const Spec& out = n.outputs[0];
    if (out.dtype != DType::f32 || out.device.kind() != DeviceKind::cpu) return -1;
    const Spec* const in[] = {&g_.spec(n.inputs[0]), &g_.spec(n.inputs[1])};
    return n.op->tail_axes({in, 2}, out, n.attrs);
  }

  // How an operand of this shape broadcasts to a result of that one, if the epilogue supports it.
  static bool broadcast_of(const Shape& shape, const Shape& result, size_t row_axes, TailStep::Broadcast& broadcast) {
    if (shape == result) return broadcast = TailStep::Broadcast::full, true;
    if (shape.numel() == 1) return broadcast = TailStep::Broadcast::scalar, true;
    broadcast = TailStep::Broadcast::row;
    if (shape.size() > result.size()) return false;
    for (size_t i = 0; i < result.size(); ++i) {
      const size_t missing = result.size() - shape.size();
      const int64_t size = i < missing ? Dim(1) : shape[i - missing];
      const bool in_row = i + row_axes >= result.size();
      if (size != (in_row ? result[i] : Dim(1))) return false;
    }
    return true;
  }

  // The only reader of the chain's end, if it may join.
  const Node* next(const Chain& c) const {
    const Use& use = uses_[size_t(c.nodes.back())];
    if (use.count != 1 || use.node < 0 || taken_[size_t(use.node)]) return nullptr;
    const Node& n = g_.nodes()[size_t(use.node)];
    const Spec& out = g_.nodes()[size_t(c.nodes[0])].outputs[0];
    const bool same = n.kind == Node::Kind::op && n.op->kind == OpKind::elementwise && !n.op->view &&
                      n.outputs.size() == 1 && n.outputs[0].shape == out.shape && n.outputs[0].dtype == DType::f32;
    return same ? &n : nullptr;
  }

  bool add_step(Chain& c) {
    const Node* n = next(c);
    if (!n || c.params.steps.size() == most_steps || n->inputs.size() != 2) return false;
    const int chain_operand = n->inputs[0] == ValueId{c.nodes.back(), 0} ? 0 : 1;
    TailStep step;
    const Op* op = n->op;
    switch (op->tail_op) {
      case TailOp::add: step.kind = TailStep::Kind::add; break;
      case TailOp::multiply: step.kind = TailStep::Kind::multiply; break;
      case TailOp::subtract:
        step.kind = chain_operand ? TailStep::Kind::subtract_from : TailStep::Kind::subtract;
        break;
      case TailOp::none: return false;
    }
    const ValueId other = n->inputs[size_t(1 - chain_operand)];
    const Node& product = g_.nodes()[size_t(c.nodes[0])];
    const Spec& t = g_.spec(other);
    if (t.dtype != DType::f32 || !(t.device == product.outputs[0].device) ||
        !broadcast_of(t.shape, product.outputs[0].shape, size_t(tail_axes(product)), step.broadcast))
      return false;
    // t - x c is t + x (-c), bit for bit, and oneDNN cannot subtract from an operand in one step.
    if (step.kind == TailStep::Kind::subtract_from && !c.operands.empty() &&
        c.params.steps.back().kind == TailStep::Kind::multiply &&
        g_.nodes()[size_t(c.operands.back().node)].kind == Node::Kind::constant) {
      step.kind = TailStep::Kind::add, op = &add_op;
      c.negated.push_back(c.operands.size() - 1);
    }
    c.params.steps.push_back(step);
    c.params.step_ops.push_back(op);
    c.operands.push_back(other);
    c.nodes.push_back(uses_[size_t(c.nodes.back())].node);
    return true;
  }

  // Unless fusion would continue from it.
  void add_activation(Chain& c) {
    const Node* n = next(c);
    if (!n || n->inputs.size() != 1 || AttrsView(n->attrs).type) return;
    const Use& use = uses_[size_t(uses_[size_t(c.nodes.back())].node)];
    if (use.count == 1 && use.node >= 0 && g_.nodes()[size_t(use.node)].op &&
        g_.nodes()[size_t(use.node)].op->kind == OpKind::elementwise)
      return;
    c.params.activation = n->op;
    c.nodes.push_back(uses_[size_t(c.nodes.back())].node);
  }

  const Graph& g_;
  std::vector<Use> uses_;
  std::vector<bool> taken_;
};

// The negated constant.
Node negated(Node constant) {
  const Tensor& x = constant.constant;
  Tensor y = empty_tensor(x.spec());
  const Tensor* const in[] = {&x};
  Tensor* const out[] = {&y};
  run_kernel(negative_op, in, out, {});
  constant.constant = y;
  return constant;
}

}  // namespace

Graph fuse_epilogues(const Graph& g) {
  const std::vector<Chain> chains = Finder(g).run();
  if (chains.empty()) return g;
  // The chain's node replaces its last one: all its operands exist there.
  std::vector<const Chain*> ends(g.nodes().size(), nullptr);
  std::vector<bool> inside(g.nodes().size(), false);
  for (const Chain& c : chains) {
    for (int32_t i : c.nodes) inside[size_t(i)] = true;
    ends[size_t(c.nodes.back())] = &c;
  }
  Graph to;
  std::vector<int32_t> map(g.nodes().size(), -1);
  auto moved = [&](ValueId v) { return ValueId{map[size_t(v.node)], v.index}; };
  for (size_t i = 0; i < g.nodes().size(); ++i) {
    if (inside[i] && !ends[i]) continue;
    Node n = g.nodes()[i];
    if (const Chain* c = ends[i]) {
      n.op = &epilogue_op;
      n.inputs = g.nodes()[size_t(c->nodes[0])].inputs;
      n.inputs.insert(n.inputs.end(), c->operands.begin(), c->operands.end());
      n.attrs = c->params;
    }
    for (ValueId& v : n.inputs) v = moved(v);
    if (const Chain* c = ends[i])
      for (size_t k : c->negated) n.inputs[k + 2] = {to.append(negated(g.nodes()[size_t(c->operands[k].node)])), 0};
    map[i] = to.append(std::move(n));
  }
  return rebuilt(g, std::move(to), Numbers::changed, moved);
}

}  // namespace rill
