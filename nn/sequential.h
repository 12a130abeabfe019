// Sequential: one layer after another.
#pragma once
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rill/autodiff/recompute_policy.h"
#include "rill/nn/layer.h"

#pragma GCC visibility push(default)

namespace rill::nn {

// Those that an optimizer changes.
std::vector<Variable> trainable(const std::vector<Variable>& variables);

// nn::Sequential(nn::Conv2D(8, {3}), nn::MaxPool2D({2}), nn::Flatten(), relu, nn::Dense(10)). A list of layers that can be
// indexed, edited and walked: model[3] = nn::Dense(3); for (nn::AnyLayer& layer : model) ...
class Sequential {
 public:
  Sequential() = default;
  template <class First, class... More>
    requires(!std::same_as<std::remove_cvref_t<First>, Sequential> || sizeof...(More) > 0)
  explicit Sequential(First first, More... more) {
    layers_.reserve(1 + sizeof...(More));
    add(std::move(first));
    (add(std::move(more)), ...);
  }
  explicit Sequential(std::vector<AnyLayer> layers) : layers_(std::move(layers)) {}
  // Overloaded functions, such as gelu, and those that have a further parameter.
  Sequential& add(Tensor (*f)(const Tensor&, Where)) { return add(AnyLayer(f)); }
  Sequential& add(Tensor (*f)(const Tensor&, double, Where)) { return add(AnyLayer(f)); }
  Sequential& add(Tensor (*f)(const Tensor&, Axis, Where)) { return add(AnyLayer(f)); }
  // One more layer, at the end.
  Sequential& add(AnyLayer layer);
  // Before the i-th layer; i in [-size, size].
  Sequential& insert(int64_t i, AnyLayer layer, Where where = Where::current());
  // Takes the i-th layer, or the last one, out.
  Sequential& erase(int64_t i, Where where = Where::current());
  Sequential& pop_back(Where where = Where::current()) { return erase(-1, where); }

  // From now on the layers run as a recompute_chain(): less is kept for the backward walk, which computes it again.
  Sequential& recompute(ChainOptions options = {}) &;
  Sequential recompute(ChainOptions options = {}) && { return std::move(recompute(std::move(options))); }
  Tensor operator()(const Tensor& x, const Call& call = {}, Where where = Where::current()) const;
  // Members of other libraries' models: none compiles, and each names its counterpart.
  template <std::same_as<bool> B>
  auto operator()(const Tensor& x, B) const {
    static_assert(!sizeof(B), "model(x, training) is written model(x, nn::Mode::training)");
    return x;
  }
#define RILL_WRITTEN_HERE(name, cure)                                \
  template <class T = Tensor>                                        \
  auto name(rill::detail::Arg = {}, rill::detail::Arg = {}, ...) {   \
    static_assert(!sizeof(T), "model." #name "() is written " cure); \
    return T();                                                      \
  }
  RILL_WRITTEN_HERE(fit, "as a loop over batches that calls optimizer.minimize(loss, tape, model.parameters())")
  RILL_WRITTEN_HERE(compile, "function(\"step\", ...) around a training step; losses and optimizers are called in it")
  RILL_WRITTEN_HERE(forward, "model(x)")
  RILL_WRITTEN_HERE(predict, "model(x)")
  RILL_WRITTEN_HERE(train, "model(x, nn::Mode::training)")
  RILL_WRITTEN_HERE(eval, "model(x), for inference is the default")
  RILL_WRITTEN_HERE(to, "move(model, \"gpu:0\")")
#undef RILL_WRITTEN_HERE
  // Of all layers, in order. A layer that occurs more than once shares its Variables, which are listed once.
  std::vector<Variable> variables() const { return rill::variables(*this).values(); }
  // Those that an optimizer changes.
  std::vector<Variable> parameters() const { return trainable(variables()); }
  // Its name within another model: "encoder/dense/kernel". "sequential" by default.
  Sequential& named(std::string name) &;
  Sequential named(std::string name) && { return std::move(this->named(std::move(name))); }
  const std::string& name_of_scope() const& { return name_; }
  std::string name_of_scope() const&& { return name_; }
  using RillLayer = Sequential;
  void visit_parts(ModelVisitor& visitor);
  // The table of its Variables: path, dtype, shape, parameters, whether they are trained. nn::summary() says more.
  std::string summary() const { return describe(*this); }

  // How many layers.
  size_t size() const { return layers_.size(); }
  bool empty() const { return layers_.empty(); }
  // The i-th layer; -1 is the last one. It can be replaced: model[-1] = nn::Dense(3). Throws if there is none.
  AnyLayer& operator[](rill::detail::BracketIndex i) { return at(i.index, i.where); }
  const AnyLayer& operator[](rill::detail::BracketIndex i) const { return at(i.index, i.where); }
  AnyLayer& at(int64_t i, Where where = Where::current());
  const AnyLayer& at(int64_t i, Where where = Where::current()) const {
    return const_cast<Sequential*>(this)->at(i, where);
  }
  auto begin() { return layers_.begin(); }
  auto end() { return layers_.end(); }
  auto begin() const { return layers_.begin(); }
  auto end() const { return layers_.end(); }

 private:
  // Set in what was moved from, which would otherwise be a model without layers: the identity.
  struct Moved {
    bool from = false;
    Moved() = default;
    Moved(const Moved&) = default;
    Moved& operator=(const Moved&) = default;
    Moved(Moved&& o) noexcept : from(std::exchange(o.from, true)) {}
    Moved& operator=(Moved&& o) noexcept {
      from = std::exchange(o.from, true);
      return *this;
    }
  };

  Moved moved_;
  std::string name_ = "sequential";
  std::vector<AnyLayer> layers_;
  std::optional<ChainOptions> chain_;
};

std::ostream& operator<<(std::ostream& out, const Sequential& model);  // its summary()

}  // namespace rill::nn

#pragma GCC visibility pop
