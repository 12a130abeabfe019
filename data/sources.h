// The sources of datasets: tensors, numbers, functions, and files.
#pragma once
#include <concepts>
#include <iterator>
#include <string>
#include <vector>

#include "rill/data/dataset.h"
#include "rill/data/files/arrays.h"
#include "rill/data/files/arrow.h"
#include "rill/data/files/audio.h"
#include "rill/data/files/csv.h"
#include "rill/data/files/text.h"
#include "rill/serialize/table.h"

#pragma GCC visibility push(default)

namespace rill::data {

// The rows of a value: all tensors in it are cut along their first axes, which must have one size. An element has the
// value's type. The tensors are not copied.
template <class T>
Dataset<T> from_tensors(T value, Where where = Where::current()) {
  const CallerScope caller(where);
  const auto whole = std::make_shared<const T>(std::move(value));
  const std::vector<Tensor> tensors = detail::tensors_of(*whole);
  const int64_t rows = detail::rows_of(tensors, "data::from_tensors");
  auto at = [whole, tensors](int64_t i) {
    std::vector<Tensor> row;
    row.reserve(tensors.size());
    for (const Tensor& t : tensors) row.push_back(detail::row_of(t, i));
    return Item::of(rill::detail::refill(*whole, row));
  };
  Callback<Item(const std::vector<int64_t>&)> stacked;
  if constexpr (std::is_same_v<typename detail::BatchOf<T>::type, T>)
    stacked = [whole, tensors](const std::vector<int64_t>& indices) {
      return Item::of(rill::detail::refill(*whole, detail::rows_at(tensors, indices)));
    };
  return Dataset<T>(stages::indexed("from_tensors", rows, std::move(at), where, std::move(stacked)));
}

// from_tensors(x, y) does not compile, and says how it is written.
template <class T, std::convertible_to<Tensor> U, class... More>
Dataset<T> from_tensors(const T&, const U&, const More&...) {
  static_assert(!sizeof(T), "tensors whose rows belong together are one value: from_tensors(std::pair(x, y))");
  return Dataset<T>({});
}

// 0, 1, ..., stop - 1; from `start`, in steps, up to before `stop`.
Dataset<int64_t> range(int64_t stop, Where where = Where::current());
Dataset<int64_t> range(int64_t start, int64_t stop, int64_t step = 1, Where where = Where::current());

// The results of f(), an optional, until it is empty. Each pass has its own copy of the original f. A pass that is
// restored calls it again from the beginning.
template <class F>
  requires std::invocable<F&>
auto from_generator(F f, Where where = Where::current()) {
  constexpr bool fits = requires {
    typename std::remove_cvref_t<decltype(f())>::value_type;
    bool(f());
    *f();
  };
  static_assert(fits, "from_generator(f): f gives a std::optional: an element, or std::nullopt at the end");
  if constexpr (fits) {
    using T = typename std::remove_cvref_t<decltype(f())>::value_type;
    auto make = [f = std::move(f)]() -> Callback<Item()> {
      return [g = f]() mutable {
        auto x = g();
        return x ? Item::of<T>(std::move(*x)) : Item();
      };
    };
    return Dataset<T>(stages::generator(std::move(make), where));
  } else {
    return range(0);
  }
}
// The elements of a C++ range, which is copied; of two iterators.
template <std::ranges::input_range R>
  requires(!std::invocable<R&>)
auto from_generator(const R& range, Where where = Where::current()) {
  using T = std::ranges::range_value_t<R>;
  std::vector<Item> items;
  for (const auto& x : range) items.push_back(Item::of<T>(T(x)));
  return Dataset<T>(stages::from_items("from_generator", std::move(items), where));
}
template <std::input_iterator I>
auto from_generator(I begin, I end, Where where = Where::current()) {
  using T = std::iter_value_t<I>;
  std::vector<Item> items;
  for (; begin != end; ++begin) items.push_back(Item::of<T>(T(*begin)));
  return Dataset<T>(stages::from_items("from_generator", std::move(items), where));
}

// The rows of a table: for each a vector of its columns' rows, in order.
Dataset<std::vector<Tensor>> from_table(const Table& table, Where where = Where::current());
struct FromTableOptions {
  rill::detail::NamedOnly named_only_ = rill::detail::NamedOnly();
  std::string label;  // the column to be predicted
};
// The rows as {a table of one row without the label, the label}: from_table(iris, {.label = "species"}).
Dataset<std::pair<Table, Tensor>> from_table(const Table& table, const FromTableOptions& options,
                                             Where where = Where::current());

}  // namespace rill::data

#pragma GCC visibility pop
