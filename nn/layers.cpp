// Layers: each opens its name scope, calls one or two functions and adds its bias.
#include "rill/nn/layers.h"

#include <ostream>
#include <set>

#include "rill/autodiff/recompute.h"
#include "rill/ops/apply.h"
#include "rill/ops/index/from_front.h"
#include "rill/ops/option_checks.h"
#include "rill/ops/state/variable_state.h"
#include "rill/tensor/limits.h"

namespace rill::nn {

namespace {

// A Variable of layer `layer`, made for real even while a function is traced: its first value is no part of the graph.
Variable make_variable(const std::string& layer, const std::string& name, const Initializer& initializer,
                       const Shape& shape, const Where& where, bool is_trainable = true) {
  CallerScope caller(where);
  if (!initializer) fail(layer, "the initializer of " + name + " is empty", where);
  EagerScope eager;
  NameScope scope(layer);
  require_sound_size(layer, Spec{shape, f32, false, {}}, where);
  const Tensor first = initializer(shape);
  if (!first.defined() || first.shape() != shape)
    fail(layer,
         "the initializer of " + name + " gives " +
             (first.defined() ? to_string(first.spec()) : "an undefined tensor") + ", and its shape must be " +
             to_string(shape),
         where);
  return Variable(first, VariableOptions{.name = name, .trainable = is_trainable});
}

Tensor finish(const Tensor& y, const std::optional<Variable>& bias, const Activation& activation, const Where& where) {
  const Tensor biased = bias ? add(y, *bias, where) : y;
  return activation ? activation(biased, where) : biased;
}

std::vector<Variable> with_bias(const Variable& kernel, const std::optional<Variable>& bias) {
  return bias ? std::vector<Variable>{kernel, *bias} : std::vector<Variable>{kernel};
}

// {height, width} of a window given as one number or two.
Dims both(const Dims& window, std::string_view op, const Where& where) {
  for (int64_t size : window) require_option(size >= 1, op, "a size of the window", size, "1 or more", where);
  if (window.size() == 1) return {window[0], window[0]};
  if (window.size() != 2)
    fail(op, "a window has 1 or 2 sizes but " + std::to_string(window.size()) + " are given", where);
  return window;
}

// Steps, one for all axes of space or one each.
Dims checked_steps(const Dims& steps, std::string_view op, std::string_view option, const Where& where) {
  for (int64_t step : steps) require_option(step >= 1, op, option, step, "1 or more", where);
  return steps;
}

}  // namespace

namespace {
[[noreturn]] void fail_unknown_activation(const Where& where) {
  fail("Activation", "the function takes more than a tensor. wrap it: [](const Tensor& x) { return f(x, ...); }",
       where);
}
}  // namespace

Activation::Activation(Tensor (*f)(const Tensor&, double, Where), Where where) {
  if (f == leaky_relu) f_ = [](const Tensor& x, Where where) { return leaky_relu(x, 0.01, where); };
  else if (f == elu) f_ = [](const Tensor& x, Where where) { return elu(x, 1, where); };
  else if (f == celu) f_ = [](const Tensor& x, Where where) { return celu(x, 1, where); };
  else fail_unknown_activation(where);
}
Activation::Activation(Tensor (*f)(const Tensor&, Axis, Where), Where where) {
  if (f != static_cast<decltype(f)>(softmax) && f != static_cast<decltype(f)>(log_softmax) &&
      f != static_cast<decltype(f)>(glu))
    fail_unknown_activation(where);
  f_ = [f](const Tensor& x, Where where) { return f(x, -1, where); };
}

std::vector<Variable> trainable(const std::vector<Variable>& variables) {
  std::vector<Variable> result;
  for (const Variable& v : variables)
    if (v.trainable(Where())) result.push_back(v);
  return result;
}

// --- Dense -----------------------------------------------------------------------------------------------------------

Dense::Dense(int64_t in, int64_t out, const DenseOptions& options, Where where)
    : name(options.name),
      kernel(make_variable(name, "kernel", options.kernel_initializer, {in, out}, where)),
      activation(options.activation) {
  if (options.use_bias) bias = make_variable(name, "bias", options.bias_initializer, {out}, where);
}

Tensor Dense::operator()(const Tensor& x, Mode, Where where) const {
  CallerScope caller(where);
  NameScope scope(name);
  return finish(matmul(x, kernel), bias, activation, where);
}

std::vector<Variable> Dense::variables() const { return with_bias(kernel, bias); }
void Dense::name_variables(VariablePaths& paths) const {
  paths.add("kernel", kernel);
  if (bias) paths.add("bias", *bias);
}

// --- Convolution and pooling -----------------------------------------------------------------------------------------

namespace {
int64_t checked_groups(int64_t groups, int64_t in, int64_t out, const Where& where) {
  require_option(groups >= 1, "Conv2D", "groups", groups, "1 or more", where);
  if (in % groups != 0 || out % groups != 0)
    fail("Conv2D",
         std::to_string(in) + " channels in and " + std::to_string(out) + " out do not both divide into " +
             std::to_string(groups) + " groups",
         where);
  return groups;
}
}  // namespace

Conv2D::Conv2D(int64_t in, int64_t out, const Dims& window, const Conv2DOptions& o, Where where)
    : name(o.name),
      kernel(make_variable(name, "kernel", o.kernel_initializer,
                           {both(window, "Conv2D", where)[0], both(window, "Conv2D", where)[1],
                            in / checked_groups(o.groups, in, out, where), out},
                           where)),
      activation(o.activation),
      options{.strides = checked_steps(o.strides, "Conv2D", "a stride", where),
              .padding = o.padding,
              .dilation = checked_steps(o.dilation, "Conv2D", "a dilation", where),
              .groups = o.groups} {
  if (o.use_bias) bias = make_variable(name, "bias", o.bias_initializer, {out}, where);
}

Tensor Conv2D::operator()(const Tensor& x, Mode, Where where) const {
  CallerScope caller(where);
  NameScope scope(name);
  return finish(conv2d(x, kernel, options), bias, activation, where);
}

std::vector<Variable> Conv2D::variables() const { return with_bias(kernel, bias); }
void Conv2D::name_variables(VariablePaths& paths) const {
  paths.add("kernel", kernel);
  if (bias) paths.add("bias", *bias);
}

MaxPool2D::MaxPool2D(const Dims& window, const Pool2DOptions& options, Where where)
    : window(both(window, "MaxPool2D", where)), options(options) {
  checked_steps(options.strides, "MaxPool2D", "a stride", where);
}

Tensor MaxPool2D::operator()(const Tensor& x, Mode, Where where) const {
  CallerScope caller(where);
  NameScope scope(options.name);
  return max_pool(x, window, {.strides = options.strides, .padding = options.padding}, where);
}

AvgPool2D::AvgPool2D(const Dims& window, const Pool2DOptions& options, Where where)
    : window(both(window, "AvgPool2D", where)), options(options) {
  checked_steps(options.strides, "AvgPool2D", "a stride", where);
}

Tensor AvgPool2D::operator()(const Tensor& x, Mode, Where where) const {
  CallerScope caller(where);
  NameScope scope(options.name);
  return avg_pool(x, window, {.strides = options.strides, .padding = options.padding}, where);
}

// --- Without parameters ----------------------------------------------------------------------------------------------

Dropout::Dropout(double rate, std::string name, Where where) : rate(rate), name(std::move(name)) {
  require_fraction("Dropout", "rate", rate, where);
}

Tensor Dropout::operator()(const Tensor& x, Mode mode, Where where) const {
  CallerScope caller(where);
  NameScope scope(name);
  return dropout(x, rate, {.training = mode == Mode::training}, where);
}

Tensor Flatten::operator()(const Tensor& x, Mode, Where where) const {
  CallerScope caller(where);
  return flatten(x, 1, -1);
}

// --- Normalisation ---------------------------------------------------------------------------------------------------

BatchNorm::BatchNorm(int64_t channels, const BatchNormOptions& options, Where where)
    : options(options),
      scale(make_variable(options.name, "scale", constant(1), {channels}, where)),
      offset(make_variable(options.name, "offset", constant(0), {channels}, where)),
      mean(make_variable(options.name, "mean", constant(0), {channels}, where, false)),
      variance(make_variable(options.name, "variance", constant(1), {channels}, where, false)) {
  require_option(options.momentum >= 0 && options.momentum <= 1, "BatchNorm", "momentum", options.momentum, "in [0, 1]",
                 where);
  require_not_negative("BatchNorm", "epsilon", options.epsilon, where);
}

Tensor BatchNorm::operator()(const Tensor& x, Mode mode, Where where) const {
  CallerScope caller(where);
  NameScope scope(options.name);
  const NormalizeOptions how{.axis = options.axis, .epsilon = options.epsilon};
  if (mode == Mode::inference) return batch_norm_inference(x, scale, offset, mean, variance, how);
  const BatchNormResult batch = batch_norm(x, scale, offset, how);
  Variable moving_mean = mean, moving_variance = variance;
  const double step = 1 - options.momentum;
  moving_mean.assign_add(step * (stop_gradient(batch.mean) - moving_mean));
  moving_variance.assign_add(step * (stop_gradient(batch.variance) - moving_variance));
  return batch.y;
}

std::vector<Variable> BatchNorm::variables() const { return {scale, offset, mean, variance}; }
void BatchNorm::name_variables(VariablePaths& paths) const {
  paths.add("scale", scale);
  paths.add("offset", offset);
  paths.add("mean", mean);
  paths.add("variance", variance);
}

LayerNorm::LayerNorm(const Shape& shape, const LayerNormOptions& options, Where where)
    : options(options),
      scale(make_variable(options.name, "scale", constant(1), shape, where)),
      offset(make_variable(options.name, "offset", constant(0), shape, where)) {
  require_not_negative("LayerNorm", "epsilon", options.epsilon, where);
}

Tensor LayerNorm::operator()(const Tensor& x, Mode, Where where) const {
  CallerScope caller(where);
  NameScope scope(options.name);
  return layer_norm(x, scale, offset, {.axis = -int64_t(scale.shape().size()), .epsilon = options.epsilon}, where);
}

std::vector<Variable> LayerNorm::variables() const { return {scale, offset}; }
void LayerNorm::name_variables(VariablePaths& paths) const {
  paths.add("scale", scale);
  paths.add("offset", offset);
}

GroupNorm::GroupNorm(int64_t channels, int64_t groups, const GroupNormOptions& options, Where where)
    : groups(groups),
      options(options),
      scale(make_variable(options.name, "scale", constant(1), {channels}, where)),
      offset(make_variable(options.name, "offset", constant(0), {channels}, where)) {
  require_not_negative("GroupNorm", "epsilon", options.epsilon, where);
  require_option(groups >= 1 && channels % groups == 0, "GroupNorm", "groups", groups,
                 "1 or more, and divide the channels", where);
}
Tensor GroupNorm::operator()(const Tensor& x, Mode, Where where) const {
  CallerScope caller(where);
  NameScope scope(options.name);
  return group_norm(x, groups, scale, offset, {.axis = options.axis, .epsilon = options.epsilon}, where);
}
std::vector<Variable> GroupNorm::variables() const { return {scale, offset}; }
void GroupNorm::name_variables(VariablePaths& paths) const {
  paths.add("scale", scale);
  paths.add("offset", offset);
}

RMSNorm::RMSNorm(const Shape& shape, const RMSNormOptions& options, Where where)
    : options(options), scale(make_variable(options.name, "scale", constant(1), shape, where)) {
  require_not_negative("RMSNorm", "epsilon", options.epsilon, where);
}
Tensor RMSNorm::operator()(const Tensor& x, Mode, Where where) const {
  CallerScope caller(where);
  NameScope scope(options.name);
  return rms_norm(x, scale, {.axis = -int64_t(scale.shape().size()), .epsilon = options.epsilon}, where);
}
std::vector<Variable> RMSNorm::variables() const { return {scale}; }
void RMSNorm::name_variables(VariablePaths& paths) const { paths.add("scale", scale); }

PReLU::PReLU(int64_t channels, const PReLUOptions& options, Where where)
    : options(options), slope(make_variable(options.name, "slope", constant(options.slope), {channels}, where)) {}
Tensor PReLU::operator()(const Tensor& x, Mode, Where where) const {
  CallerScope caller(where);
  NameScope scope(options.name);
  return prelu(x, slope, where);
}
std::vector<Variable> PReLU::variables() const { return {slope}; }
void PReLU::name_variables(VariablePaths& paths) const { paths.add("slope", slope); }

// --- Embedding -------------------------------------------------------------------------------------------------------

Embedding::Embedding(int64_t count, int64_t size, const EmbeddingOptions& options, Where where)
    : name(options.name), table(make_variable(name, "table", options.initializer, {count, size}, where)) {}

Tensor Embedding::operator()(const Tensor& ids, Mode, Where where) const {
  CallerScope caller(where);
  NameScope scope(name);
  require_operand("Embedding", ids, where);
  return embedding_lookup(table, is_integer(ids.dtype()) ? from_front(ids) : ids, where);
}

std::vector<Variable> Embedding::variables() const { return {table}; }
void Embedding::name_variables(VariablePaths& paths) const { paths.add("table", table); }

// --- Attention -------------------------------------------------------------------------------------------------------

namespace {
Dense projection(const MultiHeadAttentionOptions& o, int64_t in, int64_t out, const std::string& name,
                 const Where& where) {
  NameScope scope(o.name);
  DenseOptions options;
  options.use_bias = o.use_bias;
  options.kernel_initializer = o.kernel_initializer;
  options.name = name;
  return Dense(in, out, options, where);
}
int64_t checked_heads(int64_t width, int64_t heads, const Where& where) {
  if (heads < 1 || width % heads != 0)
    fail("MultiHeadAttention",
         "a width of " + std::to_string(width) + " does not divide into " + std::to_string(heads) + " heads", where);
  require_sound_size("MultiHeadAttention", Spec{Shape{width, width, 3}, f32, false, {}}, where);
  return heads;
}
}  // namespace

MultiHeadAttention::MultiHeadAttention(int64_t width, int64_t heads_, const MultiHeadAttentionOptions& o, Where where)
    : name(o.name),
      heads(checked_heads(width, heads_, where)),
      causal(o.causal),
      qkv(projection(o, width, 3 * width, "qkv", where)),
      output(projection(o, width, width, "output", where)) {}

Tensor MultiHeadAttention::operator()(const Tensor& x, Mode mode, Where where) const {
  CallerScope caller(where);
  NameScope scope(name);
  if (x.ndim() < 2) fail("MultiHeadAttention", to_string(x.spec()) + " is not [..., tokens, width]", where);
  Shape joined = x.shape();
  const int64_t width = joined.back();
  joined.back() = 3;
  joined.push_back(heads);
  joined.push_back(width / heads);
  const Tensor mixed = self_attention(reshape(qkv(x, mode, where), joined), {.causal = causal}, where);
  return output(reshape(mixed, x.shape()), mode, where);
}

std::vector<Variable> MultiHeadAttention::variables() const {
  std::vector<Variable> all = qkv.variables();
  for (const Variable& v : output.variables()) all.push_back(v);
  return all;
}

void MultiHeadAttention::name_variables(VariablePaths& paths) const {
  rill::detail::name_part(qkv, 0, paths);
  rill::detail::name_part(output, 1, paths);
}

// --- Sequential ------------------------------------------------------------------------------------------------------

Tensor Sequential::operator()(const Tensor& x, Mode mode, Where where) const {
  CallerScope caller(where);
  Tensor y = x;
  if (!chain_) {
    for (const Any& layer : layers_) y = layer.call(y, mode, where);
    return y;
  }
  std::vector<std::function<Tensor(const Tensor&)>> chain;
  for (const Any& layer : layers_)
    chain.push_back([call = layer.call, mode, where](const Tensor& v) { return call(v, mode, where); });
  return recompute_chain(chain, y, *chain_, where);
}

Sequential& Sequential::named(std::string name) & {
  name_ = std::move(name);
  return *this;
}

void Sequential::name_variables(VariablePaths& paths) const {
  for (size_t i = 0; i < layers_.size(); ++i) layers_[i].names(paths, i);
}

std::ostream& operator<<(std::ostream& out, const Sequential& model) { return out << model.summary(); }

Sequential& Sequential::recompute(ChainOptions options) & {
  chain_ = std::move(options);
  return *this;
}

std::vector<Variable> Sequential::variables() const {
  std::vector<Variable> result;
  std::set<const VariableState*> seen;
  for (const Any& layer : layers_)
    for (const Variable& v : layer.variables())
      if (seen.insert(&v.state()).second) result.push_back(v);
  return result;
}

}  // namespace rill::nn
