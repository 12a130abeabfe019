// Shapes, strides and axes: short lists of numbers; up to six are stored inside the object, without heap memory.
#pragma once
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rill/tensor/dim.h"
#include "rill/tensor/error.h"
#include "rill/tensor/small_vec.h"

#pragma GCC visibility push(default)

namespace rill {

// A size that a signature leaves open; users write `any` (index.h): spec(f32, {any, 8}). In a Spec printed as
// '?'.
inline constexpr int64_t open_size = -1;

// Integers that count: a bool is none.
template <class T>
concept is_axis = DimOrSize<T> || (std::integral<T> && !std::same_as<T, bool>);

using Dims = SmallVec<Dim, 6>;      // sizes, positions and what is made from them
using Ints = SmallVec<int64_t, 6>;  // plain numbers: indices into memory, counters

namespace detail {
// A number in brackets, which counts from the end where it is negative, with the line where it stands: operator[] takes
// no defaulted parameter.
struct BracketIndex {
  int64_t index;
  Where where;

  template <std::integral I>
    requires(!std::same_as<I, bool>)
  BracketIndex(I index, Where where = Where::current()) : index(int64_t(index)), where(where) {}
  // The index among the `n` axes of `what`. Throws if there is no such axis.
  size_t of_axes(size_t n, const char* what) const {
    const int64_t from_front = index < 0 ? index + int64_t(n) : index;
    if (uint64_t(from_front) >= n) no_such_axis(n, what);
    return size_t(from_front);
  }

 private:
  [[noreturn, gnu::cold]] void no_such_axis(size_t n, const char* what) const;
};
}  // namespace detail

// The distance between neighbours along each axis, in elements: zero where it is broadcast, negative where reversed.
class Strides : public Ints {
 public:
  using Ints::Ints;
  Strides() = default;
  Strides(const Ints& strides) : Ints(strides) {}
  Strides(Ints&& strides) noexcept : Ints(std::move(strides)) {}
  template <std::unsigned_integral I>
  int64_t operator[](I axis) const {
    return Ints::operator[](axis);
  }
  template <std::unsigned_integral I>
  int64_t& operator[](I axis) {
    return Ints::operator[](axis);
  }
  // Of a signed number: -1 is the last axis. Throws if there is no such axis.
  int64_t operator[](detail::BracketIndex axis) const { return Ints::operator[](axis.of_axes(size(), "strides")); }
  int64_t& operator[](detail::BracketIndex axis) { return Ints::operator[](axis.of_axes(size(), "strides")); }
};

// The size along each axis; {} is a scalar. Sizes are zero or more, or open_size in a signature.
class Shape : public Dims {
 public:
  using Dims::Dims;
  Shape() = default;
  Shape(const Dims& d) : Dims(d) {}
  Shape(Dims&& d) noexcept : Dims(std::move(d)) {}
  template <is_axis I>
  Shape(const std::vector<I>& sizes) : Dims(sizes.begin(), sizes.end()) {}
  using Dims::back, Dims::front;
  template <std::unsigned_integral I>
  Size operator[](I axis) const {
    return Size(Dims::operator[](axis));
  }
  template <std::unsigned_integral I>
  Dim& operator[](I axis) {
    return Dims::operator[](axis);
  }
  // Of a signed number: -1 is the last axis. Throws if there is no such axis.
  Size operator[](detail::BracketIndex axis) const { return Size(Dims::operator[](axis.of_axes(size(), "shape"))); }
  Dim& operator[](detail::BracketIndex axis) { return Dims::operator[](axis.of_axes(size(), "shape")); }
  Size back() const { return Size(Dims::back()); }
  Size front() const { return Size(Dims::front()); }
  // Number of elements, the product of the sizes; 1 for {}.
  Size numel() const {
    Dim n = 1;
    for (Dim d : *this) n *= d;
    return Size(n);
  }
  int ndim() const { return int(size()); }  // the number of axes
};

// "[2,3]".
std::string to_string(const Shape& s);
// The same, where open sizes are '?'.
std::string with_open_sizes(const Shape& s);
// Widens `acc` to the shape that it and `s` broadcast to (numpy's rule); false where they do not.
bool broadcast_into(Shape& acc, const Shape& s);
// Row-major strides, in elements, of a dense tensor of this shape.
Strides contiguous_strides(const Shape& s);

// The axis that a function of one axis takes: any integer, and no bool, which C++ would make an integer without a word.
class Axis {
 public:
  template <is_axis I>
  constexpr Axis(I axis) : axis_(Dim(axis)) {}
  template <std::same_as<bool> B>
  Axis(B) {
    static_assert(!sizeof(B),
                  "a bool is no axis; an axis is a number, -1 the last, and options such as keepdims have "
                  "names: {.axis = -1, .keepdims = true}");
  }
  constexpr operator int64_t() const { return axis_; }
  friend constexpr int64_t format_as(Axis a) { return a; }  // how {fmt} prints it

 private:
  int64_t axis_ = 0;
};

namespace detail {
// The first field of options: braces give the others by name alone, so that sum(x, {0, 1}) means two axes.
struct NamedOnly {
  explicit constexpr NamedOnly() = default;
  friend constexpr bool operator==(const NamedOnly&, const NamedOnly&) = default;  // options may be compared
};

// An option of several numbers that may be left out: {.axes = {0, 1}}, where std::optional wants {{0, 1}}.
template <class T>
class Several : public std::optional<T> {
 public:
  using std::optional<T>::optional;
  Several() = default;
  Several(const std::optional<T>& x) : std::optional<T>(x) {}
  template <class A, class B, class... More>
    requires requires(A a, B b, More... more) { T{a, b, more...}; }
  Several(A a, B b, More... more) : std::optional<T>(T{a, b, more...}) {}
};
}  // namespace detail

// For functions of an axis whose bool has another meaning: `cure` says which.
#define RILL_BOOL_IS_NO_AXIS(name, cure)                                                       \
  template <class X, std::same_as<bool> B>                                                     \
  auto name(const X& x, B, ...) {                                                              \
    static_assert(!sizeof(B), #name "(x, axis): a bool is no axis; an axis is a number" cure); \
    return x;                                                                                  \
  }

// One or several axes, as numpy takes them: 0, -1, {0, 2}. Empty means "all" where an op says so.
class Axes : public Dims {
 public:
  Axes() = default;
  // Not from an initializer_list: g++ 12 would take the unknown name in sum(x, {.keepdim = true}) for an axis. Nor from
  // a bool, which would be axis 0 or 1.
  template <class... I>
    requires(sizeof...(I) > 0 && (is_axis<I> && ...))
  Axes(I... axes) {
    reserve(sizeof...(I));
    (push_back(Dim(axes)), ...);
  }
  template <std::same_as<Axis> A>  // an Axis alone, not what converts to one
  Axes(A axis) : Dims(1, Dim(int64_t(axis))) {}
  Axes(const Dims& d) : Dims(d) {}
  template <is_axis I>
  Axes(const std::vector<I>& axes) : Dims(axes.begin(), axes.end()) {}
  explicit Axes(std::span<const Dim> axes) : Dims(axes) {}
  static Axes repeat(Dim axis, size_t count) { return Dims(count, axis); }  // `axis`, so many times
};

}  // namespace rill

#pragma GCC visibility pop
