// gradcheck: are a function's derivatives right? Compares the results of tapes and accumulators with finite
// differences.
//
//   GradCheck check = gradcheck([](const Tensor& a, const Tensor& b) { return a * sin(b); }, {x, y}, {.order = 2});
//   if (!check) std::cout << check.message << "\n";
#pragma once
#include <string>
#include <vector>

#include "rill/autodiff/forward.h"

#pragma GCC visibility push(default)

namespace rill {

struct GradCheckOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  int order = 1;                 // 2: the derivatives of the gradient too; any order
  std::optional<double> eps{};   // the step of the differences; 1e-6, if an input is f32 1e-3, of 16 bits 0.02
  std::optional<double> rtol{};  // allowed: atol + rtol * the difference quotient; 1e-3, of f32 1e-2, of 16 bits 0.1
  std::optional<double> atol{};  // 1e-5, of f32 1e-2, of 16 bits 0.1
  bool forward = true;           // whether tangents are compared too, not only gradients
};

// The worst derivative, by how far it exceeds the tolerance.
struct GradCheck {
  bool ok = true;
  int order = 1;                        // of the derivative, if one is wrong
  std::string mode;                     // "gradient" or "tangent": how it was computed
  size_t output = 0, input = 0;         // the result and the input, counted from 0 in the order of their tensors
  Shape output_element, input_element;  // the element of each
  double given = 0, expected = 0;       // by the mode, and by finite differences
  double difference = 0;                // between the two
  size_t wrong = 0, compared = 0;       // how many derivatives exceed the tolerance, and how many there are
  std::string message;                  // all this as a sentence
  explicit operator bool() const { return ok; }
};

namespace detail {
using FlatFunction = Callback<std::vector<Tensor>(std::span<const Tensor>)>;
GradCheck run_gradcheck(const FlatFunction& f, std::vector<Tensor> inputs, const GradCheckOptions& options,
                        const Where& where);
}  // namespace detail

// Whether f's derivatives by every floating tensor in x agree with finite differences: each element of the results by
// each element of the inputs, by the tape and in forward mode, up to options.order. x and f(x) may be structures of
// tensors; several arguments are a std::tuple, or gradcheck(f, {x, y}). f must be smooth around x, return the same
// values in each call, and is called twice for each element: use small inputs, of f64. For complex numbers the
// derivatives by both parts of both are compared. Throws if no tensor in x has derivatives.
template <class F, class X>
GradCheck gradcheck(F&& f, const X& x, const GradCheckOptions& options = {}, Where where = Where::current()) {
  detail::require_callable("gradcheck", f, "the function", where);
  auto arguments = detail::as_argument(x);
  std::vector<Tensor> inputs;
  for (const Tensor* t : detail::tensors_in(arguments)) inputs.push_back(*t);
  auto flat = [&](std::span<const Tensor> in) {
    auto own = arguments;
    const std::vector<Tensor*> places = detail::tensors_in(own);
    for (size_t k = 0; k < places.size(); ++k) *places[k] = in[k];
    auto y = detail::as_argument(detail::call_spread(where, f, own));
    std::vector<Tensor> results;
    for (const Tensor* t : detail::tensors_in(y)) results.push_back(*t);
    return results;
  };
  return detail::run_gradcheck(flat, std::move(inputs), options, where);
}
template <class F, size_t n>
GradCheck gradcheck(F&& f, const Tensor (&x)[n], const GradCheckOptions& options = {}, Where where = Where::current()) {
  return [&]<size_t... i>(std::index_sequence<i...>) {
    return gradcheck(f, std::tuple(x[i]...), options, where);
  }(std::make_index_sequence<n>());
}

}  // namespace rill

#pragma GCC visibility pop
