// Control flow that depends on data: cond, switch_case, while_loop, scan. Eagerly they are C++ ifs and loops over the
// callables they get, and a tape records the ops that ran; inside `function` each is one node that holds the callables'
// graphs, is run without leaving the trace, and is differentiated as a node of the same kind. Both give the same bits.
//
// Callables may capture tensors and Variables, assign Variables, draw random numbers, print, and hold control flow of
// their own. While tracing, each is called once or twice, to see its ops: C++ side effects happen then only. Results
// and carried values are Tensors, or structures of them (tree.h). A C++ scalar or Variable among them counts as the
// tensor that it holds; a C++ scalar loses its weakness.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rill/ops/ops.h"
#include "rill/ops/tree.h"
#include "rill/tensor/callback.h"

#pragma GCC visibility push(default)

namespace rill {

struct WhileOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  // Stops after so many steps, whatever the condition says. What a gradient inside `function` needs is kept for so many
  // steps; without a bound such a gradient is an error. Eager gradients need none.
  std::optional<int64_t> max_steps = {};
};

struct ScanOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool reverse = false;            // from the last row to the first; row i of ys still belongs to row i of xs
  std::optional<Dim> length = {};  // the number of steps; where there are xs it must be theirs
};

namespace detail {

struct Nothing {  // what a callable that gives void gives
  template <class W>
  void walk(W&& w) {
    w();
  }
};

template <class T, class D = std::remove_cvref_t<T>>
using Plain =
    std::conditional_t<std::is_void_v<T>, Nothing, std::conditional_t<is_variable<D> || Scalar<D>, Tensor, D>>;

template <class T>
Plain<T> plain(T&& value) {
  if constexpr (std::is_same_v<Plain<T>, Tensor>) return static_cast<Tensor>(value);
  else return std::forward<T>(value);
}

template <class F, class... A>
auto invoke_plain(F&& f, A&&... a) {
  if constexpr (std::is_void_v<std::invoke_result_t<F, A...>>) {
    f(std::forward<A>(a)...);
    return Nothing();
  } else {
    return plain(f(std::forward<A>(a)...));
  }
}

// The tensors of a value, none of them weak, and everything else about it.
struct Flat {
  std::vector<Tensor> tensors;
  std::string structure;
};
class Flattener final : public LeafVisitor {
 public:
  void tensor(Tensor& t) override;
  void constant(const void* bytes, size_t n) override;
  void structure(size_t n) override;
  Flat flat;
};
template <class T>
Flat flat_of(T value) {
  Flattener f;
  walk(value, f);
  return std::move(f.flat);
}

// Callables and results without their types; control/choices.cpp and control/loops.cpp do the rest with them.
using FlatFn = Callback<Flat(std::span<const Tensor>)>;
struct FlatStep {
  Flat carried, y;
};
using FlatStepFn = Callback<FlatStep(std::span<const Tensor>)>;
enum class Choice : uint8_t { cond, switch_case };

std::vector<Tensor> run_choice(Choice kind, const Tensor& which, std::span<const FlatFn> branches, const Where& where);
std::vector<Tensor> run_while(const Flat& init, const FlatFn& cond_fn, const FlatFn& body_fn,
                              const WhileOptions& options, const Where& where);
std::pair<std::vector<Tensor>, std::vector<Tensor>> run_scan(const Flat& init, const Flat& xs, const FlatStepFn& fn,
                                                             const ScanOptions& options, const Where& where);

template <class R>
auto given(R result) {
  if constexpr (!std::is_same_v<R, Nothing>) return result;
}

template <class R, size_t n>
auto choose(Choice kind, const Tensor& which, const std::array<Callback<R()>, n>& few,
            const std::vector<Callback<R()>>& many, const Where& where) {
  std::optional<R> like;
  std::vector<FlatFn> flat;
  auto add = [&](const Callback<R()>& branch) {
    flat.push_back([&](std::span<const Tensor>) {
      R result = branch();
      if (!like) like = result;
      return flat_of(std::move(result));
    });
  };
  for (const auto& b : few) add(b);
  for (const auto& b : many) add(b);
  std::vector<Tensor> out = run_choice(kind, which, flat, where);
  return given(refill(*like, out));
}

// What a loop's body gives, as the tuple of carried values.
template <class State, class R>
State as_state(R&& result) {
  constexpr size_t n = std::tuple_size_v<State>;
  using D = std::remove_cvref_t<R>;
  if constexpr (n == 1 && std::is_convertible_v<R, std::tuple_element_t<0, State>>) {
    return State(std::forward<R>(result));
  } else {
    static_assert(TupleLike<D>, "the body must give a std::tuple with a value for each carried one");
    static_assert(std::tuple_size_v<D> == n, "the body must give as many values as are carried");
    return std::apply([](auto&&... each) { return State(std::forward<decltype(each)>(each)...); },
                      std::forward<R>(result));
  }
}

template <class C, class B, class... T>
auto loop(C& cond_fn, B& body_fn, const WhileOptions& options, const Where& where, std::tuple<T...> init) {
  using State = std::tuple<T...>;
  static_assert(std::is_invocable_v<C&, const T&...>,
                "while_loop(condition, body, init...): the condition takes the carried values, one parameter each, as "
                "in [](const Tensor& i, const Tensor& x) { return i < 3; }");
  static_assert(std::is_invocable_v<B&, const T&...>,
                "while_loop(condition, body, init...): the body takes the carried values, one parameter each, as in "
                "[](const Tensor& i, const Tensor& x) { return std::tuple(i + 1, x * 2); }");
  require_callable("while_loop", cond_fn, "the condition", where);
  require_callable("while_loop", body_fn, "the body", where);
  FlatFn go_on = [&](std::span<const Tensor> in) {
    const State state = refill(init, in);
    return flat_of(Tensor(std::apply(cond_fn, state)));
  };
  FlatFn step = [&](std::span<const Tensor> in) {
    const State state = refill(init, in);
    return flat_of(as_state<State>(std::apply(body_fn, state)));
  };
  State out = refill(init, run_while(flat_of(init), go_on, step, options, where));
  if constexpr (sizeof...(T) == 1) return std::get<0>(std::move(out));
  else return out;
}

}  // namespace detail

// The result of then_fn() where `pred`, a bool scalar, is true, else of else_fn(); only that one runs.
//
//   Tensor y = cond(norm > 1, [&] { return x / norm; }, [&] { return x; });
//
// Both must give the same C++ type; while tracing, also the same shapes and dtypes, or rill::Error names both. (An
// integer beside a float becomes one, as in where(); an integer too large for that is an error when it happens.) They
// may give nothing and assign Variables instead. Differentiable in what the branches read.
template <class Then, class Else>
auto cond(const Tensor& pred, Then&& then_fn, Else&& else_fn, Where where = Where::current()) {
  static_assert(std::is_invocable_v<Then&> && std::is_invocable_v<Else&>,
                "cond(pred, then_fn, else_fn) takes two callables without parameters, as in [&] { return x; }; "
                "where(pred, a, b) chooses between tensors");
  using R = decltype(detail::invoke_plain(then_fn));
  static_assert(std::is_same_v<R, decltype(detail::invoke_plain(else_fn))>,
                "the branches of cond() must give the same C++ type");
  detail::require_callable("cond", then_fn, "then_fn", where);
  detail::require_callable("cond", else_fn, "else_fn", where);
  std::array<Callback<R()>, 2> branches{[&] { return detail::invoke_plain(then_fn); },
                                        [&] { return detail::invoke_plain(else_fn); }};
  return detail::choose<R, 2>(detail::Choice::cond, pred, branches, {}, where);
}

// The result of branches[index](), or of `otherwise` where `index`, an integer scalar, is not one of theirs; without
// `otherwise` the last branch serves as that. switch_case(i, {[&] { return x; }, [&] { return -x; }}). Branches that
// give something else than a Tensor say what: switch_case<std::pair<Tensor, Tensor>>(...). As cond() otherwise.
template <class R = Tensor>
auto switch_case(const Tensor& index, const std::vector<Callback<std::type_identity_t<R>()>>& branches,
                 Callback<std::type_identity_t<R>()> otherwise = nullptr, Where where = Where::current()) {
  using P = detail::Plain<R>;
  std::vector<Callback<P()>> all;
  for (const auto& b : branches) {
    detail::require_callable("switch_case", b, "a branch", where);
    all.push_back([&b] { return detail::invoke_plain(b); });
  }
  if (otherwise) all.push_back([&] { return detail::invoke_plain(otherwise); });
  return detail::choose<P, 0>(detail::Choice::switch_case, index, {}, all, where);
}
// The same for as many branches as there are at run time: std::vector<std::function<Tensor()>>.
template <class R = Tensor, class F>
  requires(!std::is_same_v<F, Callback<R()>> && std::is_convertible_v<const F&, Callback<R()>>)
auto switch_case(const Tensor& index, const std::vector<F>& branches,
                 Callback<std::type_identity_t<R>()> otherwise = nullptr, Where where = Where::current()) {
  return switch_case<R>(index, std::vector<Callback<R()>>(branches.begin(), branches.end()), std::move(otherwise),
                        where);
}

// Calls body_fn on the carried values, and then on what it gave, while cond_fn of them, a bool scalar, is true. Gives
// the carried values of the end: the value where there is one, else a std::tuple, as body_fn must.
//
//   auto [n, steps] = while_loop([](const Tensor& n, const Tensor&) { return n > 1; },
//                                [](const Tensor& n, const Tensor& k) { return std::tuple(n / 2, k + 1); }, n0, 0);
//
// Shapes, dtypes and structure of carried values must stay as they are; rill::Error names the one that does not. (An
// integer may come back as a whole float, as n / 2 is for an even n; another float is an error when it happens.)
// Options come last: while_loop(c, b, x, {.max_steps = 10}). One to six carried values; a structure holds more.
template <class C, class B, class T>
auto while_loop(C&& cond_fn, B&& body_fn, const T& init, WhileOptions options = {}, Where where = Where::current()) {
  return detail::loop(cond_fn, body_fn, options, where, std::tuple<detail::Plain<T>>(detail::plain(init)));
}
#define RILL_PLAIN(x) detail::plain(x)
template <class C, class B, class T, class U>
auto while_loop(C&& cond_fn, B&& body_fn, const T& a, const U& b, WhileOptions options = {},
                Where where = Where::current()) {
  return detail::loop(cond_fn, body_fn, options, where, std::tuple(RILL_PLAIN(a), RILL_PLAIN(b)));
}
template <class C, class B, class T, class U, class V>
auto while_loop(C&& cond_fn, B&& body_fn, const T& a, const U& b, const V& c, WhileOptions options = {},
                Where where = Where::current()) {
  return detail::loop(cond_fn, body_fn, options, where, std::tuple(RILL_PLAIN(a), RILL_PLAIN(b), RILL_PLAIN(c)));
}
template <class C, class B, class T, class U, class V, class W>
auto while_loop(C&& cond_fn, B&& body_fn, const T& a, const U& b, const V& c, const W& d, WhileOptions options = {},
                Where where = Where::current()) {
  return detail::loop(cond_fn, body_fn, options, where,
                      std::tuple(RILL_PLAIN(a), RILL_PLAIN(b), RILL_PLAIN(c), RILL_PLAIN(d)));
}
template <class C, class B, class T, class U, class V, class W, class X>
auto while_loop(C&& cond_fn, B&& body_fn, const T& a, const U& b, const V& c, const W& d, const X& e,
                WhileOptions options = {}, Where where = Where::current()) {
  return detail::loop(cond_fn, body_fn, options, where,
                      std::tuple(RILL_PLAIN(a), RILL_PLAIN(b), RILL_PLAIN(c), RILL_PLAIN(d), RILL_PLAIN(e)));
}
template <class C, class B, class T, class U, class V, class W, class X, class Y>
auto while_loop(C&& cond_fn, B&& body_fn, const T& a, const U& b, const V& c, const W& d, const X& e, const Y& f,
                WhileOptions options = {}, Where where = Where::current()) {
  return detail::loop(
      cond_fn, body_fn, options, where,
      std::tuple(RILL_PLAIN(a), RILL_PLAIN(b), RILL_PLAIN(c), RILL_PLAIN(d), RILL_PLAIN(e), RILL_PLAIN(f)));
}
#undef RILL_PLAIN

// Calls fn(carry, x) -> {carry, y} for each row x of `xs` along axis 0, in order; gives the last carry and the ys,
// stacked on axis 0.
//
//   auto [total, sums] =
//       scan([](const Tensor& t, const Tensor& x) { return std::pair(t + x, t + x); }, tensor(0.f), xs);
//
// Carry, xs and y are Tensors or structures of them; all tensors of xs have the same first size. The carry must keep
// its structure, shapes and dtypes. Where there is no row, fn is traced to learn what a y looks like.
template <class F, class C, class X>
auto scan(F&& fn, const C& init, const X& xs, ScanOptions options = {}, Where where = Where::current()) {
  using Carry = detail::Plain<C>;
  using Rows = detail::Plain<X>;
  static_assert(std::is_invocable_v<F&, const Carry&, const Rows&>,
                "scan(fn, init, xs): fn takes the carried value and a row of xs, as in [](const Tensor& c, const "
                "Tensor& x) { return std::pair(c + x, c); }");
  using R = std::remove_cvref_t<std::invoke_result_t<F&, const Carry&, const Rows&>>;
  static_assert(detail::TupleLike<R>, "the function of scan() must give a pair {carry, y}");
  static_assert(std::tuple_size_v<R> == 2, "the function of scan() must give a pair {carry, y}");
  using Y = detail::Plain<std::tuple_element_t<1, R>>;
  detail::require_callable("scan", fn, "the function", where);
  const Carry start = detail::plain(init);
  const Rows rows = detail::plain(xs);
  std::optional<Y> like;
  const detail::Flat carried = detail::flat_of(start);
  detail::FlatStepFn step = [&](std::span<const Tensor> in) {
    const Carry c = detail::refill(start, in.first(carried.tensors.size()));
    const Rows x = detail::refill(rows, in.subspan(carried.tensors.size()));
    auto result = fn(c, x);
    Carry next = detail::plain(std::get<0>(result));
    Y y = detail::plain(std::get<1>(result));
    if (!like) like = y;
    return detail::FlatStep{detail::flat_of(std::move(next)), detail::flat_of(std::move(y))};
  };
  auto [last, ys] = detail::run_scan(carried, detail::flat_of(rows), step, options, where);
  return std::pair<Carry, Y>(detail::refill(start, last), detail::refill(*like, ys));
}
// The same without xs: fn(carry) -> {carry, y}, options.length times.
template <class F, class C>
auto scan(F&& fn, const C& init, ScanOptions options, Where where = Where::current()) {
  static_assert(std::is_invocable_v<F&, const detail::Plain<C>&>,
                "scan(fn, init, {.length = n}): fn takes the carried value, as in [](const Tensor& c) { return "
                "std::pair(c + 1, c); }");
  detail::require_callable("scan", fn, "the function", where);
  return scan([&](const detail::Plain<C>& carry, const detail::Nothing&) { return fn(carry); }, init, detail::Nothing(),
              options, where);
}

}  // namespace rill

#pragma GCC visibility pop
