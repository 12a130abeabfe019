// Functions composed of elementwise ops, on large operands: computed in blocks, so that what one op hands to the next
// stays in the cache. Every op gives an element the same bits whatever block it is in, so the result is that of a call
// on whole operands. Only where nobody looks at the ops: eagerly, without a tape.
#pragma once
#include <span>
#include <utility>

#include "rill/ops/elementwise.h"
#include "rill/ops/scopes.h"

namespace rill::elementwise {

inline constexpr int64_t worth_blocks = 1 << 16;  // elements

// Whether no trace, tape, log or check of numbers would see ops of these operands, which lie on a CPU.
bool is_unobserved(std::span<const Tensor* const> in);

// f(context, block of each operand) for blocks of the operands' common shape, put together; an undefined tensor where
// they have to be taken whole.
Tensor run_in_blocks(std::span<const Tensor* const> in, Tensor (*f)(void* context, const Tensor* blocks),
                     void* context);

// f(x...), elementwise, in blocks where that pays.
template <class F, class... X>
Tensor in_blocks(F&& f, const X&... x) {
  const Tensor* const in[] = {&x...};
  bool large = false;
  if (executing_eagerly())  // a trace would take note that an open size is compared
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

// f of some indices of x's first axis, which gives a result for each, for all of them; an undefined tensor where x has
// to be taken whole.
Tensor run_in_rows(const Tensor& x, Tensor (*f)(void* context, const Tensor& rows), void* context);

// f(x), which reduces each row to something of a shape that rows share, by itself: in blocks of rows where that pays.
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

// in_blocks() for a function of floating numbers: integers become f32, and f16 and bf16 are computed as f32 and rounded
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
