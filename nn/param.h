// Param: a parameter of a layer, a Variable that is made at once where its shape is known, and else at the first call.
//
//   struct Scale {
//     nn::Param factor{"factor", nn::constant(1)};
//     Tensor operator()(const Tensor& x, const nn::Call& call = {}) const { return x * factor({x.dim(-1)}, call); }
//   };
#pragma once
#include <string>

#include "rill/nn/call.h"
#include "rill/nn/initializers.h"
#include "rill/ops/variable.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// A weight is trained; a statistic is what a layer remembers of its inputs, which gradients leave alone.
enum class Kind : uint8_t { weight, statistic };

// Copies share the value, before it is made too. What an initializer draws follows from when the parameter was
// constructed, not from when it is called: a model is the same whether it is built at once, by a first call, or in a
// traced one.
class Param : public Variable {
 public:
  // Its value is made by `initializer` at the first call. The name is its field's, as a rule.
  Param(std::string name, Initializer initializer, Kind kind = Kind::weight, Where where = Where::current());
  // None: a layer without a bias. It has no value, and cannot be called.
  Param() : Variable(Shared<VariableState>()) {}
  Param(std::nullopt_t) : Param() {}

  // Whether there is a parameter.
  explicit operator bool() const { return wanted_; }
  Param* operator->() { return this; }
  const Param* operator->() const { return this; }
  Param& operator*() { return *this; }
  const Param& operator*() const { return *this; }

  using Variable::operator();
  // Its value, of this shape, converted to the dtype that the call computes in. The first call makes it; `fans` are for
  // weights whose shape does not say them. Throws, and names the parameter, where it was made with another shape.
  Tensor operator()(const Shape& shape, const Call& call, Where where = Where::current()) const {
    return operator()(shape, call, std::nullopt, where);
  }
  Tensor operator()(const Shape& shape, const Call& call, std::optional<Fans> fans,
                    Where where = Where::current()) const;
  // Makes its value now. Throws where it was made with another shape.
  const Param& make(const Shape& shape, std::optional<Fans> fans = {}, Where where = Where::current()) const;
  // The same parameter, whose value in the calls of a layer is f(value): a layer's copy that has it computes with that.
  Param through(Callback<Tensor(const Tensor&)> f) const;

 private:
  Initializer initializer_;
  Callback<Tensor(const Tensor&)> through_;
  uint64_t seed_ = 0;    // of what it draws
  bool wanted_ = false;  // there is one, which may have been moved from
};

}  // namespace rill::nn

#pragma GCC visibility pop
