// How elements are split and joined: the batch type of an element type, rows of tensors, and the arguments of a mapped
// function. An element is anything that rill/ops/tree.h walks.
#pragma once
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "rill/data/item.h"
#include "rill/data/state.h"
#include "rill/ops/creation.h"
#include "rill/ops/ragged.h"
#include "rill/ops/tree.h"
#include "rill/serialize/table.h"
#include "rill/trace/control_flow.h"
#include "rill/trace/function.h"

#pragma GCC visibility push(default)

namespace rill::data {

struct PaddedBatchOptions;

namespace detail {

using rill::detail::fields_of;
using rill::detail::is_a;
using rill::detail::TupleLike;
template <class T>
concept Fields = rill::detail::NamesFields<T> || rill::detail::Aggregate<T>;
template <class T>
concept Number = std::is_arithmetic_v<T> && !std::is_same_v<T, char>;
template <class T>
concept Text = std::is_convertible_v<const T&, std::string_view>;

// --- Batches ---------------------------------------------------------------------------------------------------------

// The type of a batch of T: numbers and texts become tensors, everything else is unchanged.
template <class T>
struct BatchOf {
  using type = T;
};
template <class T>
  requires(Number<T> || Text<T>)
struct BatchOf<T> {
  using type = Tensor;
};
template <class A, class B>
struct BatchOf<std::pair<A, B>> {
  using type = std::pair<typename BatchOf<A>::type, typename BatchOf<B>::type>;
};
template <class... A>
struct BatchOf<std::tuple<A...>> {
  using type = std::tuple<typename BatchOf<A>::type...>;
};
template <class A, size_t n>
struct BatchOf<std::array<A, n>> {
  using type = std::array<typename BatchOf<A>::type, n>;
};
template <class A>
struct BatchOf<std::vector<A>> {
  using type = std::vector<typename BatchOf<A>::type>;
};

template <class A>
struct BatchOf<std::map<std::string, A>> {
  using type = std::map<std::string, typename BatchOf<A>::type>;
};

// --- Ragged batches ----------------------------------------------------------------------------------------------------

template <class T>
struct RaggedOf {
  using type = typename BatchOf<T>::type;
};
template <>
struct RaggedOf<Tensor> {
  using type = Ragged;
};
template <class A, class B>
struct RaggedOf<std::pair<A, B>> {
  using type = std::pair<typename RaggedOf<A>::type, typename RaggedOf<B>::type>;
};
template <class... A>
struct RaggedOf<std::tuple<A...>> {
  using type = std::tuple<typename RaggedOf<A>::type...>;
};

// How the tensors of a batch are joined: stacked, or padded to one shape.
class Joiner {
 public:
  virtual Tensor join(std::vector<Tensor> rows) const = 0;

 protected:
  ~Joiner() = default;
};

[[noreturn]] void fail_lengths(size_t one, size_t other);
// Those of a map.
template <class A>
std::vector<std::string> keys_of(const std::map<std::string, A>& x) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : x) keys.push_back(key);
  return keys;
}
[[noreturn]] void fail_names(const std::vector<std::string>& one, const std::vector<std::string>& other);
Tensor vector_of(const void* numbers, int64_t n, DType dtype);

// rows[i] of each element -> one value.
template <class T>
typename BatchOf<T>::type join(std::span<const T* const> rows, const Joiner& how) {
  using B = typename BatchOf<T>::type;
  const auto part = [&]<class M, class G>(std::type_identity<M>, G&& get) {
    std::vector<const M*> parts;
    parts.reserve(rows.size());
    for (const T* row : rows) parts.push_back(&get(*row));
    return join<M>(std::span<const M* const>(parts), how);
  };
  if constexpr (std::is_same_v<T, Tensor>) {
    std::vector<Tensor> all;
    all.reserve(rows.size());
    for (const T* row : rows) all.push_back(*row);
    return how.join(std::move(all));
  } else if constexpr (std::is_same_v<T, bool>) {
    std::vector<uint8_t> all;
    for (const T* row : rows) all.push_back(*row);
    return vector_of(all.data(), int64_t(all.size()), DType::boolean);
  } else if constexpr (Number<T>) {
    std::vector<T> all;
    all.reserve(rows.size());
    for (const T* row : rows) all.push_back(*row);
    return vector_of(all.data(), int64_t(all.size()), dtype_of<T>());
  } else if constexpr (Text<T>) {
    std::vector<std::string> all;
    for (const T* row : rows) all.emplace_back(std::string_view(*row));
    return tensor(all);
  } else if constexpr (is_a<T, std::vector>) {
    B out;
    const size_t n = rows.empty() ? 0 : rows[0]->size();
    for (const T* row : rows)
      if (row->size() != n) fail_lengths(n, row->size());
    for (size_t k = 0; k < n; ++k)
      out.push_back(part(std::type_identity<typename T::value_type>(), [k](const T& x) -> auto& { return x[k]; }));
    return out;
  } else if constexpr (requires { keys_of(*rows[0]); }) {
    B out;
    for (const T* row : rows)
      if (keys_of(*row) != keys_of(*rows[0])) fail_names(keys_of(*rows[0]), keys_of(*row));
    for (const std::string& key : rows.empty() ? std::vector<std::string>() : keys_of(*rows[0]))
      out.emplace(key,
                  part(std::type_identity<typename T::mapped_type>(), [&](const T& x) -> auto& { return x.at(key); }));
    return out;
  } else if constexpr (TupleLike<T>) {
    return [&]<size_t... k>(std::index_sequence<k...>) {
      return B{part(std::type_identity<std::tuple_element_t<k, T>>(),
                    [](const T& x) -> auto& { return std::get<k>(x); })...};
    }(std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (std::is_same_v<T, Table>) {
    for (const T* row : rows)
      if (row->names != rows[0]->names) fail_names(rows[0]->names, row->names);
    return B{rows[0]->names,
             part(std::type_identity<std::vector<Tensor>>(), [](const T& x) -> auto& { return x.columns; })};
  } else if constexpr (Fields<T>) {
    B out = *rows[0];  // for fields that are no tensors
    auto fields = fields_of(out);
    [&]<size_t... k>(std::index_sequence<k...>) {
      const auto one = [&]<size_t i>(std::integral_constant<size_t, i>) {
        using F = std::remove_cvref_t<std::tuple_element_t<i, decltype(fields)>>;
        static_assert(
            std::is_same_v<typename BatchOf<F>::type, F>,
            "batch() keeps a struct's type, so that its fields must be tensors: a field that is a number or a "
            "text becomes a tensor in a batch. make it a Tensor, or map() to a pair or tuple first");
        std::get<i>(fields) = part(std::type_identity<F>(),
                                   [](const T& x) -> auto& { return std::get<i>(fields_of(const_cast<T&>(x))); });
      };
      (one(std::integral_constant<size_t, k>()), ...);
    }(std::make_index_sequence<std::tuple_size_v<decltype(fields)>>());
    return out;
  } else {
    static_assert(!sizeof(T*),
                  "batch() joins tensors, numbers, texts, and pairs, tuples, vectors, maps by std::string "
                  "and structs of them");
  }
}

// The same with Ragged instead of tensors.
Ragged ragged_of(const std::vector<Tensor>& rows);
std::shared_ptr<const Joiner> stacking();
template <class T>
typename RaggedOf<T>::type join_ragged(std::span<const T* const> rows) {
  if constexpr (std::is_same_v<T, Tensor>) {
    std::vector<Tensor> all;
    all.reserve(rows.size());
    for (const Tensor* row : rows) all.push_back(*row);
    return ragged_of(all);
  } else if constexpr (is_a<T, std::pair> || is_a<T, std::tuple>) {
    return [&]<size_t... k>(std::index_sequence<k...>) {
      const auto part = [&]<size_t i>(std::integral_constant<size_t, i>) {
        std::vector<const std::tuple_element_t<i, T>*> parts;
        for (const T* row : rows) parts.push_back(&std::get<i>(*row));
        return join_ragged<std::tuple_element_t<i, T>>(parts);
      };
      return typename RaggedOf<T>::type{part(std::integral_constant<size_t, k>())...};
    }(std::make_index_sequence<std::tuple_size_v<T>>());
  } else {
    static_assert(Number<T> || Text<T>,
                  "ragged_batch() joins tensors, numbers, texts, and pairs and tuples of them: map() others to such");
    return join<T>(rows, *stacking());
  }
}

// --- Rows ------------------------------------------------------------------------------------------------------------

// The tensors of a value, in order.
template <class T>
std::vector<Tensor> tensors_of(const T& value) {
  rill::detail::TensorList list;
  walk(const_cast<T&>(value), list);
  return std::move(list.tensors);
}

// --- Values as bytes: what a scan carries ------------------------------------------------------------------------------

template <class T>
void save_value(const T& value, StateWriter& w) {
  const auto each = [&](const auto&... part) { (save_value(part, w), ...); };
  if constexpr (std::is_same_v<T, Tensor>) save_tensor(value, w);
  else if constexpr (std::is_trivially_copyable_v<T> && (std::is_arithmetic_v<T> || std::is_enum_v<T>))
    w.text({reinterpret_cast<const char*>(&value), sizeof(value)});
  else if constexpr (std::is_same_v<T, std::string>) w.text(value);
  else if constexpr (is_a<T, std::vector>) {
    w.number(int64_t(value.size()));
    for (const auto& x : value) save_value(x, w);
  } else if constexpr (TupleLike<T>) std::apply(each, value);
  else if constexpr (Fields<T>) std::apply(each, fields_of(const_cast<T&>(value)));
  else
    static_assert(!sizeof(T*),
                  "what scan() carries, and what unique(), cache() in a file and snapshot() look into, is made of "
                  "tensors, numbers, strings, and pairs, tuples, vectors and structs of them");
}
template <class T>
void read_value(T& value, StateReader& r) {
  const auto each = [&](auto&... part) { (read_value(part, r), ...); };
  if constexpr (std::is_same_v<T, Tensor>) value = read_tensor(r);
  else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    const std::string_view bytes = r.text();
    if (bytes.size() != sizeof(value)) fail_damaged();
    std::memcpy(&value, bytes.data(), bytes.size());
  } else if constexpr (std::is_same_v<T, std::string>) value = r.text();
  else if constexpr (is_a<T, std::vector>) {
    value.resize(size_t(r.count(1 << 30)));
    for (auto& x : value) read_value(x, r);
  } else if constexpr (TupleLike<T>) std::apply(each, value);
  else if constexpr (Fields<T>) std::apply(each, fields_of(value));
}

// Elements as bytes and back, and the name of their type: for files.
struct Codec {
  void (*save)(Item& x, StateWriter& w) = nullptr;  // null: elements of this type are not kept as bytes
  Item (*read)(StateReader& r) = nullptr;
  const char* type = "";
};
template <class T>
constexpr bool is_savable() {
  if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, std::string> || std::is_arithmetic_v<T> ||
                std::is_enum_v<T>)
    return true;
  else if constexpr (is_a<T, std::vector>) return is_savable<typename T::value_type>();
  else if constexpr (TupleLike<T>)
    return []<size_t... k>(std::index_sequence<k...>) {
      return (is_savable<std::tuple_element_t<k, T>>() && ...);
    }(std::make_index_sequence<std::tuple_size_v<T>>());
  else if constexpr (Fields<T> && std::is_default_constructible_v<T>)
    return []<class... F>(std::type_identity<std::tuple<F...>>) {
      return (is_savable<std::remove_cvref_t<F>>() && ...);
    }(std::type_identity<decltype(fields_of(std::declval<T&>()))>());
  else return false;
}
template <class T>
Codec codec() {
  if constexpr (is_savable<T>())
    return {.save = [](Item& x, StateWriter& w) { save_value(x.as<T>(), w); },
            .read =
                [](StateReader& r) {
                  T value{};
                  read_value(value, r);
                  return Item::of(std::move(value));
                },
            .type = typeid(T).name()};
  else return {};
}

// --- Functions of elements -------------------------------------------------------------------------------------------

// The result of a function that must return an integer: a number, or a tensor of one element.
template <class R>
int64_t integer_of(const R& r) {
  if constexpr (std::is_same_v<R, Tensor>) return r.template item<int64_t>();
  else return int64_t(r);
}

// Whether f takes the members of a tuple, given as references.
template <class F, class Parts>
inline constexpr bool takes_each = false;
template <class F, class... P>
inline constexpr bool takes_each<F, std::tuple<P...>> = std::is_invocable_v<F&, P...>;
template <class T>
auto element_parts(T& x) {
  if constexpr (TupleLike<T>) return std::apply([](auto&... part) { return std::tie(part...); }, x);
  else if constexpr (Fields<T>) return std::apply([](auto&... field) { return std::tie(field...); }, fields_of(x));
  else return std::tuple<T&>(x);
}
// Whether f takes an element, or its parts: the members of a pair or tuple, a struct's fields.
template <class F, class T>
constexpr bool takes() {
  if constexpr (std::is_invocable_v<F&, T&>) return true;
  else return takes_each<F, decltype(element_parts(std::declval<T&>()))>;
}
// Calls it so.
template <class F, class T>
decltype(auto) call_with(F& f, T& x) {
  if constexpr (std::is_invocable_v<F&, T&>) return std::invoke(f, x);
  else return std::apply(f, element_parts(x));
}
// Its result type; NotTaken if it does not take T.
struct NotTaken {};
template <class T, class F>
auto mapped_by() {
  if constexpr (!takes<F, T>()) return std::type_identity<NotTaken>();
  else return std::type_identity<std::remove_cvref_t<decltype(call_with(std::declval<F&>(), std::declval<T&>()))>>();
}
template <class T, class F>
using MappedBy = typename decltype(mapped_by<T, F>())::type;
// Checks the types that f may return; nothing else is compiled if it fails.
template <class R>
concept Integer = std::is_same_v<R, Tensor> || std::is_convertible_v<R, int64_t> || std::is_enum_v<R>;
template <class R>
concept Truth = std::is_same_v<R, Tensor> || std::is_constructible_v<bool, R>;

}  // namespace detail
}  // namespace rill::data

#pragma GCC visibility pop
