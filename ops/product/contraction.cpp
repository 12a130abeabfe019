// dot_general, the one record for all products of matrices, and matmul. Start at infer_dot_general; einsum is in
// einsum.cpp, the others of the family in linalg.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "rill/devices/params/contraction_tail.h"
#include "rill/ops/apply.h"
#include "rill/ops/batch_rules.h"
#include "rill/ops/linalg.h"
#include "rill/ops/ops.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/product/free_axes.h"
#include "rill/ops/samples.h"

namespace rill {
namespace {

// The named axes as a set of bits: no tensor has more than 64.
uint64_t named_axes(const InferArgs& args, const char* side, int ndim, const Dims& batch, const Dims& contract) {
  uint64_t named = 0;
  for (const Dims* axes : {&batch, &contract})
    for (int64_t a : *axes) {
      if (a < 0 || a >= ndim)
        args.reject(fmt::format("axis {} is out of bounds for the {} operand of dimension {}", a, side, ndim));
      if (named >> a & 1) args.reject(fmt::format("axis {} of the {} operand is named twice", a, side));
      named |= uint64_t(1) << a;
    }
  return named;
}

void check_sizes(const InferArgs& args, const char* what, const Dims& lhs, const Dims& rhs) {
  if (lhs.size() != rhs.size())
    args.reject(
        fmt::format("{} {} axes on the left and {} on the right; they come in pairs", lhs.size(), what, rhs.size()));
  for (size_t i = 0; i < lhs.size(); ++i) {
    const int64_t n = args[0].shape[size_t(lhs[i])].hint(), m = args[1].shape[size_t(rhs[i])].hint();
    if (n != m)
      args.reject(fmt::format("{} axis {} of the left operand and axis {} of the right differ in size: {} != {}", what,
                              lhs[i], rhs[i], n, m));
  }
}

OutSpecs infer_dot_general(const InferArgs& args) {
  const ContractionParams& p = args.attrs.as<ContractionParams>();
  const Spec &a = args[0], &b = args[1];
  if (a.dtype != b.dtype) args.reject("operands differ in dtype; convert one with astype()");
  const uint64_t of_a = named_axes(args, "left", a.shape.ndim(), p.lhs_batch, p.lhs_contract),
                 of_b = named_axes(args, "right", b.shape.ndim(), p.rhs_batch, p.rhs_contract);
  check_sizes(args, "contracted", p.lhs_contract, p.rhs_contract);
  check_sizes(args, "batch", p.lhs_batch, p.rhs_batch);
  OutSpecs out;
  Spec& spec = out.emplace_back();
  spec.dtype = a.dtype;
  spec.device = a.device;
  for (int64_t axis : p.lhs_batch) spec.shape.push_back(a.shape[size_t(axis)]);
  for (size_t axis = 0; axis < a.shape.size(); ++axis)
    if (!(of_a >> axis & 1)) spec.shape.push_back(a.shape[axis]);
  for (size_t axis = 0; axis < b.shape.size(); ++axis)
    if (!(of_b >> axis & 1)) spec.shape.push_back(b.shape[axis]);
  return out;
}

// `count` axes from `first`.
Dims run_of(int64_t first, size_t count) {
  Dims out;
  for (size_t i = 0; i < count; ++i) out.push_back(first + int64_t(i));
  return out;
}

// Transposes `x`, whose axes are in the order batch, `first`, `second`, to the positions in those lists.
Tensor transpose_to(const Tensor& x, const Dims& batch, const Dims& first, const Dims& second) {
  Dims from = batch;
  for (const Dims* axes : {&first, &second})
    for (int64_t a : *axes) from.push_back(a);
  Axes order = Axes::repeat(0, size_t(x.ndim()));
  bool same = true;
  for (size_t i = 0; i < from.size(); ++i) {
    order[size_t(from[i])] = int64_t(i);
    same = same && from[i] == int64_t(i);
  }
  return same ? x : transpose(x, order);
}

// An operand, and the axes of the product's cotangent that correspond to its free axes.
struct ProductSide {
  const Tensor& x;
  const Dims &batch, &contract;
  Dims free, g_free;
};

// The gradient of `own`: the cotangent times `other`, summed over other's free axes. If `own` has its free axes (or its
// contracted ones) first, they are first in the product too, which then needs no transposition.
Tensor gradient_of(const ProductSide& own, const ProductSide& other, const Tensor& g, const Dims& g_batch) {
  Dims pairs;  // the axis of `own` for each contracted axis of `other`, in the order of the latter
  for (int64_t axis = 0; axis < other.x.ndim(); ++axis)
    for (size_t i = 0; i < other.contract.size(); ++i)
      if (other.contract[i] == axis) pairs.push_back(own.contract[i]);
  const Tensor factor = conj(other.x);
  const bool contracted_first =
      !pairs.empty() && !own.free.empty() && *std::min_element(pairs.begin(), pairs.end()) < own.free[0];
  if (contracted_first)
    return transpose_to(dot_general(factor, g, {other.free, other.g_free, other.batch, g_batch}), own.batch, pairs,
                        own.free);
  return transpose_to(dot_general(g, factor, {other.g_free, other.free, g_batch, other.batch}), own.batch, own.free,
                      pairs);
}

// The cotangent's axes are batch, a's free, b's free.
Tensors vjp_dot_general(const VjpArgs& args) {
  const ContractionParams& p = args.attrs.as<ContractionParams>();
  const Tensor &a = args.in[0], &b = args.in[1], &g = args.cotangent[0];
  ProductSide left{a, p.lhs_batch, p.lhs_contract, free_axes(a.ndim(), p.lhs_batch, p.lhs_contract), {}};
  ProductSide right{b, p.rhs_batch, p.rhs_contract, free_axes(b.ndim(), p.rhs_batch, p.rhs_contract), {}};
  const size_t batch = p.lhs_batch.size();
  const Dims g_batch = run_of(0, batch);
  left.g_free = run_of(int64_t(batch), left.free.size());
  right.g_free = run_of(int64_t(batch + left.free.size()), right.free.size());
  Tensors out(2);
  if (args.needs(0)) out[0] = gradient_of(left, right, g, g_batch);
  if (args.needs(1)) out[1] = gradient_of(right, left, g, g_batch);
  return out;
}

// A left operand that all rows share, times the right operands of the rows: a product for each row, whose results are
// in the right layout, or one product for all, which is transposed afterwards. The former is faster unless such a row
// is short and the left operand large (1000 x 1000 times 100 of 1000 x 8: 10 ms, the latter 5).
bool is_worth_repeating(const Tensor& a, const Tensor& b, const ContractionParams& p) {
  constexpr int64_t short_row = 16, long_left = 1 << 14;
  Dim row = b.size(), left = a.size();
  for (Dim axis : p.rhs_contract) row = row / larger(b.shape()[size_t(axis)], 1);
  return row / larger(b.shape()[0], 1) >= short_row || left < long_left;
}

// A batch on both sides is one more pair of batch axes; on one side it is one more free axis, which is moved to the
// front.
Tensors batch_dot_general(const BatchArgs& args) {
  ContractionParams p = args.attrs.as<ContractionParams>();
  const Tensor &a = args.in[0], &b = args.in[1];
  const bool left = args.batched[0], right = args.batched[1];
  if (left)
    for (Dims* axes : {&p.lhs_contract, &p.lhs_batch})
      for (Dim& axis : *axes) axis += 1;
  if (right)
    for (Dims* axes : {&p.rhs_contract, &p.rhs_batch})
      for (Dim& axis : *axes) axis += 1;
  if (left && right) {
    p.lhs_batch.insert(0, 0);
    p.rhs_batch.insert(0, 0);
    return {dot_general(a, b, p, args.where)};
  }
  // The left operand's free axes come first in the result.
  const size_t pairs = p.lhs_batch.size(), left_free = a.shape().size() - pairs - p.lhs_contract.size(),
               right_free = b.shape().size() - pairs - p.rhs_contract.size() - 1;
  const bool lines = std::find(p.rhs_contract.begin(), p.rhs_contract.end(), b.ndim() - 1) != p.rhs_contract.end();
  if (right && pairs == 0 && (right_free == 0 || (left_free == 0 && lines)))
    return {dot_general(b, a, {p.rhs_contract, p.lhs_contract, {}, {}}, args.where)};
  if (right && pairs == 0 && is_worth_repeating(a, b, p)) {
    Shape repeated = a.shape();
    repeated.insert(0, args.size);
    for (Dim& axis : p.lhs_contract) axis += 1;
    p.lhs_batch = p.rhs_batch = {0};
    return {dot_general(broadcast_to(a, repeated), b, p, args.where)};
  }
  const Tensor out = dot_general(a, b, p, args.where);
  const size_t at = pairs + (left ? 0 : left_free);
  return {at == 0 ? out : moveaxis(out, int64_t(at), 0, args.where)};
}

std::vector<Sample> samples_dot_general() {
  using samples::uniform;
  const ContractionParams plain{{1}, {0}, {}, {}};
  return {
      {{uniform({3, 4}), uniform({4, 5}, -2, 2, 2)}, plain},
      {{uniform({70, 50}), uniform({50, 65}, -2, 2, 2)}, plain},
      {{uniform({1, 7}), uniform({7, 1}, -2, 2, 2)}, plain},
      {{uniform({6}), uniform({6}, -2, 2, 2)}, ContractionParams{{0}, {0}, {}, {}}},
      {{uniform({2, 3}), uniform({4}, -2, 2, 2)}, ContractionParams{{}, {}, {}, {}}},
      {{uniform({2, 3, 4}), uniform({2, 4, 5}, -2, 2, 2)}, ContractionParams{{2}, {1}, {0}, {0}}},
      {{uniform({4, 2, 3}), uniform({5, 3, 2}, -2, 2, 2)}, ContractionParams{{2, 1}, {1, 2}, {}, {}}},
      {{uniform({3, 2, 4, 5}), uniform({4, 6, 2, 5}, -2, 2, 2)}, ContractionParams{{3}, {3}, {1, 2}, {2, 0}}},
      {{uniform({3, 0}), uniform({0, 2}, -2, 2, 2)}, plain},
      {{uniform({0, 3}), uniform({3, 2}, -2, 2, 2)}, plain},
  };
}

}  // namespace

namespace {

int64_t terms_of_element(const ContractionParams& p, const Shape& lhs) {
  int64_t terms = 1;
  for (int64_t axis : p.lhs_contract) terms *= lhs[size_t(axis)];
  return terms;
}

double flops_of_product(std::span<const Spec* const> in, const Spec& out, AttrsView attrs) {
  return 2.0 * double(terms_of_element(attrs.as<ContractionParams>(), in[0]->shape)) * double(out.shape.numel());
}

// Products of fewer multiplications run on rill's own kernels, which have no tail; oneDNN may divide longer sums among
// threads, and differently if there is a tail.
int tail_axes_of_product(std::span<const Spec* const> in, const Spec& out, AttrsView attrs) {
  constexpr int64_t least_work = 1 << 18, most_terms = 8192;
  const ContractionParams& p = attrs.as<ContractionParams>();
  const int64_t terms = terms_of_element(p, in[0]->shape), result = out.shape.numel();
  if (!p.lhs_batch.empty() || terms == 0 || terms > most_terms || result < min_tail_result ||
      result * terms < least_work)
    return -1;
  return in[1]->shape.ndim() - int(p.rhs_contract.size());
}

}  // namespace

extern const Op dot_general_op;
const Op dot_general_op({
    .name = "matmul",
    .doc = "out[batch, i, j] = sum_k a[batch, i, k] b[batch, k, j] over the named axes, wherever they stand",
    .kind = OpKind::library,
    .dtypes = plain_set,
    .inputs = 2,
    .infer = infer_dot_general,
    .vjp = vjp_dot_general,
    .saves_in = save_all,
    .saves_for = {save(1), save(0)},
    .linear_in = save(0) | save(1),
    .batch = batch_dot_general,
    .cpu = cpu::dot_general,
    .ref = ref::dot_general,
    .packs = true,
    .cpu_with_tail = cpu::dot_general_with_tail,
    .tail_axes = tail_axes_of_product,
    .flops = flops_of_product,
    .samples = samples_dot_general,
    .sum_tolerance = 8,  // a few hundred terms of one sign, summed in order
    .exported = {.onnx = "Einsum", .tensorflow = "Einsum"},
});

namespace {

// Both operands in the dtype of their product.
struct Promoted {
  Promoted(const char* op, const Tensor& a, const Tensor& b, const Where& where) : a_(&a), b_(&b) {
    if (a.dtype() == b.dtype()) return;
    CallerScope caller(where, op);
    const DType d = promote(a.dtype(), a.spec().weak, b.dtype(), b.spec().weak);
    if (a.dtype() != d) a_ = &(own_a_ = astype(a, d, where));
    if (b.dtype() != d) b_ = &(own_b_ = astype(b, d, where));
  }
  const Tensor& a() const { return *a_; }
  const Tensor& b() const { return *b_; }

 private:
  const Tensor *a_, *b_;
  Tensor own_a_, own_b_;
};

Dims positive(const Dims& axes, int ndim) {
  Dims out = axes;
  for (Dim& a : out)
    if (a < 0) a += ndim;
  return out;
}

[[noreturn]] void reject_matmul(const Tensor& a, const Tensor& b, std::string message, const Where& where) {
  fail("matmul", message + ". operands: " + to_string(a.spec()) + ", " + to_string(b.spec()), where);
}

const ContractionParams& matrix_axes() {
  static const ContractionParams p{{1}, {0}, {}, {}};
  return p;
}

// Both with the same leading axes: batches of matrices.
Tensor matmul_batched(const Tensor& a, const Tensor& b, const Where& where) {
  const size_t na = size_t(a.ndim()) - 2, nb = size_t(b.ndim()) - 2, n = std::max(na, nb);
  Shape sa, sb;
  for (size_t i = 0; i < n; ++i) {
    const Dim x = i + na < n ? Dim(1) : a.shape()[i + na - n], y = i + nb < n ? Dim(1) : b.shape()[i + nb - n];
    if (x != y && x != 1 && y != 1)
      reject_matmul(a, b, fmt::format("leading axes do not broadcast: {} != {}", x, y), where);
    sa.push_back(x == y ? x : x == 1 ? y : x);
  }
  sb = sa;
  for (size_t i = 0; i < 2; ++i) {
    sa.push_back(a.shape()[na + i]);
    sb.push_back(b.shape()[nb + i]);
  }
  const Tensor x = sa == a.shape() ? a : broadcast_to(a, sa, where),
               y = sb == b.shape() ? b : broadcast_to(b, sb, where);
  const Dims batch = run_of(0, n);
  return apply1(dot_general_op, {&x, &y}, ContractionParams{{int64_t(n) + 1}, {int64_t(n)}, batch, batch}, where);
}

}  // namespace

Tensor dot_general(const Tensor& a, const Tensor& b, const ContractionParams& axes, Where where) {
  const Promoted p("dot_general", a, b, where);
  return apply1(dot_general_op, {&p.a(), &p.b()},
                ContractionParams{positive(axes.lhs_contract, a.ndim()), positive(axes.rhs_contract, b.ndim()),
                                  positive(axes.lhs_batch, a.ndim()), positive(axes.rhs_batch, b.ndim())},
                where);
}

Tensor matmul(const Tensor& a, const Tensor& b, Where where) {
  require_operand("matmul", a, where);
  require_operand("matmul", b, where);
  const int na = a.ndim(), nb = b.ndim();
  if (na == 0 || nb == 0) reject_matmul(a, b, "a 0-d operand is not a matrix; multiply by it with *", where);
  const Dim k = a.shape()[size_t(na - 1)], kb = b.shape()[size_t(nb == 1 ? 0 : nb - 2)];
  if (k != kb)
    reject_matmul(
        a, b,
        fmt::format("the last axis of the left operand and the {} axis of the right must have equal sizes: {} != {}",
                    nb == 1 ? "only" : "second-to-last", k, kb),
        where);
  const Promoted p("matmul", a, b, where);
  if (na == 2 && nb == 2) return apply1(dot_general_op, {&p.a(), &p.b()}, matrix_axes(), where);
  if (nb <= 2)  // no batch axes to pair
    return apply1(dot_general_op, {&p.a(), &p.b()}, ContractionParams{{na - 1}, {nb == 1 ? 0 : nb - 2}, {}, {}}, where);
  CallerScope caller(where);
  // A vector is a row for each matrix: one product for all would give those in another order.
  if (na == 1) return squeeze(matmul_batched(expand_dims(p.a(), 0), p.b(), where), -2, where);
  return matmul_batched(p.a(), p.b(), where);
}

}  // namespace rill
