// Shared by the functions of strings: reading the operands' strings, broadcast, and writing results.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "rill/devices/registry.h"
#include "rill/devices/threads.h"
#include "rill/ops/apply.h"
#include "rill/ops/call_replay.h"
#include "rill/ops/shaping.h"
#include "rill/tensor/tensor.h"

namespace rill::strings {

// The elements of an operand, broadcast to `shape`.
template <class T>
class Elements {
 public:
  Elements(const Tensor& t, const Shape& shape) {
    const EagerScope eager;
    const PauseTapes pause;
    // One string for all has stride 0; others are dense.
    step_ = t.size() == 1 ? 0 : 1;
    const Tensor here = t.to(Device());
    held_ = (step_ == 0 || t.shape() == shape ? here : broadcast_to(here, shape)).contiguous();
    data_ = reinterpret_cast<const T*>(held_.rep()->data);
  }
  const T& operator[](int64_t i) const { return data_[i * step_]; }

 private:
  Tensor held_;
  const T* data_;
  int64_t step_;
};
using Texts = Elements<std::string>;

// Throws unless `t` is defined and its elements can be read; for `texts` also unless it is of strings.
void require_known(std::string_view op, const Tensor& t, const Where& where);
void require_texts(std::string_view op, const Tensor& t, const Where& where);

// Whether a trace records the call, by a record (records.h): an operand is only known when the function is called.
inline bool is_later(const Tensor& t) { return t.defined() && t.is_symbolic() && !compute_delayed(t); }

// The index of element `i` of a tensor, for messages: "[1, 2]".
std::string place_in(const Shape& shape, int64_t i);

// A tensor of T whose element i is f(i).
template <class T, class F>
Tensor made(const Shape& shape, F&& f, bool parallel = true) {
  Tensor out = empty_tensor(Spec{shape, dtype_of<T>(), false, Device()});
  T* to = reinterpret_cast<T*>(out.mutable_rep()->data);
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = f(i);
  };
  if (parallel) parallel_for(shape.numel(), 4096, [&](int64_t begin, int64_t end) { run(begin, end); });
  else run(0, shape.numel());
  return out;
}

// f of each string.
template <class T, class F>
Tensor mapped(std::string_view op, const Tensor& x, const Where& where, F&& f, bool parallel = true) {
  require_texts(op, x, where);
  const Texts texts(x, x.shape());
  return made<T>(x.shape(), [&](int64_t i) { return T(f(texts[i])); }, parallel);
}
// f of each pair of strings.
template <class T, class F>
Tensor mapped(std::string_view op, const Tensor& a, const Tensor& b, const Where& where, F&& f) {
  require_texts(op, a, where);
  require_texts(op, b, where);
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), where);
  const Texts x(a, shape), y(b, shape);
  return made<T>(shape, [&](int64_t i) { return T(f(x[i], y[i])); });
}

}  // namespace rill::strings
