// See channels_last.h; start at run(). The twin of a value is the same value with its channels last.
#include "rill/trace/fusion/channels_last.h"

#include <algorithm>
#include <optional>

#include "rill/devices/params/conv_params.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/devices/params/shape_params.h"
#include "rill/ops/apply.h"
#include "rill/trace/graph/rewriter.h"

namespace rill {

extern const Op byte_conv_op, conv_op, max_pool_op, avg_pool_op, concat_op, copy_op, reshape_op, transpose_op;

namespace {

// Axis i of a twin is axis order[i] of the value: 0, 2, 3, 1. For `n` axes.
Dims twin_order(size_t n) {
  Dims order{0};
  for (size_t i = 2; i < n; ++i) order.push_back(int64_t(i));
  order.push_back(1);
  return order;
}
// The inverse: 0, 3, 1, 2.
Dims plain_order(size_t n) {
  Dims order{0, int64_t(n) - 1};
  for (size_t i = 1; i + 1 < n; ++i) order.push_back(int64_t(i));
  return order;
}

class ChannelsLast {
 public:
  explicit ChannelsLast(const Graph& g) : g_(g), r_(g), twins_(g.nodes().size()), plain_(g.nodes().size(), false) {}

  Graph run() {
    for (size_t i = 0; i < g_.nodes().size(); ++i) {
      const Node& n = g_.nodes()[i];
      if (n.kind == Node::Kind::op && (append_twin(i, n) || fold_twin(i, n))) continue;
      for (ValueId v : n.inputs) make_plain(v);
      r_.copy(i);
      plain_[i] = true;
    }
    for (ValueId v : g_.outputs) make_plain(v);
    for (const GraphAssign& a : g_.assigns) make_plain(a.value);
    return r_.finish();
  }

 private:
  // Appends node `i` with its channels last. False if it is not one of the ops that support it.
  bool append_twin(size_t i, const Node& n) {
    std::optional<Node> twin_node;
    if (n.op == &conv_op || n.op == &byte_conv_op) twin_node = twin_of_conv(n);
    else if (n.op == &max_pool_op || n.op == &avg_pool_op) twin_node = twin_of_pool(n);
    else if (n.op == &concat_op) twin_node = twin_of_concat(n);
    else if (n.op->kind == OpKind::elementwise && !n.op->view && !n.op->call) twin_node = twin_of_elementwise(n);
    if (!twin_node) return false;
    twins_[i] = r_.append(std::move(*twin_node));
    return true;
  }

  // A reduction over axes of space reads its operand's twin without a copy, which is as fast. Its result has the axes
  // in the original order. (A twin that was reduced over the same axes would be summed in another order.)
  bool fold_twin(size_t i, const Node& n) {
    if (!n.op->fold || n.inputs.size() != 1 || !twin(n.inputs[0]) || plain_[size_t(n.inputs[0].node)]) return false;
    for (int64_t axis : n.attrs.as<ReduceParams>().axes)
      if (axis < 2) return false;
    const Dims order = plain_order(g_.spec(n.inputs[0]).shape.size());
    const ValueId plain = r_.append(n, transpose_op, {*twin(n.inputs[0])}, TransposeAttrs{order});
    r_.replace(i, {r_.append(r_.node(n, *n.op, {plain}, n.attrs))});
    return plain_[i] = true;
  }

  static bool is_byte(DType d) { return d == DType::u8 || d == DType::i8; }
  // The result of a convolution of bytes is i32. Poolings of other dtypes have no fast kernel with the channels last.
  static bool is_supported(const Node& n) {
    const Spec& s = n.outputs[0];
    return s.device.kind() == DeviceKind::cpu &&
           (s.dtype == DType::f32 || n.op == &byte_conv_op || (n.op == &max_pool_op && is_byte(s.dtype)));
  }
  const std::optional<ValueId>& twin(ValueId v) const { return twins_[size_t(v.node)]; }

  std::optional<Node> twin_of_conv(const Node& n) {
    ConvParams p = n.attrs.as<ConvParams>();
    if (p.layout != Layout::nchw || !is_supported(n)) return {};
    p.layout = Layout::nhwc;
    const size_t axes = n.outputs[0].shape.size();
    Dims weight;  // [space..., in, out] of [out, in, space...]
    for (size_t i = 2; i < axes; ++i) weight.push_back(int64_t(i));
    weight.push_back(1), weight.push_back(0);
    const ValueId x = make_twin(n, n.inputs[0]);
    make_plain(n.inputs[1]);
    std::vector<ValueId> in{x, r_.append(n, transpose_op, {r_[n.inputs[1]]}, TransposeAttrs{weight})};
    for (size_t i = 2; i < n.inputs.size(); ++i) {  // zero points of bytes
      make_plain(n.inputs[i]);
      in.push_back(r_[n.inputs[i]]);
    }
    return r_.node(n, *n.op, std::move(in), p);
  }

  std::optional<Node> twin_of_pool(const Node& n) {
    PoolParams p = n.attrs.as<PoolParams>();
    if (p.layout != Layout::nchw || !is_supported(n) || !twin(n.inputs[0])) return {};
    p.layout = Layout::nhwc;
    return r_.node(n, *n.op, {*twin(n.inputs[0])}, p);
  }

  std::optional<Node> twin_of_concat(const Node& n) {
    for (ValueId v : n.inputs)
      if (!twin(v)) return {};
    std::vector<ValueId> in;
    for (ValueId v : n.inputs) in.push_back(*twin(v));
    const size_t axes = n.outputs[0].shape.size();
    return r_.node(n, concat_op, std::move(in), ConcatAttrs{plain_order(axes)[size_t(n.attrs.as<ConcatAttrs>().axis)]});
  }

  std::optional<Node> twin_of_elementwise(const Node& n) {
    if (n.outputs.size() != 1) return {};
    const Shape& shape = n.outputs[0].shape;
    if (std::none_of(n.inputs.begin(), n.inputs.end(), [&](ValueId v) { return twin(v) && g_.spec(v).shape == shape; }))
      return {};
    std::vector<ValueId> in;
    for (ValueId v : n.inputs) in.push_back(make_operand(n, v, shape.size()));
    return r_.node(n, *n.op, std::move(in), n.attrs);
  }

  // An operand of an elementwise op on twins with `axes` axes, to which it may broadcast.
  ValueId make_operand(const Node& at, ValueId v, size_t axes) {
    const Shape& shape = g_.spec(v).shape;
    if (shape.size() == axes) return make_twin(at, v);
    make_plain(v);
    if (shape.numel() == 1) return r_[v];
    Dims all(axes - shape.size(), 1);
    for (int64_t d : shape) all.push_back(d);
    // One for each channel.
    if (all[1] == shape.numel()) return r_.append(at, reshape_op, {r_[v]}, ShapeAttrs{{all[1]}});
    const ValueId expanded = r_.append(at, reshape_op, {r_[v]}, ShapeAttrs{all});
    return r_.append(at, transpose_op, {expanded}, TransposeAttrs{twin_order(axes)});
  }

  ValueId make_twin(const Node& at, ValueId v) {
    std::optional<ValueId>& t = twins_[size_t(v.node)];
    if (t && v.index == 0) return *t;
    make_plain(v);
    const ValueId made = r_.append(at, transpose_op, {r_[v]}, TransposeAttrs{twin_order(g_.spec(v).shape.size())});
    return made;
  }

  // The value in its original layout, for nodes that stay as they were.
  void make_plain(ValueId v) {
    if (plain_[size_t(v.node)]) return;
    const Node& n = g_.nodes()[size_t(v.node)];
    const ValueId back = r_.append(n, transpose_op, {*twin(v)}, TransposeAttrs{plain_order(n.outputs[0].shape.size())});
    r_.replace(size_t(v.node), {r_.append(n, copy_op, {back})});
    plain_[size_t(v.node)] = true;
  }

  const Graph& g_;
  Rewriter r_;
  std::vector<std::optional<ValueId>> twins_;  // in the new graph, by node of the old one
  std::vector<bool> plain_;                    // whether the new graph has the value in its original layout
};

}  // namespace

Graph channels_last(const Graph& g) {
  const bool any = std::any_of(g.nodes().begin(), g.nodes().end(), [](const Node& n) {
    return n.kind == Node::Kind::op && (n.op == &conv_op || n.op == &byte_conv_op) &&
           n.attrs.as<ConvParams>().layout == Layout::nchw;
  });
  return any ? ChannelsLast(g).run() : g;
}

}  // namespace rill
