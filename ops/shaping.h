// Shapes and axes: reshaping, transposing, slicing, joining, splitting, repeating, padding. Included by ops.h.
//
// Negative axes count from the back everywhere. What can be a view of the operand's memory is one: reshape (where the
// strides allow it), transpose, broadcast_to, slices, reverse and what is made from them copy nothing.
#pragma once
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

struct SliceAttrs;
namespace detail {
// x[window], and a copy of `x` with `value` (broadcast, cast) there.
Tensor take_window(const Tensor& x, const SliceAttrs& window, const Where& where);
Tensor update_window(const Tensor& x, const Tensor& value, const SliceAttrs& window, const Where& where);
}  // namespace detail

// --- Views (views.cpp) -----------------------------------------------------------------------------------------------

// The same elements, row-major, under `shape`, one size of which may be -1 and follows from the others.
Tensor reshape(const Tensor& x, const Shape& shape, Where where = Where::current());
// As torch has it: does not compile, and says what does.
template <std::same_as<Tensor> T>
auto reshape(const T& x, is_axis auto...) {
  static_assert(!sizeof(T), "the sizes of a shape stand in braces: reshape(x, {2, -1})");
  return x;
}
// Output axis i is axis axes[i] of `x`; all axes reversed where `axes` is empty.
Tensor transpose(const Tensor& x, const Axes& axes = {}, Where where = Where::current());
// `x` repeated along axes of size 1 and new leading axes, as numpy broadcasts.
Tensor broadcast_to(const Tensor& x, const Shape& shape, Where where = Where::current());
// x[starts[0]:stops[0]:steps[0], ...] with Python's meaning of negative and too large ends. Lists shorter than x has
// axes leave the last ones whole; steps may be empty (all 1).
Tensor strided_slice(const Tensor& x, const Dims& starts, const Dims& stops, const Dims& steps = {},
                     Where where = Where::current());
// A copy of `x` with that slice replaced by `value`, which broadcasts to it.
Tensor update_slice(const Tensor& x, const Tensor& value, const Dims& starts, const Dims& stops, const Dims& steps = {},
                    Where where = Where::current());
// The elements start, start + 1, ..., stop - 1 along `axis`.
Tensor slice_axis(const Tensor& x, Axis axis, Dim start, Dim stop, Where where = Where::current());

// The shape that both broadcast to. Throws where there is none.
Shape broadcast_shapes(const Shape& a, const Shape& b, Where where = Where::current());
// All broadcast against each other.
std::vector<Tensor> broadcast_arrays(const std::vector<Tensor>& x, Where where = Where::current());
// `axis`, made positive. Throws numpy's error, in the name of `op`, where `x`, or a tensor of `ndim` axes, has no such
// axis.
int64_t normal_axis(int64_t axis, const Tensor& x, std::string_view op, const Where& where);
int64_t normal_axis(int64_t axis, int64_t ndim, std::string_view op, const Where& where);
// All of `axes` made positive; throws where one is repeated.
Dims normal_axes(const Dims& axes, const Tensor& x, std::string_view op, const Where& where);
Dims normal_axes(const Dims& axes, int64_t ndim, std::string_view op, const Where& where);

// --- Axes (shaping.cpp) ----------------------------------------------------------------------------------------------

// Without its axes of size 1, or without those of `axes`, which must be of size 1.
Tensor squeeze(const Tensor& x, const Axes& axes = {}, Where where = Where::current());
// With new axes of size 1 at these indices of the output's shape.
Tensor expand_dims(const Tensor& x, const Axes& axes, Where where = Where::current());
Tensor swapaxes(const Tensor& x, Axis a, Axis b, Where where = Where::current());  // axes a and b exchanged
// As torch has it: does not compile, and says what does.
template <is_axis I>
auto transpose(const Tensor& x, I, I) {
  static_assert(!sizeof(I), "axes stand in braces: transpose(x, {1, 0}); swapaxes(x, 0, 1) exchanges two");
  return x;
}
// Axes `from` moved to the positions `to`; the others keep their order.
Tensor moveaxis(const Tensor& x, const Axes& from, const Axes& to, Where where = Where::current());
// One axis in place of axes first..last (both included).
Tensor flatten(const Tensor& x, Axis first = 0, Axis last = -1, Where where = Where::current());
// An axis in several of these sizes, whose product it is; one may be -1: what is left.
Tensor unflatten(const Tensor& x, Axis axis, const Shape& sizes, Where where = Where::current());
// reshape(x, {-1}).
Tensor ravel(const Tensor& x, Where where = Where::current());
// With at least that many axes: new ones are put where numpy puts them.
Tensor atleast_1d(const Tensor& x, Where where = Where::current());
Tensor atleast_2d(const Tensor& x, Where where = Where::current());
Tensor atleast_3d(const Tensor& x, Where where = Where::current());

// --- Order (shaping.cpp) ---------------------------------------------------------------------------------------------

// Reversed along `axes`, or along all axes.
Tensor reverse(const Tensor& x, const Axes& axes = {}, Where where = Where::current());
// numpy's names: all axes, or those given; the second axis; the first.
Tensor flip(const Tensor& x, const Axes& axes = {}, Where where = Where::current());
Tensor fliplr(const Tensor& x, Where where = Where::current());
Tensor flipud(const Tensor& x, Where where = Where::current());
// k quarter turns from the first of `axes` towards the second.
Tensor rot90(const Tensor& x, int64_t k = 1, const Axes& axes = {0, 1}, Where where = Where::current());
// Shifted cyclically by `shift` elements along each of `axes`; of the flattened `x`
// where `axes` is empty. One shift serves all axes.
Tensor roll(const Tensor& x, const Axes& shift, const Axes& axes = {}, Where where = Where::current());

// Every window of these sizes along `axes` (default: all), in new last axes: [..., n, ...] gives [..., n - window + 1,
// ..., window]. numpy's, but a copy. Throws where a window is not 1 to n long.
Tensor sliding_window_view(const Tensor& x, const Axes& window, const Axes& axes = {}, Where where = Where::current());

// --- Repetition (shaping.cpp) ----------------------------------------------------------------------------------------

// `x` repeated as a whole reps[i] times along axis i.
Tensor tile(const Tensor& x, const Axes& reps, Where where = Where::current());
// Each element `times` times along `axis`; of the flattened `x` where there is no axis.
Tensor repeat(const Tensor& x, Dim times, std::optional<Axis> axis = {}, Where where = Where::current());
// Element i along `axis` times[i] times.
Tensor repeat(const Tensor& x, const std::vector<int64_t>& times, std::optional<Axis> axis = {},
              Where where = Where::current());
namespace detail {
Tensor repeat_by(const Tensor& x, const Tensor& times, std::optional<Axis> axis, Where where);
}
// The same of a vector of integers, or one for all: not inside `function`, for the result's size depends on its values.
// Throws for negative ones, for other dtypes and where there are not as many as the axis has elements.
template <std::same_as<Tensor> T>
Tensor repeat(const Tensor& x, const T& times, std::optional<Axis> axis = {}, Where where = Where::current()) {
  return detail::repeat_by(x, times, axis, where);
}
// [n, h, w, c] to [n, h/block, w/block, block*block*c], and back.
Tensor space_to_depth(const Tensor& x, int64_t block, Where where = Where::current());
Tensor depth_to_space(const Tensor& x, int64_t block, Where where = Where::current());

// --- Padding (pad.cpp) -----------------------------------------------------------------------------------------------

// How an axis is padded: lo before, hi after (negative ones cut off), interior between neighbours.
struct Padding {
  Dim lo = 0, hi = 0;
  int64_t interior = 0;
};
enum class PadMode : uint8_t { edge, reflect, symmetric, wrap };
// Padded with `value`, converted to x's dtype; strings are padded with a string, an empty one by default. One Padding
// serves all axes.
Tensor pad(const Tensor& x, const std::vector<Padding>& widths, const Tensor& value = 0,
           Where where = Where::current());
// Padded with the tensor's own elements: numpy's modes of these names.
Tensor pad(const Tensor& x, const std::vector<Padding>& widths, PadMode mode, Where where = Where::current());

// --- Joining and splitting (concat.cpp) ------------------------------------------------------------------------------

// Joined along `axis`; dtypes are promoted, all other sizes must be equal.
Tensor concat(const std::vector<Tensor>& x, Axis axis = 0, Where where = Where::current());
// Joined along a new axis.
Tensor stack(const std::vector<Tensor>& x, Axis axis = 0, Where where = Where::current());
#define RILL_TENSORS_STAND_IN_BRACES(name)                                                      \
  template <std::same_as<Tensor> T, class... More>                                              \
  auto name(const T& x, const More&...) {                                                       \
    static_assert(!sizeof(T), "tensors to be joined stand in braces: " #name "({x, y}, axis)"); \
    return x;                                                                                   \
  }
RILL_TENSORS_STAND_IN_BRACES(concat)
RILL_TENSORS_STAND_IN_BRACES(stack)
#undef RILL_TENSORS_STAND_IN_BRACES
// numpy's: along the second axis (the first of vectors); the first; the third.
Tensor hstack(const std::vector<Tensor>& x, Where where = Where::current());
Tensor vstack(const std::vector<Tensor>& x, Where where = Where::current());
Tensor dstack(const std::vector<Tensor>& x, Where where = Where::current());
// `parts` equal parts. Throws where the axis does not divide.
std::vector<Tensor> split(const Tensor& x, int64_t parts, Axis axis = 0, Where where = Where::current());
// Cut before each of `indices`: {2, 5} gives [0,2), [2,5) and the rest.
std::vector<Tensor> split_at(const Tensor& x, const std::vector<int64_t>& indices, Axis axis = 0,
                             Where where = Where::current());
// `parts` parts, the first of them one longer where the axis does not divide.
std::vector<Tensor> array_split(const Tensor& x, int64_t parts, Axis axis = 0, Where where = Where::current());
// numpy's: `parts` equal parts along the second axis (the first of vectors); the first; the third. At indices:
// split_at(). Throws where there is no such axis, or it does not divide.
std::vector<Tensor> hsplit(const Tensor& x, int64_t parts, Where where = Where::current());
std::vector<Tensor> vsplit(const Tensor& x, int64_t parts, Where where = Where::current());
std::vector<Tensor> dsplit(const Tensor& x, int64_t parts, Where where = Where::current());
// At indices, as numpy has it: does not compile, and says what does.
#define RILL_INDICES_SPLIT_AT(name)                                                                                    \
  template <is_axis I, class... More>                                                                                  \
  std::vector<Tensor> name(const Tensor&, std::initializer_list<I>, const More&...) {                                  \
    static_assert(!sizeof(I), #name "(x, parts) takes how many parts; before indices cuts split_at(x, {1, 3}, axis)"); \
    return {};                                                                                                         \
  }                                                                                                                    \
  template <is_axis I, class... More>                                                                                  \
  std::vector<Tensor> name(const Tensor& x, const std::vector<I>&, const More&...) {                                   \
    return name(x, std::initializer_list<I>{});                                                                        \
  }
RILL_INDICES_SPLIT_AT(split)
RILL_INDICES_SPLIT_AT(array_split)
RILL_INDICES_SPLIT_AT(hsplit)
RILL_INDICES_SPLIT_AT(vsplit)
RILL_INDICES_SPLIT_AT(dsplit)
#undef RILL_INDICES_SPLIT_AT
// The tensors along `axis`, without it.
std::vector<Tensor> unstack(const Tensor& x, Axis axis = 0, Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
