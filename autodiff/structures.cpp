#include "rill/autodiff/structures.h"

#include <fmt/format.h>

#include <algorithm>

#include "rill/autodiff/jacobians.h"
#include "rill/ops/ops.h"

namespace rill::detail {

Tensor fresh(std::string_view op, const Tensor& x, const Where& where) {
  require_defined(op, x, "x", where);
  return identity(x, where);
}

void WatchLeaves::argument(Tensor& t) {
  t = fresh(op_, t, where_);
  require_jacobian(op_, t, "the argument", where_);
  tape_.watch(t, where_);
  sources.emplace_back(t);
}

void WatchLeaves::tensor(Tensor& t) {
  if (is_source(t)) argument(t);
}

void WatchLeaves::variable(const Variable& v) {
  tape_.watch(v, where_);
  sources.emplace_back(v);
}

void FindSources::tensor(Tensor& t) {
  if (is_source(t)) sources.emplace_back(t);
}

void PutGradients::tensor(Tensor& t) {
  if (is_source(t)) t = std::move(*next_++);
  else if (t.defined() && !are_places_) t = zeros_like(t);
}

void require_scalar(std::string_view op, const Tensor& y, const Where& where) {
  require_defined(op, y, "what the function gives", where);
  if (y.size() != 1)
    fail(op,
         fmt::format("the function gives {}, and a gradient needs one number. sum() it, or use jacrev()",
                     to_string(y.spec())),
         where);
}

void require_like(std::span<Tensor* const> results, std::span<Tensor* const> cotangents, const Where& where) {
  if (cotangents.size() != results.size())
    fail("vjp", fmt::format("{} cotangents for {} tensors that the function gave", cotangents.size(), results.size()),
         where);
  for (size_t k = 0; k < results.size(); ++k) {
    require_defined("vjp", *cotangents[k], "the cotangent", where);
    const Shape &want = results[k]->shape(), &have = cotangents[k]->shape();
    const bool fits = std::equal(want.begin(), want.end(), have.begin(), have.end(),
                                 [](Dim a, Dim b) { return a.hint() == b.hint(); });
    if (is_differentiable(results[k]->dtype()) && !fits)
      fail("vjp",
           fmt::format("cotangent {} is {}, and the function gave {} there: their shapes must be equal", k,
                       to_string(cotangents[k]->spec()), to_string(results[k]->spec())),
           where);
  }
}

std::vector<Tensor> gradients_among(std::span<Tensor* const> tensors) {
  std::vector<Tensor> found;
  for (const Tensor* t : tensors)
    if (is_source(*t)) found.push_back(*t);
  return found;
}

}  // namespace rill::detail
