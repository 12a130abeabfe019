// C++ values with tensors inside: what traced functions, control flow and derivatives take and give. walk() visits the
// leaves of a value in order. To a traced function tensors are what changes from call to call, and everything else is
// part of the cache key.
//
// A value may be a Tensor, a Variable, a random::Key, an arithmetic type, an enum, a string, an std::optional, vector,
// array, map, pair or tuple of such, or a struct of the user's:
//
//   struct Params { Tensor w, b; };            // an aggregate of up to 16 fields, as it is
//   class Model { public: Tensor w, b; ... };  // any other: its fields are named, beside it,
//   RILL_FIELDS(Model, w, b)
//   auto rill_fields(Model& m) { return std::tie(m.w, m.b); }  // or by a function that argument lookup finds,
//   template <class W> void walk(W&& w) { w(a, b, c); }        // or by a member
#pragma once
#include <array>
#include <cstring>
#include <optional>
#include <span>
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
  virtual void structure(size_t) {}                        // a container of so many elements follows
  // Whether the integer tensors that follow say where other elements stand, as in a SparseTensor: a gradient has them
  // as they are. Types that have such name a member type IntegersArePlaces.
  virtual void integers_are_places(bool) {}
  virtual void variable(const Variable& v);  // its identity is a constant, unless told otherwise

 protected:
  ~LeafVisitor() = default;
};

// Names the fields of a struct, at namespace scope beside it. They must be accessible there.
#define RILL_FIELDS(Type, ...)                                                                                     \
  [[maybe_unused]] inline auto rill_fields(Type& rill_struct) { return ::std::tie(RILL_FIELD_LIST(__VA_ARGS__)); } \
  [[maybe_unused]] inline const char* rill_field_names(const Type*) { return #__VA_ARGS__; }
#define RILL_FIELD_LIST(...) __VA_OPT__(RILL_FIELDS_64(RILL_FIELD_STEP(__VA_ARGS__)))
#define RILL_FIELD_STEP(field, ...) rill_struct.field __VA_OPT__(, RILL_FIELD_AGAIN RILL_FIELD_PARENS(__VA_ARGS__))
#define RILL_FIELD_AGAIN() RILL_FIELD_STEP
#define RILL_FIELD_PARENS ()
#define RILL_FIELDS_64(...) RILL_FIELDS_16(RILL_FIELDS_16(RILL_FIELDS_16(RILL_FIELDS_16(__VA_ARGS__))))
#define RILL_FIELDS_16(...) RILL_FIELDS_4(RILL_FIELDS_4(RILL_FIELDS_4(RILL_FIELDS_4(__VA_ARGS__))))
#define RILL_FIELDS_4(...) RILL_FIELDS_1(RILL_FIELDS_1(RILL_FIELDS_1(RILL_FIELDS_1(__VA_ARGS__))))
#define RILL_FIELDS_1(...) __VA_ARGS__

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
template <class T>
concept NamesFields = requires(T& t) { rill_fields(t); };

// How many fields an aggregate has: the most values that its braces take.
struct AnyField {
  template <class T>
  operator T() const;
};
template <class T, size_t... i>
constexpr bool takes_fields(std::index_sequence<i...>) {
  return requires { T{(void(i), AnyField())...}; };
}
template <class T, size_t n = 17>  // from above: fewer may not do, where a field has no default
constexpr size_t field_count() {
  if constexpr (takes_fields<T>(std::make_index_sequence<n>())) return n > 16 ? 0 : n;
  else if constexpr (n > 0) return field_count<T, n - 1>();
  else return 0;
}
template <class T>
concept Aggregate = std::is_class_v<T> && std::is_aggregate_v<T> && !std::is_empty_v<T> && (field_count<T>() > 0);

// What cannot be told apart so, and would be an error of the compiler's without a cure. A base class stands in braces as
// a field does.
template <class T>
struct AnyBase {
  template <class B>
    requires(std::is_base_of_v<B, T> && !std::is_same_v<B, T>)
  operator B() const;
};
struct NoField {};
template <class T>
inline constexpr bool has_base = requires { T{AnyBase<T>()}; } && !requires { T{NoField()}; };

// A C array takes as many values as it has elements, but in braces it is one: then fewer values can stand behind.
template <class T, size_t... i, size_t... inside, size_t... k>
constexpr bool takes_around(std::index_sequence<i...>, std::index_sequence<inside...>, std::index_sequence<k...>) {
  return requires { T{(void(i), AnyField())..., {(void(inside), AnyField())...}, (void(k), AnyField())...}; };
}
template <class T, size_t at, size_t inside, size_t behind, size_t all_behind = behind>
constexpr bool is_array_at() {
  if constexpr (takes_around<T>(std::make_index_sequence<at>(), std::make_index_sequence<inside>(),
                                std::make_index_sequence<behind>()))
    return behind < all_behind;
  else if constexpr (behind > 0) return is_array_at<T, at, inside, behind - 1, all_behind>();
  else return false;
}
// Elements without a default are told by the number of them, up to four.
template <class T, size_t n, size_t... i>
constexpr bool has_array(std::index_sequence<i...>) {
  return ((is_array_at<T, i, 0, n - 1 - i>() || is_array_at<T, i, 2, n - 1 - i>() ||
           is_array_at<T, i, 3, n - 1 - i>() || is_array_at<T, i, 4, n - 1 - i>()) ||
          ...);
}

template <Aggregate T>
constexpr auto aggregate_fields(T& value) {
  constexpr size_t n = field_count<T>();
  static_assert(!has_base<T>, "a struct with a base class names its fields: RILL_FIELDS(Type, a, b)");
  static_assert(
      !has_array<T, n>(std::make_index_sequence<n>()),
      "a struct of tensors, options or layers has no C arrays as fields. std::array and std::vector can stand in one");
#define RILL_BIND(count, ...)     \
  if constexpr (n == count) {     \
    auto& [__VA_ARGS__] = value;  \
    return std::tie(__VA_ARGS__); \
  }
  // clang-format off
  RILL_BIND(1, a) RILL_BIND(2, a, b) RILL_BIND(3, a, b, c) RILL_BIND(4, a, b, c, d) RILL_BIND(5, a, b, c, d, e)
  RILL_BIND(6, a, b, c, d, e, f) RILL_BIND(7, a, b, c, d, e, f, g) RILL_BIND(8, a, b, c, d, e, f, g, h)
  RILL_BIND(9, a, b, c, d, e, f, g, h, i) RILL_BIND(10, a, b, c, d, e, f, g, h, i, j)
  RILL_BIND(11, a, b, c, d, e, f, g, h, i, j, k) RILL_BIND(12, a, b, c, d, e, f, g, h, i, j, k, l)
  RILL_BIND(13, a, b, c, d, e, f, g, h, i, j, k, l, m) RILL_BIND(14, a, b, c, d, e, f, g, h, i, j, k, l, m, o)
  RILL_BIND(15, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p)
  RILL_BIND(16, a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q)
  // clang-format on
#undef RILL_BIND
}

// The fields of a struct of the user's, however it names them.
template <class T>
  requires(NamesFields<T> || Aggregate<T>)
auto fields_of(T& value) {
  if constexpr (NamesFields<T>) return rill_fields(value);
  else return aggregate_fields(value);
}
}  // namespace detail

inline void LeafVisitor::variable(const Variable& v) {
  const uint64_t identity = detail::identity_of(v);  // a graph itself looks up the value at each call
  constant(&identity, sizeof identity);
}

template <class T>
void walk(T& value, LeafVisitor& v) {
  if constexpr (std::is_same_v<T, Tensor>) {
    v.tensor(value);
  } else if constexpr (is_variable<T>) {
    v.variable(value);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, DType> ||
                       std::is_same_v<T, Device>) {
    v.constant(&value, sizeof value);
  } else if constexpr (DimOrSize<T>) {
    int64_t n = value;  // in a result it is a number, which a trace remembers to have given
    value = n;
    v.constant(&n, sizeof n);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    std::string_view s;
    if constexpr (std::is_pointer_v<T>) s = value ? std::string_view(value) : s;
    else if constexpr (!std::is_null_pointer_v<T>) s = value;
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
  } else if constexpr (detail::Walkable<T> || detail::NamesFields<T> || detail::Aggregate<T>) {
    constexpr bool has_places = requires { typename T::IntegersArePlaces; };
    const auto all = [&](auto&... field) { (walk(field, v), ...); };
    if constexpr (has_places) v.integers_are_places(true);
    if constexpr (detail::Walkable<T>) value.walk(all);
    else std::apply(all, detail::fields_of(value));
    if constexpr (has_places) v.integers_are_places(false);
  } else {
    static_assert(
        std::is_same_v<T, void>,
        "a traced function or a derivative cannot take or give this type: name the fields of a struct with "
        "RILL_FIELDS(Type, a, b), pass variables(model) for the parameters of a model, and see rill/ops/tree.h "
        "for the types that may stand in one");
  }
}

namespace detail {

// The tensors of a value, in order.
class TensorList final : public LeafVisitor {
 public:
  void tensor(Tensor& t) override { tensors.push_back(t); }
  void constant(const void*, size_t) override {}
  std::vector<Tensor> tensors;
};

// Puts tensors in the place of a value's own: copies of them, or, where T is not const, the tensors themselves.
template <class T>
class Refiller final : public LeafVisitor {
 public:
  explicit Refiller(std::span<T> from) : from_(from) {}
  void tensor(Tensor& t) override {
    if constexpr (std::is_const_v<T>) t = from_[next_++];
    else t = std::move(from_[next_++]);
  }
  void constant(const void*, size_t) override {}

 private:
  std::span<T> from_;
  size_t next_ = 0;
};
// `like` with these tensors in the place of its own.
template <class T>
T refill(T like, std::span<const Tensor> tensors) {
  Refiller<const Tensor> r(tensors);
  walk(like, r);
  return like;
}

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

// Whether what Leaf::of<T> looks for is in a T, or in what a T, a container, holds.
template <class T, class Leaf>
inline constexpr bool holds = Leaf::template of<T>;
template <class T, class Leaf>
  requires(is_a<T, std::optional> || is_a<T, std::vector>)
inline constexpr bool holds<T, Leaf> = holds<typename T::value_type, Leaf>;
template <MapLike T, class Leaf>
inline constexpr bool holds<T, Leaf> = holds<typename T::mapped_type, Leaf>;
template <class... T, class Leaf>
inline constexpr bool holds<std::tuple<T...>, Leaf> = (holds<std::remove_cvref_t<T>, Leaf> || ...);
template <class T, class U, class Leaf>
inline constexpr bool holds<std::pair<T, U>, Leaf> = holds<std::tuple<T, U>, Leaf>;
template <class T, size_t n, class Leaf>
inline constexpr bool holds<std::array<T, n>, Leaf> = holds<T, Leaf>;

// Whether T is made of tensors and C++ values, which a reference to it would be there to change. A Variable is changed
// through a copy as well; structs of the user's may hold either.
struct ValueLeaf {
  template <class T>
  static constexpr bool of = !is_variable<T> && !Walkable<T> && !NamesFields<T> && !Aggregate<T>;
};
template <class T>
inline constexpr bool holds_values = holds<T, ValueLeaf>;

// Whether a callable could write through a parameter of type A.
template <class A>
inline constexpr bool is_writable = std::is_lvalue_reference_v<A> && !std::is_const_v<std::remove_reference_t<A>>;

}  // namespace detail

}  // namespace rill

#pragma GCC visibility pop
