// Parameters: how a deferred Variable gets its first value.
#include "rill/nn/param.h"

#include <fmt/format.h>

#include "rill/ops/apply.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/values/next_key.h"
#include "rill/tensor/limits.h"

namespace rill::nn {

Tensor Call::in(const Tensor& x, Where where) const {
  require_operand("Layer", x, where);
  return compute && is_floating(x.dtype()) ? x.astype(*compute, where) : x;
}

Param::Param(std::string name, Initializer initializer, Kind kind, Where where)
    : Variable(Variable::deferred({.name = name, .trainable = kind == Kind::weight}, DType::f32, where)),
      initializer_(std::move(initializer)),
      seed_([] {
        const EagerScope eager;
        return random::drawn_seed();
      }()),
      wanted_(true) {
  if (!initializer_) fail("Param", fmt::format("the initializer of '{}' is empty", name), where);
}

const Param& Param::make(const Shape& shape, std::optional<Fans> fans, Where where) const {
  if (!*this) fail("Param", "the layer does without this parameter", where);
  if (is_built(where)) {
    if (const Shape made = this->shape(where); made != shape)
      fail("Param",
           fmt::format("'{}' was made as {} and this call needs {}: the layer was built for inputs of other sizes",
                       name(where), to_string(made), to_string(shape)),
           where);
    return *this;
  }
  const CallerScope caller(where);
  // Made for real even while a function is traced: its first value is no part of the graph.
  const EagerScope eager;
  const PauseTapes pause;
  require_sound_size(name(), Spec{shape, dtype(), false, {}}, where);
  const random::OwnGenerator own(seed_);
  const Tensor first = initializer_(shape, fans);
  if (!first.defined() || first.shape() != shape)
    fail("Param",
         fmt::format("the initializer of '{}' gives {}, and its shape must be {}", name(),
                     first.defined() ? to_string(first.spec()) : "an undefined tensor", to_string(shape)),
         where);
  const_cast<Param*>(this)->build(first, where);
  return *this;
}

Tensor Param::operator()(const Shape& shape, const Call& call, std::optional<Fans> fans, Where where) const {
  make(shape, fans, where);
  const Tensor now = through_ ? through_(value(where)) : value(where);
  return call.compute && is_floating(now.dtype()) ? now.astype(*call.compute, where) : now;
}

Param Param::through(Callback<Tensor(const Tensor&)> f) const {
  Param other = *this;
  other.through_ = std::move(f);
  return other;
}

}  // namespace rill::nn
