// Elements that are rows of columns: of CSV files, Arrow files, several arrays. An element is
//
//   * a Table of one row, whose columns are those of the file: row.at("age");
//   * a struct, whose fields are columns of their names: struct Person { float age; std::string job; };
//   * a tuple or pair, whose members are columns in order; or one number, text or Tensor, of one column.
//
// A field is a number, a std::string, a Tensor (of the column's dtype), or a std::optional of a number or string, which
// is empty if the file has no value.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "rill/data/dataset.h"
#include "rill/ops/names.h"
#include "rill/serialize/table.h"

#pragma GCC visibility push(default)

namespace rill::data::detail {

// Some rows of columns.
struct Block {
  std::shared_ptr<const std::vector<std::string>> names;
  std::vector<Tensor> columns;              // on the host, dense: [rows, ...]
  std::vector<std::vector<uint8_t>> valid;  // of each column; empty where every row has a value
  int64_t rows = 0;
  // Of a column of lists, whose `columns` has the values of all: where each begins, and the number of values. Undefined
  // for other columns, or empty.
  std::vector<Tensor> splits = {};
  bool has_lists(size_t column) const { return column < splits.size() && splits[column].defined(); }
  bool has_lists() const {
    for (const Tensor& s : splits)
      if (s.defined()) return true;
    return false;
  }
};

// The type of a field.
struct FieldType {
  std::string name = "";            // of its column; "": found by its index
  std::optional<DType> dtype = {};  // nothing: that of the column
  bool optional = false;
};

// How elements are made.
struct RowMaker {
  bool all = false;  // of all columns, whichever there are: a Table
  std::vector<FieldType> fields = {};
  Item (*row)(const Block& block, int64_t i) = nullptr;
  Item (*stacked)(const Block& block) = nullptr;  // all rows as batch() stacks them; null where that is not known
};

const void* element_at(const Tensor& column, int64_t i);
// A row of a column, and a column, on the default device.
Tensor row_tensor(const Block& block, size_t column, int64_t i);
Tensor column_tensor(const Tensor& column);

template <class F>
inline constexpr bool is_value = Number<F> || std::is_same_v<F, std::string>;
template <class F>
inline constexpr bool is_optional = false;
template <class F>
inline constexpr bool is_optional<std::optional<F>> = is_value<F>;

template <class F>
FieldType field_type(std::string name = "") {
  static_assert(is_value<F> || is_optional<F> || std::is_same_v<F, Tensor>,
                "a field of a row is a number, a std::string, a std::optional of these, or a Tensor");
  if constexpr (is_optional<F>) return {std::move(name), dtype_of<typename F::value_type>(), true};
  else if constexpr (std::is_same_v<F, Tensor>) return {std::move(name), {}, false};
  else return {std::move(name), dtype_of<F>(), false};
}

template <class F>
void read_field(F& field, const Block& block, size_t column, int64_t i) {
  if constexpr (is_optional<F>) {
    const std::vector<uint8_t>& valid = block.valid[column];
    if (!valid.empty() && !valid[size_t(i)]) return field.reset();
    read_field(field.emplace(), block, column, i);
  } else if constexpr (std::is_same_v<F, Tensor>) {
    field = row_tensor(block, column, i);
  } else {
    field = *static_cast<const F*>(element_at(block.columns[column], i));
  }
}

template <class F>
inline constexpr bool stacks = is_value<F> || std::is_same_v<F, Tensor>;
template <class T>
inline constexpr bool stacks_fields = false;
template <class... F>
inline constexpr bool stacks_fields<std::tuple<F&...>> = (std::is_same_v<F, Tensor> && ...);
template <class... F>
inline constexpr bool stacks_fields<std::tuple<F...>> = (stacks<F> && ...);
template <class A, class B>
inline constexpr bool stacks_fields<std::pair<A, B>> = stacks<A> && stacks<B>;

template <class Tuple, size_t... k>
std::vector<FieldType> member_types(std::index_sequence<k...>) {
  return {field_type<std::remove_cvref_t<std::tuple_element_t<k, Tuple>>>()...};
}
template <class Tuple>
void read_members(Tuple&& members, const Block& block, int64_t i) {
  size_t column = 0;
  std::apply([&](auto&... field) { (read_field(field, block, column++, i), ...); }, members);
}

template <class T>
RowMaker row_maker() {
  RowMaker m;
  if constexpr (std::is_same_v<T, Table>) {
    m.all = true;
    m.row = [](const Block& b, int64_t i) {
      Table row{*b.names, {}};
      row.columns.reserve(b.columns.size());
      for (size_t c = 0; c < b.columns.size(); ++c) row.columns.push_back(row_tensor(b, c, i));
      return Item::of(std::move(row));
    };
    m.stacked = [](const Block& b) {
      Table all{*b.names, {}};
      for (const Tensor& c : b.columns) all.columns.push_back(column_tensor(c));
      return Item::of(std::move(all));
    };
  } else if constexpr (stacks<T> || is_optional<T>) {
    m.fields = {field_type<T>()};
    m.row = [](const Block& b, int64_t i) {
      T x{};
      read_field(x, b, 0, i);
      return Item::of(std::move(x));
    };
    if constexpr (stacks<T>) m.stacked = [](const Block& b) { return Item::of(column_tensor(b.columns[0])); };
  } else if constexpr (TupleLike<T>) {
    m.fields = member_types<T>(std::make_index_sequence<std::tuple_size_v<T>>());
    m.row = [](const Block& b, int64_t i) {
      T x{};
      read_members(x, b, i);
      return Item::of(std::move(x));
    };
    if constexpr (stacks_fields<T>)
      m.stacked = [](const Block& b) {
        using B = typename BatchOf<T>::type;
        return [&]<size_t... k>(std::index_sequence<k...>) {
          return Item::of(B{column_tensor(b.columns[k])...});
        }(std::make_index_sequence<std::tuple_size_v<T>>());
      };
  } else {
    static_assert(Fields<T>, "a row is a Table, a struct, a tuple or pair, a number, a text or a Tensor");
    using Members = decltype(fields_of(std::declval<T&>()));
    m.fields = member_types<Members>(std::make_index_sequence<std::tuple_size_v<Members>>());
    const std::vector<std::string_view> names = rill::detail::names_of_fields<T>();
    for (size_t k = 0; k < names.size() && k < m.fields.size(); ++k) m.fields[k].name = names[k];
    m.row = [](const Block& b, int64_t i) {
      T x{};
      read_members(fields_of(x), b, i);
      return Item::of(std::move(x));
    };
    if constexpr (stacks_fields<Members>)
      m.stacked = [](const Block& b) {
        T x{};
        size_t k = 0;
        std::apply([&](auto&... field) { ((field = column_tensor(b.columns[k++])), ...); }, fields_of(x));
        return Item::of(std::move(x));
      };
  }
  return m;
}

}  // namespace rill::data::detail

#pragma GCC visibility pop
