// Creation of tensors: from C++ values, filled with one number, or as a range. Included by ops.h.
//
// Where `options` names no dtype, tensor() takes it from the C++ type; zeros, ones, empty, linspace and counting in
// fractions give f32; counting in whole numbers gives i64. Where it names no device, tensors are made on
// default_device(). Inside `function`, zeros, ones, full and arange are nodes of the graph; what tensor() makes is a
// constant that the graph captures.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rill/tensor/tensor.h"

#pragma GCC visibility push(default)

namespace rill {

struct TensorOptions {
  std::optional<DType> dtype = {};
  MaybeDevice device = {};
};

namespace detail {

template <class T>
concept Element = Scalar<T> || Text<T> || DimOrSize<T>;
// How elements wait for their tensor: bools as bytes (vector<bool> has no data()), text as std::string.
template <class T>
using Stored = std::conditional_t<
    Text<T>, std::string,
    std::conditional_t<std::same_as<T, bool>, unsigned char, std::conditional_t<DimOrSize<T>, int64_t, T>>>;
template <class T>
constexpr DType literal_dtype() {
  if constexpr (Text<T>) return DType::string;
  else if constexpr (DimOrSize<T>) return DType::i64;
  else return dtype_of<T>();
}

// A tensor with a copy of the elements at `data`, which are row-major and of `dtype`.
Tensor literal(const void* data, DType dtype, const Shape& shape, const TensorOptions& options, const Where& where);
[[noreturn]] void fail_ragged(size_t size, int64_t expected, size_t depth, const Where& where);
[[noreturn]] void fail_count(size_t count, const Shape& shape, const Where& where);

// A number of a list whose numbers are of several C++ types.
struct MixedNumber {
  template <Scalar T>
  MixedNumber(T v) : dtype(dtype_of<T>()) {
    if constexpr (std::is_integral_v<T>) whole = int64_t(v);
    else if constexpr (requires { v.imag(); }) real = v.real(), imag = v.imag();
    else real = double(v);
  }
  MixedNumber(Dim v) : dtype(DType::i64), whole(int64_t(v)) {}
  DType dtype;
  int64_t whole = 0;  // of integers; the bits of a u64
  double real = 0, imag = 0;
};
// The same as literal(), of numbers whose dtypes are promoted to one.
Tensor mixed_literal(const std::vector<MixedNumber>& numbers, const Shape& shape, const TensorOptions& options,
                     const Where& where);

template <class T>
void flatten(const T& value, size_t, Shape&, std::vector<Stored<T>>& out, const Where&) {
  out.emplace_back(value);
}
template <class T, class E>
void flatten(std::initializer_list<T> list, size_t depth, Shape& shape, std::vector<E>& out, const Where& where) {
  if (shape.size() == depth) shape.push_back(int64_t(list.size()));
  else if (shape[depth] != int64_t(list.size())) fail_ragged(list.size(), shape[depth], depth, where);
  for (const T& item : list) flatten(item, depth + 1, shape, out, where);
}
template <class T, class E>
void flatten(const std::vector<T>& list, size_t depth, Shape& shape, std::vector<E>& out, const Where& where) {
  if (shape.size() == depth) shape.push_back(int64_t(list.size()));
  else if (shape[depth] != int64_t(list.size())) fail_ragged(list.size(), shape[depth], depth, where);
  for (const T& item : list) flatten(item, depth + 1, shape, out, where);
}
template <class E, class List>
Tensor nested_literal(const List& list, const TensorOptions& options, const Where& where) {
  Shape shape;
  std::vector<Stored<E>> out;
  flatten(list, 0, shape, out, where);
  if constexpr (std::same_as<E, MixedNumber>) return mixed_literal(out, shape, options, where);
  else return literal(out.data(), literal_dtype<E>(), shape, options, where);
}

// A C++ number that remembers whether it is whole.
struct Number {
  template <class T>
    requires std::is_arithmetic_v<T>
  Number(T v) : is_whole(std::is_integral_v<T>), fraction(double(v)) {
    if constexpr (std::is_integral_v<T>) whole = int64_t(v), above = v > T(0) && int64_t(v) < 0;
  }
  Number(Dim v) : is_whole(true), whole(v), fraction(0) {}
  double real() const { return is_whole && !above ? double(whole) : fraction; }
  bool is_whole, above = false;  // above: of a u64 that no i64 holds, whose bits `whole` has
  Dim whole = 0;
  double fraction;  // the number, where it is not whole
};

}  // namespace detail

// Where a function takes options, a dtype may stand for {.dtype = ...}: zeros({2, 3}, i64), tensor({1, 2}, f32), eye(4,
// f64). This gives `name` that form: RILL_TAKES_DTYPE(eye, TensorOptions, (Dim rows), rows, -1, 0) calls eye(rows, -1,
// 0, {.dtype = dtype}, where).
#define RILL_INSIDE(...) __VA_ARGS__
#define RILL_TAKES_DTYPE(name, Options, parameters, ...)                         \
  template <std::same_as<DType> D>                                               \
  Tensor name(RILL_INSIDE parameters, D dtype, Where where = Where::current()) { \
    return name(__VA_ARGS__, Options{.dtype = dtype}, where);                    \
  }
// The same where some parameters before the options may be left out: the options follow the others at once.
#define RILL_TAKES_OPTIONS(name, parameters, ...)                                                            \
  RILL_TAKES_DTYPE(name, TensorOptions, parameters, __VA_ARGS__)                                             \
  inline Tensor name(RILL_INSIDE parameters, const TensorOptions& options, Where where = Where::current()) { \
    return name(__VA_ARGS__, options, where);                                                                \
  }

// From nested lists, up to four deep: tensor({{1.f, 2.f}, {3.f, 4.f}}) is f32[2,2]. float gives f32, double f64, int
// i32, int64_t i64, bool bool, text string; numbers of several types are promoted as tensors of theirs are, so that
// {1., INFINITY} is f64 and {1, 0.5f} f32. Throws where lists of one depth differ in length, and, as all that makes
// tensors, where an integer dtype that `options` name does not hold a number: astype() is what wraps.
template <detail::Element T>
Tensor tensor(std::initializer_list<T> v, const TensorOptions& options = {}, Where where = Where::current()) {
  return detail::nested_literal<T>(v, options, where);
}
template <detail::Element T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> v, const TensorOptions& options = {},
              Where where = Where::current()) {
  return detail::nested_literal<T>(v, options, where);
}
template <detail::Element T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> v,
              const TensorOptions& options = {}, Where where = Where::current()) {
  return detail::nested_literal<T>(v, options, where);
}
template <detail::Element T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<std::initializer_list<T>>>> v,
              const TensorOptions& options = {}, Where where = Where::current()) {
  return detail::nested_literal<T>(v, options, where);
}
#define RILL_TENSOR_OF_MIXED(List)                                                                         \
  inline Tensor tensor(const List& v, const TensorOptions& options = {}, Where where = Where::current()) { \
    return detail::nested_literal<detail::MixedNumber>(v, options, where);                                 \
  }                                                                                                        \
  template <std::same_as<DType> D>                                                                         \
  Tensor tensor(const List& v, D dtype, Where where = Where::current()) {                                  \
    return detail::nested_literal<detail::MixedNumber>(v, TensorOptions{.dtype = dtype}, where);           \
  }
RILL_TENSOR_OF_MIXED(std::initializer_list<detail::MixedNumber>)
RILL_TENSOR_OF_MIXED(std::initializer_list<std::initializer_list<detail::MixedNumber>>)
RILL_TENSOR_OF_MIXED(std::initializer_list<std::initializer_list<std::initializer_list<detail::MixedNumber>>>)
#undef RILL_TENSOR_OF_MIXED
// One element, of shape {}: tensor(2.f) is a strong f32, unlike the C++ scalar 2.f, which takes its neighbour's dtype.
template <detail::Element T>
Tensor tensor(const T& v, const TensorOptions& options = {}, Where where = Where::current()) {
  if constexpr (detail::Text<T>) {
    std::string text(v);
    return detail::literal(&text, DType::string, {}, options, where);
  } else if constexpr (DimOrSize<T>) {
    return tensor(int64_t(v), options, where);
  } else {
    return detail::literal(&v, dtype_of<T>(), {}, options, where);
  }
}
// The elements of `v`, row-major, under `shape`. Throws where their number does not fit.
template <detail::Element T>
Tensor tensor(const std::vector<T>& v, const Shape& shape, const TensorOptions& options = {},
              Where where = Where::current()) {
  if (int64_t(v.size()) != shape.numel()) detail::fail_count(v.size(), shape, where);
  if constexpr (std::same_as<T, bool> || !std::same_as<T, detail::Stored<T>>) {
    std::vector<detail::Stored<T>> stored(v.begin(), v.end());
    return detail::literal(stored.data(), detail::literal_dtype<T>(), shape, options, where);
  } else {
    return detail::literal(v.data(), dtype_of<T>(), shape, options, where);
  }
}
// The elements of `v` as a vector.
template <detail::Element T>
Tensor tensor(const std::vector<T>& v, const TensorOptions& options = {}, Where where = Where::current()) {
  const Shape shape = {int64_t(v.size())};
  return tensor(v, shape, options, where);
}
// From vectors of vectors, two or three deep. Throws where those of one depth differ in length.
template <detail::Element T>
Tensor tensor(const std::vector<std::vector<T>>& v, const TensorOptions& options = {}, Where where = Where::current()) {
  return detail::nested_literal<T>(v, options, where);
}
template <detail::Element T>
Tensor tensor(const std::vector<std::vector<std::vector<T>>>& v, const TensorOptions& options = {},
              Where where = Where::current()) {
  return detail::nested_literal<T>(v, options, where);
}
// A copy of the shape.numel() elements at `data`, row-major.
template <class T>
Tensor from_data(const T* data, const Shape& shape, const TensorOptions& options = {}, Where where = Where::current()) {
  return detail::literal(data, dtype_of<T>(), shape, options, where);
}

#define RILL_TENSOR_OF(List)                                              \
  template <detail::Element T, std::same_as<DType> D>                     \
  Tensor tensor(const List& v, D dtype, Where where = Where::current()) { \
    return tensor(v, TensorOptions{.dtype = dtype}, where);               \
  }
RILL_TENSOR_OF(std::initializer_list<T>)
RILL_TENSOR_OF(std::initializer_list<std::initializer_list<T>>)
RILL_TENSOR_OF(std::initializer_list<std::initializer_list<std::initializer_list<T>>>)
RILL_TENSOR_OF(std::initializer_list<std::initializer_list<std::initializer_list<std::initializer_list<T>>>>)
#undef RILL_TENSOR_OF
template <class V, std::same_as<DType> D>
Tensor tensor(const V& v, D dtype, Where where = Where::current()) {
  return tensor(v, TensorOptions{.dtype = dtype}, where);
}
template <detail::Element T, std::same_as<DType> D>
Tensor tensor(const std::vector<T>& v, const Shape& shape, D dtype, Where where = Where::current()) {
  return tensor(v, shape, TensorOptions{.dtype = dtype}, where);
}
template <class T, std::same_as<DType> D>
Tensor from_data(const T* data, const Shape& shape, D dtype, Where where = Where::current()) {
  return from_data(data, shape, TensorOptions{.dtype = dtype}, where);
}

// Every element 0 (false for bool, "" for string).
Tensor zeros(const Shape& shape, const TensorOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(zeros, TensorOptions, (const Shape& shape), shape)
RILL_SIZES_STAND_IN_BRACES(zeros, "zeros({3, 4})")
// Every element 1.
Tensor ones(const Shape& shape, const TensorOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(ones, TensorOptions, (const Shape& shape), shape)
RILL_SIZES_STAND_IN_BRACES(ones, "ones({3, 4})")
// Elements of any value, to be overwritten; zeros inside `function`.
Tensor empty(const Shape& shape, const TensorOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(empty, TensorOptions, (const Shape& shape), shape)
RILL_SIZES_STAND_IN_BRACES(empty, "empty({3, 4})")
// Every element `value`, which broadcasts to `shape`. The dtype is the value's; a C++ double gives f32.
Tensor full(const Shape& shape, const Tensor& value, const TensorOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(full, TensorOptions, (const Shape& shape, const Tensor& value), shape, value)
RILL_SIZES_STAND_IN_BRACES(full, "full({3, 4}, value)")
// Of the shape, dtype and device of `x`, but for what `options` says.
Tensor zeros_like(const Tensor& x, const TensorOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(zeros_like, TensorOptions, (const Tensor& x), x)
Tensor ones_like(const Tensor& x, const TensorOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(ones_like, TensorOptions, (const Tensor& x), x)
Tensor empty_like(const Tensor& x, const TensorOptions& options = {}, Where where = Where::current());
RILL_TAKES_DTYPE(empty_like, TensorOptions, (const Tensor& x), x)
Tensor full_like(const Tensor& x, const Tensor& value, const TensorOptions& options = {},
                 Where where = Where::current());
RILL_TAKES_DTYPE(full_like, TensorOptions, (const Tensor& x, const Tensor& value), x, value)

// The size of `x` along `axis` as an i64 tensor of shape {}, the same as tensor(x.dim(axis)). Inside a function whose
// signature leaves that size open it is a value of the graph: one trace is right for every size. Not differentiable.
Tensor size_of(const Tensor& x, Axis axis, Where where = Where::current());

// start, start + step, ... up to and without `stop`: i64 where all are whole, f32 otherwise. Throws where step is 0,
// and where an integer dtype does not hold the first or the last of them.
Tensor arange(detail::Number stop, const TensorOptions& options = {}, Where where = Where::current());
Tensor arange(detail::Number start, detail::Number stop, detail::Number step = 1, const TensorOptions& options = {},
              Where where = Where::current());
RILL_TAKES_DTYPE(arange, TensorOptions, (detail::Number stop), stop)
RILL_TAKES_OPTIONS(arange, (detail::Number start, detail::Number stop), start, stop, 1)
RILL_TAKES_DTYPE(arange, TensorOptions, (detail::Number start, detail::Number stop, detail::Number step), start, stop,
                 step)
// Element [.., i, ..] is the index i along `axis`.
Tensor iota(const Shape& shape, Axis axis = 0, const TensorOptions& options = {DType::i64, {}},
            Where where = Where::current());
RILL_TAKES_OPTIONS(iota, (const Shape& shape), shape, 0)
RILL_TAKES_DTYPE(iota, TensorOptions, (const Shape& shape, Axis axis), shape, axis)
// `count` evenly spaced numbers from start to stop, both included unless `endpoint` is false.
Tensor linspace(double start, double stop, int64_t count = 50, bool endpoint = true, const TensorOptions& options = {},
                Where where = Where::current());
RILL_TAKES_OPTIONS(linspace, (double start, double stop), start, stop, 50, true)
RILL_TAKES_OPTIONS(linspace, (double start, double stop, int64_t count), start, stop, count, true)
RILL_TAKES_DTYPE(linspace, TensorOptions, (double start, double stop, int64_t count, bool endpoint), start, stop, count,
                 endpoint)
namespace detail {
Tensor logspace(double start, double stop, int64_t count, double base, bool endpoint, const TensorOptions& options,
                const Where& where);
}
// base to the power of linspace(start, stop, count, endpoint). A bool after `count` is the endpoint, as in numpy; else the
// base follows, as in torch.
Tensor logspace(double start, double stop, int64_t count = 50, double base = 10, const TensorOptions& options = {},
                Where where = Where::current());
Tensor logspace(double start, double stop, int64_t count, std::same_as<bool> auto endpoint, double base = 10,
                const TensorOptions& options = {}, Where where = Where::current()) {
  return detail::logspace(start, stop, count, base, endpoint, options, where);
}
RILL_TAKES_OPTIONS(logspace, (double start, double stop), start, stop, 50, 10)
RILL_TAKES_OPTIONS(logspace, (double start, double stop, int64_t count), start, stop, count, 10)
RILL_TAKES_DTYPE(logspace, TensorOptions, (double start, double stop, int64_t count, double base), start, stop, count,
                 base)

// [rows, columns] with ones on diagonal k (above the main one where k > 0). columns = -1: as many as rows.
Tensor eye(Dim rows, Dim columns = -1, int64_t k = 0, const TensorOptions& options = {},
           Where where = Where::current());
RILL_TAKES_OPTIONS(eye, (Dim rows), rows, -1, 0)
RILL_TAKES_OPTIONS(eye, (Dim rows, Dim columns), rows, columns, 0)
RILL_TAKES_DTYPE(eye, TensorOptions, (Dim rows, Dim columns, int64_t k), rows, columns, k)
// eye(n). A plain integer means this too, and not the elementwise identity of a scalar.
Tensor identity(Dim n, const TensorOptions& options = {}, Where where = Where::current());
template <std::integral I>
Tensor identity(I n, const TensorOptions& options = {}, Where where = Where::current()) {
  return identity(Dim(n), options, where);
}
template <std::convertible_to<Dim> N, std::same_as<DType> D>
Tensor identity(N n, D dtype, Where where = Where::current()) {
  return identity(Dim(n), TensorOptions{.dtype = dtype}, where);
}
// [rows, columns] with ones on and below diagonal k.
Tensor tri(Dim rows, Dim columns = -1, int64_t k = 0, const TensorOptions& options = {},
           Where where = Where::current());
RILL_TAKES_OPTIONS(tri, (Dim rows), rows, -1, 0)
RILL_TAKES_OPTIONS(tri, (Dim rows, Dim columns), rows, columns, 0)
RILL_TAKES_DTYPE(tri, TensorOptions, (Dim rows, Dim columns, int64_t k), rows, columns, k)
// `x` [..., m, n] with zeros above (tril) or below (triu) diagonal k.
Tensor tril(const Tensor& x, int64_t k = 0, Where where = Where::current());
Tensor triu(const Tensor& x, int64_t k = 0, Where where = Where::current());
// Coordinates of a grid, one tensor an axis, from vectors. "xy" (as numpy) swaps the first two axes; "ij" does not.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& axes, std::string_view indexing = "xy",
                             Where where = Where::current());

}  // namespace rill

#pragma GCC visibility pop
