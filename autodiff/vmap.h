// vmap: a function of one row as a function of a batch of rows. The function runs once; each op makes one call for all
// rows (batching.h describes it), also inside traced functions, under tapes and in other vmaps.
#pragma once
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "rill/autodiff/transforms.h"
#include "rill/tensor/index.h"

#pragma GCC visibility push(default)

namespace rill {

// The random numbers that rows draw from the generator of the process. (From a random::Key that rows share, all draw
// the same.)
enum class Randomness : uint8_t {
  different,  // each row its own
  same,       // all rows the same
  error       // drawing is an error
};

// The axes that vmap maps: one for all arguments or results, or one for each. `none`: the argument is the same for all
// rows.
class MapAxes {
 public:
  template <is_axis I>
  MapAxes(I axis) : axes_{int64_t(axis)}, for_all_(true) {}
  MapAxes(std::initializer_list<std::optional<int64_t>> axes) : axes_(axes) {}
  // Of argument or result `i` of `n`; throws if the list has another length.
  std::optional<int64_t> of(size_t i, size_t n, std::string_view option, const Where& where) const;

 private:
  std::vector<std::optional<int64_t>> axes_;
  bool for_all_ = false;
};

struct VmapOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  MapAxes in_axes = 0;   // of each argument, the axis whose rows are mapped; `none`: not mapped
  MapAxes out_axes = 0;  // of each result, the axis of its rows
  Randomness randomness = Randomness::different;
  int64_t chunk = 0;  // at most so many rows at a time, to limit memory; 0: all. The function runs once for each chunk
};

namespace detail {
using RowsFunction = Callback<std::vector<Tensor>(std::span<const Tensor>)>;
// Calls the function of rows on all rows of `in`; tensor k is part of argument `argument_of[k]` of `arguments`.
std::vector<Tensor> run_vmap(const RowsFunction& f, const std::vector<Tensor>& in,
                             const std::vector<size_t>& argument_of, size_t arguments, const VmapOptions& options,
                             const Where& where);
struct SlicesLeaf {
  template <class T>
  static constexpr bool of = std::is_same_v<T, Gradient> || std::is_same_v<T, IndexedSlices>;
};
// Throws: argument `i` of `n` is mapped and holds Variables, which cannot be mapped.
void refuse_variables(size_t i, size_t n, const VmapOptions& options, const Where& where);
}  // namespace detail

// vmap(f)(x, more...) -> f of each row of the arguments, stacked: for each i, f(x(i), more(i)...), in one call of f on
// rows, whose values cannot be read. Arguments and results are Tensors or structures of them (ops/tree.h), all of whose
// tensors are mapped along the argument's axis. f may hold tapes, traced functions, control flow and custom gradients;
// what it only captures is the same for all rows, and so are Variables: only what rows do not differ in is assigned to
// them, and in a mapped argument they are an error. Where rows take different branches of a cond or switch_case, all
// rows run all of them, and what a branch asserts (assert_that) is of the rows that take it; in a loop there that takes
// the same steps for all rows, of all of them. What a while_loop asserts is of the rows that go on. Other failures, of
// indices or under check_numerics(), are of all rows of a branch. An op without a batch rule (the user's own, say) runs
// row by row: the environment variable RILL_LOG=vmap lists such calls. Throws where mapped axes differ in size, and
// where no argument is mapped.
template <class F>
auto vmap(F f, VmapOptions options, Where where = Where::current()) {
  detail::require_callable("vmap", f, "the function", where);
  return detail::transform_of<F>([f = std::move(f), options = std::move(options), where](const auto&... x) {
    detail::Arguments<decltype(x)...> arguments{detail::as_argument(x)...};
    std::vector<Tensor> in;
    std::vector<size_t> argument_of;
    size_t count = 0;
    const auto list = [&](auto& argument) {
      if constexpr (detail::holds_variables<std::remove_cvref_t<decltype(argument)>>)
        detail::refuse_variables(count, sizeof...(x), options, where);
      for (const Tensor* t : detail::tensors_in(argument)) in.push_back(*t), argument_of.push_back(count);
      ++count;
    };
    std::apply([&](auto&... each) { (list(each), ...); }, arguments);
    const auto call = [&] {
      return detail::as_argument(
          std::apply([&](const auto&... each) { return detail::call_at(where, f, each...); }, arguments));
    };
    std::optional<decltype(call())> result;
    static_assert(!detail::holds<decltype(call()), detail::SlicesLeaf>,
                  "vmap: IndexedSlices, and a Gradient that may be such, have no axis of rows. give gradient.dense()");
    const detail::RowsFunction rows = [&](std::span<const Tensor> given) {
      const std::vector<Tensor*> places = detail::tensors_in(arguments);
      for (size_t k = 0; k < places.size(); ++k) *places[k] = given[k];
      result.emplace(call());
      std::vector<Tensor> out;
      for (const Tensor* t : detail::tensors_in(*result)) out.push_back(*t);
      return out;
    };
    const std::vector<Tensor> out = detail::run_vmap(rows, in, argument_of, count, options, where);
    const std::vector<Tensor*> places = detail::tensors_in(*result);
    for (size_t k = 0; k < places.size(); ++k) *places[k] = out[k];
    return std::move(*result);
  });
}
template <class F>
auto vmap(F f, Where where = Where::current()) {
  return vmap(std::move(f), VmapOptions(), where);
}

}  // namespace rill

#pragma GCC visibility pop
