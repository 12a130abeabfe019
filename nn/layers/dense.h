// Dense layers: each output is a weighted sum of all inputs.
#pragma once
#include "rill/nn/layer.h"
#include "rill/nn/param.h"

#pragma GCC visibility push(default)

namespace rill::nn {

struct DenseOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Activation activation = {};
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform;
  Initializer bias_initializer = constant(0);
  std::string name = "dense";
};
// activation(x kernel + bias): [..., in] to [..., out]. Without `in`, it is found at the first call.
class Dense {
 public:
  explicit Dense(int64_t out, const DenseOptions& options = {}, Where where = Where::current());
  Dense(int64_t in, int64_t out, const DenseOptions& options = {}, Where where = Where::current());
  template <std::convertible_to<Activation> A>
    requires(!std::is_arithmetic_v<A>)
  Dense(int64_t out, int64_t, const A&) : Dense(out) {
    static_assert(!sizeof(A*), "the activation is an option: nn::Dense(in, out, {.activation = relu})");
  }
  template <std::convertible_to<Activation> A>
    requires(!std::is_arithmetic_v<A>)
  Dense(int64_t out, const A&) : Dense(out) {
    static_assert(!sizeof(A*), "the activation is an option: nn::Dense(out, {.activation = relu})");
  }
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Dense, kernel, bias)
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::string name;
  int64_t out;
  Param kernel;  // [in, out]
  Param bias;    // [out]
  Activation activation;
};

struct BilinearOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Activation activation = {};
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform;
  Initializer bias_initializer = constant(0);
  std::string name = "bilinear";
};
// activation(bilinear(x, y, kernel) + bias), of two inputs [..., in1] and [..., in2]: see bilinear(). The sizes of both
// are found at the first call. First values count in1 * in2 numbers in.
class Bilinear {
 public:
  explicit Bilinear(int64_t out, const BilinearOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, const Tensor& y, const Call& call = {}, Where where = Where::current()) const;
  RILL_LAYER(Bilinear, kernel, bias)
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }

  std::string name;
  int64_t out;
  Param kernel;  // [in1, in2, out]
  Param bias;    // [out]
  Activation activation;
};

}  // namespace rill::nn

#pragma GCC visibility pop
