// Shapes, strides and axes: short lists of numbers, kept inside the object up to six of them.
#pragma once
#include <cstdint>
#include <string>

#include "rill/tensor/dim.h"
#include "rill/tensor/small_vec.h"

namespace rill {

// A size that a signature leaves open; users write `any` (index.h): spec(f32, {any, 8}). Printed as '?'.
inline constexpr int64_t open_size = -1;

using Dims = SmallVec<Dim, 6>;      // sizes, positions and what is made from them
using Ints = SmallVec<int64_t, 6>;  // plain numbers: indices into memory, counters
using Strides = Ints;               // in elements, may be zero (broadcast) or negative (reversed)

// The size along each axis; {} is a scalar. Sizes are zero or more, or open_size in a signature.
class Shape : public Dims {
 public:
  using Dims::Dims;
  Shape() = default;
  Shape(const Dims& d) : Dims(d) {}
  Shape(Dims&& d) noexcept : Dims(std::move(d)) {}
  // Number of elements, the product of the sizes; 1 for {}.
  Dim numel() const {
    Dim n = 1;
    for (Dim d : *this) n *= d;
    return n;
  }
  int ndim() const { return int(size()); }
};

// "[2,3]"; an open size prints as '?'.
std::string to_string(const Shape& s);
// Widens `acc` to the shape that it and `s` broadcast to (numpy's rule); false where they do not.
bool broadcast_into(Shape& acc, const Shape& s);
// Row-major strides, in elements, of a dense tensor of this shape.
Strides contiguous_strides(const Shape& s);

// One or several axes, as numpy takes them: 0, -1, {0, 2}. Empty means "all" where an op says so.
class Axes : public Dims {
 public:
  using Dims::Dims;
  Axes() = default;
  Axes(int64_t axis) : Dims(1, Dim(axis)) {}
  Axes(int axis) : Dims(1, Dim(axis)) {}
  Axes(Dim axis) : Dims(1, axis) {}
  Axes(const Dims& d) : Dims(d) {}
};

}  // namespace rill
