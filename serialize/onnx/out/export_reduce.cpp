// Reductions, cumulative records and products.
#include <algorithm>
#include <limits>

#include "rill/devices/params/contraction_params.h"
#include "rill/devices/params/reduce_params.h"
#include "rill/ops/ops.h"
#include "rill/ops/product/free_axes.h"
#include "rill/serialize/onnx/out/export_rules.h"
#include "rill/trace/control_flow.h"

namespace rill::onnx_out {

namespace {

using In = std::span<const Tensor>;

// --- Reductions ------------------------------------------------------------------------------------------------------

Value reduced(Call& c, std::string_view type, const Value& x, bool keepdims) {
  const Dims& axes = c.attrs<ReduceParams>().axes;
  if (axes.empty()) return x;
  return c.e.op(type, {x, c.e.ints({axes.begin(), axes.end()})}, {{"keepdims", int64_t(keepdims)}});
}
Value reduced(Call& c, std::string_view type, const Value& x) {
  return reduced(c, type, x, c.attrs<ReduceParams>().keepdims);
}
// Sums and products of integers and bools have 64 bits; u64 has the bits of i64.
DType added_up_in(DType d) { return d == DType::u64 || d == DType::boolean ? DType::i64 : d; }

template <const char* type>
Values write_fold(Call& c) {
  DType wide = c.out().dtype;
  if (is_half(wide)) wide = DType::f32;
  return {reduced(c, type, c.e.cast(c.in[0], added_up_in(wide)))};
}
template <const char* type>
Values write_extreme(Call& c) {
  const DType d = c.in[0].dtype;
  return {reduced(c, type, d == DType::boolean ? c.e.cast(c.in[0], DType::i32) : c.in[0])};
}
constexpr char sum_name[] = "ReduceSum", prod_name[] = "ReduceProd", reduce_max_name[] = "ReduceMax",
               reduce_min_name[] = "ReduceMin";

// Whether it is not 0, as a number.
Value truth(Call& c) {
  Exporter& e = c.e;
  Value x = c.in[0];
  if (x.dtype != DType::boolean) x = e.op("Not", {e.op("Equal", {x, e.number(0, x.dtype)}, {}, DType::boolean)});
  return e.cast(x, DType::i32);
}
Values write_all(Call& c) { return {c.e.cast(reduced(c, "ReduceProd", truth(c)), DType::boolean)}; }
Values write_any(Call& c) { return {c.e.cast(reduced(c, "ReduceSum", truth(c)), DType::boolean)}; }

// The numbers are divided by the largest first, so that squares neither overflow nor underflow.
Values write_norm(Call& c) {
  Exporter& e = c.e;
  const DType d = is_half(c.out().dtype) ? DType::f32 : c.out().dtype;
  const Value x = e.op("Abs", {e.cast(c.in[0], d)});
  if (c.attrs<ReduceParams>().axes.empty()) return {x};
  bool empty = false;
  for (Dim n : c.specs[0].shape) empty |= !n.is_open() && n.plain() == 0;
  if (empty) return {reduced(c, "ReduceSum", x)};
  auto usable = [&](const Value& top) {
    const Value odd = e.op(
        "Or", {e.op("Equal", {top, e.number(0, d)}, {}, DType::boolean), e.op("IsInf", {top}, {}, DType::boolean)});
    return e.op("Where", {odd, e.number(1, d), top}, {}, d);
  };
  const Value scaled = e.op("Div", {x, usable(reduced(c, "ReduceMax", x, true))});
  return {e.op("Mul", {reduced(c, "ReduceL2", scaled), usable(reduced(c, "ReduceMax", x))})};
}

template <const char* type>
Values write_arg(Call& c) {
  const ArgReduceParams& p = c.attrs<ArgReduceParams>();
  Value x = c.in[0];
  if (x.dtype == DType::boolean) x = c.e.cast(x, DType::i32);
  return {c.e.op(type, {x}, {{"axis", p.axis}, {"keepdims", int64_t(p.keepdims)}}, DType::i64)};
}
constexpr char argmax_name[] = "ArgMax", argmin_name[] = "ArgMin";

// --- Cumulative ------------------------------------------------------------------------------------------------------

Values write_cumsum(Call& c) {
  const CumulativeParams& p = c.attrs<CumulativeParams>();
  DType wide = c.out().dtype;
  if (is_half(wide)) wide = DType::f32;
  return {c.e.op("CumSum", {c.e.cast(c.in[0], added_up_in(wide)), c.e.number(double(p.axis), DType::i64)},
                 {{"exclusive", int64_t(p.exclusive)}, {"reverse", int64_t(p.reverse)}})};
}

// A loop over the axis: `step` returns the next value from the one so far and a row of each operand.
template <class Step>
Tensor along_axis(const std::vector<Tensor>& operands, const CumulativeParams& p, const Tensor& first, Step step) {
  std::vector<Tensor> rows;
  for (const Tensor& t : operands) rows.push_back(moveaxis(t, {p.axis}, {0}));
  const bool exclusive = p.exclusive;
  auto [last, all] = scan(
      [&](const Tensor& so_far, const std::vector<Tensor>& row) {
        const Tensor next = step(so_far, row);
        return std::pair(next, exclusive ? so_far : next);
      },
      broadcast_to(first, Shape(rows[0].shape().begin() + 1, rows[0].shape().end())), rows, {.reverse = p.reverse});
  return moveaxis(all, {0}, {p.axis});
}

template <bool largest>
Tensors extremes(In in, AttrsView attrs) {
  const bool logical = in[0].dtype() == DType::boolean;
  const Tensor x = logical ? astype(in[0], i32) : in[0];
  const CumulativeParams& p = attrs.as<CumulativeParams>();
  // The first row is compared with itself.
  if (!x.dim(p.axis).is_open() && x.dim(p.axis) == 0) return {in[0]};
  const Dim n = x.dim(p.axis);
  const Tensor first = squeeze(slice_axis(x, p.axis, p.reverse ? n - 1 : Dim(0), p.reverse ? n : Dim(1)), p.axis);
  const Tensor y = along_axis({x}, p, first, [](const Tensor& a, const std::vector<Tensor>& b) {
    return largest ? maximum(a, b[0]) : minimum(a, b[0]);
  });
  return {astype(y, in[0].dtype())};
}

Values write_cumprod(Call& c) {
  DType wide = c.out().dtype;
  if (is_half(wide)) wide = DType::f32;
  wide = added_up_in(wide);
  Spec spec = c.specs[0];
  spec.dtype = wide;
  const CumulativeParams p = c.attrs<CumulativeParams>();
  return c.e.composed({c.e.cast(c.in[0], wide)}, {&spec, 1}, [&](In in) {
    return Tensors{along_axis({in[0]}, p, ones({}, {.dtype = wide}),
                              [](const Tensor& a, const std::vector<Tensor>& b) { return a * b[0]; })};
  });
}

Tensors recur(In in, AttrsView attrs) {
  const CumulativeParams& p = attrs.as<CumulativeParams>();
  return {along_axis({in[0], in[1]}, p, zeros({}, {.dtype = in[0].dtype()}),
                     [](const Tensor& y, const std::vector<Tensor>& ab) {
                       return where((ab[0] == 0) | (y == 0), 0, ab[0] * y) + ab[1];
                     })};
}

// --- Products --------------------------------------------------------------------------------------------------------

// dot_general as MatMul if its axes are those of matrices, else as Einsum.
struct Contraction {
  Call& c;
  const ContractionParams& p;
  Dims left, right;  // axes that are neither summed nor batch
  Values in;

  explicit Contraction(Call& call)
      : c(call),
        p(c.attrs<ContractionParams>()),
        left(free_axes(int(c.rank(0)), p.lhs_batch, p.lhs_contract)),
        right(free_axes(int(c.rank(1)), p.rhs_batch, p.rhs_contract)),
        in(c.in) {}

  Value run() {
    Exporter& e = c.e;
    const DType out = c.out().dtype;
    for (Value& v : in)  // bools are counted; u64 has the bits of i64
      if (!is_floating(v.dtype)) v = e.cast(v, DType::i64);
    const bool one_sum = p.lhs_contract.size() == 1 && p.rhs_contract.size() == 1;
    const bool matrices = p.lhs_batch.empty() ? right.size() <= 1 : left.size() == 1 && right.size() == 1;
    Value y = one_sum && matrices ? as_matrices() : c.e.op("Einsum", in, {{"equation", einsum_of(c)}});
    if (out != DType::boolean) return y;
    return e.op("Not", {e.op("Equal", {y, e.number(0, y.dtype)}, {}, DType::boolean)});
  }

  // [batch, left, sum] times [batch, sum, right]; without batch axes the left operand may have any others.
  Value as_matrices() {
    std::vector<int64_t> l(p.lhs_batch.begin(), p.lhs_batch.end()), r(p.rhs_batch.begin(), p.rhs_batch.end());
    l.insert(l.end(), left.begin(), left.end());
    l.push_back(p.lhs_contract[0]);
    r.push_back(p.rhs_contract[0]);
    r.insert(r.end(), right.begin(), right.end());
    return c.e.op("MatMul", {c.e.transposed(in[0], l), c.e.transposed(in[1], r)});
  }
};
Values write_product(Call& c) { return {Contraction(c).run()}; }

}  // namespace

std::string einsum_of(const Call& c) {
  const ContractionParams& p = c.attrs<ContractionParams>();
  std::string l(c.rank(0), '?'), r(c.rank(1), '?'), out;
  char next = 'a';
  auto pair = [&](const Dims& a, const Dims& b, bool kept) {
    for (size_t i = 0; i < a.size(); ++i, ++next) {
      l[size_t(a[i])] = r[size_t(b[i])] = next;
      if (kept) out += next;
    }
  };
  pair(p.lhs_batch, p.rhs_batch, true);
  pair(p.lhs_contract, p.rhs_contract, false);
  for (int64_t a : free_axes(int(c.rank(0)), p.lhs_batch, p.lhs_contract)) out += l[size_t(a)] = next++;
  for (int64_t a : free_axes(int(c.rank(1)), p.rhs_batch, p.rhs_contract)) out += r[size_t(a)] = next++;
  return l + "," + r + "->" + out;
}

std::span<const Rule> reduce_rules() {
  static const Rule rules[] = {
      {"sum", write_fold<sum_name>},
      {"prod", write_fold<prod_name>},
      {"max", write_extreme<reduce_max_name>},
      {"min", write_extreme<reduce_min_name>},
      {"all", write_all},
      {"any", write_any},
      {"norm", write_norm},
      {"argmax", write_arg<argmax_name>},
      {"argmin", write_arg<argmin_name>},
      {"cumsum", write_cumsum},
      {"cumprod", write_cumprod},
      {"cummax", nullptr, extremes<true>},
      {"cummin", nullptr, extremes<false>},
      {"recurrence", nullptr, recur},
      {"matmul", write_product},
  };
  return rules;
}

}  // namespace rill::onnx_out
