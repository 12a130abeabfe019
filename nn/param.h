// Param: a parameter of a layer, a Variable that is made at once if its shape is known, and else in the first call.
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

// A weight is trained; a statistic is computed from the inputs, without gradients.
enum class Kind : uint8_t { weight, statistic };

// Copies share the value, also before it is made. The draws of an initializer depend on when the parameter was
// constructed, not on when it is called: a model is the same whether it is built at once, by a first call, or in a
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
  // Its value, of this shape, converted to the dtype of the call. The first call makes it; `fans` are for weights whose
  // shape does not determine them. Throws, and names the parameter, if it was made with another shape.
  Tensor operator()(const Shape& shape, const Call& call, Where where = Where::current()) const {
    return operator()(shape, call, std::nullopt, where);
  }
  Tensor operator()(const Shape& shape, const Call& call, std::optional<Fans> fans,
                    Where where = Where::current()) const;
  // Makes its value now. Throws where it was made with another shape.
  const Param& make(const Shape& shape, std::optional<Fans> fans = {}, Where where = Where::current()) const;
  // The same parameter, with the value f(value) in a layer's calls: a layer's copy that has it computes with that.
  Param through(Callback<Tensor(const Tensor&)> f) const;

 private:
  Initializer initializer_;
  Callback<Tensor(const Tensor&)> through_;
  uint64_t seed_ = 0;    // of its draws
  bool wanted_ = false;  // there is one, which may have been moved from
};

}  // namespace rill::nn

#pragma GCC visibility pop
