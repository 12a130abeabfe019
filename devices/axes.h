// Neighbouring axes that are one run in memory: whoever iterates over strided operands joins them first, so that its
// rows are as long as possible.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace rill {

// Whether an axis with stride `outer` and the one of `size` elements inside it, with stride `inner`, are one axis with
// the inner one's stride.
constexpr bool is_one_run(int64_t outer, int64_t inner, int64_t size) { return outer == inner * size; }
// The same with a stride for each operand: whether it holds for all of them.
template <class Strides>
bool is_one_run(const Strides& outer, const Strides& inner, int64_t size) {
  for (size_t k = 0; k < std::size(inner); ++k)
    if (!is_one_run(outer[k], inner[k], size)) return false;
  return true;
}

// Appends an axis inside the existing ones, joined to the last of them if both are one run for each of the strides.
template <class Axes, class Axis, class... Strides>
void append_axis(Axes& axes, const Axis& axis, Strides Axis::*... strides) {
  if (axes.empty() || !(is_one_run(axes.back().*strides, axis.*strides, axis.size) && ...))
    return void(axes.push_back(axis));
  const int64_t size = axes.back().size * axis.size;
  axes.back() = axis;
  axes.back().size = size;
}

}  // namespace rill
