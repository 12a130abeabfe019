// The arguments of a tensor's call operator: a(1, all, slice(1, 3), newaxis, ellipsis, mask, indices).
#pragma once
#include <concepts>
#include <cstdint>
#include <optional>

#include "rill/tensor/error.h"
#include "rill/tensor/shape.h"

#pragma GCC visibility push(default)

namespace rill {

class Tensor;
struct ReduceOptions;

inline constexpr std::nullopt_t none = std::nullopt;

// Half open, as in Python: slice(start, stop, step). `none` omits an end; negative ends count from the back.
struct Slice {
  std::optional<Dim> start, stop;
  int64_t step = 1;
};
constexpr Slice slice(std::optional<Dim> stop) { return {none, stop, 1}; }
constexpr Slice slice(std::optional<Dim> start, std::optional<Dim> stop, int64_t step = 1) {
  return {start, stop, step};
}

// `all` in an index takes the whole axis; as a function, all(x, axis) is true where every element is.
struct All {
  Tensor operator()(const Tensor& x, const ReduceOptions& options, Where where = Where::current()) const;
  template <int = 0>  // see RILL_REDUCTION in ops/reductions.h
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  template <std::same_as<bool> B = bool>
  Tensor operator()(const Tensor& x, const Axes& axes, B keepdims = false, Where where = Where::current()) const;
  template <int = 0>
  Tensor operator()(const Tensor& x, const Axes& axes, const ReduceOptions& options,
                    Where where = Where::current()) const;
  template <std::same_as<bool> B>
  auto operator()(const Tensor& x, B) const {
    static_assert(!sizeof(B), "a bool is no axis: keepdims has a name, all(x, {.keepdims = true})");
    return x;
  }
};
// `any` in a signature is an open size; as a function, any(x, axis) is true where at least one element is.
struct Any {
  constexpr operator int64_t() const { return open_size; }
  constexpr operator Dim() const { return open_size; }
  Tensor operator()(const Tensor& x, const ReduceOptions& options, Where where = Where::current()) const;
  template <int = 0>  // see RILL_REDUCTION in ops/reductions.h
  Tensor operator()(const Tensor& x, Where where = Where::current()) const;
  template <std::same_as<bool> B = bool>
  Tensor operator()(const Tensor& x, const Axes& axes, B keepdims = false, Where where = Where::current()) const;
  template <int = 0>
  Tensor operator()(const Tensor& x, const Axes& axes, const ReduceOptions& options,
                    Where where = Where::current()) const;
  template <std::same_as<bool> B>
  auto operator()(const Tensor& x, B) const {
    static_assert(!sizeof(B), "a bool is no axis: keepdims has a name, any(x, {.keepdims = true})");
    return x;
  }
};
inline constexpr All all{};
inline constexpr Any any{};

struct NewAxis {};
struct Ellipsis {};
inline constexpr NewAxis newaxis{};
inline constexpr Ellipsis ellipsis{};

// One entry of an index.
class Index {
 public:
  enum class Kind : uint8_t { absent, integer, slice, newaxis, ellipsis, tensor };
  Index() = default;
  template <std::integral I>
    requires(!std::same_as<I, bool>)  // a number too large for i64 is out of range for every axis
  Index(I i) : kind(Kind::integer), start(Dim(i > I(0) && int64_t(i) < 0 ? INT64_MAX : int64_t(i))) {}
  Index(Dim i) : kind(Kind::integer), start(i) {}
  Index(All) : kind(Kind::slice) {}
  Index(const Slice& s) : kind(Kind::slice), start(s.start), stop(s.stop), step(s.step) {}
  Index(NewAxis) : kind(Kind::newaxis) {}
  Index(Ellipsis) : kind(Kind::ellipsis) {}
  Index(const Tensor& t) : kind(Kind::tensor), tensor(&t) {}  // bool mask, or integers
  // Python's x[[0, 1]], x[None] and x[":"]: deleted, with messages that say what to write.
  template <is_axis I, is_axis... More>
  Index(I, I, More...) {
    static_assert(!sizeof(I), "indices in a list are a tensor: x(tensor({0, 1}))");
  }
  template <std::same_as<std::nullopt_t> N>
  Index(N) {
    static_assert(!sizeof(N), "none is an end of a slice; a new axis is newaxis");
  }
  template <std::convertible_to<const char*> S>
    requires(!std::same_as<S, std::nullptr_t> && !std::integral<S>)
  Index(S) {
    static_assert(!sizeof(S), "a whole axis is all, as in x(all, 0), and 1:3 is slice(1, 3)");
  }

  Kind kind = Kind::absent;
  std::optional<Dim> start, stop;  // an integer index is in `start`
  int64_t step = 1;
  const Tensor* tensor = nullptr;  // lives as long as the indexing expression
};

}  // namespace rill

#pragma GCC visibility pop
