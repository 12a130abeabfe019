// Shared by layers: parameters that are named in their layer's scope, the last steps of a layer with a bias, checks.
#pragma once
#include "rill/nn/layer.h"
#include "rill/nn/param.h"
#include "rill/ops/names.h"
#include "rill/ops/scopes.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// A parameter of layer `layer`, or none unless it is `wanted`.
Param param(const std::string& layer, const std::string& name, const Initializer& initializer, const Where& where,
            Kind kind = Kind::weight, bool wanted = true);

namespace impl {
// The scopes that the names of all these have in common, without those that are open already; `name` where there are
// none: "0/attention" of "blocks/0/attention/query/kernel" and "blocks/0/attention/output/kernel" in scope "blocks".
std::string shared_scope(const NamedVariables& variables, const std::string& name);
}  // namespace impl
// The scope of a layer's nodes: what its Variables are named in, which nn::build() makes their path in the model. A layer
// without any is called by its `name`.
template <class L>
std::string scope_of(const L& layer, const std::string& name) {
  return executing_eagerly() ? name : impl::shared_scope(variables(layer), name);
}

// The size of `axis` of x, as a number: parameters have one. Throws where a signature leaves it open, or x has no such
// axis.
int64_t known_size(const Tensor& x, int64_t axis, std::string_view op, const Where& where);

// The same, if a parameter exists for that size: its own axis `at`, times `factor`. Then the size of x may be open, and
// a different one is an error that names the expected size.
int64_t size_for(const Param& made, int64_t at, int64_t factor, const Tensor& x, int64_t axis, std::string_view op,
                 const Where& where);

// activation(y + bias), each where it is there. `bias` is of y's last axis.
Tensor finish(const Tensor& y, const Param& bias, const Activation& activation, const Call& call, const Where& where);

// Throws unless `n` is at least 1.
int64_t checked_count(std::string_view op, std::string_view what, int64_t n, const Where& where);

}  // namespace rill::nn

#pragma GCC visibility pop
