// How elements are taken apart and put together: what batch() makes of a type, rows of tensors, and what a mapped
// function is given. An element is anything that rill/ops/tree.h walks.
#pragma once
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "rill/data/state.h"
#include "rill/ops/creation.h"
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

// The type of a batch of T: numbers and texts become tensors, all else stays what it is.
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

// How the tensors of a batch are joined: stacked, or padded to one shape.
class Joiner {
 public:
  virtual Tensor join(std::vector<Tensor> rows) const = 0;

 protected:
  ~Joiner() = default;
};

[[noreturn]] void fail_lengths(size_t one, size_t other);
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
    static_assert(!sizeof(T*), "batch() joins tensors, numbers, texts, and pairs, tuples, vectors and structs of them");
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
                  "scan() carries tensors, numbers, strings, and pairs, tuples, vectors and structs of them");
}
template <class T>
void read_value(T& value, StateReader& r) {
  const auto each = [&](auto&... part) { (read_value(part, r), ...); };
  if constexpr (std::is_same_v<T, Tensor>) value = read_tensor(r);
  else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    const std::string_view bytes = r.text();
    if (bytes.size() == sizeof(value)) std::memcpy(&value, bytes.data(), sizeof(value));
  } else if constexpr (std::is_same_v<T, std::string>) value = r.text();
  else if constexpr (is_a<T, std::vector>) {
    value.resize(size_t(r.count(1 << 30)));
    for (auto& x : value) read_value(x, r);
  } else if constexpr (TupleLike<T>) std::apply(each, value);
  else if constexpr (Fields<T>) std::apply(each, fields_of(value));
}

// --- Functions of elements -------------------------------------------------------------------------------------------

// Calls f with an element, or with its parts where it takes these: the members of a pair or tuple, a struct's fields.
template <class F, class T>
decltype(auto) call_with(F& f, T& x) {
  if constexpr (std::is_invocable_v<F&, T&>) {
    return f(x);
  } else if constexpr (TupleLike<T>) {
    static_assert(
        requires { std::apply(f, x); },
        "a function of a dataset's elements takes the element, or its members: look at the types of its parameters");
    return std::apply(f, x);
  } else if constexpr (Fields<T>) {
    static_assert(
        requires { std::apply(f, fields_of(x)); },
        "a function of a dataset's elements takes the element, or its fields: look at the types of its parameters");
    return std::apply(f, fields_of(x));
  } else {
    static_assert(!sizeof(T*), "this function does not take the dataset's elements: look at the type of its parameter");
  }
}

}  // namespace detail
}  // namespace rill::data

#pragma GCC visibility pop
