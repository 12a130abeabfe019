// The definition of a layer, and AnyLayer, which holds one of any type.
//
// A layer is a struct or class with `Tensor operator()(const Tensor&, const nn::Call& call = {}) const` whose fields
// can be seen: an aggregate, or one that names them with RILL_LAYER(Type, a, b). No base class, no registration. (A
// third parameter, `Where where = Where::current()`, is given the caller's line.) Layers are values: a copy shares its
// Variables; nn::clone() does not.
//
// A function of a tensor is a layer if it cannot hide a Variable: relu, a lambda that captures nothing; nn::fn(f)
// states that any other holds none.
#pragma once
#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "rill/nn/activation.h"
#include "rill/nn/call.h"
#include "rill/nn/initializers.h"

#pragma GCC visibility push(default)

namespace rill::nn {

template <class L>
concept CalledWithCall =
    !Transformed<L> && (std::is_invocable_r_v<Tensor, const L&, const Tensor&, const Call&, Where> ||
                        std::is_invocable_r_v<Tensor, const L&, const Tensor&, const Call&>);
// Layers as they were written before there was a Call.
template <class L>
concept CalledWithMode = !Transformed<L> && !CalledWithCall<L> &&
                         (std::is_invocable_r_v<Tensor, const L&, const Tensor&, Mode, Where> ||
                          std::is_invocable_r_v<Tensor, const L&, const Tensor&, Mode>);

namespace impl {
// Whether the fields of L can be enumerated.
template <class L>
concept Visible = rill::detail::VisitsParts<L> || rill::detail::NamesFields<L> || rill::detail::NamesVariables<L> ||
                  rill::detail::ListsVariables<const L> || rill::detail::Aggregate<L> || std::is_empty_v<L>;
// A lambda that captures nothing, and grad(f) and its like of one.
template <class F>
concept HoldsNothing = std::is_empty_v<F> || requires { requires std::is_empty_v<typename F::TransformOf>; };
}  // namespace impl

// A type that can be called as a layer, in a Sequential say.
template <class L>
concept Layer = !Transformed<L> && impl::Visible<L> && std::copy_constructible<L> &&
                (CalledWithCall<L> || CalledWithMode<L> || (TensorFunction<L> && !std::is_empty_v<L>));

// f(x), as a layer. It holds no Variables, or its caller accepts that they are not found.
class Fn {
 public:
  // Throws where there is no function.
  explicit Fn(Activation f, Where where = Where::current()) : f_(std::move(f)) {
    if (!f_) fail("nn::fn", "the function is empty", where);
  }
  Tensor operator()(const Tensor& x, const Call& = {}, Where where = Where::current()) const { return f_(x, where); }
  RILL_LAYER(Fn)

 private:
  Activation f_;
};
template <class F>
  requires std::convertible_to<F, Activation>
Fn fn(F f, Where where = Where::current()) {
  return Fn(Activation(std::move(f)), where);
}
inline Fn fn(Tensor (*f)(const Tensor&), Where where = Where::current()) {
  return Fn(f ? Activation([f](const Tensor& x) { return f(x); }) : Activation(), where);
}
inline Fn fn(Tensor (*f)(const Tensor&, Where), Where where = Where::current()) { return Fn(Activation(f), where); }
inline Fn fn(Tensor (*f)(const Tensor&, double, Where), Where where = Where::current()) {
  return Fn(Activation(f, where), where);
}
inline Fn fn(Tensor (*f)(const Tensor&, Axis, Where), Where where = Where::current()) {
  return Fn(Activation(f, where), where);
}

// One call of a layer of rill's: errors and graph nodes name the caller's line and the layer. nn::summary() hears of it.
class LayerRun {
 public:
  // `layer` is the layer's address, `name` its scope.
  LayerRun(const void* layer, const std::string& name, const Where& where,
           const char* function = Where::current().function_name());
  ~LayerRun();
  LayerRun(const LayerRun&) = delete;
  // Gives y back.
  Tensor give(Tensor y) const;

 private:
  const void* layer_;
  CallerScope caller_;
  std::optional<NameScope> heard_, scope_;
};

// Hears of every call of rill's layers on this thread while it lives.
class LayerObserver {
 public:
  LayerObserver();
  virtual ~LayerObserver();
  LayerObserver(const LayerObserver&) = delete;
  // A call of the layer at this address begins. `function` is its operator()'s name, for the first field of a layer has
  // the same address. Returns a name scope for the call's ops; empty for none.
  virtual std::string began(const void* layer, const char* function) = 0;
  // That call has given y.
  virtual void gave(const void* layer, const Tensor& y) = 0;

 private:
  LayerObserver* const outer_;
};

// A layer of any type. A copy copies the layer, which shares its Variables.
class AnyLayer {
 public:
  AnyLayer() = default;
  template <class L>
    requires(!std::same_as<L, AnyLayer> && Layer<L>)
  AnyLayer(L layer) : held_(std::make_unique<Held<L>>(std::move(layer))) {}
  template <class F>
    requires(!std::same_as<F, AnyLayer> && !Layer<F> && impl::HoldsNothing<F> && TensorFunction<F>)
  AnyLayer(F f) : AnyLayer(fn(std::move(f))) {}
  AnyLayer(Tensor (*f)(const Tensor&, Where), Where where = Where::current());
  AnyLayer(Tensor (*f)(const Tensor&, double, Where)) : AnyLayer(fn(f)) {}
  AnyLayer(Tensor (*f)(const Tensor&, Axis, Where)) : AnyLayer(fn(f)) {}
  AnyLayer(Tensor (*f)(const Tensor&)) : AnyLayer(fn(f)) {}
  template <TextLike S>
  AnyLayer(const S&) {
    static_assert(!sizeof(S),
                  "a layer is an object or a function and not its name: nn::Sequential(nn::Dense(2, 3), relu)");
  }
  template <class F>
    requires(!std::same_as<F, AnyLayer> && std::is_class_v<F> && !Layer<F> && !impl::HoldsNothing<F> &&
             TensorFunction<F>)
  AnyLayer(const F&) {
    static_assert(
        !sizeof(F),
        "a layer whose fields cannot be seen would lose its Variables. of a lambda that captures no layer, or a "
        "traced function, write nn::fn(f); of a struct or class, name what it holds inside of it: "
        "RILL_LAYER(Type, a, b)");
  }

  AnyLayer(const AnyLayer& o) : held_(o.held_ ? o.held_->copy() : nullptr) {}
  AnyLayer(AnyLayer&&) noexcept = default;
  AnyLayer& operator=(AnyLayer o) noexcept {
    held_ = std::move(o.held_);
    return *this;
  }

  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const {
    return held(where).call(x, call, where);
  }
  // The layer, if it is an L; else null.
  template <class L>
  L* get_if() {
    auto* h = dynamic_cast<Held<L>*>(held_.get());
    return h ? &h->layer : nullptr;
  }
  template <class L>
  const L* get_if() const {
    return const_cast<AnyLayer*>(this)->get_if<L>();
  }
  explicit operator bool() const { return bool(held_); }
  // "Dense".
  std::string_view type() const { return held_ ? held_->type() : std::string_view("nothing"); }
  // The layer's own name; empty if it has none.
  std::string name_of_scope() const { return held_ ? held_->name() : std::string(); }
  // The layer that it holds, for code that walks a model.
  ModelPart part() const { return held_ ? held_->part() : ModelPart{this, "nothing"}; }
  void visit_parts(ModelVisitor& visitor) {
    if (held_) held_->visit(visitor);
  }
  // As the i-th of a list.
  void visit_as_part(size_t i, ModelVisitor& visitor) {
    if (held_) held_->visit_as_part(i, visitor);
  }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual Tensor call(const Tensor& x, const Call& call, const Where& where) const = 0;
    virtual std::unique_ptr<Base> copy() const = 0;
    virtual void visit(ModelVisitor& visitor) = 0;
    virtual void visit_as_part(size_t i, ModelVisitor& visitor) = 0;
    virtual std::string_view type() const = 0;
    virtual std::string name() const = 0;
    virtual ModelPart part() const = 0;
  };
  template <class L>
  struct Held final : Base {
    explicit Held(L l) : layer(std::move(l)) {}
    Tensor call(const Tensor& x, const Call& call, [[maybe_unused]] const Where& where) const override {
      const rill::detail::UserScopeOf<L> scope;
      if constexpr (CalledWithCall<L>) {
        if constexpr (std::is_invocable_v<const L&, const Tensor&, const Call&, Where>) return layer(x, call, where);
        else return layer(x, call);
      } else if constexpr (CalledWithMode<L>) {
        if constexpr (std::is_invocable_v<const L&, const Tensor&, Mode, Where>) return layer(x, call.mode, where);
        else return layer(x, call.mode);
      } else {
        return layer(x);
      }
    }
    std::unique_ptr<Base> copy() const override { return std::make_unique<Held>(layer); }
    void visit(ModelVisitor& visitor) override { rill::detail::visit_inside(layer, visitor); }
    void visit_as_part(size_t i, ModelVisitor& visitor) override { rill::detail::visit_part(layer, i, visitor); }
    std::string_view type() const override { return rill::detail::type_name<L>(); }
    std::string name() const override { return rill::detail::own_name(layer); }
    ModelPart part() const override { return rill::detail::part_of(layer); }
    L layer;
  };
  const Base& held(const Where& where) const {
    if (!held_) rill::fail("AnyLayer", "it holds no layer", where);
    return *held_;
  }
  std::unique_ptr<Base> held_;
};

}  // namespace rill::nn

namespace rill::detail {
template <>
inline ModelPart part_of(const nn::AnyLayer& x) {
  return x.part();
}
}  // namespace rill::detail

// The fields that a struct may keep for its layers.
namespace rill {
template <>
inline constexpr bool holds_no_variables<nn::Initializer> = true;
template <>
inline constexpr bool holds_no_variables<nn::Mode> = true;
template <>
inline constexpr bool holds_no_variables<nn::Call> = true;
}  // namespace rill

#pragma GCC visibility pop
