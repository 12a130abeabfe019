// The table of how each record is written as ONNX nodes. A record without an entry whose ExportNames has an ONNX
// operator is that operator; rules are found by the record's name. Start at rule_of.
#pragma once
#include <span>

#include "rill/serialize/onnx/out/exporter.h"
#include "rill/trace/control/control_nodes.h"

namespace rill::onnx_out {

// A node that is being written.
struct Call {
  Exporter& e;
  const Node& node;
  std::vector<Spec> specs;  // of the operands
  Values in;
  std::vector<char> read;  // by result: whether something reads it

  const Spec& out(size_t i = 0) const { return node.outputs[i]; }
  template <class A>
  const A& attrs() const {
    return node.attrs.as<A>();
  }
  size_t rank(size_t i = 0) const { return specs[i].shape.size(); }
};

struct Rule {
  std::string_view op;
  // Either appends nodes, or composes it from rill's functions, or says why it cannot be exported.
  Values (*direct)(Call& c) = nullptr;
  Tensors (*composite)(std::span<const Tensor> in, AttrsView attrs) = nullptr;
  std::string_view refusal = "";
  // Whether it only moves elements, of any dtype. Otherwise operands of half precision and narrow integers are widened,
  // as in rill's own kernels, and results rounded once.
  bool moves = false;
};

// For records whose result is the operand.
inline Values pass(Call& c) { return {c.in[0]}; }

// Null if there is none.
const Rule* rule_of(const Op& op);

// --- Shared by rules of both formats ---
using Order = std::vector<int64_t>;  // of axes
Order inverse(const Order& order);
Shape permuted(const Shape& s, const Order& order);
// Whether an operand or the result has no elements: runtimes are not trusted with an empty convolution.
bool is_empty(const Call& c);
// Zeros of the result's shape.
Values zeros_of(Call& c, DType dtype);
std::vector<DType> dtypes_of(std::span<const Spec> specs);
// A loop's attributes; refuses one that keeps values for its gradient.
const WhileAttrs& plain_while(Call& c);
const ScanAttrs& plain_scan(Call& c);
// For a record with complex operands or results: pairs of real numbers along one more axis, the last. Null if there is
// none.
const Rule* pair_rule_of(const Op& op);

// Pools over entire axes of open size, which attributes of windows cannot express: as reductions, in either format.
namespace whole_pool {
bool is(const Call& c);
Values max(Call& c);
Values max_pick(Call& c);
Values max_grad(Call& c);
Values avg(Call& c);
Values avg_grad(Call& c);
}  // namespace whole_pool

// The equation of a product of two operands: "abc,cd->abd".
std::string einsum_of(const Call& c);

// The files of rules.
std::span<const Rule> elementwise_rules(), shape_rules(), index_rules(), matrix_rules(), reduce_rules(), neural_rules(),
    window_rules(), control_rules(), string_rules();

}  // namespace rill::onnx_out
