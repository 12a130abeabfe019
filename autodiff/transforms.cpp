#include "rill/autodiff/transforms.h"

#include <fmt/format.h>

#include <optional>

#include "rill/autodiff/tape_impl.h"
#include "rill/ops/ops.h"

namespace rill::detail {

void require_same_rows(const Tensor& x, const Tensor& more, const Where& where) {
  require_defined("vmap", more, "an argument", where);
  if (more.ndim() == 0)
    fail("vmap",
         fmt::format("an argument is {}, and has no first axis whose rows could be mapped", to_string(more.spec())),
         where);
  if (more.dim(0, where) != x.dim(0, where))
    fail("vmap",
         fmt::format("the arguments {} and {} differ in their first axis, whose rows go together", to_string(x.spec()),
                     to_string(more.spec())),
         where);
}

Tensor stack_rows(std::vector<Tensor> rows, const Tensor& x, const Where& where) {
  if (rows.empty())
    fail("vmap", fmt::format("{} has no rows, so the shape of a result is unknown", to_string(x.spec())), where);
  return stack(rows, 0, where);
}

// --- custom_gradient -------------------------------------------------------------------------------------------------

namespace {

// What the rule gives, one cotangent an argument, of the argument's shape and dtype.
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

Tensor run_custom(const Callback<std::pair<Tensor, GradientRule>()>& f, Operands in, const Where& where) {
  std::vector<Spec> arguments;
  for (const Tensor* t : in) {
    require_defined("custom_gradient", *t, "an argument", where);
    arguments.push_back(t->spec());
  }
  ThreadState& ts = thread_state();
  Tensor value;
  GradientRule own;
  {
    // One tape never asks for the gradient of what the rule computes, and need not know what that is made of. Of
    // several, each may record the backward walk of another.
    std::optional<PauseTapes> pause;
    if (ts.tapes.size() < 2) pause.emplace();
    std::tie(value, own) = f();
  }
  require_defined("custom_gradient", value, "the value", where);
  GradientRule rule = [own, arguments, where](const Tensor& g) { return checked(own(g), arguments, where); };
  if (ts.trace) return ts.trace->append_rule(value, in, rule, where);
  Tensor out = make_alias(value);  // it may be an argument, which tapes know already
  auto vjp = [rule](std::span<const Tensor> cotangents, uint64_t, const CotangentSums& sums) {
    Tensors back = rule(cotangents[0]);
    for (size_t k = 0; k < back.size(); ++k) {
      Tensor& sum = sums.of[size_t(sums.first[k])];
      if (back[k].defined()) sum = sum.defined() ? sum + back[k] : back[k];
    }
  };
  for (TapeListener* tape : ts.tapes) tape->record_custom(in, {&out, 1}, {vjp}, where);
  return out;
}

}  // namespace rill::detail
