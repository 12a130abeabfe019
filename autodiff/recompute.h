// recompute: functions that keep little for the backward walk and run again instead. Time for memory.
//
//   auto light = recompute(block);                              // keeps its arguments
//   auto some = recompute(block, {.policy = save_products});    // and what is costly to compute again
//   Tensor y = recompute_chain(layers, x);                      // n layers: about 2 sqrt(n) are held at once
#pragma once
#include "rill/autodiff/recompute_policy.h"
#include "rill/autodiff/transforms.h"

#pragma GCC visibility push(default)

namespace rill {

// x, with a name by which save_only() keeps it. Any dtype and shape; any name except "".
Tensor named(const Tensor& x, std::string_view name, Where where = Where::current());

namespace detail {
std::vector<Tensor> run_recompute(const Callback<std::vector<Tensor>(std::span<const Tensor>)>& f,
                                  std::vector<Tensor> in, const RecomputePolicy& policy, const Where& where);
// The tensors of a value that take part: those in structures that are undefined are left as they are. An argument or a
// result that is a Tensor must be defined.
template <class T>
std::vector<Tensor*> parts_of(T& value) {
  std::vector<Tensor*> places = tensors_in(value);
  if constexpr (!std::is_same_v<T, Tensor>) std::erase_if(places, [](const Tensor* t) { return !t->defined(); });
  return places;
}
template <class... T>
std::vector<Tensor*> parts_of_all(std::tuple<T...>& arguments) {
  std::vector<Tensor*> all;
  const auto add = [&](const std::vector<Tensor*>& places) { all.insert(all.end(), places.begin(), places.end()); };
  std::apply([&](auto&... each) { (add(parts_of(each)), ...); }, arguments);
  return all;
}
// Copies of the arguments as f takes them: numbers and Variables as Tensors, or unchanged if it takes no Tensor.
template <class F, class... X>
auto arguments_for(const X&... x) {
  if constexpr (takes<F, Argument<X>...>()) return Arguments<X...>{as_argument(x)...};
  else return std::tuple<X...>{x...};
}
// The end of each of the segments of a chain of `layers`. `segments` 0: about sqrt(layers).
std::vector<size_t> segment_ends(size_t layers, int64_t segments, const Where& where);
}  // namespace detail

struct RecomputeOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  RecomputePolicy policy = {};
};

// The same function, keeping for the backward walk its arguments, the variables and watched tensors that it reads, and
// what the policy says: when its gradient is asked for it runs again, without what was kept or what nobody reads. It
// must do the same each time. The second run reads what the first one read, the state of the random generator included,
// and assigns, prints and asserts nothing; what f refers to must live until the walk. Arguments and results are Tensors
// or structures of them, in which undefined ones stay so. Inside `function`
// the graph computes the values again where its backward part reads them. Where several tapes record, it is f itself.
template <class F>
auto recompute(F f, RecomputeOptions options, Where where = Where::current()) {
  detail::require_callable("recompute", f, "the function", where);
  return detail::transform_of<F>([f = std::move(f), options = std::move(options), where](const auto&... x) {
    auto arguments = detail::arguments_for<F>(x...);
    auto call = [f, where](const auto& given) {
      return detail::as_argument(
          std::apply([&](const auto&... each) { return detail::call_at(where, f, each...); }, given));
    };
    std::optional<decltype(call(arguments))> result;
    const auto first = Shared<bool>::make(true);  // the second run only needs its tensors
    auto run = [call, arguments, first, &result](std::span<const Tensor> given) {
      auto own = arguments;
      const std::vector<Tensor*> places = detail::parts_of_all(own);
      for (size_t k = 0; k < places.size(); ++k) *places[k] = given[k];
      auto y = call(own);
      std::vector<Tensor> list;
      for (Tensor* t : detail::parts_of(y)) list.push_back(*t);
      if (*first) result = std::move(y);
      return list;
    };
    std::vector<Tensor> in;
    for (Tensor* t : detail::parts_of_all(arguments)) in.push_back(*t);
    std::vector<Tensor> out = detail::run_recompute(run, std::move(in), options.policy, where);
    *first = false;
    const std::vector<Tensor*> places = detail::parts_of(*result);
    for (size_t k = 0; k < places.size(); ++k) *places[k] = std::move(out[k]);
    return std::move(*result);
  });
}

template <class F>
auto recompute(F f, Where where = Where::current()) {
  return recompute(std::move(f), RecomputeOptions(), where);
}

// The layers one after another, in segments of which each is recompute()d but the last: the backward walk holds what
// goes into the segments and the values of one of them, O(sqrt n) for n layers alike, for one more forward run.
// `layers` is a vector, array or span of callables of one argument (a Tensor or a structure of Tensors) that give what
// the next one takes. Throws where there are fewer than 0 segments, or more than layers.
template <class Layers, class X>
auto recompute_chain(const Layers& layers, const X& x, const ChainOptions& options, Where where = Where::current()) {
  using Layer = std::remove_cvref_t<decltype(*std::begin(layers))>;
  using Value = detail::Argument<X>;
  Value value = detail::as_argument(x);
  const std::vector<size_t> ends = detail::segment_ends(std::size(layers), options.segments, where);
  auto next = std::begin(layers);
  for (size_t k = 0, at = 0; k < ends.size(); at = ends[k++]) {
    std::vector<Layer> own;
    for (; at < ends[k]; ++at) {
      detail::require_callable("recompute_chain", *next, "a layer", where);
      own.push_back(*next++);
    }
    const auto segment = [own = std::move(own), where](Value v) {
      for (const Layer& layer : own) v = detail::as_argument(detail::call_at(where, layer, v));
      return v;
    };
    if (k + 1 < ends.size()) value = recompute(segment, {.policy = options.policy}, where)(value);
    else value = segment(std::move(value));
  }
  return value;
}
template <class Layers, class X>
auto recompute_chain(const Layers& layers, const X& x, Where where = Where::current()) {
  return recompute_chain(layers, x, ChainOptions(), where);
}

}  // namespace rill

#pragma GCC visibility pop
