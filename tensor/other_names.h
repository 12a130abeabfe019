// Members of numpy's, torch's and TensorFlow's arrays that rill spells otherwise, such as x.sum(), which is sum(x)
// here. None compiles; the compiler's message says what to write. A base of Tensor and Variable, with one line per
// name.
#pragma once
#include <concepts>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "rill/tensor/shape.h"

#pragma GCC visibility push(default)

namespace rill {

class Tensor;

namespace detail {

// An argument of any type, braces included.
struct Arg {
  Arg() = default;
  template <class T>
  Arg(const T&) {}
  Arg(std::initializer_list<Arg>) {}
};

// The return type is deduced, so that compilers instantiate the body at the call, and print its assertion. It is a
// Tensor, so that they print nothing else. Each name costs every program compile time, so only frequent ones are here.
#define RILL_WRITTEN(name, cure)                                 \
  template <class T = Tensor>                                    \
  auto name(Arg = {}, Arg = {}, ...) const {                     \
    static_assert(!sizeof(T), "x." #name "() is written " cure); \
    return T();                                                  \
  }
#define RILL_FUNCTION(name) RILL_WRITTEN(name, #name "(x)")

struct OtherNames {
  // Calls that lack the type of the result.
  template <int n = 0>
  auto item() const {
    static_assert(n, "item() is told the C++ type of the number: x.item<float>()");
    return 0.f;
  }
  template <int n = 0>
  auto to_vector() const {
    static_assert(n, "to_vector() is told the C++ type of the elements: x.to_vector<float>()");
    return std::vector<float>();
  }
  template <int n = 0>
  auto data() const {
    static_assert(n, "data() is told the C++ type of the elements, which is the dtype's: x.data<float>()");
    return static_cast<const float*>(nullptr);
  }

  // Calls with an argument that the member does not take.
  template <is_axis I>
  auto size(I) const {
    static_assert(!sizeof(I), "size() is the number of all elements; the size of one axis is x.dim(axis)");
    return 0;
  }
  template <is_axis I>
  auto shape(I) const {
    static_assert(!sizeof(I), "shape() is the list of all sizes; the size of one axis is x.dim(axis)");
    return 0;
  }
  template <int n = 0>
  auto dim() const {
    static_assert(n, "dim(axis) is the size of one axis; the number of axes is x.ndim()");
    return 0;
  }
  template <class T = Tensor>
  auto reshape(is_axis auto...) const {
    static_assert(!sizeof(T), "the sizes of a shape stand in braces: x.reshape({2, -1})");
    return T();
  }
  template <class U, class T = Tensor>
  auto astype() const {
    static_assert(!sizeof(T), "a dtype is an argument: x.astype(f64)");
    return T();
  }
  template <class T = Tensor>
  auto astype(std::convertible_to<const char*> auto) const {
    static_assert(!sizeof(T), "a dtype is a value and not its name: x.astype(f32)");
    return T();
  }

  // clang-format off
  RILL_FUNCTION(abs) RILL_FUNCTION(all) RILL_FUNCTION(any) RILL_FUNCTION(argmax)
  RILL_FUNCTION(exp) RILL_FUNCTION(flatten) RILL_FUNCTION(log) RILL_FUNCTION(max) RILL_FUNCTION(mean)
  RILL_FUNCTION(min) RILL_FUNCTION(norm) RILL_FUNCTION(relu) RILL_FUNCTION(softmax) RILL_FUNCTION(sqrt)
  RILL_FUNCTION(squeeze) RILL_FUNCTION(sum) RILL_FUNCTION(transpose)
  RILL_WRITTEN(add_, "x += y: tensors never change")
  RILL_WRITTEN(backward, "tape.gradient(loss, w) of a GradientTape")
  RILL_WRITTEN(clamp, "clip(x, low, high)")
  RILL_WRITTEN(clone, "y = x: tensors never change")
  RILL_WRITTEN(cpu, "x.to(\"cpu:0\")")
  RILL_WRITTEN(cuda, "x.to(\"gpu:0\")")
  RILL_WRITTEN(detach, "stop_gradient(x)")
  RILL_WRITTEN(fill_, "x = full_like(x, v): tensors never change")
  RILL_WRITTEN(grad, "tape.gradient(loss, w) of a GradientTape")
  RILL_WRITTEN(matmul, "matmul(x, y)")
  RILL_WRITTEN(mm, "matmul(x, y)")
  RILL_WRITTEN(numel, "x.size()")
  RILL_WRITTEN(numpy, "x.to_vector<float>()")
  RILL_WRITTEN(permute, "transpose(x, {1, 0})")
  RILL_WRITTEN(pow, "pow(x, y)")
  RILL_WRITTEN(print, "std::cout << x")
  RILL_WRITTEN(requires_grad_, "tape.watch(x) of a GradientTape")
  RILL_WRITTEN(std, "stddev(x)")
  RILL_WRITTEN(t, "x.T()")
  RILL_WRITTEN(tolist, "x.to_vector<float>()")
  RILL_WRITTEN(unsqueeze, "expand_dims(x, axis)")
  RILL_WRITTEN(view, "x.reshape({2, -1})")
  // clang-format on
};
#undef RILL_FUNCTION

// Functions called with numbers instead of a shape, as in zeros(3, 4).
#define RILL_SIZES_STAND_IN_BRACES(name, call)                                \
  template <is_axis I, class... More>                                         \
  auto name(I, const More&...) {                                              \
    static_assert(!sizeof(I), "the sizes of a shape stand in braces: " call); \
    return Tensor();                                                          \
  }

}  // namespace detail
}  // namespace rill

#pragma GCC visibility pop
