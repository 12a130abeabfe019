// Functions composed of elementwise ops, on large operands: computed in blocks, so that intermediate results stay in
// the cache. Every op gives an element the same bits in any block, so the result is that of a call on complete
// operands. Only if the ops are not observed: eagerly, without a tape.
#pragma once
#include <span>
#include <utility>

#include "rill/ops/elementwise.h"
#include "rill/ops/scopes.h"

#pragma GCC visibility push(default)  // for librill_ops, too

namespace rill::elementwise {

inline constexpr int64_t worth_blocks = 1 << 16;  // elements

// Whether no trace, tape, log or check of numbers would observe ops on these operands, which are on a CPU.
bool is_unobserved(std::span<const Tensor* const> in);

// f(context, block of each operand) for blocks of the operands' common shape, joined; an undefined tensor if
// they cannot be cut.
Tensor run_in_blocks(std::span<const Tensor* const> in, Tensor (*f)(void* context, const Tensor* blocks),
                     void* context);

// f(x...), elementwise, in blocks if that is faster.
template <class F, class... X>
Tensor in_blocks(F&& f, const X&... x) {
  const Tensor* const in[] = {&x...};
  bool large = false;
  if (executing_eagerly())  // a trace would record the comparison of an open size as a guard
    for (const Tensor* t : in) large = large || (t->defined() && t->size() >= worth_blocks);
  if (large) [[unlikely]] {
    const auto call = [](void* context, const Tensor* blocks) {
      return [&]<size_t... i>(std::index_sequence<i...>) {
        return (*static_cast<std::remove_reference_t<F>*>(context))(blocks[i]...);
      }(std::make_index_sequence<sizeof...(X)>());
    };
    if (Tensor y = run_in_blocks(in, call, &f); y.defined()) return y;
  }
  return f(x...);
}

// f of some indices of x's first axis, with a result for each, for all of them; an undefined tensor if x
// cannot be cut.
Tensor run_in_rows(const Tensor& x, Tensor (*f)(void* context, const Tensor& rows), void* context);

// f(x), which reduces each row independently to one common shape: in blocks of rows if that is faster.
template <class F>
Tensor in_rows(F&& f, const Tensor& x) {
  if (executing_eagerly() && x.defined() && x.size() >= worth_blocks) [[unlikely]] {
    const auto call = [](void* context, const Tensor& rows) {
      return (*static_cast<std::remove_reference_t<F>*>(context))(rows);
    };
    if (Tensor y = run_in_rows(x, call, &f); y.defined()) return y;
  }
  return f(x);
}

// in_blocks() for a function of floats: integers become f32, and f16 and bf16 are computed as f32 and rounded
// once, not after every step.
template <class F>
Tensor in_float_blocks(F&& f, const Tensor& x) {
  return in_blocks(
      [&](const Tensor& t) {
        const DType d = to_floating(t.dtype());
        return astype(f(astype(t, is_half(d) ? f32 : d)), d);
      },
      x);
}

}  // namespace rill::elementwise

#pragma GCC visibility pop
