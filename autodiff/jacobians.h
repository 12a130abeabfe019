// Jacobians and Hessians of functions: row by row, by a walk back for all rows at once (jacrev); column by column, by
// the tangents of all columns in one run (jacfwd); or by the cheaper of the two (jacobian). A tape's own are in tape.h.
//
// The Jacobian of a Tensor by a Tensor is a Tensor of shape f(x).shape + x.shape. Arguments and results may be
// structures of tensors too. The Jacobian by a structure is a structure like it: jacrev(f)(params) has one Jacobian for
// each tensor of params. The Jacobian of a structure has one for each tensor of the result: if f returns a vector of
// Tensors, a vector of Jacobians.
#pragma once
#include <array>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "rill/autodiff/forward.h"

#pragma GCC visibility push(default)

namespace rill {

enum class JacobianMode : uint8_t {
  automatic,  // forward if f returns more numbers than it takes, all of them real and of one dtype; else reverse.
              // Forward calls f once more
  reverse,    // as jacrev()
  forward     // as jacfwd()
};

struct JacobianOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  JacobianMode mode = JacobianMode::automatic;
  int64_t chunk_bytes = int64_t(1) << 28;  // about so many bytes of cotangents or tangents at a time; more take several
};

namespace detail {

// A result with a G, from next(), for each tensor.
template <class G, class Next>
struct JacobianLeaves {
  template <class T>
  using Of = std::conditional_t<std::is_same_v<T, Tensor>, G, void>;
  template <class T>
  static auto refuse() {
    static_assert(
        std::is_same_v<T, void>,
        "a Jacobian: the function must give a Tensor, or a vector, array, optional, map, pair or tuple of them. "
        "a struct cannot hold the Jacobians of its tensors by another; give a tuple of its fields instead");
  }
  G operator()(const Tensor&) const { return next(); }
  const Next& next;
};
template <class Y, class Next>
auto jacobian_like(const Y& y, const Next& next) {
  return like(y, JacobianLeaves<decltype(next()), Next>{next});
}

// Throws unless it is a tensor with a derivative; `what` is "the argument".
void require_jacobian(std::string_view op, const Tensor& t, std::string_view what, const Where& where);
// The same for all results of the function.
void require_jacobian_of(std::string_view op, std::span<Tensor* const> results, const Where& where);
// Entry [t][s]: the Jacobian of result t of f by x[s]; by the tangents of all of x in one run of f.
std::vector<std::vector<Tensor>> forward_jacobians(const Callback<std::vector<Tensor>(const std::vector<Tensor>&)>& f,
                                                   const std::vector<Tensor>& x, int64_t chunk_bytes,
                                                   const Where& where);
// Whether columns cost less than rows, and give the same result: real numbers of one dtype.
bool goes_forward(std::span<Tensor* const> results, std::span<Tensor* const> arguments);

// Puts entry [t][s] of `entries`, result t by tensor s of the arguments, into the result's structure.
template <class Y, class Values>
auto assembled(const Y& y, const Values& values, std::vector<std::vector<Tensor>> entries) {
  size_t row = 0;
  const auto all = [&] {
    Tensor* next = entries[row++].data();
    return gradients_like(values, next);
  };
  if constexpr (std::tuple_size_v<Values> == 1) {
    const auto one = [&] { return std::get<0>(all()); };
    return jacobian_like(y, one);
  } else {
    return jacobian_like(y, all);
  }
}

// Variables inside a structure keep their values in forward mode.
template <class... X>
inline constexpr bool may_go_forward = (!holds_variables<X> && ...) || (is_variable<X> && ...);

template <size_t... which, class F, class... X>
auto forward_jacobian(F& f, const JacobianOptions& options, const Where& where, const X&... x) {
  static_assert(may_go_forward<std::tuple_element_t<which, std::tuple<X...>>...>,
                "jacfwd: Variables inside a structure keep their values. pass their values, or take jacrev()");
  constexpr std::index_sequence<which...> numbers;
  const auto all = std::tie(x...);
  std::tuple<Argument<std::tuple_element_t<which, std::tuple<X...>>>...> values{as_argument(std::get<which>(all))...};
  const auto check = [&](const auto& value) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, Tensor>)
      require_jacobian("jacfwd", value, "the argument", where);
  };
  std::apply([&](const auto&... value) { (check(value), ...); }, values);
  const auto call = [&] { return as_argument(call_with(f, numbers, values, where, x...)); };
  std::optional<decltype(call())> y;
  std::vector<Tensor*> moving;  // those with a derivative
  for (Tensor* place : tensors_in(values))
    if (is_source(*place)) moving.push_back(place);
  std::vector<Tensor> given;
  for (const Tensor* place : moving) given.push_back(*place);
  const auto run = [&](const std::vector<Tensor>& all) {
    for (size_t k = 0; k < moving.size(); ++k) *moving[k] = all[k];
    y.emplace(call());
    const std::vector<Tensor*> results = tensors_in(*y);
    require_jacobian_of("jacfwd", results, where);
    std::vector<Tensor> out;
    for (const Tensor* t : results) out.push_back(*t);
    return out;
  };
  std::vector<std::vector<Tensor>> entries = forward_jacobians(run, given, options.chunk_bytes, where);
  for (size_t k = 0; k < moving.size(); ++k) *moving[k] = given[k];
  return assembled(*y, values, std::move(entries));
}

template <size_t... which, class F, class... X>
auto jacobian_by(std::string_view op, JacobianMode mode, F& f, const JacobianOptions& options, const Where& where,
                 const X&... x) {
  static_assert(((which < sizeof...(X)) && ...), "jacobian<i>(f): f is called with fewer arguments than that");
  static_assert(all_differ<which...>, "jacobian<i, j>(f): an argument is named twice");
  constexpr std::index_sequence<which...> numbers;
  constexpr bool both_ways = may_go_forward<std::tuple_element_t<which, std::tuple<X...>>...>;
  if constexpr (both_ways)
    if (mode == JacobianMode::forward) return forward_jacobian<which...>(f, options, where, x...);
  if (mode == JacobianMode::forward)
    fail(op, "Variables inside a structure keep their values in forward mode. pass their values", where);
  GradientTape tape({.watch_variables = false});
  auto watched = watch_arguments(op, tape, where, numbers, x...);
  auto y = as_argument(call_with(f, numbers, watched.values, where, x...));
  const std::vector<Tensor*> results = tensors_in(y);
  require_jacobian_of(op, results, where);
  if constexpr (both_ways)
    if (mode == JacobianMode::automatic && goes_forward(results, tensors_in(watched.values))) {
      tape.stop();
      return forward_jacobian<which...>(f, options, where, x...);
    }
  std::vector<Tensor> targets;
  for (const Tensor* t : results) targets.push_back(*t);
  const GradientOptions walk{.unconnected = Unconnected::zero, .chunk_bytes = options.chunk_bytes};
  return assembled(y, watched.values, tape.jacobian(targets, watched.sources, walk, where));
}

template <size_t... which, class F>
auto jacobian_transform(std::string_view op, JacobianMode mode, F f, const JacobianOptions& options,
                        const Where& where) {
  require_callable(op, f, "the function", where);
  return transform_of<F>([op, f = std::move(f), mode, options, where](const auto&... x) {
    if constexpr (sizeof...(which) == 0) return jacobian_by<0>(op, mode, f, options, where, x...);
    else return jacobian_by<which...>(op, mode, f, options, where, x...);
  });
}

}  // namespace detail

// jacobian(f)(x, rest...) -> the Jacobian by x, by rows or columns as the options say. jacobian<0, 2>(f) gives those by
// these arguments, as a tuple. If f does not depend on a tensor they are zeros. Throws if a result of f has no
// derivative.
template <size_t... argument, class F>
auto jacobian(F f, JacobianOptions options, Where where = Where::current()) {
  return detail::jacobian_transform<argument...>("jacobian", options.mode, std::move(f), options, where);
}
template <size_t... argument, class F>
auto jacobian(F f, Where where = Where::current()) {
  return jacobian<argument...>(std::move(f), JacobianOptions(), where);
}

// jacrev(f)(x, rest...) -> the same by a walk back for all rows. The choice if f returns fewer numbers than it takes.
template <size_t... argument, class F>
auto jacrev(F f, Where where = Where::current()) {
  return detail::jacobian_transform<argument...>("jacrev", JacobianMode::reverse, std::move(f), {}, where);
}
// jacfwd(f)(x, rest...) -> the same by the tangents of all columns in one run of f. The choice if f returns more
// numbers than it takes. Both agree up to rounding, except for complex functions that are not holomorphic, and if
// dtypes differ: jacrev's is the argument's, jacfwd's the result's.
template <size_t... argument, class F>
auto jacfwd(F f, Where where = Where::current()) {
  return detail::jacobian_transform<argument...>("jacfwd", JacobianMode::forward, std::move(f), {}, where);
}

// hessian(f)(x, rest...) -> second derivatives of a scalar function, of shape x.shape + x.shape. For a vector of
// Tensors, result [i][j] is the derivative by x[i] and x[j]; the same for maps, pairs and tuples; hessian<0, 1>(f)
// gives a tuple of tuples.
template <size_t... argument, class F>
auto hessian(F f, Where where = Where::current()) {
  return detail::jacobian_transform<argument...>(
      "hessian", JacobianMode::reverse,
      detail::grad_of<argument...>("hessian", std::move(f), {.unconnected = Unconnected::zero}, where), {}, where);
}

}  // namespace rill

#pragma GCC visibility pop
