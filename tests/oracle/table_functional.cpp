// The table for functional.py and images.py: torch.nn.functional's activations, normalisations, losses and tables
// beyond those of table_networks.cpp, and functions of images.
#include <limits>

#include "cases.h"

using namespace rill;

namespace oracle {
namespace {

double order(const Call& c) {
  return c.options.contains("p") && c.options["p"].is_string() ? std::numeric_limits<double>::infinity()
                                                               : c.number("p", 2);
}

void add_activations(Table& t) {
  t["hard_shrink"] = {[](const Call& c) -> Values { return {hard_shrink(c[0], c.number("lambda", 0.5))}; }};
  t["squareplus"] = {[](const Call& c) -> Values { return {squareplus(c[0], c.number("b", 4))}; }};
  t["sparse_plus"] = {[](const Call& c) -> Values { return {sparse_plus(c[0])}; }};
  t["sparse_sigmoid"] = {[](const Call& c) -> Values { return {sparse_sigmoid(c[0])}; }};
  t["sparsemax"] = {[](const Call& c) -> Values { return {sparsemax(c[0], c.integer("axis", -1))}; }};
  t["soft_shrink"] = {[](const Call& c) -> Values { return {soft_shrink(c[0], c.number("lambda", 0.5))}; }};
  t["tanh_shrink"] = {[](const Call& c) -> Values { return {tanh_shrink(c[0])}; }};
  t["threshold"] = {
      [](const Call& c) -> Values { return {threshold(c[0], c.number("bound", 0), c.number("value", 0))}; }};
  t["prelu"] = {[](const Call& c) -> Values { return {prelu(c[0], c[1])}; }};
  t["rrelu"] = {[](const Call& c) -> Values {
    return {
        rrelu(c[0], {.lower = c.number("lower", 0), .upper = c.number("upper", 0), .training = c.flag("training")})};
  }};
  t["softmin"] = {[](const Call& c) -> Values { return {softmin(c[0], c.integer("axis", -1))}; }};
  t["gumbel_softmax"] = {[](const Call& c) -> Values { return {gumbel_softmax(c[0], {.hard = c.flag("hard")})}; }};
  t["channel_dropout"] = {[](const Call& c) -> Values {
    return {channel_dropout(c[0], c.number("rate", 0), {.training = c.flag("training")})};
  }};
  t["alpha_dropout"] = {[](const Call& c) -> Values {
    return {alpha_dropout(c[0], c.number("rate", 0), {.training = c.flag("training")})};
  }};
}

void add_norms(Table& t) {
  t["rms_norm"] = {[](const Call& c) -> Values {
    if (c.in.size() == 1) return {rms_norm(c[0], normalize_options(c))};
    return {rms_norm(c[0], c[1], normalize_options(c))};
  }};
  t["group_norm"] = {[](const Call& c) -> Values {
    const int64_t groups = c.integer("groups", 1);
    if (c.in.size() == 1) return {group_norm(c[0], groups, normalize_options(c))};
    return {group_norm(c[0], groups, c[1], c[2], normalize_options(c))};
  }};
  t["instance_norm"] = {[](const Call& c) -> Values {
    if (c.in.size() == 1) return {instance_norm(c[0], normalize_options(c))};
    return {instance_norm(c[0], c[1], c[2], normalize_options(c))};
  }};
  t["local_response_norm"] = {[](const Call& c) -> Values {
    return {local_response_norm(c[0], {.size = c.integer("size", 5),
                                       .alpha = c.number("alpha", 1e-4),
                                       .beta = c.number("beta", 0.75),
                                       .k = c.number("k", 1),
                                       .axis = c.integer("axis", -1)})};
  }};
}

void add_regression(Table& t) {
  t["smooth_l1_loss"] = {[](const Call& c) -> Values { return {smooth_l1_loss(c[0], c[1], c.number("beta", 1))}; }};
  t["gaussian_nll_loss"] = {[](const Call& c) -> Values {
    return {gaussian_nll_loss(c[0], c[1], c[2], {.full = c.flag("full"), .epsilon = c.number("epsilon", 1e-6)})};
  }};
  t["poisson_nll_loss"] = {[](const Call& c) -> Values {
    return {poisson_nll_loss(
        c[0], c[1],
        {.log_input = c.flag("log_input", true), .full = c.flag("full"), .epsilon = c.number("epsilon", 1e-8)})};
  }};
  t["pairwise_distance"] = {[](const Call& c) -> Values {
    return {pairwise_distance(c[0], c[1],
                              {.p = order(c), .epsilon = c.number("epsilon", 1e-6), .keepdims = c.flag("keepdims")})};
  }};
  t["pdist"] = {[](const Call& c) -> Values { return {pdist(c[0], order(c))}; }};
}

std::optional<Tensor> third(const Call& c) { return c.in.size() > 2 ? std::optional(c[2]) : std::nullopt; }

void add_classes(Table& t) {
  t["binary_cross_entropy"] = {[](const Call& c) -> Values { return {binary_cross_entropy(c[0], c[1])}; }};
  t["nll_loss"] = {[](const Call& c) -> Values {
    NllOptions o{.weights = third(c)};
    if (c.has("ignored")) o.ignored = c.integer("ignored", 0);
    return {nll_loss(c[0], c[1], o)};
  }};
  t["soft_margin_loss"] = {[](const Call& c) -> Values { return {soft_margin_loss(c[0], c[1])}; }};
  t["multi_margin_loss"] = {[](const Call& c) -> Values {
    return {multi_margin_loss(c[0], c[1],
                              {.p = int(c.integer("p", 1)), .margin = c.number("margin", 1), .weights = third(c)})};
  }};
  t["multilabel_margin_loss"] = {[](const Call& c) -> Values { return {multilabel_margin_loss(c[0], c[1])}; }};
  t["multilabel_soft_margin_loss"] = {
      [](const Call& c) -> Values { return {multilabel_soft_margin_loss(c[0], c[1], third(c))}; }};
  t["ctc_loss"] = {[](const Call& c) -> Values {
    return {ctc_loss(log_softmax(c[0]), c[1], c[2], c[3],
                     {.blank = c.integer("blank", 0), .zero_infinity = c.flag("zero_infinity")})};
  }};
}

void add_likeness(Table& t) {
  t["hinge_embedding_loss"] = {
      [](const Call& c) -> Values { return {hinge_embedding_loss(c[0], c[1], c.number("margin", 1))}; }};
  t["margin_ranking_loss"] = {
      [](const Call& c) -> Values { return {margin_ranking_loss(c[0], c[1], c[2], c.number("margin", 0))}; }};
  t["cosine_embedding_loss"] = {
      [](const Call& c) -> Values { return {cosine_embedding_loss(c[0], c[1], c[2], c.number("margin", 0))}; }};
  t["triplet_margin_loss"] = {[](const Call& c) -> Values {
    TripletMarginOptions o{.margin = c.number("margin", 1),
                           .p = c.number("p", 2),
                           .epsilon = c.number("epsilon", 1e-6),
                           .swap = c.flag("swap")};
    if (c.flag("taxi")) o.distance = [](const Tensor& a, const Tensor& b) { return sum(abs(a - b), -1); };
    return {triplet_margin_loss(c[0], c[1], c[2], o)};
  }};
}

void add_lookups(Table& t) {
  t["embedding_bag"] = {[](const Call& c) -> Values {
    const std::string mode = c.text("mode");
    EmbeddingBagOptions o{.mode = mode == "sum" ? BagMode::sum : mode == "max" ? BagMode::max : BagMode::mean};
    if (c.flag("weights")) o.weights = c[2];
    if (c.flag("offsets")) o.offsets = c[2];
    if (c.has("padding")) o.padding = c.integer("padding", 0);
    return {embedding_bag(c[0], c[1], o)};
  }};
  t["bilinear"] = {[](const Call& c) -> Values {
    if (c.in.size() == 3) return {bilinear(c[0], c[1], c[2])};
    return {bilinear(c[0], c[1], c[2], c[3])};
  }};
}

void add_resizing(Table& t) {
  t["interpolate"] = {[](const Call& c) -> Values {
    const std::string mode = c.text("mode");
    InterpolateOptions o{.size = c.dims("size"),
                         .scale = c.numbers("scale"),
                         .align_corners = c.flag("align_corners"),
                         .antialias = c.flag("antialias"),
                         .layout = layout(c)};
    o.mode = mode == "nearest_exact" ? ResizeMode::nearest_exact
             : mode == "linear"      ? ResizeMode::linear
             : mode == "cubic"       ? ResizeMode::cubic
             : mode == "area"        ? ResizeMode::area
                                     : ResizeMode::nearest;
    return {interpolate(c[0], o)};
  }};
  t["grid_sample"] = {[](const Call& c) -> Values {
    const std::string mode = c.text("mode"), padding = c.text("padding");
    return {grid_sample(c[0], c[1],
                        {.mode = mode == "nearest" ? SampleMode::nearest
                                 : mode == "cubic" ? SampleMode::cubic
                                                   : SampleMode::linear,
                         .padding = padding == "border"       ? SamplePadding::border
                                    : padding == "reflection" ? SamplePadding::reflection
                                                              : SamplePadding::zeros,
                         .align_corners = c.flag("align_corners"),
                         .layout = layout(c)})};
  }};
  t["affine_grid"] = {
      [](const Call& c) -> Values { return {affine_grid(c[0], c.dims("size"), c.flag("align_corners"))}; }};
}

void add_patches(Table& t) {
  t["pixel_shuffle"] = {
      [](const Call& c) -> Values { return {pixel_shuffle(c[0], c.integer("factor", 1), layout(c))}; }};
  t["pixel_unshuffle"] = {
      [](const Call& c) -> Values { return {pixel_unshuffle(c[0], c.integer("factor", 1), layout(c))}; }};
  t["channel_shuffle"] = {
      [](const Call& c) -> Values { return {channel_shuffle(c[0], c.integer("groups", 1), c.integer("axis", -1))}; }};
  const auto options = [](const Call& c) -> PatchOptions {
    return {.strides = c.dims("strides"),
            .padding = int(c.integer("padding", 0)),
            .dilation = c.dims("dilation"),
            .layout = layout(c)};
  };
  t["unfold"] = {[options](const Call& c) -> Values { return {unfold(c[0], c.dims("window"), options(c))}; }};
  t["fold"] = {
      [options](const Call& c) -> Values { return {fold(c[0], c.dims("size"), c.dims("window"), options(c))}; }};
}

void add_pools(Table& t) {
  const auto options = [](const Call& c) -> PoolOptions {
    return {.strides = c.dims("strides"),
            .padding = int(c.integer("padding", 0)),
            .layout = layout(c),
            .dilation = c.dims("dilation")};
  };
  t["lp_pool"] = {
      [options](const Call& c) -> Values { return {lp_pool(c[0], c.dims("window"), c.number("p", 2), options(c))}; }};
  t["max_pool_with_indices"] = {[options](const Call& c) -> Values {
    const IndexedPool p = max_pool_with_indices(c[0], c.dims("window"), options(c));
    return {p.values, p.indices};
  }};
  t["max_unpool"] = {[](const Call& c) -> Values {
    return {max_unpool(c[0], c[1], c.dims("window"),
                       {.size = c.dims("size"), .strides = c.dims("strides"), .layout = layout(c)})};
  }};
  t["fractional_max_pool"] = {[](const Call& c) -> Values {
    return {fractional_max_pool(c[0], c.dims("window"), c.dims("out"), {.samples = c[1], .layout = layout(c)})};
  }};
}

}  // namespace

void add_functional(Table& t) {
  add_activations(t), add_norms(t), add_regression(t), add_classes(t), add_likeness(t), add_lookups(t);
  add_resizing(t), add_patches(t), add_pools(t);
}

}  // namespace oracle
