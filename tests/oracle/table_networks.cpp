// The table of convolutions, pooling, normalisation, losses, activations, attention, layers and optimizers.
#include <memory>

#include "cases.h"

namespace oracle {

using namespace rill;

// "SAME", "VALID", one number, or pairs.
static SpacePadding padding(const Call& c) {
  if (!c.has("padding")) return "VALID";
  const json& p = c.options["padding"];
  if (p.is_string()) return SpacePadding(std::string_view(p.get_ref<const std::string&>()));
  if (p.is_number()) return int(p);
  SpacePadding out({{0, 0}});
  out.lo.clear(), out.hi.clear();
  for (const json& pair : p) out.lo.push_back(pair.at(0).get<int64_t>()), out.hi.push_back(pair.at(1).get<int64_t>());
  return out;
}

static ConvOptions conv_options(const Call& c) {
  return {.strides = c.dims("strides"),
          .padding = padding(c),
          .dilation = c.dims("dilation"),
          .groups = c.integer("groups", 1),
          .layout = layout(c)};
}
static ConvParams conv_params(const Call& c) {
  return {c.dims("strides"),      c.dims("pads_lo"), c.dims("pads_hi"), c.dims("dilation"),
          c.integer("groups", 1), layout(c),         c.dims("sizes")};
}
static PoolOptions pool_options(const Call& c) {
  return {.strides = c.dims("strides"),
          .padding = padding(c),
          .layout = layout(c),
          .count_include_pad = c.flag("count_include_pad"),
          .ceil_mode = c.flag("ceil_mode"),
          .dilation = c.dims("dilation"),
          .divisor = c.options.contains("divisor") ? std::optional(c.integer("divisor", 1)) : std::nullopt};
}

static void add_convolutions(Table& t) {
  t["conv"] = {[](const Call& c) -> Values { return {conv(c[0], c[1], conv_options(c))}; }};
  t["conv1d"] = {[](const Call& c) -> Values { return {conv1d(c[0], c[1], conv_options(c))}; }};
  t["conv2d"] = {[](const Call& c) -> Values { return {conv2d(c[0], c[1], conv_options(c))}; }};
  t["conv3d"] = {[](const Call& c) -> Values { return {conv3d(c[0], c[1], conv_options(c))}; }};
  t["depthwise_conv"] = {[](const Call& c) -> Values { return {depthwise_conv(c[0], c[1], conv_options(c))}; }};
  t["conv_transpose"] = {[](const Call& c) -> Values {
    return {conv_transpose(c[0], c[1],
                           {.strides = c.dims("strides"),
                            .padding = padding(c),
                            .dilation = c.dims("dilation"),
                            .groups = c.integer("groups", 1),
                            .layout = layout(c),
                            .output_padding = c.dims("output_padding")})};
  }};
  t["conv_grad_input"] = {[](const Call& c) -> Values { return {conv_grad_input(c[0], c[1], conv_params(c))}; }};
  t["conv_grad_weight"] = {[](const Call& c) -> Values { return {conv_grad_weight(c[0], c[1], conv_params(c))}; }};
  t["max_pool"] = {[](const Call& c) -> Values { return {max_pool(c[0], c.dims("window"), pool_options(c))}; }};
  t["avg_pool"] = {[](const Call& c) -> Values { return {avg_pool(c[0], c.dims("window"), pool_options(c))}; }};
  t["global_max_pool"] = {
      [](const Call& c) -> Values { return {global_max_pool(c[0], layout(c), c.flag("keepdims"))}; }};
  t["global_avg_pool"] = {
      [](const Call& c) -> Values { return {global_avg_pool(c[0], layout(c), c.flag("keepdims"))}; }};
  t["adaptive_max_pool"] = {
      [](const Call& c) -> Values { return {adaptive_max_pool(c[0], c.dims("out"), layout(c))}; }};
  t["adaptive_avg_pool"] = {
      [](const Call& c) -> Values { return {adaptive_avg_pool(c[0], c.dims("out"), layout(c))}; }};
}

static void add_normalisation(Table& t) {
  t["softmax"] = {[](const Call& c) -> Values { return {softmax(c[0], c.integer("axis", -1))}; }};
  t["log_softmax"] = {[](const Call& c) -> Values { return {log_softmax(c[0], c.integer("axis", -1))}; }};
  t["layer_norm"] = {[](const Call& c) -> Values {
    if (c.in.size() == 1) return {layer_norm(c[0], normalize_options(c))};
    return {layer_norm(c[0], c[1], c[2], normalize_options(c))};
  }};
  t["batch_norm"] = {[](const Call& c) -> Values {
    BatchNormResult b = batch_norm(c[0], c[1], c[2], normalize_options(c));
    return {b.y, b.mean, b.variance};
  }};
  t["batch_norm_inference"] = {[](const Call& c) -> Values {
    return {batch_norm_inference(c[0], c[1], c[2], c[3], c[4], normalize_options(c))};
  }};
  t["moments"] = {[](const Call& c) -> Values {
    Moments m = moments(c[0], c.axes(), c.flag("keepdims"));
    return {m.mean, m.variance};
  }};
  t["l2_normalize"] = {
      [](const Call& c) -> Values { return {l2_normalize(c[0], c.integer("axis", -1), c.number("epsilon", 1e-12))}; }};
}

#define RILL_ONE(name) t[#name] = {[](const Call& c) -> Values { return {name(c[0])}; }};
#define RILL_TWO(name) t[#name] = {[](const Call& c) -> Values { return {name(c[0], c[1])}; }};

static void add_losses(Table& t) {
  // clang-format off
  RILL_TWO(softmax_cross_entropy) RILL_TWO(sparse_softmax_cross_entropy) RILL_TWO(sigmoid_cross_entropy)
  RILL_TWO(mean_squared_error) RILL_TWO(mean_absolute_error) RILL_TWO(hinge_loss) RILL_TWO(kl_divergence)
  RILL_ONE(selu) RILL_ONE(mish) RILL_ONE(hard_tanh) RILL_ONE(hard_sigmoid) RILL_ONE(hard_swish)
      // clang-format on
      t["huber_loss"] = {[](const Call& c) -> Values { return {huber_loss(c[0], c[1], c.number("delta", 1))}; }};
  t["cosine_similarity"] = {
      [](const Call& c) -> Values { return {cosine_similarity(c[0], c[1], c.integer("axis", -1))}; }};
  t["leaky_relu"] = {[](const Call& c) -> Values { return {leaky_relu(c[0], c.number("slope", 0.01))}; }};
  t["elu"] = {[](const Call& c) -> Values { return {elu(c[0], c.number("alpha", 1))}; }};
  t["celu"] = {[](const Call& c) -> Values { return {celu(c[0], c.number("alpha", 1))}; }};
  t["glu"] = {[](const Call& c) -> Values { return {glu(c[0], c.integer("axis", -1))}; }};
}

static void add_tables(Table& t) {
  t["one_hot"] = {[](const Call& c) -> Values {
    return {one_hot(c[0], c.integer("depth", 1),
                    {.axis = c.integer("axis", -1),
                     .on = c.number("on", 1),
                     .off = c.number("off", 0),
                     .dtype = c.dtype().value_or(f32)})};
  }};
  t["embedding_lookup"] = {[](const Call& c) -> Values { return {embedding_lookup(c[0], c[1])}; }};
  t["clip_by_value"] = {
      [](const Call& c) -> Values { return {clip_by_value(c[0], c.number("low", 0), c.number("high", 0))}; }};
  t["clip_by_norm"] = {[](const Call& c) -> Values { return {clip_by_norm(c[0], c.number("max_norm", 1), c.axes())}; }};
  t["global_norm"] = {[](const Call& c) -> Values { return {global_norm(c.in)}; }};
  t["clip_by_global_norm"] = {[](const Call& c) -> Values {
    ClippedGradients g = clip_by_global_norm(c.in, c.number("max_norm", 1));
    g.gradients.push_back(g.norm);
    return g.gradients;
  }};
  t["adam_update"] = {[](const Call& c) -> Values {
    AdamUpdate u = adam_update(c[0], c[1], c[2], c[3], c[4], c[5], c[6],
                               {c.number("beta1", 0.9), c.number("beta2", 0.999), c.number("epsilon", 1e-8)});
    return {u.value, u.m, u.v};
  }};
  t["dropout"] = {
      [](const Call& c) -> Values { return {dropout(c[0], c.number("rate", 0), {.training = c.flag("training")})}; }};
}

static std::optional<double> scale(const Call& c) {
  return c.has("scale") ? std::optional(c.number("scale", 1)) : std::nullopt;
}

static void add_attention(Table& t) {
  t["attention"] = {[](const Call& c) -> Values {
    return {attention(c[0], c[1], c[2],
                      {.causal = c.flag("causal"), .mask = c.in.size() > 3 ? c[3] : Tensor(), .scale = scale(c)})};
  }};
  t["self_attention"] = {
      [](const Call& c) -> Values { return {self_attention(c[0], {.causal = c.flag("causal"), .scale = scale(c)})}; }};
}

static void add_positions(Table& t) {
  t["rotary"] = {[](const Call& c) -> Values {
    return {rotary(c[0], c[1],
                   {.base = c.number("base", 1e4),
                    .size = c.has("size") ? std::optional(c.integer("size", 0)) : std::nullopt,
                    .interleaved = c.flag("interleaved")})};
  }};
  t["alibi_bias"] = {[](const Call& c) -> Values { return {alibi_bias(c.integer("heads", 1), c.integer("keys", 1))}; }};
  t["relative_buckets"] = {[](const Call& c) -> Values {
    return {relative_buckets(c[0], c.integer("buckets", 32), c.integer("max_distance", 128), c.flag("bidirectional"))};
  }};
  t["sinusoids"] = {[](const Call& c) -> Values {
    return {
        sinusoids(c[0], c.integer("width", 1), {.base = c.number("base", 1e4), .interleaved = c.flag("interleaved")})};
  }};
  t["bounded_relu"] = {[](const Call& c) -> Values {
    return {
        bounded_relu(c[0], {.max_value = c.has("max_value") ? std::optional(c.number("max_value", 0)) : std::nullopt,
                            .negative_slope = c.number("negative_slope", 0),
                            .threshold = c.number("threshold", 0)})};
  }};
  t["scaled_softplus"] = {[](const Call& c) -> Values { return {scaled_softplus(c[0], c.number("beta", 1))}; }};
}

static Reduction reduction(const Call& c) {
  const std::string how = c.options.value("reduction", "mean");
  return how == "none" ? Reduction::none : how == "sum" ? Reduction::sum : Reduction::mean;
}
static std::optional<Tensor> weights(const Call& c, size_t i) {
  return c.in.size() > i ? std::optional(c[i]) : std::nullopt;
}
static FocalOptions focal(const Call& c) {
  return {.gamma = c.number("gamma", 2), .alpha = c.has("alpha") ? std::optional(c.number("alpha", 0)) : std::nullopt};
}
static OverlapOptions overlap(const Call& c) { return {.axis = c.axes("axis"), .smooth = c.number("smooth", 1e-7)}; }

static void add_more_losses(Table& t) {
  t["reduce_loss"] = {[](const Call& c) -> Values { return {reduce_loss(c[0], reduction(c), weights(c, 1))}; }};
  t["cross_entropy"] = {[](const Call& c) -> Values {
    return {cross_entropy(c[0], c[1],
                          {.weights = weights(c, 2),
                           .ignored = c.integer("ignored", -100),
                           .smoothing = c.number("smoothing", 0),
                           .reduction = reduction(c)})};
  }};
  t["sigmoid_focal_loss"] = {[](const Call& c) -> Values { return {sigmoid_focal_loss(c[0], c[1], focal(c))}; }};
  t["softmax_focal_loss"] = {[](const Call& c) -> Values { return {softmax_focal_loss(c[0], c[1], focal(c))}; }};
  t["dice_loss"] = {[](const Call& c) -> Values { return {dice_loss(c[0], c[1], overlap(c))}; }};
  t["tversky_loss"] = {[](const Call& c) -> Values {
    return {tversky_loss(c[0], c[1], c.number("alpha", 0.5), c.number("beta", 0.5), overlap(c))};
  }};
  t["squared_hinge_loss"] = {[](const Call& c) -> Values { return {squared_hinge_loss(c[0], c[1])}; }};
  t["categorical_hinge_loss"] = {[](const Call& c) -> Values { return {categorical_hinge_loss(c[0], c[1])}; }};
  t["log_cosh_loss"] = {[](const Call& c) -> Values { return {log_cosh_loss(c[0], c[1])}; }};
  t["quantile_loss"] = {[](const Call& c) -> Values { return {quantile_loss(c[0], c[1], c.number("q", 0.5))}; }};
  t["percentage_error"] = {[](const Call& c) -> Values { return {percentage_error(c[0], c[1])}; }};
  t["squared_log_error"] = {[](const Call& c) -> Values { return {squared_log_error(c[0], c[1])}; }};
  t["cosine_distance"] = {[](const Call& c) -> Values { return {cosine_distance(c[0], c[1], c.integer("axis", -1))}; }};
  t["contrastive_loss"] = {
      [](const Call& c) -> Values { return {contrastive_loss(c[0], c[1], c.number("margin", 1))}; }};
  t["info_nce_loss"] = {
      [](const Call& c) -> Values { return {info_nce_loss(c[0], c[1], c.number("temperature", 0.1))}; }};
  t["nt_xent_loss"] = {
      [](const Call& c) -> Values { return {nt_xent_loss(c[0], c[1], c.number("temperature", 0.5))}; }};
  t["kl_divergence_of_logs"] = {[](const Call& c) -> Values { return {kl_divergence_of_logs(c[0], c[1])}; }};
  t["symmetric_kl_divergence"] = {[](const Call& c) -> Values { return {symmetric_kl_divergence(c[0], c[1])}; }};
}

// --- Layers: their Variables are set to the operands behind the first ------------------------------------------------

template <class L>
static Values run_layer(const L& layer, const Call& c) {
  std::vector<Variable> variables = layer.variables();
  for (size_t i = 0; i < variables.size(); ++i) variables[i].assign(c[i + 1]);
  const auto mode = c.flag("training") ? nn::Mode::training : nn::Mode::inference;
  auto traced = function("layer", [&](const Tensor& x) { return layer(x, mode); });
  Values out{c.flag("trace") ? traced(c[0]) : layer(c[0], mode)};
  if (c.flag("state"))
    for (const Variable& v : variables) out.push_back(v.value());
  return out;
}

static void add_layers(Table& t) {
  t["nn::Dense"] = {
      [](const Call& c) {
        return run_layer(
            nn::Dense(c[1].dim(0), c[1].dim(1), {.activation = c.flag("relu") ? nn::Activation(relu) : nullptr}), c);
      },
      false};
  t["nn::Conv2D"] = {
      [](const Call& c) {
        const Tensor& k = c[1];
        return run_layer(
            nn::Conv2D(k.dim(2) * c.integer("groups", 1), k.dim(3), {k.dim(0), k.dim(1)},
                       {.strides = c.dims("strides"), .padding = padding(c), .groups = c.integer("groups", 1)}),
            c);
      },
      false};
  t["nn::MaxPool2D"] = {
      [](const Call& c) {
        return run_layer(nn::MaxPool2D(c.dims("window"), {.strides = c.dims("strides"), .padding = padding(c)}), c);
      },
      false};
  t["nn::AvgPool2D"] = {
      [](const Call& c) {
        return run_layer(nn::AvgPool2D(c.dims("window"), {.strides = c.dims("strides"), .padding = padding(c)}), c);
      },
      false};
  t["nn::Dropout"] = {[](const Call& c) { return run_layer(nn::Dropout(c.number("rate", 0)), c); }, false};
  t["nn::Flatten"] = {[](const Call& c) { return run_layer(nn::Flatten(), c); }, false};
  t["nn::BatchNorm"] = {
      [](const Call& c) { return run_layer(nn::BatchNorm(c[1].dim(0), {.momentum = c.number("momentum", 0.99)}), c); },
      false};
  t["nn::LayerNorm"] = {[](const Call& c) { return run_layer(nn::LayerNorm(c[1].shape()), c); }, false};
  t["nn::GroupNorm"] = {[](const Call& c) { return run_layer(nn::GroupNorm(c[1].dim(0), c.integer("groups", 1)), c); },
                        false};
  t["nn::RMSNorm"] = {[](const Call& c) { return run_layer(nn::RMSNorm(c[1].shape()), c); }, false};
  t["nn::PReLU"] = {[](const Call& c) { return run_layer(nn::PReLU(c[1].dim(0)), c); }, false};
  t["nn::Embedding"] = {[](const Call& c) { return run_layer(nn::Embedding(c[1].dim(0), c[1].dim(1)), c); }, false};
  t["nn::MultiHeadAttention"] = {
      [](const Call& c) {
        return run_layer(nn::MultiHeadAttention(c[0].dim(-1), c.integer("heads", 1), {.causal = c.flag("causal")}), c);
      },
      false};
  t["nn::Sequential"] = {
      [](const Call& c) {
        return run_layer(nn::Sequential(nn::Dense(c[1].dim(0), c[1].dim(1)), relu, nn::Dense(c[3].dim(0), c[3].dim(1))),
                         c);
      },
      false};
}

// --- Optimizers: a parameter, and rows of gradients; the parameter after each step -----------------------------------

static nn::LearningRate rate(const Call& c) {
  const std::vector<double> n = c.numbers("schedule");
  const std::string kind = c.text("kind");
  if (kind == "exponential") return nn::exponential_decay(n.at(0), n.at(1), n.at(2));
  if (kind == "cosine") return nn::cosine_decay(n.at(0), n.at(1), n.at(2), n.at(3));
  if (kind == "piecewise") return nn::piecewise_constant(c.numbers("boundaries"), n);
  return c.number("learning_rate", 0.01);
}

static Values run_optimizer(nn::Optimizer& optimizer, const Call& c) {
  Variable w(c[0]);
  auto step = [&](const Tensor& g) {
    optimizer.apply_gradients({g}, {w});
    return w.value();
  };
  auto traced = function("step", [&](const Tensor& g) { return step(g); });
  Values path;
  for (int64_t i = 0; i < c[1].dim(0); ++i) path.push_back(c.flag("trace") ? traced(c[1](i)) : step(c[1](i)));
  return {stack(path)};
}

static void add_optimizers(Table& t) {
  t["nn::SGD"] = {[](const Call& c) {
                    nn::SGD o({.learning_rate = rate(c),
                               .momentum = c.number("momentum", 0),
                               .nesterov = c.flag("nesterov"),
                               .weight_decay = c.number("weight_decay", 0)});
                    return run_optimizer(o, c);
                  },
                  false};
  t["nn::Adam"] = {[](const Call& c) {
                     nn::Adam o({.learning_rate = rate(c),
                                 .beta1 = c.number("beta1", 0.9),
                                 .beta2 = c.number("beta2", 0.999),
                                 .epsilon = c.number("epsilon", 1e-8)});
                     return run_optimizer(o, c);
                   },
                   false};
  t["nn::AdamW"] = {[](const Call& c) {
                      nn::AdamW o({.learning_rate = rate(c),
                                   .beta1 = c.number("beta1", 0.9),
                                   .beta2 = c.number("beta2", 0.999),
                                   .epsilon = c.number("epsilon", 1e-8),
                                   .weight_decay = c.number("weight_decay", 0.01)});
                      return run_optimizer(o, c);
                    },
                    false};
  t["nn::RMSprop"] = {[](const Call& c) {
                        nn::RMSprop o({.learning_rate = rate(c),
                                       .rho = c.number("rho", 0.9),
                                       .momentum = c.number("momentum", 0),
                                       .epsilon = c.number("epsilon", 1e-8)});
                        return run_optimizer(o, c);
                      },
                      false};
}

void add_networks(Table& t) {
  add_convolutions(t);
  add_normalisation(t);
  add_losses(t);
  add_tables(t);
  add_attention(t);
  add_positions(t);
  add_more_losses(t);
  add_layers(t);
  add_optimizers(t);
}

}  // namespace oracle
