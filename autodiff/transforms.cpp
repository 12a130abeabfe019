#include "rill/autodiff/transforms.h"

#include <fmt/format.h>

#include <optional>

#include "rill/autodiff/tape_impl.h"
#include "rill/ops/ops.h"
#include "rill/tensor/user_scope.h"

namespace rill::detail {

// --- custom_gradient -------------------------------------------------------------------------------------------------

namespace {

// The rule's result, one cotangent for each argument, of the argument's shape and dtype.
Tensors checked(Tensors back, std::span<const Spec> arguments, const Where& where) {
  if (back.size() != arguments.size())
    fail("custom_gradient", fmt::format("the rule gave {} cotangents for {} arguments", back.size(), arguments.size()),
         where);
  for (size_t k = 0; k < back.size(); ++k) {
    Tensor& t = back[k];
    const Spec& s = arguments[k];
    if (!t.defined()) continue;
    if (t.spec().weak && t.ndim() == 0) t = broadcast_to(t.astype(s.dtype), s.shape);
    if (!(t.shape() == s.shape) || !is_differentiable(t.dtype()))
      fail(
          "custom_gradient",
          fmt::format("the rule gave {} for argument {}, {}: a cotangent has the shape of its argument, and a floating "
                      "or complex dtype",
                      to_string(t.spec()), k, to_string(s)),
          where);
    if (!is_differentiable(s.dtype)) t = Tensor();
    else if (t.dtype() != s.dtype) t = t.astype(s.dtype);
  }
  return back;
}

}  // namespace

std::vector<Spec> specs_of(std::string_view op, Operands in, const Where& where) {
  std::vector<Spec> specs;
  for (const Tensor* t : in) {
    require_defined(op, *t, "an argument", where);
    specs.push_back(t->spec());
  }
  return specs;
}

CustomVjp vjp_of(const GradientRule& rule) {
  return {[rule](std::span<const Tensor> cotangents, uint64_t, const CotangentSums& sums) {
    Tensors back = rule(cotangents[0]);
    for (size_t k = 0; k < back.size(); ++k) {
      Tensor& sum = sums.of[size_t(sums.first[k])];
      if (back[k].defined()) add_cotangent(sum, std::move(back[k]));
    }
  }};
}

void record_rule(Operands in, Tensor& out, const GradientRule& rule, const Where& where) {
  const CustomVjp vjp = vjp_of(rule);
  for (TapeListener* tape : listeners().tapes) tape->record_custom(in, {&out, 1}, vjp, where);
}

Tensor with_rule(const Tensor& value, Operands in, const GradientRule& rule, const Where& where) {
  if (TraceListener* trace = listeners().trace) return trace->append_rule(value, in, rule, where);
  Tensor out = make_alias(value);  // it may be an argument, which tapes know already
  record_rule(in, out, rule, where);
  return out;
}

Tensor run_custom(const Callback<std::pair<Tensor, GradientRule>()>& f, Operands in, const Where& where) {
  const std::vector<Spec> arguments = specs_of("custom_gradient", in, where);
  auto [value, own] = call_custom("custom_gradient", f, where);
  GradientRule rule = [own = std::move(own), arguments, where](const Tensor& g) {
    Tensors back;
    {
      const UserScope user;
      back = own(g);
    }
    return checked(std::move(back), arguments, where);
  };
  return with_rule(value, in, rule, where);
}

// --- Values that are structures --------------------------------------------------------------------------------------

Tensor packed(std::string_view op, std::span<Tensor* const> tensors, const Where& where) {
  if (tensors.empty()) fail(op, "the value holds no tensor", where);
  DType widest = DType::boolean;
  for (const Tensor* t : tensors) {
    require_defined(op, *t, "a tensor of the value", where);
    if (!is_differentiable(t->dtype()))
      fail(op,
           fmt::format("the value holds {}, which has no derivative. hand integers out by capturing a reference",
                       to_string(t->spec())),
           where);
    widest = promote(widest, t->dtype());
  }
  std::vector<Tensor> parts;
  for (const Tensor* t : tensors) parts.push_back(reshape(t->astype(widest), {t->size()}));
  return concat(parts);
}

void unpack(const Tensor& all, std::span<Tensor* const> tensors, const std::vector<Spec>& specs) {
  Dim start = 0;
  for (size_t k = 0; k < tensors.size(); ++k) {
    const Dim stop = start + specs[k].shape.numel();
    *tensors[k] = reshape(all(slice(start, stop)), specs[k].shape).astype(specs[k].dtype);
    start = stop;
  }
}

}  // namespace rill::detail
