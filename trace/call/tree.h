// Arguments and results of traced functions: C++ values with tensors inside. walk() visits the leaves of a value in
// order; tensors are what changes from call to call, everything else is part of the cache key.
//
// A value may be a Tensor, a Variable, an arithmetic type, an enum, a string, an std::optional, vector, array, map,
// pair or tuple of such, or a struct of the user's with `template <class W> void walk(W&& w) { w(a, b, c); }` naming
// its fields.
#pragma once
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rill/ops/variable.h"

#pragma GCC visibility push(default)

namespace rill {

// A visitor of leaves.
class LeafVisitor {
 public:
  virtual void tensor(Tensor& t) = 0;
  virtual void constant(const void* bytes, size_t n) = 0;  // a C++ value, by its bytes
  virtual void structure(size_t n) = 0;                    // a container of n elements follows

 protected:
  ~LeafVisitor() = default;
};

namespace detail {
uint64_t identity_of(const Variable& v);  // never used twice in a process, as an address is
template <class T, template <class...> class Of>
inline constexpr bool is_a = false;
template <template <class...> class Of, class... A>
inline constexpr bool is_a<Of<A...>, Of> = true;
template <class T>
concept Walkable = requires(T& t) { t.walk([](auto&...) {}); };
template <class T>
concept MapLike = requires {
  typename T::key_type;
  typename T::mapped_type;
};
template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; };
}  // namespace detail

template <class T>
void walk(T& value, LeafVisitor& v) {
  if constexpr (std::is_same_v<T, Tensor>) {
    v.tensor(value);
  } else if constexpr (std::is_same_v<T, Variable>) {
    const uint64_t identity = detail::identity_of(value);  // the graph itself looks up the value at each call
    v.constant(&identity, sizeof identity);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, DType> ||
                       std::is_same_v<T, Device>) {
    v.constant(&value, sizeof value);
  } else if constexpr (DimOrSize<T>) {
    int64_t n = value;  // in a result it is a number, which a trace remembers to have given
    value = n;
    v.constant(&n, sizeof n);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    std::string_view s = value;
    v.structure(s.size());
    v.constant(s.data(), s.size());
  } else if constexpr (detail::is_a<T, std::optional>) {
    v.structure(value ? 1 : 0);
    if (value) walk(*value, v);
  } else if constexpr (detail::is_a<T, std::vector>) {
    v.structure(value.size());
    if constexpr (std::is_same_v<T, std::vector<bool>>) {
      for (bool b : value) v.constant(&b, 1);
    } else {
      for (auto& x : value) walk(x, v);
    }
  } else if constexpr (detail::MapLike<T>) {
    v.structure(value.size());
    for (auto& [key, x] : value) {
      auto k = key;
      walk(k, v);
      walk(x, v);
    }
  } else if constexpr (detail::TupleLike<T>) {
    std::apply([&](auto&... x) { (walk(x, v), ...); }, value);
  } else if constexpr (std::is_base_of_v<Dims, T>) {
    v.structure(value.size());
    for (Dim& d : value) walk(d, v);
  } else if constexpr (std::is_same_v<T, Tensors>) {
    v.structure(value.size());
    for (Tensor& t : value) v.tensor(t);
  } else if constexpr (detail::Walkable<T>) {
    value.walk([&](auto&... field) { (walk(field, v), ...); });
  } else {
    static_assert(std::is_same_v<T, void>,
                  "a traced function cannot take or give this type: see rill/trace/call/tree.h for those it can");
  }
}

namespace detail {

// What a value holds, to see whether a callable has written to it.
class Contents final : public LeafVisitor {
 public:
  void tensor(Tensor& t) override {
    const uint64_t id = t.defined() ? t.rep()->id : 0;
    constant(&id, sizeof id);
  }
  void constant(const void* value, size_t n) override { bytes.append(static_cast<const char*>(value), n); }
  void structure(size_t n) override { constant(&n, sizeof n); }
  std::string bytes;
};

// Whether T is made of tensors and C++ values, which a reference to it would be there to change. A Variable is changed
// through a copy as well; structs of the user's may hold either.
template <class T>
inline constexpr bool holds_values = !std::is_same_v<T, Variable> && !Walkable<T>;
template <class T>
  requires(is_a<T, std::optional> || is_a<T, std::vector>)
inline constexpr bool holds_values<T> = holds_values<typename T::value_type>;
template <MapLike T>
inline constexpr bool holds_values<T> = holds_values<typename T::mapped_type>;
template <class... T>
inline constexpr bool holds_values<std::tuple<T...>> = (holds_values<T> || ...);
template <class T, class U>
inline constexpr bool holds_values<std::pair<T, U>> = holds_values<T> || holds_values<U>;
template <class T, size_t n>
inline constexpr bool holds_values<std::array<T, n>> = holds_values<T>;

// Whether a callable could write through a parameter of type A.
template <class A>
inline constexpr bool is_writable = std::is_lvalue_reference_v<A> && !std::is_const_v<std::remove_reference_t<A>>;

}  // namespace detail

}  // namespace rill

#pragma GCC visibility pop
