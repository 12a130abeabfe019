// The rules of forward mode: tangents of a call's results from those of its operands, as forward.h lists them.
#include "rill/autodiff/forward_impl.h"
#include "rill/ops/ops.h"

namespace rill {

namespace {

// The bit set of the operands that have tangents.
uint64_t moving(std::span<const Tensor> tangents) {
  uint64_t set = 0;
  for (size_t i = 0; i < tangents.size(); ++i)
    if (tangents[i].defined()) set |= uint64_t(1) << (i < 63 ? i : 63);
  return set;
}

void add(Tensor& sum, const Tensor& term) {
  if (term.defined()) sum = sum.defined() ? sum + term : term;
}

// The sum of the op on each tangent in its operand's position.
Tensors linear(const JvpArgs& a) {
  Tensors sums(a.out.size());
  for (size_t i = 0; i < a.in.size(); ++i) {
    if (!a.tangent[i].defined()) continue;
    SmallVec<const Tensor*, 8> in;
    for (size_t k = 0; k < a.in.size(); ++k) in.push_back(k == i ? &a.tangent[i] : &a.in[k]);
    const Tensors terms = apply(a.op, Operands(in.data(), in.size()), a.attrs, Where::current());
    for (size_t k = 0; k < sums.size(); ++k)
      if (is_differentiable(terms[k].dtype())) add(sums[k], terms[k]);
  }
  return sums;
}

// Each element of the result depends on one element of each operand, so the rule for cotangents is the one for
// tangents. Operands are broadcast first, for their cotangents would be sums.
Tensors diagonal(const JvpArgs& a) {
  const Spec& out = a.out[0].spec();
  Tensor sum;
  for (size_t i = 0; i < a.in.size(); ++i) {
    if (!a.tangent[i].defined()) continue;
    Tensors in(a.in.begin(), a.in.end());
    Tensor tangent = a.tangent[i].dtype() == out.dtype ? a.tangent[i] : a.tangent[i].astype(out.dtype);
    if (!(in[i].shape() == out.shape)) in[i] = broadcast_to(in[i], out.shape);
    if (!(tangent.shape() == out.shape)) tangent = broadcast_to(tangent, out.shape);
    const Tensor term = a.op.vjp({a.op, a.attrs, in, a.out, {&tangent, 1}, uint64_t(1) << i})[i];
    if (term.defined()) add(sum, term.dtype() == out.dtype ? term : term.astype(out.dtype));
  }
  return {sum};
}

bool is_real_diagonal(const JvpArgs& a) {
  if (a.op.kind != OpKind::elementwise || a.out.size() != 1 || !is_floating(a.out[0].dtype())) return false;
  for (const Tensor& t : a.tangent)
    if (t.defined() && !is_floating(t.dtype())) return false;
  return true;
}

}  // namespace

Tensors transposed(std::span<const Tensor> out, std::span<const Tensor> tangents, const PullBack& pull) {
  GradientTape tape({.watch_variables = false});
  std::vector<Tensor> cotangents, targets, seeds;
  std::vector<Source> sources;
  std::vector<size_t> numbers;  // of the outputs that have a cotangent
  for (size_t k = 0; k < out.size(); ++k) {
    cotangents.push_back(zeros(out[k].shape(), {out[k].dtype(), out[k].device()}));
    if (!is_differentiable(out[k].dtype())) continue;
    tape.watch(cotangents.back());
    sources.emplace_back(cotangents.back());
    numbers.push_back(k);
  }
  const Tensors back = pull(cotangents, moving(tangents));
  for (size_t i = 0; i < tangents.size() && i < back.size(); ++i)
    if (tangents[i].defined() && back[i].defined()) targets.push_back(back[i]), seeds.push_back(tangents[i]);
  Tensors result(out.size());
  if (targets.empty()) return result;
  std::vector<Tensor> given =
      tape.gradient(targets, sources, {.unconnected = Unconnected::none, .output_gradients = seeds});
  for (size_t k = 0; k < given.size(); ++k) result[numbers[k]] = std::move(given[k]);
  return result;
}

namespace {
// A rule that adds to sums, called with undefined sums.
template <class Rule>
Tensors sums_from_nothing(size_t operands, const Rule& rule) {
  Tensors sums(operands);
  SmallVec<int32_t, 8> first;
  for (size_t i = 0; i < operands; ++i) first.push_back(int32_t(i));
  const Tensors back = rule(CotangentSums{{sums.data(), sums.size()}, {first.data(), first.size()}});
  for (size_t i = 0; i < back.size() && i < operands; ++i) add(sums[i], back[i]);
  return sums;
}
}  // namespace

Tensors transposed(std::span<const Tensor> out, std::span<const Tensor> tangents, const CustomVjp& vjp) {
  return transposed(out, tangents, [&](std::span<const Tensor> cotangents, uint64_t needed) {
    return sums_from_nothing(tangents.size(), [&](const CotangentSums& sums) {
      vjp.rule(cotangents, needed, sums);
      return Tensors();
    });
  });
}

Tensors transposed_rule(const JvpArgs& a) {
  return transposed(a.out, a.tangent, [&](std::span<const Tensor> cotangents, uint64_t needed) {
    const auto rule = [&](const CotangentSums& sums) {
      return a.op.vjp({a.op, a.attrs, a.in, a.out, cotangents, needed, sums});
    };
    return a.op.call ? sums_from_nothing(a.in.size(), rule) : rule({});
  });
}

Tensors tangents_of(const JvpArgs& a) {
  const uint64_t has = moving(a.tangent);
  if (a.op.jvp) return a.op.jvp(a);
  if (has && !(has & ~a.op.linear_in)) return linear(a);
  return is_real_diagonal(a) ? diagonal(a) : transposed_rule(a);
}

}  // namespace rill
