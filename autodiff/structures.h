// Arguments and results of derivatives other than tensors: C++ values with tensors and Variables inside (ops/tree.h).
// Here are the type of such a value's gradient, the sources that a tape watches in it, and how gradients are put into
// it.
#pragma once
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rill/autodiff/tape.h"
#include "rill/ops/nn_ops.h"
#include "rill/ops/tree.h"

#pragma GCC visibility push(default)

namespace rill {

namespace detail {

// f(x...), with the user's line if f is a function that takes one: a traced or a public one. (Callables that accept
// anything, such as generic lambdas, do not get it.)
template <class F>
inline constexpr bool takes_location = requires {
  typename std::remove_cvref_t<F>::TakesPlace;
} || (std::is_pointer_v<std::decay_t<F>> && std::is_function_v<std::remove_pointer_t<std::decay_t<F>>>);
template <class F, class... A>
decltype(auto) call_at(const Where& where, F&& f, A&&... x) {
  if constexpr (takes_location<F>) {
    if constexpr (std::is_invocable_v<F&, A..., Where>) return f(std::forward<A>(x)..., where);
    else return f(std::forward<A>(x)...);
  } else {
    static_assert(
        std::is_invocable_v<F&, A...>,
        "the function cannot be called with these arguments. they are const: its parameters are const Tensor&, "
        "or Tensor, but not Tensor& or Tensor&&; and the operator() of a struct is const");
    return f(std::forward<A>(x)...);
  }
}
// Whether a tensor of a structure takes part in derivatives.
inline bool is_source(const Tensor& t) { return t.defined() && is_differentiable(t.dtype()); }
// `x` as a new tensor, so that what the callable captured of it stays a constant.
Tensor fresh(std::string_view op, const Tensor& x, const Where& where);
void require_scalar(std::string_view op, const Tensor& y, const Where& where);
// Throws if cotangents differ in number from the results, or one is undefined.
void require_like(std::span<Tensor* const> results, std::span<Tensor* const> cotangents, const Where& where);

// Variables, including those in structs of the user's.
struct VariableLeaf {
  template <class T>
  static constexpr bool of = [] {
    if constexpr ((NamesFields<T> || Aggregate<T>) && !TupleLike<T> && !Walkable<T>)
      return holds<decltype(fields_of(std::declval<T&>())), VariableLeaf>;
    else return is_variable<T>;
  }();
};
template <class T>
inline constexpr bool holds_variables = holds<T, VariableLeaf>;

// The type of a value with other types for its leaves. Leaves::Of<T> replaces a T; if that is void, T is a container to
// look into.
template <class T, class Leaves, class Leaf = typename Leaves::template Of<T>>
struct LikeType {
  using type = Leaf;
};
template <class T, class Leaves>
struct LikeType<T, Leaves, void> {
  using type = decltype(Leaves::template refuse<T>());  // explains why
};
template <class T, class Leaves>
using Like = typename LikeType<T, Leaves>::type;
template <class T, class Leaves>
struct LikeType<std::optional<T>, Leaves, void> {
  using type = std::optional<Like<T, Leaves>>;
};
template <class T, class... More, class Leaves>
struct LikeType<std::vector<T, More...>, Leaves, void> {
  using type = std::vector<Like<T, Leaves>>;
};
template <class T, size_t n, class Leaves>
struct LikeType<std::array<T, n>, Leaves, void> {
  using type = std::array<Like<T, Leaves>, n>;
};
template <class T, class U, class Leaves>
struct LikeType<std::pair<T, U>, Leaves, void> {
  using type = std::pair<Like<T, Leaves>, Like<U, Leaves>>;
};
template <class... T, class Leaves>
struct LikeType<std::tuple<T...>, Leaves, void> {
  using type = std::tuple<Like<std::remove_cvref_t<T>, Leaves>...>;
};
template <template <class, class, class...> class Map, class K, class T, class... More, class Leaves>
  requires(MapLike<Map<K, T, More...>>)
struct LikeType<Map<K, T, More...>, Leaves, void> {
  using type = Map<K, Like<T, Leaves>>;
};

// The value of that type: leaves(leaf) replaces each leaf, from left to right.
template <class T, class Leaves>
Like<T, Leaves> like(const T& value, const Leaves& leaves) {
  using Out = Like<T, Leaves>;
  if constexpr (!std::is_void_v<typename Leaves::template Of<T>>) {
    return leaves(value);
  } else if constexpr (is_a<T, std::optional>) {
    return value ? Out(like(*value, leaves)) : Out();
  } else if constexpr (is_a<T, std::vector>) {
    Out out;
    for (const auto& each : value) out.push_back(like(each, leaves));
    return out;
  } else if constexpr (MapLike<T>) {
    Out out;
    for (const auto& [key, each] : value) out.emplace(key, like(each, leaves));
    return out;
  } else {  // a tuple, pair or array; braces are evaluated from left to right
    return std::apply([&](const auto&... each) { return Out{like(each, leaves)...}; }, value);
  }
}

// What a callable gets for an argument: the argument itself, or a Tensor for a number or a Variable.
template <class T>
using Argument = std::conditional_t<is_variable<T> || Scalar<T> || DimOrSize<T>, Tensor, T>;
// Copies of all of them. (A std::tuple made from one tuple or pair would be that itself, were its type not given.)
template <class... X>
using Arguments = std::tuple<Argument<std::remove_cvref_t<X>>...>;
template <class T>
Argument<T> as_argument(const T& x) {
  if constexpr (is_variable<T>) return x.value();
  else return x;
}

// Replaces the tensors of a copy of a value by new ones, so that what the callable captured of them stays a constant,
// and has the tape watch them. Values without derivatives stay as they are: numbers, integer tensors, undefined ones.
class WatchLeaves final : public LeafVisitor {
 public:
  WatchLeaves(std::string_view op, GradientTape& tape, const Where& where) : op_(op), tape_(tape), where_(where) {}
  void tensor(Tensor& t) override;
  void variable(const Variable& v) override;
  void constant(const void*, size_t) override {}
  void argument(Tensor& t);  // a single argument, which must have a derivative
  std::vector<Source> sources;

 private:
  const std::string_view op_;
  GradientTape& tape_;
  const Where where_;
};

// The sources in a value: its floating tensors and its Variables, in the order of walk().
class FindSources final : public LeafVisitor {
 public:
  void tensor(Tensor& t) override;
  void variable(const Variable& v) override { sources.emplace_back(v); }
  void constant(const void*, size_t) override {}
  std::vector<Source> sources;
};

// Which of a value's tensors: all, whatever their dtype, or those that have a tangent in a result: all except integers
// that are indices.
enum class TensorsIn : uint8_t { all, with_tangents };
class TensorLeaves final : public LeafVisitor {
 public:
  explicit TensorLeaves(TensorsIn which) : which_(which) {}
  void tensor(Tensor& t) override {
    if (which_ == TensorsIn::all || !are_places_ || is_differentiable(t.dtype())) tensors.push_back(&t);
  }
  void constant(const void*, size_t) override {}
  void integers_are_places(bool yes) override { are_places_ = yes; }
  std::vector<Tensor*> tensors;  // to read, or to replace

 private:
  TensorsIn which_;
  bool are_places_ = false;
};
template <class T>
std::vector<Tensor*> tensors_in(T& value, TensorsIn which = TensorsIn::all) {
  TensorLeaves leaves(which);
  walk(value, leaves);
  return std::move(leaves.tensors);
}

// Puts gradients where the sources of WatchLeaves or FindSources are; a tensor without a derivative becomes zeros,
// except for integers that are indices.
class PutGradients final : public LeafVisitor {
 public:
  explicit PutGradients(Tensor*& next) : next_(next) {}
  void tensor(Tensor& t) override;
  void constant(const void*, size_t) override {}
  void integers_are_places(bool yes) override { are_places_ = yes; }

 private:
  Tensor*& next_;
  bool are_places_ = false;
};

// The leaves of a gradient: a Tensor for each Variable; values without Variables stay as they are, with gradients for
// their tensors.
struct GradientLeaves {
  template <class T>
  using Of = std::conditional_t<is_variable<T>, Tensor, std::conditional_t<holds_variables<T>, void, T>>;
  template <class T>
  static auto refuse() {
    static_assert(std::is_same_v<T, void>,
                  "a struct of Variables cannot hold their gradients: take them by tape.gradient(loss, {a, b}), or "
                  "keep the Variables in a vector, map or tuple");
  }
  template <class T>
  Of<T> operator()(const T& leaf) const {
    if constexpr (is_variable<T>) {
      return std::move(*next++);
    } else {
      T out = leaf;
      PutGradients put(next);
      walk(out, put);
      return out;
    }
  }
  Tensor*& next;
};
template <class T>
using GradientOf = Like<std::remove_cvref_t<T>, GradientLeaves>;
template <class T>
struct GradientType {  // a name for tape.h, which comes first
  using type = GradientOf<T>;
};
// The gradient of `value`, with its tensors from `next` on.
template <class T>
GradientOf<T> gradient_like(const T& value, Tensor*& next) {
  return like(value, GradientLeaves{next});
}
template <class... X>
std::tuple<GradientOf<X>...> gradients_like(const std::tuple<X...>& values, Tensor*& next) {
  return std::apply([&](const auto&... value) { return std::tuple<GradientOf<X>...>{gradient_like(value, next)...}; },
                    values);
}

// --- Calling a function on arguments that a tape watches -------------------------------------------------------------

// Copies of the arguments `which` (all others go to the function unchanged) with the sources in them, in order.
template <class... X>
struct WatchedArguments {
  std::tuple<Argument<X>...> values;
  std::vector<Source> sources;
};
template <class T>
void watch_argument(T& value, WatchLeaves& watch) {
  if constexpr (std::is_same_v<T, Tensor>) watch.argument(value);
  else walk(value, watch);
}
template <size_t... which, class... X>
auto watch_arguments(std::string_view op, GradientTape& tape, const Where& where, std::index_sequence<which...>,
                     const X&... x) {
  const auto all = std::tie(x...);
  using All = std::tuple<X...>;
  WatchedArguments<std::tuple_element_t<which, All>...> watched{{as_argument(std::get<which>(all))...}, {}};
  WatchLeaves watch(op, tape, where);
  std::apply([&](auto&... value) { (watch_argument(value, watch), ...); }, watched.values);
  watched.sources = std::move(watch.sources);
  return watched;
}

// Argument i of the call: the watched copy if it is one of `which`, else the given one.
template <size_t i, size_t... which, class Copies, class All>
decltype(auto) chosen(std::index_sequence<which...>, Copies& copies, const All& all) {
  constexpr size_t wanted[] = {which...};
  constexpr size_t at = [&] {
    for (size_t k = 0; k < sizeof...(which); ++k)
      if (wanted[k] == i) return k;
    return sizeof...(which);
  }();
  if constexpr (at < sizeof...(which)) return std::as_const(std::get<at>(copies));
  else return std::get<i>(all);
}

// f on x..., the arguments `which` replaced by `values`.
template <size_t... which, class F, class Values, class... X>
decltype(auto) call_with(F& f, std::index_sequence<which...> numbers, Values& values, const Where& where,
                         const X&... x) {
  const auto all = std::tie(x...);
  return [&]<size_t... i>(std::index_sequence<i...>) -> decltype(auto) {
    return call_at(where, f, chosen<i>(numbers, values, all)...);
  }(std::index_sequence_for<X...>());
}

template <class R>
inline constexpr bool is_loss = std::is_convertible_v<const R&, Tensor>;
template <class R>
inline constexpr bool is_loss_with_more = false;
template <class T, class More>
inline constexpr bool is_loss_with_more<std::pair<T, More>> = is_loss<T>;

template <size_t... number>
inline constexpr bool all_differ = true;
template <size_t first, size_t... rest>
inline constexpr bool all_differ<first, rest...> = ((first != rest) && ...) && all_differ<rest...>;

// {f's result, the gradient of its loss by argument `which`, or a tuple of them}.
template <size_t... which, class F, class... X>
auto value_and_gradients(std::string_view op, F& f, const GradientOptions& options, const Where& where, const X&... x) {
  static_assert(((which < sizeof...(X)) && ...), "grad<i>(f): f is called with fewer arguments than that");
  static_assert(all_differ<which...>, "grad<i, j>(f): an argument is named twice");
  constexpr std::index_sequence<which...> numbers;
  GradientTape tape({.watch_variables = false});
  auto watched = watch_arguments(op, tape, where, numbers, x...);
  auto given = call_with(f, numbers, watched.values, where, x...);
  using R = decltype(given);
  static_assert(is_loss<R> || is_loss_with_more<R>,
                "grad: the function must give one number, a Tensor, or a std::pair of it and what else it computed");
  const Tensor loss = [&] {
    if constexpr (is_loss<R>) return Tensor(given);
    else return Tensor(given.first);
  }();
  require_scalar(op, loss, where);
  std::vector<Tensor> gradients = tape.gradient(std::vector<Tensor>{loss}, watched.sources, options, where);
  Tensor* next = gradients.data();
  auto all_gradients = gradients_like(watched.values, next);
  auto result = [&] {
    if constexpr (sizeof...(which) == 1) return std::get<0>(std::move(all_gradients));
    else return std::move(all_gradients);
  }();
  if constexpr (is_loss<R>) return std::pair<Tensor, decltype(result)>(loss, std::move(result));
  else return std::pair<R, decltype(result)>(std::move(given), std::move(result));
}

// Whether f can be called with these. A transform takes what its function takes.
template <class F, class... X>
constexpr bool takes() {
  if constexpr (requires { typename F::TransformOf; }) return takes<typename F::TransformOf, X...>();
  else return std::is_invocable_v<const F&, const X&...> || std::is_invocable_v<F&, const X&...>;
}

// f(x), or if x is a tuple that f does not take, f(the tuple's elements...).
template <class F, class X>
auto call_spread(const Where& where, F& f, const X& x) {
  if constexpr (takes<std::remove_cvref_t<F>, X>() || !TupleLike<X>) return call_at(where, f, x);
  else return std::apply([&](const auto&... each) { return call_at(where, f, each...); }, x);
}

// The gradients by the sources, from cotangents of y, which is a structure like y.
template <class Y, class X, class Cotangent>
auto pull_back(GradientTape& tape, Y y, const WatchedArguments<X>& arguments, Cotangent cotangent, const Where& where) {
  std::vector<Tensor> targets, seeds;
  const std::vector<Tensor*> results = tensors_in(y), arrived = tensors_in(cotangent);
  require_like(results, arrived, where);
  for (size_t k = 0; k < results.size(); ++k)
    if (is_differentiable(results[k]->dtype())) targets.push_back(*results[k]), seeds.push_back(*arrived[k]);
  std::vector<Tensor> gradients =
      tape.gradient(targets, arguments.sources, {.unconnected = Unconnected::zero, .output_gradients = seeds}, where);
  Tensor* next = gradients.data();
  return gradient_like(std::get<0>(arguments.values), next);
}

}  // namespace detail

template <GradientStructure T>
typename detail::GradientType<T>::type GradientTape::gradient(const Target& target, const T& structure,
                                                              const GradientOptions& options) {
  detail::FindSources find;
  walk(const_cast<T&>(structure), find);  // which changes nothing
  std::vector<Tensor> out(find.sources.size());
  gradients({&target.tensor, 1}, find.sources, options, target.where, out);
  Tensor* next = out.data();
  return detail::gradient_like(structure, next);
}

// --- Clipping, in structures -----------------------------------------------------------------------------------------

namespace detail {
// A copy with f of each floating tensor.
template <class T, class F>
T with_each(T value, F&& f) {
  for (Tensor* t : tensors_in(value))
    if (is_source(*t)) *t = f(*t);
  return value;
}
std::vector<Tensor> gradients_among(std::span<Tensor* const> tensors);
}  // namespace detail

// clip_by_value() and clip_by_norm() of each tensor of the list or structure.
template <class T>
  requires(GradientStructure<T> || std::same_as<T, std::vector<Tensor>>)
T clip_by_value(const T& gradients, double low, double high, Where where = Where::current()) {
  return detail::with_each(gradients, [&](const Tensor& t) { return rill::clip_by_value(t, low, high, where); });
}
template <class T>
  requires(GradientStructure<T> || std::same_as<T, std::vector<Tensor>>)
T clip_by_norm(const T& gradients, double max_norm, Where where = Where::current()) {
  return detail::with_each(gradients, [&](const Tensor& t) { return rill::clip_by_norm(t, max_norm, {}, where); });
}
// The global norm of all tensors in the structure; and the structure scaled so that it is at most max_norm, with the
// norm before that.
template <GradientStructure T>
Tensor global_norm(T gradients, Where where = Where::current()) {
  return rill::global_norm(detail::gradients_among(detail::tensors_in(gradients)), where);
}
template <GradientStructure T>
Clipped<T> clip_by_global_norm(T gradients, double max_norm, Where where = Where::current()) {
  const std::vector<Tensor*> tensors = detail::tensors_in(gradients);
  ClippedGradients clipped = rill::clip_by_global_norm(detail::gradients_among(tensors), max_norm, where);
  size_t next = 0;
  for (Tensor* t : tensors)
    if (detail::is_source(*t)) *t = std::move(clipped.gradients[next++]);
  return {std::move(gradients), std::move(clipped.norm)};
}

}  // namespace rill

#pragma GCC visibility pop
