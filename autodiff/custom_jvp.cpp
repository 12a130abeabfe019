// custom_jvp: accumulators use the user's rule directly; tapes use its transpose, which is a walk back over the rule's
// ops.
#include <fmt/format.h>

#include <optional>

#include "rill/autodiff/forward_impl.h"
#include "rill/ops/ops.h"
#include "rill/tensor/user_scope.h"

namespace rill::detail {

namespace {

// The rule's result, of the value's spec.
Tensor checked(Tensor tangent, const Spec& value, const Where& where) {
  require_defined("custom_jvp", tangent, "what the rule gives", where);
  if (tangent.spec().weak && tangent.ndim() == 0) tangent = broadcast_to(tangent.astype(value.dtype), value.shape);
  if (!(tangent.shape() == value.shape) || !is_differentiable(tangent.dtype()) ||
      (is_complex(tangent.dtype()) && !is_complex(value.dtype)))
    fail("custom_jvp",
         fmt::format("the rule gave {} for a value that is {}: a tangent has the shape of its value, and a floating "
                     "dtype, or a complex one where the value has",
                     to_string(tangent.spec()), to_string(value)),
         where);
  return tangent.dtype() == value.dtype ? tangent : tangent.astype(value.dtype);
}

// The rule is linear, so its gradient at zero is its transpose.
Tensors transpose(const TangentRule& rule, std::span<const Spec> arguments, const Tensor& cotangent) {
  GradientTape tape({.watch_variables = false});
  Tensors tangents, back(arguments.size());
  std::vector<Source> sources;
  std::vector<size_t> numbers;
  for (size_t k = 0; k < arguments.size(); ++k) {
    const Spec& s = arguments[k];
    tangents.push_back(is_differentiable(s.dtype) ? zeros(s.shape, {s.dtype, s.device}) : Tensor());
    if (!tangents[k].defined()) continue;
    tape.watch(tangents[k]);
    sources.emplace_back(tangents[k]);
    numbers.push_back(k);
  }
  const Tensor along = rule(tangents);
  const std::vector<Tensor> given = tape.gradient(std::vector<Tensor>{along}, sources,
                                                  {.unconnected = Unconnected::none, .output_gradient = cotangent});
  for (size_t k = 0; k < given.size(); ++k) back[numbers[k]] = given[k];
  return back;
}

}  // namespace

Tensor run_custom_jvp(const Callback<std::pair<Tensor, Callback<Tensor(std::span<const Tensor>)>>()>& f,
                      std::span<const Tensor* const> in, const Where& where) {
  const std::vector<Spec> arguments = specs_of("custom_jvp", in, where);
  auto [value, own] = call_custom("custom_jvp", f, where);
  const Listeners& now = listeners();
  const TangentRule rule = [own = std::move(own), spec = value.spec(), where](std::span<const Tensor> tangents) {
    Tensor along;
    {
      const UserScope user;
      along = own(tangents);
    }
    return checked(along, spec, where);
  };
  const GradientRule gradient = [rule, arguments](const Tensor& g) { return transpose(rule, arguments, g); };
  if (auto* trace = dynamic_cast<TangentTracer*>(now.trace))
    return trace->append_tangent_rule(value, in, rule, gradient, where);
  if (now.trace) return now.trace->append_rule(value, in, gradient, where);
  Tensor out = make_alias(value);  // it may be an argument, which tapes know already
  const CustomVjp vjp = vjp_of(gradient);
  for (TapeListener* tape : now.tapes) {
    if (auto* along = dynamic_cast<ForwardAccumulator::Impl*>(tape)) along->record_rule(in, out, rule, where);
    else tape->record_custom(in, {&out, 1}, vjp, where);
  }
  return out;
}

}  // namespace rill::detail
