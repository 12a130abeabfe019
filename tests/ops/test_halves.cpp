// Halves: what nn_ops.h, losses.h, images.h and the distances of numeric.h compute of f16 and bf16 is what they compute
// of the same numbers in f32, rounded once; bit for bit.
#include <functional>
#include <string>
#include <vector>

#include "catch.h"
#include "rill/rill.h"
#include "same.h"

using namespace rill;

namespace {

// A function and its operands, of which those that are floating become halves.
struct Case {
  std::string name;
  std::function<Tensor(const std::vector<Tensor>&)> call;
  std::vector<Tensor> in;
};

std::vector<Tensor> as(const std::vector<Tensor>& in, DType d) {
  std::vector<Tensor> out;
  for (const Tensor& t : in) out.push_back(is_floating(t.dtype()) ? astype(t, d) : t);
  return out;
}

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases)
    for (DType d : {f16, bf16}) {
      const std::vector<Tensor> halves = as(c.in, d);
      INFO(c.name << " of " << name(d));
      CHECK(same(c.call(halves), astype(c.call(as(halves, f32)), d)));
    }
}

const random::Key key(7);
// Numbers whose squares and sums leave f16, and those of everyday.
Tensor some(const Shape& shape, uint64_t seed, double scale = 1) {
  return random::normal(shape, {.stddev = scale, .key = random::Key(seed)});
}
Tensor shares(const Shape& shape, uint64_t seed) {
  return random::uniform(shape, {.low = 0.01, .high = 0.99, .key = random::Key(seed)});
}
Tensor signs(const Shape& shape) { return where(some(shape, 99) > 0, 1.f, -1.f); }

}  // namespace

#define CALL(...) [](const std::vector<Tensor>& t) -> Tensor { return __VA_ARGS__; }

TEST_CASE("activations and norms of halves are rounded once") {
  const Tensor x = some({6, 8}, 1, 3), image = some({2, 4, 4, 6}, 2, 40), s = some({8}, 3), o = some({8}, 4);
  check({
      {"softmax", CALL(softmax(t[0])), {x}},
      {"log_softmax", CALL(log_softmax(t[0])), {x}},
      {"softmin", CALL(softmin(t[0])), {x}},
      {"gumbel_softmax", CALL(gumbel_softmax(t[0], {.temperature = 0.7, .key = key})), {x}},
      {"layer_norm", CALL(layer_norm(t[0], t[1], t[2])), {x, s, o}},
      {"batch_norm", CALL(batch_norm(t[0], t[1], t[2]).y), {x, s, o}},
      {"batch_norm_inference", CALL(batch_norm_inference(t[0], t[1], t[2], t[3], t[4])), {x, s, o, o, shares({8}, 5)}},
      {"rms_norm", CALL(rms_norm(t[0], t[1])), {x, s}},
      {"group_norm", CALL(group_norm(t[0], 2)), {image}},
      {"instance_norm", CALL(instance_norm(t[0])), {image}},
      {"local_response_norm", CALL(local_response_norm(t[0], {.size = 3, .alpha = 0.5})), {image}},
      {"moments", CALL(moments(t[0]).variance), {some({64}, 6, 300)}},
      {"l2_normalize", CALL(l2_normalize(t[0])), {some({4, 64}, 6, 300)}},
      {"leaky_relu", CALL(leaky_relu(t[0], 0.013)), {x}},
      {"elu", CALL(elu(t[0], 1.3)), {x}},
      {"celu", CALL(celu(t[0], 1.3)), {x}},
      {"selu", CALL(selu(t[0])), {x}},
      {"mish", CALL(mish(t[0])), {x}},
      {"hard_tanh", CALL(hard_tanh(t[0])), {x}},
      {"hard_sigmoid", CALL(hard_sigmoid(t[0])), {x}},
      {"hard_swish", CALL(hard_swish(t[0])), {x}},
      {"glu", CALL(glu(t[0])), {x}},
      {"prelu", CALL(prelu(t[0], t[1])), {x, s}},
      {"rrelu", CALL(rrelu(t[0], {.key = key})), {x}},
      {"hard_shrink", CALL(hard_shrink(t[0])), {x}},
      {"soft_shrink", CALL(soft_shrink(t[0], 0.3)), {x}},
      {"tanh_shrink", CALL(tanh_shrink(t[0])), {x}},
      {"threshold", CALL(threshold(t[0], 0.1, 2)), {x}},
      {"dropout", CALL(dropout(t[0], 0.3, {.key = key})), {x}},
      {"channel_dropout", CALL(channel_dropout(t[0], 0.3, {.key = key})), {image}},
      {"alpha_dropout", CALL(alpha_dropout(t[0], 0.3, {.key = key})), {x}},
      {"clip_by_norm", CALL(clip_by_norm(t[0], 1)), {some({64}, 6, 3000)}},
      {"global_norm", CALL(global_norm({t[0], t[1]})), {some({64}, 6, 30), x}},
      {"clip_by_global_norm", CALL(clip_by_global_norm({t[0], t[1]}, 1).gradients[0]), {some({64}, 6, 3000), x}},
  });
}

TEST_CASE("losses of halves are rounded once") {
  const Tensor x = some({6, 8}, 11, 3), y = some({6, 8}, 12, 3), far = some({6, 8}, 13, 300), p = shares({6, 8}, 14);
  const Tensor labels = random::randint(0, 8, {6}, {.key = key}), sign = signs({6, 8});
  check({
      {"softmax_cross_entropy", CALL(softmax_cross_entropy(t[0], t[1])), {x, p}},
      {"sparse_softmax_cross_entropy", CALL(sparse_softmax_cross_entropy(t[0], t[1])), {x, labels}},
      {"sigmoid_cross_entropy", CALL(sigmoid_cross_entropy(t[0], t[1])), {x, p}},
      {"mean_squared_error", CALL(mean_squared_error(t[0], t[1])), {x, y}},
      {"mean_absolute_error", CALL(mean_absolute_error(t[0], t[1])), {far, y}},
      {"huber_loss", CALL(huber_loss(t[0], t[1], 1.3)), {x, y}},
      {"hinge_loss", CALL(hinge_loss(t[0], t[1])), {x, sign}},
      {"kl_divergence", CALL(kl_divergence(t[0], t[1])), {p, x}},
      {"cosine_similarity", CALL(cosine_similarity(t[0], t[1])), {far, y}},
      {"smooth_l1_loss", CALL(smooth_l1_loss(t[0], t[1], 1.3)), {x, y}},
      {"gaussian_nll_loss", CALL(gaussian_nll_loss(t[0], t[1], t[2], {.full = true})), {x, y, p}},
      {"poisson_nll_loss", CALL(poisson_nll_loss(t[0], t[1], {.full = true})), {x, abs(y)}},
      {"binary_cross_entropy", CALL(binary_cross_entropy(t[0], t[1])), {p, shares({6, 8}, 15)}},
      {"nll_loss", CALL(nll_loss(t[0], t[1], {.weights = t[2]})), {x, labels, shares({8}, 16)}},
      {"soft_margin_loss", CALL(soft_margin_loss(t[0], t[1])), {x, sign}},
      {"multi_margin_loss",
       CALL(multi_margin_loss(t[0], t[1], {.p = 2, .weights = t[2]})),
       {x, labels, shares({8}, 16)}},
      {"multilabel_margin_loss", CALL(multilabel_margin_loss(t[0], t[1])), {x, full({6, 8}, 3, {i64, {}})}},
      {"multilabel_soft_margin_loss", CALL(multilabel_soft_margin_loss(t[0], t[1], t[2])), {x, p, shares({8}, 16)}},
      {"hinge_embedding_loss", CALL(hinge_embedding_loss(t[0], t[1], 1.3)), {x, sign}},
      {"margin_ranking_loss", CALL(margin_ranking_loss(t[0], t[1], t[2], 1.3)), {x, y, sign}},
      {"cosine_embedding_loss", CALL(cosine_embedding_loss(t[0], t[1], t[2], 0.1)), {far, y, signs({6})}},
      {"triplet_margin_loss", CALL(triplet_margin_loss(t[0], t[1], t[2])), {x, y, far}},
      {"ctc_loss",
       CALL(ctc_loss(t[0], t[1], t[2], t[3])),
       {log_softmax(some({6, 2, 5}, 17, 3)), full({2, 3}, 2, {i64, {}}), full({2}, 6, {i64, {}}),
        full({2}, 2, {i64, {}})}},
      {"cdist", CALL(cdist(t[0], t[1])), {x, y}},
      {"cdist, p 1", CALL(cdist(t[0], t[1], 1)), {x, y}},
      {"pdist", CALL(pdist(t[0], 3)), {x}},
      {"pairwise_distance", CALL(pairwise_distance(t[0], t[1])), {x, y}},
  });
  CHECK(mean_squared_error(tensor({300, 0, 0, 0}).astype(f16), zeros({4}, f16)).item<float>() == 22496);
}

TEST_CASE("tables and segments of halves are rounded once") {
  const Tensor table = some({20, 5}, 21), ids = random::randint(0, 20, {4, 9}, {.key = key}), flat = ravel(ids);
  const Tensor bags = tensor({0, 3, 3, 20}), segment = remainder(flat, 3);
  check({
      {"embedding_lookup", CALL(embedding_lookup(t[0], t[1])), {table, ids}},
      {"embedding_bag", CALL(embedding_bag(t[0], t[1])), {table, ids}},
      {"embedding_bag with weights",
       CALL(embedding_bag(t[0], t[1], {.mode = BagMode::sum, .weights = t[2]})),
       {table, ids, some({4, 9}, 22)}},
      {"embedding_bag at offsets", CALL(embedding_bag(t[0], t[1], {.offsets = t[2]})), {table, flat, bags}},
      {"bilinear",
       CALL(bilinear(t[0], t[1], t[2], t[3])),
       {some({3, 4}, 23), some({3, 6}, 24), some({4, 6, 2}, 25), some({2}, 26)}},
      {"segment_mean", CALL(segment_mean(t[0], t[1], 3)), {some({36, 5}, 27, 3), segment}},
  });
  // The sum and the count are more than halves hold.
  const Tensor many = zeros({70000}, i64);
  CHECK(segment_mean(full({70000}, 300, {f16, {}}), many, 1).item<float>() == 300);
  CHECK(segment_mean(ones({70000}, bf16), many, 1).item<float>() == 1);
}

TEST_CASE("images of halves are rounded once") {
  const Tensor x = some({2, 6, 6, 3}, 31, 5), grid = shares({2, 4, 4, 2}, 32) * 1.8 - 0.9;
  const Tensor at = max_pool_with_indices(x, {2}).indices, pooled = some({2, 3, 3, 3}, 33);
  check({
      {"interpolate, linear", CALL(interpolate(t[0], {.size = {9, 5}, .mode = ResizeMode::linear})), {x}},
      {"interpolate, cubic", CALL(interpolate(t[0], {.size = {9, 5}, .mode = ResizeMode::cubic})), {x}},
      {"interpolate, area", CALL(interpolate(t[0], {.size = {4}, .mode = ResizeMode::area})), {x}},
      {"grid_sample", CALL(grid_sample(t[0], t[1])), {x, grid}},
      {"grid_sample, cubic", CALL(grid_sample(t[0], t[1], {.mode = SampleMode::cubic})), {x, grid}},
      {"affine_grid", CALL(affine_grid(t[0], {5, 7})), {some({2, 2, 3}, 34)}},
      {"unfold", CALL(unfold(t[0], {3})), {x}},
      {"fold", CALL(fold(t[0], {6, 6}, {3})), {unfold(x, {3})}},
      {"avg_pool", CALL(avg_pool(t[0], {3})), {x}},
      {"adaptive_avg_pool", CALL(adaptive_avg_pool(t[0], {4, 3})), {x}},
      {"lp_pool", CALL(lp_pool(t[0], {2}, 3)), {x}},
      {"max_pool_with_indices", CALL(max_pool_with_indices(t[0], {2}).values), {x}},
      {"max_unpool", CALL(max_unpool(t[0], t[1], {2})), {pooled, at}},
      {"fractional_max_pool", CALL(fractional_max_pool(t[0], {2}, {3}, {.key = key})), {x}},
  });
}

TEST_CASE("the gradient by what many windows share is added up wide") {
  for (DType d : {f16, bf16}) {
    INFO(name(d));
    const Tensor x = ones({1, 79, 79, 1}, d);
    GradientTape tape;
    tape.watch(x);
    const Tensor slope = tape.gradient(sum(unfold(x, {40})), x);  // the middle is in all 40 * 40 windows
    CHECK(slope(0, 39, 39, 0).item<float>() == 1600);
  }
}
