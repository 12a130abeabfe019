// Layers: Variables and a computation with them. A layer is a plain value whose copies share their Variables; it is
// called with a tensor and, where it matters (Dropout, BatchNorm), the mode. Its `name` is the NameScope of its
// Variables and of its nodes in a traced graph.
//
// Whatever has `Tensor operator()(const Tensor&, Mode, Where) const` and `std::vector<Variable> variables() const` is a
// layer and may stand in a Sequential; so may a function of a tensor, such as relu. Constructors throw where sizes or
// options make no sense. The paths of a model's Variables, its summary and freeze(): rill/ops/names.h.
#pragma once
#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rill/autodiff/recompute_policy.h"
#include "rill/nn/initializers.h"
#include "rill/ops/names.h"
#include "rill/ops/ops.h"
#include "rill/tensor/callback.h"
#include "rill/tensor/user_scope.h"

#pragma GCC visibility push(default)

namespace rill::nn {

enum class Mode : uint8_t { inference, training };

// grad(f), recompute(f) and their like would take a Mode, or a Where, for an argument of f.
template <class F>
concept Transformed = requires { typename F::TransformOf; };
template <class F>
concept TakesPlace = !Transformed<F> && std::is_invocable_r_v<Tensor, const F&, const Tensor&, Where>;
template <class F>
concept TensorFunction = TakesPlace<F> || std::is_invocable_r_v<Tensor, const F&, const Tensor&>;

// A function of a tensor that a layer ends with: relu, tanh, leaky_relu, softmax, a lambda, a traced function. Of
// public functions with a further parameter, its default counts.
class Activation {
 public:
  Activation() = default;
  Activation(std::nullptr_t) {}
  Activation(Tensor (*f)(const Tensor&, Where)) {
    if (f) f_ = f;
  }
  Activation(Tensor (*f)(const Tensor&, double, Where), Where where = Where::current());  // leaky_relu, elu, celu
  Activation(Tensor (*f)(const Tensor&, Axis, Where), Where where = Where::current());    // softmax, log_softmax, glu
  template <std::convertible_to<std::string_view> S>
  Activation(const S&) {
    static_assert(!sizeof(S), "an activation is a function and not its name: {.activation = relu}");
  }
  template <class F>
    requires(TensorFunction<F> && std::is_class_v<F> && !std::same_as<F, Activation>)
  Activation(F f) {
    if (detail::is_empty_callable(f)) return;
    f_ = [f = std::move(f)](const Tensor& x, [[maybe_unused]] Where where) -> Tensor {
      const UserScope user;
      if constexpr (TakesPlace<F>) return f(x, where);
      else return f(x);
    };
  }

  Tensor operator()(const Tensor& x, Where where = Where::current()) const { return f_(x, where); }
  explicit operator bool() const { return bool(f_); }

 private:
  Callback<Tensor(const Tensor&, Where)> f_;
};

// Those that an optimizer changes.
std::vector<Variable> trainable(const std::vector<Variable>& variables);

// --- Dense -----------------------------------------------------------------------------------------------------------

struct DenseOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Activation activation = {};
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform;
  Initializer bias_initializer = constant(0);
  std::string name = "dense";
};
// activation(x kernel + bias): [..., in] to [..., out].
class Dense {
 public:
  Dense(int64_t in, int64_t out, const DenseOptions& options = {}, Where where = Where::current());
  template <std::convertible_to<Activation> A>
  Dense(int64_t in, int64_t out, const A&) : Dense(in, out) {
    static_assert(!sizeof(A*), "the activation is an option: nn::Dense(in, out, {.activation = relu})");
  }
  template <std::convertible_to<Activation> A>
  Dense(int64_t out, const A&) : Dense(out, out) {
    static_assert(!sizeof(A*),
                  "both sizes are given, the activation is an option: nn::Dense(in, out, {.activation = relu})");
  }
  Tensor operator()(const Tensor& x, Mode mode = Mode::inference, Where where = Where::current()) const;
  std::vector<Variable> variables() const;
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }
  void name_variables(VariablePaths& paths) const;  // for variables(model), freeze() and checkpoints

  std::string name;
  Variable kernel;               // [in, out]
  std::optional<Variable> bias;  // [out]
  Activation activation;
};

// --- Convolution and pooling of [batch, height, width, channels] -----------------------------------------------------

struct Conv2DOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Dims strides = {1};
  SpacePadding padding = "VALID";
  Dims dilation = {1};
  int64_t groups = 1;
  Activation activation = {};
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform;
  Initializer bias_initializer = constant(0);
  std::string name = "conv";
};
// activation(conv(x, kernel) + bias), with `out` channels. `window` is {height, width}, or one number for both.
class Conv2D {
 public:
  Conv2D(int64_t in, int64_t out, const Dims& window, const Conv2DOptions& options = {},
         Where where = Where::current());
  template <is_axis I>
  Conv2D(int64_t in, int64_t out, I window, const Conv2DOptions& options = {}, Where where = Where::current())
      : Conv2D(in, out, Dims{Dim(window)}, options, where) {}
  Tensor operator()(const Tensor& x, Mode mode = Mode::inference, Where where = Where::current()) const;
  std::vector<Variable> variables() const;
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }
  void name_variables(VariablePaths& paths) const;  // for variables(model), freeze() and checkpoints

  std::string name;
  Variable kernel;               // [height, width, in / groups, out]
  std::optional<Variable> bias;  // [out]
  Activation activation;
  ConvOptions options;
};

struct Pool2DOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Dims strides = {};  // empty: the window's
  SpacePadding padding = "VALID";
  std::string name = "pool";
};
// The largest element of each window; see max_pool().
class MaxPool2D {
 public:
  explicit MaxPool2D(const Dims& window, const Pool2DOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, Mode mode = Mode::inference, Where where = Where::current()) const;
  std::vector<Variable> variables() const { return {}; }

  Dims window;
  Pool2DOptions options;
};
// The mean of each window; see avg_pool().
class AvgPool2D {
 public:
  explicit AvgPool2D(const Dims& window, const Pool2DOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, Mode mode = Mode::inference, Where where = Where::current()) const;
  std::vector<Variable> variables() const { return {}; }

  Dims window;
  Pool2DOptions options;
};

// --- Without parameters ----------------------------------------------------------------------------------------------

// Sets a share of the elements to 0 while training; see dropout().
class Dropout {
 public:
  // Throws unless 0 <= rate < 1.
  explicit Dropout(double rate, std::string name = "dropout", Where where = Where::current());
  Tensor operator()(const Tensor& x, Mode mode = Mode::inference, Where where = Where::current()) const;
  std::vector<Variable> variables() const { return {}; }

  double rate;
  std::string name;
};

// [batch, ...] to [batch, all the rest].
class Flatten {
 public:
  Tensor operator()(const Tensor& x, Mode mode = Mode::inference, Where where = Where::current()) const;
  std::vector<Variable> variables() const { return {}; }
};

// --- Normalisation ---------------------------------------------------------------------------------------------------

struct BatchNormOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axis axis = -1;
  double momentum = 0.99;  // of the moving statistics: the share of the old ones, in [0, 1]
  double epsilon = 1e-3;
  std::string name = "batch_norm";
};
// Training: normalises with the batch's statistics and moves its own towards them. Inference: normalises with its own.
class BatchNorm {
 public:
  explicit BatchNorm(int64_t channels, const BatchNormOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, Mode mode = Mode::inference, Where where = Where::current()) const;
  std::vector<Variable> variables() const;
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }
  void name_variables(VariablePaths& paths) const;  // for variables(model), freeze() and checkpoints

  BatchNormOptions options;
  Variable scale, offset;   // [channels]
  Variable mean, variance;  // [channels], not trainable
};

struct LayerNormOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double epsilon = 1e-5;
  std::string name = "layer_norm";
};
// Over the trailing axes, whose sizes are `shape`.
class LayerNorm {
 public:
  explicit LayerNorm(const Shape& shape, const LayerNormOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, Mode mode = Mode::inference, Where where = Where::current()) const;
  std::vector<Variable> variables() const;
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }
  void name_variables(VariablePaths& paths) const;  // for variables(model), freeze() and checkpoints

  LayerNormOptions options;
  Variable scale, offset;
};

struct GroupNormOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Axis axis = -1;  // of channels
  double epsilon = 1e-5;
  std::string name = "group_norm";
};
// Each group of channels of each example by itself; see group_norm(). As many groups as channels: instance_norm().
class GroupNorm {
 public:
  // Throws where the groups do not divide the channels.
  GroupNorm(int64_t channels, int64_t groups, const GroupNormOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, Mode mode = Mode::inference, Where where = Where::current()) const;
  std::vector<Variable> variables() const;
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }
  void name_variables(VariablePaths& paths) const;  // for variables(model), freeze() and checkpoints

  int64_t groups;
  GroupNormOptions options;
  Variable scale, offset;  // [channels]
};

struct RMSNormOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double epsilon = 1e-5;
  std::string name = "rms_norm";
};
// Without a mean, over the trailing axes, whose sizes are `shape`; see rms_norm().
class RMSNorm {
 public:
  explicit RMSNorm(const Shape& shape, const RMSNormOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, Mode mode = Mode::inference, Where where = Where::current()) const;
  std::vector<Variable> variables() const;
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }
  void name_variables(VariablePaths& paths) const;  // for variables(model), freeze() and checkpoints

  RMSNormOptions options;
  Variable scale;
};

// --- An activation with a parameter ----------------------------------------------------------------------------------

struct PReLUOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  double slope = 0.25;  // to begin with
  std::string name = "prelu";
};
// x where x > 0, else slope * x, with a slope for all or, where `channels` is their number, for each on the last axis.
class PReLU {
 public:
  explicit PReLU(int64_t channels = 1, const PReLUOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& x, Mode mode = Mode::inference, Where where = Where::current()) const;
  std::vector<Variable> variables() const;
  const std::string& name_of_scope() const& { return options.name; }
  std::string name_of_scope() const&& { return options.name; }
  void name_variables(VariablePaths& paths) const;  // for variables(model), freeze() and checkpoints

  PReLUOptions options;
  Variable slope;  // [channels]
};

// --- Embedding -------------------------------------------------------------------------------------------------------

struct EmbeddingOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  Initializer initializer = uniform(-0.05, 0.05);
  std::string name = "embedding";
};
// Integers [...] in [0, count) to rows [..., size]. Throws where one is not, -1 included.
class Embedding {
 public:
  Embedding(int64_t count, int64_t size, const EmbeddingOptions& options = {}, Where where = Where::current());
  Tensor operator()(const Tensor& ids, Mode mode = Mode::inference, Where where = Where::current()) const;
  std::vector<Variable> variables() const;
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }
  void name_variables(VariablePaths& paths) const;  // for variables(model), freeze() and checkpoints

  std::string name;
  Variable table;  // [count, size]
};

// --- Attention -------------------------------------------------------------------------------------------------------

struct MultiHeadAttentionOptions {
  detail::NamedOnly named_only_ = detail::NamedOnly();
  bool causal = false;
  bool use_bias = true;
  Initializer kernel_initializer = glorot_uniform;
  std::string name = "attention";
};
// Self-attention of [..., tokens, width] with `heads` heads of width / heads numbers: one projection to queries, keys
// and values, self_attention(), one projection back. Throws where the width does not divide.
class MultiHeadAttention {
 public:
  MultiHeadAttention(int64_t width, int64_t heads, const MultiHeadAttentionOptions& options = {},
                     Where where = Where::current());
  Tensor operator()(const Tensor& x, Mode mode = Mode::inference, Where where = Where::current()) const;
  std::vector<Variable> variables() const;
  const std::string& name_of_scope() const& { return name; }
  std::string name_of_scope() const&& { return name; }
  void name_variables(VariablePaths& paths) const;  // for variables(model), freeze() and checkpoints

  std::string name;
  int64_t heads;
  bool causal;
  Dense qkv, output;  // width to [3, heads, width / heads]; width to width
};

// --- Sequential ------------------------------------------------------------------------------------------------------

template <class L>
concept Layer = !Transformed<L> && requires(const L& layer, const Tensor& x, Where where) {
  { layer(x, Mode::training, where) } -> std::convertible_to<Tensor>;
  { layer.variables() } -> std::convertible_to<std::vector<Variable>>;
};
// One layer after another: Sequential(Conv2D(...), MaxPool2D({2}), Flatten(), relu, Dense(...)).
class Sequential {
 public:
  Sequential() = default;
  template <class First, class... More>
    requires(!std::same_as<std::remove_cvref_t<First>, Sequential> || sizeof...(More) > 0)
  explicit Sequential(First first, More... more) {
    add(std::move(first));
    (add(std::move(more)), ...);
  }
  // One more layer: overloaded functions, such as gelu, and those that have a further parameter, too.
  Sequential& add(Tensor (*f)(const Tensor&, Where)) { return add<Tensor (*)(const Tensor&, Where)>(f); }
  Sequential& add(Tensor (*f)(const Tensor&, double, Where)) { return add(Activation(f)); }
  Sequential& add(Tensor (*f)(const Tensor&, Axis, Where)) { return add(Activation(f)); }
  template <std::convertible_to<std::string_view> S>
  Sequential& add(const S&) {
    static_assert(!sizeof(S),
                  "a layer is an object or a function and not its name: nn::Sequential(nn::Dense(2, 3), relu)");
    return *this;
  }
  template <class L>
    requires(Layer<L> || TensorFunction<L>)
  Sequential& add(L layer) {
    if constexpr (Layer<L>) {
      layers_.push_back({[layer](const Tensor& x, Mode mode, Where where) -> Tensor {
                           const detail::UserScopeOf<L> scope;
                           return layer(x, mode, where);
                         },
                         [layer] { return layer.variables(); },
                         [layer](VariablePaths& paths, size_t place) {
                           rill::detail::name_part(const_cast<L&>(layer), place, paths);
                         }});
    } else {
      layers_.push_back({[layer](const Tensor& x, Mode, [[maybe_unused]] Where where) -> Tensor {
                           detail::require_callable("Sequential", layer, "a layer", where);
                           constexpr bool is_public_function = TakesPlace<L> && std::is_pointer_v<L>;
                           std::optional<UserScope> user;
                           if constexpr (!is_public_function) user.emplace();
                           if constexpr (TakesPlace<L>) return layer(x, where);
                           else return layer(x);
                         },
                         [] { return std::vector<Variable>(); }, [](VariablePaths&, size_t) {}});
    }
    return *this;
  }
  // From now on the layers run as a recompute_chain(): less is held for the backward walk, which computes it again.
  Sequential& recompute(ChainOptions options = {}) &;
  Sequential recompute(ChainOptions options = {}) && { return std::move(recompute(std::move(options))); }
  Tensor operator()(const Tensor& x, Mode mode = Mode::inference, Where where = Where::current()) const;
  // Members of other libraries' models: none compiles, and each says what does.
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
  // Of all layers, in order. A layer that stands in the model more than once shares its Variables, which are here once.
  std::vector<Variable> variables() const;
  // Those that an optimizer changes.
  std::vector<Variable> parameters() const { return trainable(variables()); }
  // What it is called where it stands in another model: "encoder/dense/kernel". "sequential" unless it is named.
  Sequential& named(std::string name) &;
  Sequential named(std::string name) && { return std::move(this->named(std::move(name))); }
  const std::string& name_of_scope() const& { return name_; }
  std::string name_of_scope() const&& { return name_; }
  void name_variables(VariablePaths& paths) const;
  // The table of its Variables: path, dtype, shape, parameters, whether they are trained.
  std::string summary() const { return describe(*this); }
  // How many layers.
  size_t size() const { return layers_.size(); }

 private:
  struct Any {
    std::function<Tensor(const Tensor&, Mode, Where)> call;
    std::function<std::vector<Variable>()> variables;
    std::function<void(VariablePaths&, size_t place)> names;
  };
  std::string name_ = "sequential";
  std::vector<Any> layers_;
  std::optional<ChainOptions> chain_;
};

std::ostream& operator<<(std::ostream& out, const Sequential& model);  // its summary()

// torch's names of what is here: neither compiles, and each says what does.
template <class... A>
struct Linear {
  static_assert(sizeof...(A) > 99, "nn::Linear(in, out) is written nn::Dense(in, out)");
  Linear(A...);
};
template <class... A>
struct ReLU {
  static_assert(sizeof...(A) > 99, "nn::ReLU() is written relu: nn::Sequential(nn::Dense(2, 3), relu)");
  ReLU(A...);
};

}  // namespace rill::nn

namespace rill {
template <>
inline constexpr bool holds_no_variables<nn::Activation> = true;
}

#pragma GCC visibility pop
