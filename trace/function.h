// function: wraps a C++ callable so that it is traced once for each signature of its arguments and replayed afterwards.
//
//   auto step = function("step", [&](const Tensor& x) { return sum(tanh(x * w)); });
//   Tensor y = step(x);   // traced the first time, replayed for every x of the same shape and dtype
//
// A replay gives the same bits as calling the callable. C++ side effects happen at tracing only. Variables are read and
// assigned at every call. Calls inside another traced function are inlined; a tape around a call records it as one.
// Start reading at FunctionCore, which is all but the types of arguments and results.
#pragma once
#include <iosfwd>
#include <string>
#include <tuple>
#include <vector>

#include "rill/ops/tree.h"
#include "rill/tensor/callback.h"
#include "rill/trace/export.h"
#include "rill/trace/graph.h"

#pragma GCC visibility push(default)

namespace rill {

// What a tensor argument must be: spec(f32, {any, 8}, "x"). A size `any` fits every size, and one trace serves as many
// as it can: each concrete size gets a plan of its own from it (instantiate.h says how). Sizes that the callable reads
// are Dims, and arithmetic on them, shapes, indices and factors stay right for every size; where it looks at the number
// (an `if`, a loop, a double), the trace serves only the sizes for which it would see the same. The name appears in
// graphs and exported models.
struct ArgSpec {
  Spec spec;
  std::string name;
};
// Throws where a size is negative and not `any`, or the dtype does not exist.
ArgSpec spec(DType dtype, const Shape& shape, std::string name = "", MaybeDevice device = {},
             Where where = Where::current());

struct FunctionOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  std::vector<ArgSpec> signature = {};  // one a tensor among the arguments, in order; empty: anything goes
  int max_traces = 64;                  // 1 or more: the least recently used goes when there are more; plans of one too
  bool relax_shapes = false;            // a size that has changed for the third time is left open, as `any` would
};

// What verify() found: true where traced and eager have the same bits. Otherwise `difference` says which result or
// Variable has others, where and by how much, and the first node of the graph that does; printing it writes that, or 1.
struct Verification {
  std::string difference = {};
  operator bool() const { return difference.empty(); }
};
std::ostream& operator<<(std::ostream& out, const Verification& v);

class GraphCall;
class OpenPattern;
class DimTable;
struct FunctionKey;

// The untyped part of a Function: its cache of traces, and calling one.
class FunctionCore {
 public:
  // Runs the user's callable on the walked arguments (whose tensors stand for graph values by now) and reports the
  // tensors of its result, in walking order.
  class Body {
   public:
    virtual void walk_arguments(LeafVisitor& v) = 0;
    // Calls the callable; keeps its result as the prototype of every later result of this trace.
    virtual void run() = 0;
    virtual void walk_prototype(LeafVisitor& v) = 0;
    virtual Shared<void> take_prototype() = 0;

   protected:
    ~Body() = default;
  };
  struct Trace;
  struct Instance;

  FunctionCore(std::string name, FunctionOptions options, const Where& where);
  ~FunctionCore();
  FunctionCore(const FunctionCore&) = delete;

  // Whether a call runs at once: not in a function that is traced, but in the rows of a vmap outside of any.
  static bool runs_now();
  // Finds or makes the trace for the body's arguments and runs it. Gives the result tensors; `prototype` says what to
  // put them into.
  std::vector<Tensor> call(Body& body, Shared<const void>& prototype, const Where& where);
  // `names`: one a tensor among the arguments, or "".
  Graph trace_graph(Body& body, std::vector<std::string> names, const Where& where);
  // The same for exports: with all nodes, and open sizes as expressions of `dims` (null where none is open).
  struct OpenGraph {
    Graph graph;
    Shared<DimTable> dims;
  };
  OpenGraph trace_open(Body& body, std::vector<std::string> names, const Where& where);
  const std::vector<ArgSpec>& signature() const { return options_.signature; }
  // Throws where the tensors of a call, in walking order, do not fit the signature; without one all do.
  void check_signature(const std::vector<Tensor>& leaves, const Where& where) const;
  // Runs the body eagerly and the trace, and compares bits: results and assigned variables.
  Verification verify(Body& body, const Where& where);

  // See Function.
  const std::string& name() const { return name_; }
  int trace_count() const;
  std::string explain() const;

  // Inlining: guards against a function that calls itself while it is traced.
  class Inline {
   public:
    Inline(FunctionCore& core, const Where& where);
    ~Inline();
    Inline(const Inline&) = delete;
  };

 private:
  Shared<Instance> find(const FunctionKey& key);
  Shared<Instance> make(Body& body, const FunctionKey& key, const Where& where);
  Shared<Trace> make_trace(Body& body, const FunctionKey& key, const OpenPattern& open, const Where& where);
  Shared<Instance> make_instance(Trace& t, const FunctionKey& key);
  Shared<Instance> keep(const Shared<Trace>& t, Shared<Instance> instance, const Where& where);
  OpenPattern wanted_pattern(const FunctionKey& key);
  void refuse(const FunctionKey& key, const OpenPattern& tried, const std::string& reason);
  void warn_about_guards(const std::string& reason);
  // With `dims`, the sizes of `open` are open, and have these values.
  Graph trace(Body& body, const std::vector<std::string>& names, const OpenPattern& open, DimTable* dims,
              std::span<const int64_t> sizes, const Where& where);
  std::vector<std::string> argument_names() const;
  void warn_about_retracing(const Trace& latest, const Where& where);

  // `where`, or, for a call that came through std::function, where the function was made.
  Where place(const Where& where) const;

  std::string name_;
  FunctionOptions options_;
  Where made_;
  struct State;
  State* const state_;  // its own
};

namespace detail {

template <class R, class... A>
struct CallSignature {
  using Type = std::decay_t<R>(A...);  // a reference would be to what a replay has just made
  using Arguments = std::tuple<std::decay_t<A>...>;
};
// R(A...), where a last Where, the caller's place that public functions take, is left out.
template <class... A>
struct Kept {};
template <class R, class K, class... A>
struct WithoutPlace;
template <class R, class... K>
struct WithoutPlace<R, Kept<K...>> : CallSignature<R, K...> {};
template <class R, class... K>
struct WithoutPlace<R, Kept<K...>, Where> : CallSignature<R, K...> {};
template <class R, class... K, class A, class... Rest>
  requires(sizeof...(Rest) > 0 || !std::is_same_v<A, Where>)
struct WithoutPlace<R, Kept<K...>, A, Rest...> : WithoutPlace<R, Kept<K..., A>, Rest...> {};

// What a callable takes and gives, as `Type` and `Arguments`; nothing for one whose parameters have no types.
template <class F>
struct Callable {};
template <class R, class... A>
struct Callable<R (*)(A...)> : WithoutPlace<R, Kept<>, A...> {};
template <class F>
  requires requires { &F::operator(); }
struct Callable<F> : Callable<decltype(&F::operator())> {};
// grad(f), vmap(f) and their like take what f takes; one tensor where that is not known.
template <class F, class Arguments>
struct CallableWith;
template <class F, class... A>
struct CallableWith<F, std::tuple<A...>> : CallSignature<std::invoke_result_t<const F&, const A&...>, const A&...> {};
template <class F>
struct ArgumentsOf {
  using Type = std::tuple<Tensor>;
};
template <class F>
  requires requires { typename Callable<F>::Arguments; }
struct ArgumentsOf<F> {
  using Type = typename Callable<F>::Arguments;
};
template <class F>
  requires requires { typename F::TransformOf; }
struct Callable<F> : CallableWith<F, typename ArgumentsOf<typename F::TransformOf>::Type> {};
template <class R, class... A>
struct Callable<R (*)(A...) noexcept> : Callable<R (*)(A...)> {};
#define RILL_MEMBER(qualifiers)           \
  template <class C, class R, class... A> \
  struct Callable<R (C::*)(A...) qualifiers> : Callable<R (*)(A...)> {};
RILL_MEMBER()
RILL_MEMBER(const)
RILL_MEMBER(&)
RILL_MEMBER(const&)
RILL_MEMBER(noexcept)
RILL_MEMBER(const noexcept)
RILL_MEMBER(& noexcept)
RILL_MEMBER(const& noexcept)
#undef RILL_MEMBER

// An argument of graph(): a tensor's spec, or a tensor that has it, where the callable takes a Tensor, else the value.
struct TensorOrSpec : ArgSpec {
  TensorOrSpec(ArgSpec s) : ArgSpec(std::move(s)) {}
  TensorOrSpec(const Tensor& x, Where where = Where::current()) : ArgSpec{x.spec(where), {}} {}
};
template <class A>
using GraphArgument = std::conditional_t<std::is_same_v<std::decay_t<A>, Tensor>, TensorOrSpec, std::decay_t<A>>;
inline Tensor from_graph_argument(const ArgSpec& s) { return make_stand_in(s.spec); }
inline Tensor from_graph_argument(const TensorOrSpec& s) { return make_stand_in(s.spec); }
template <class T>
T from_graph_argument(T value) {
  return value;
}

// The names of the tensors in an argument of graph(), one a tensor.
inline void note_names(std::vector<std::string>& names, TensorOrSpec& a) { names.push_back(a.name); }
template <class T>
void note_names(std::vector<std::string>& names, T& value) {
  class Count final : public LeafVisitor {
   public:
    explicit Count(std::vector<std::string>& names) : names_(names) {}
    void tensor(Tensor&) override { names_.emplace_back(); }
    void constant(const void*, size_t) override {}

   private:
    std::vector<std::string>& names_;
  } count(names);
  walk(value, count);
}

struct FunctionParts;  // serialize/export_model.h

// Throws where a callable wrote to its copies: what they held before and after.
void require_unwritten(const std::string& before, const std::string& after);
[[noreturn]] void fail_moved_function(const Where& where);

template <class R, class... A>
class TypedBody final : public FunctionCore::Body {
 public:
  TypedBody(const Callback<R(A...)>& f, std::tuple<std::decay_t<A>...> args) : f_(f), args_(std::move(args)) {}
  void walk_arguments(LeafVisitor& v) override { walk(args_, v); }
  void run() override {
    const std::string before = references();
    if constexpr (std::is_void_v<R>) std::apply([&](auto&... a) { f_(static_cast<Passed<A>>(a)...); }, args_);
    else
      result_ = Shared<std::decay_t<R>>::make(
          std::apply([&](auto&... a) { return f_(static_cast<Passed<A>>(a)...); }, args_));
    require_unwritten(before, references());
  }
  void walk_prototype(LeafVisitor& v) override {
    if constexpr (!std::is_void_v<R>) walk(*result_, v);
  }
  Shared<void> take_prototype() override {
    if constexpr (std::is_void_v<R>) return nullptr;
    else return std::move(result_);
  }

 private:
  // What the callable could write to, and the caller would never see: it takes copies.
  std::string references() {
    Contents now;
    std::apply(
        [&](auto&... a) {
          [[maybe_unused]] auto look = [&]<class P>(std::type_identity<P>, auto& value) {
            if constexpr (is_writable<P>) walk(value, now);
          };
          (look(std::type_identity<A>(), a), ...);
        },
        args_);
    return std::move(now.bytes);
  }

  // A parameter of type T&& gets a copy: the callable may take what is in it, and run again (an open size that it does
  // not leave open, verify()).
  template <class P>
  using Passed = std::conditional_t<std::is_rvalue_reference_v<P> && std::is_copy_constructible_v<std::decay_t<P>>,
                                    std::decay_t<P>, P>;
  using Stored = std::conditional_t<std::is_void_v<R>, int, std::decay_t<R>>;
  const Callback<R(A...)>& f_;
  std::tuple<std::decay_t<A>...> args_;
  Shared<Stored> result_;
};

// How a call takes an argument: by value, so that what the caller gives up arrives as such; references that the
// callable may write through stay what they are.
template <class A>
using Given = std::conditional_t<is_writable<A>, A, std::decay_t<A>>;

}  // namespace detail

// The type of a traced function, by what it takes and gives: Function<Tensor(Tensor)>, as a member of a class, say. One
// that is made without a callable holds none until it is assigned, and cannot be called.
template <class Signature>
class Function;
template <class R, class... A>
class Function<R(A...)> {
  static_assert(((!detail::is_writable<A> || !detail::holds_values<std::decay_t<A>>) && ...),
                "a traced function cannot write to what it is given, such as a Tensor&: take it by value or by const "
                "reference, and return what is new");

 public:
  using TakesPlace = void;  // calls take the caller's place after the arguments

  Function() = default;
  // One that takes its arguments otherwise, Tensor for const Tensor& say, shares the traces of `other`.
  template <class... B>
    requires(sizeof...(A) == sizeof...(B) && !std::is_same_v<R(A...), R(B...)> &&
             (std::is_same_v<std::decay_t<A>, std::decay_t<B>> && ...))
  Function(const Function<R(B...)>& other)
      : f_([f = other.f_](A... args) -> R { return f(std::forward<A>(args)...); }), core_(other.core_) {}
  Function(std::string name, Callback<R(A...)> f, FunctionOptions options, Where where = Where::current())
      : f_(std::move(f)), core_(Shared<FunctionCore>::make(std::move(name), std::move(options), where)) {
    detail::require_callable(core_->name(), f_, "the callable", where);
  }

  // Traces, or replays. Throws what the callable throws; an argument that does not fit the signature is an error.
  // An argument that is given up (a temporary, or std::move(x)) may lend its memory to a result, where nobody else
  // holds the tensor, or a view of it, and no tape records the call.
  R operator()(detail::Given<A>... args, Where where = Where::current()) const {
    FunctionCore& its = core(where);
    if (FunctionCore::runs_now())
      return call(where, detail::TypedBody<R, A...>(f_, {std::forward<detail::Given<A>>(args)...}));
    FunctionCore::Inline guard(its, where);
    if (!its.signature().empty()) {  // as a call of its own is checked
      detail::TensorList leaves;
      (walk(args, leaves), ...);
      its.check_signature(leaves.tensors, where);
    }
    NameScope scope(its.name());
    return f_(std::forward<A>(args)...);
  }

  // How many times the callable has been traced.
  int trace_count(Where where = Where::current()) const { return core(where).trace_count(); }
  // The traces with their keys, why each was made, and what was compiled; for people to read.
  std::string explain(Where where = Where::current()) const { return core(where).explain(); }
  // The graph of a call on such arguments, without running it: for each Tensor parameter a tensor or
  // its spec(), values for the others.
  Graph graph(detail::GraphArgument<A>... args, Where where = Where::current()) const {
    std::vector<std::string> names;
    (detail::note_names(names, args), ...);
    detail::TypedBody<R, A...> body(f_, {detail::from_graph_argument(std::move(args))...});
    return core(where).trace_graph(body, std::move(names), where);
  }
  // Whether the traced call gives the same bits as the callable run eagerly, in results and assigned Variables (which
  // are left as one call leaves them); where not, which one differs, and how.
  Verification verify(A... args, Where where = Where::current()) const {
    detail::TypedBody<R, A...> body(f_, {static_cast<A>(args)...});
    return core(where).verify(body, where);
  }
  // As given to function().
  const std::string& name(Where where = Where::current()) const& { return core(where).name(); }
  std::string name(Where where = Where::current()) const&& { return core(where).name(); }
  // Whether it holds no callable.
  template <class F>
    requires std::is_same_v<F, Function>
  friend bool operator==(const F& f, std::nullptr_t) {
    return !f.core_;
  }

 private:
  FunctionCore& core(const Where& where) const {
    if (!core_) detail::fail_moved_function(where);
    return *core_;
  }
  R call(const Where& where, detail::TypedBody<R, A...> body) const {
    Shared<const void> prototype;
    std::vector<Tensor> tensors = core_->call(body, prototype, where);
    if constexpr (std::is_same_v<R, Tensor>) {
      return std::move(tensors[0]);
    } else if constexpr (!std::is_void_v<R>) {
      std::decay_t<R> result = *static_cast<const std::decay_t<R>*>(prototype.get());
      detail::Refiller fill{std::span<Tensor>(tensors)};
      walk(result, fill);
      return result;
    }
  }

  template <class Signature>
  friend class Function;
  friend struct detail::FunctionParts;
  Callback<R(A...)> f_;
  Shared<FunctionCore> core_;
};

namespace detail {
template <class F, class R, class... A>
Function<R(A...)> make_function(R (*)(A...), std::string name, F f, FunctionOptions options, const Where& where) {
  if constexpr (std::is_invocable_v<F&, A...>) {
    return {std::move(name), std::move(f), std::move(options), where};
  } else {  // a public function, which takes the caller's place as well
    require_callable(name, f, "the callable", where);
    return {std::move(name), [f, where](A... args) -> R { return f(std::forward<A>(args)..., where); },
            std::move(options), where};
  }
}
}  // namespace detail

// function("name", callable[, {.signature = ..., .max_traces = ...}]). The callable's parameters must have types (no
// `auto`): they are what the cache key is made of. Copies of a Function share their traces.
template <class F>
auto function(std::string name, F f, FunctionOptions options = {}, Where where = Where::current()) {
  static_assert(
      requires { typename detail::Callable<F>::Type; },
      "function() takes a callable whose parameters have types: write [](const Tensor& x) instead of [](auto x), and "
      "wrap an overloaded function in a lambda");
  return detail::make_function(static_cast<typename detail::Callable<F>::Type*>(nullptr), std::move(name), std::move(f),
                               std::move(options), where);
}

// Without a name of its own it is called "function" in errors, graphs and profiles.
template <class F>
  requires(!std::convertible_to<F, std::string_view>)
auto function(F f, FunctionOptions options = {}, Where where = Where::current()) {
  return function("function", std::move(f), std::move(options), where);
}

// Public functions that C has as well: function("t", tanh), function("p", pow).
inline auto function(std::string name, Tensor (*f)(const Tensor&, Where), FunctionOptions options = {},
                     Where where = Where::current()) {
  return function<Tensor (*)(const Tensor&, Where)>(std::move(name), f, std::move(options), where);
}
inline auto function(std::string name, Tensor (*f)(const Tensor&, const Tensor&, Where), FunctionOptions options = {},
                     Where where = Where::current()) {
  return function<Tensor (*)(const Tensor&, const Tensor&, Where)>(std::move(name), f, std::move(options), where);
}

}  // namespace rill

#pragma GCC visibility pop
