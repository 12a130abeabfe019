// Cases of test_distribute.py: sequences, experts and tensors that lie on several ranks, and a model of all of it.
#include <algorithm>

#include "cases.h"

namespace {

// --- Sequences -------------------------------------------------------------------------------------------------------

Tensor own_tokens(const Tensor& whole) {
  const Dim part = whole.shape()[1] / n;
  return whole(all, slice(part * me, part * me + part));
}

void ring() {
  // [heads, tokens, d], of which each rank has some tokens.
  const Tensor q = own({2, 3 * n, 4}, 1), k = own({2, 3 * n, 4}, 2), v = own({2, 3 * n, 5}, 3),
               w = own({2, 3 * n, 5}, 4);
  for (const bool causal : {false, true}) {
    const auto whole = [&](const Tensor& a, const Tensor& b, const Tensor& c) {
      return sum(w * attention(a, b, c, {.causal = causal}));
    };
    const Tensor weights = own_tokens(w);
    const auto part = [&](const Tensor& a, const Tensor& b, const Tensor& c) {
      return sum(weights * distribute::ring_attention(a, b, c, {.causal = causal}));
    };
    const Tensor y = distribute::ring_attention(own_tokens(q), own_tokens(k), own_tokens(v), {.causal = causal});
    EXPECT(allclose(y, own_tokens(attention(q, k, v, {.causal = causal})), {.rtol = 1e-5, .atol = 1e-6}));
    const auto expected = grad<0, 1, 2>(whole)(q, k, v);
    const auto got = grad<0, 1, 2>(part)(own_tokens(q), own_tokens(k), own_tokens(v));
    const auto near = [](const Tensor& a, const Tensor& b) {
      return allclose(a, own_tokens(b), {.rtol = 1e-4, .atol = 1e-5});
    };
    EXPECT(near(std::get<0>(got), std::get<0>(expected)) && near(std::get<1>(got), std::get<1>(expected)) &&
           near(std::get<2>(got), std::get<2>(expected)));
    const auto traced = function("g", [&](const Tensor& a, const Tensor& b, const Tensor& c) {
      return std::get<1>(grad<0, 1, 2>(part)(a, b, c));
    })(own_tokens(q), own_tokens(k), own_tokens(v));
    EXPECT(same(traced, std::get<1>(got)));
  }
  // What nobody here sees is not computed with: not even a NaN comes through, and the bits are those without it.
  const auto causal = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return distribute::ring_attention(a, b, c, {.causal = true});
  };
  const bool last = me + 1 == n && n > 1;
  const Tensor mine = own_tokens(v), y = causal(own_tokens(q), own_tokens(k), mine);
  const Tensor spoilt = causal(own_tokens(q), own_tokens(k), last ? mine * std::nan("") : mine);
  EXPECT(last ? rill::all(isnan(spoilt)).item<bool>() : same(spoilt, y));
  const Tensor x = own_tokens(q).astype(bf16);
  EXPECT(distribute::ring_attention(x, x, x).dtype() == bf16);
  EXPECT(says([&] { distribute::ring_attention(q, v, v); }, "q and k must have one shape"));
  EXPECT(
      says([] { distribute::ring_attention(ones({3}), ones({3}), ones({3})); }, "must be floating, [..., tokens, d]"));
}

// Two Dense layers of whose tokens each rank has some, before and behind.
void tokens() {
  struct Model {
    distribute::ColumnParallelDense up;
    distribute::RowParallelDense down;
    Model(const Group& group, std::optional<int64_t> axis)
        : up(4 * n, {.group = group, .tokens = axis, .activation = tanh}),
          down(3, {.group = group, .tokens = axis, .use_bias = false}) {}
    Tensor operator()(const Tensor& x) const { return down(up(x)); }
  };
  random::seed(1);
  const Model whole(Group({me}), {});
  random::seed(1);
  const Model parts(Group(), 1);
  const Tensor x = own({2, 2 * n, 6}, 1), mine = own_tokens(x), w = own({2, 2 * n, 3}, 2), weights = own_tokens(w);
  EXPECT(allclose(parts(mine), own_tokens(whole(x)), {.rtol = 1e-5, .atol = 1e-6}));
  GradientTape a, b;
  a.watch(x), b.watch(mine);
  const Tensor loss_whole = sum(w * whole(x)), loss_part = sum(weights * parts(mine));
  const auto [dx, dk] = a.gradient(loss_whole, x, whole.up.kernel);
  const auto [dm, dp] = b.gradient(loss_part, mine, parts.up.kernel);
  EXPECT(allclose(dm, own_tokens(dx), {.rtol = 1e-4, .atol = 1e-5}));
  EXPECT(allclose(dp, dk(all, slice(4 * me, 4 * me + 4)), {.rtol = 1e-4, .atol = 1e-5}));
  EXPECT(says([] { distribute::gather_tokens(ones({3}), 4); }, "there is no axis 4 in f32[3]"));
}

void experts() {
  for (const std::optional<double> capacity : {std::optional<double>(), std::optional(1.0)}) {
    random::seed(1);
    const nn::MixtureOfExperts whole(2 * n, 5, {.capacity = capacity, .sparse = true});
    random::seed(1);
    const distribute::ParallelExperts parts(2 * n, 5, {.capacity = capacity});
    const Tensor x = own({7, 4}, me), w = own({7, 4}, 50 + me);
    EXPECT(allclose(parts(x), whole(x), {.rtol = 1e-5, .atol = 1e-6}));
    EXPECT(
        allclose(function("f", [&](const Tensor& v) { return parts(v); })(x), whole(x), {.rtol = 1e-5, .atol = 1e-6}));
    GradientTape a, b;
    a.watch(x), b.watch(x);
    const Tensor loss_whole = sum(w * whole(x)), loss_part = sum(w * parts(x));
    const auto [dx, dup, drouter] = a.gradient(loss_whole, x, whole.up, whole.router);
    const auto [px, pup, prouter] = b.gradient(loss_part, x, parts.up, parts.router);
    EXPECT(allclose(px, dx, {.rtol = 1e-4, .atol = 1e-5}) && allclose(prouter, drouter, {.rtol = 1e-4, .atol = 1e-5}));
    EXPECT(allclose(pup, distribute::mean(dup)(slice(2 * me, 2 * me + 2)), {.rtol = 1e-4, .atol = 1e-5}));
  }
  if (n > 1) EXPECT(says([] { distribute::ParallelExperts(2 * n + 1, 5); }, "the ranks that they lie on"));
  EXPECT(says([] { distribute::ParallelExperts(n, 5, {.top = n + 1}); }, "the number of experts"));
}

// --- Layouts ---------------------------------------------------------------------------------------------------------

void layouts() {
  using distribute::Layout;
  using distribute::ShardedTensor;
  const int64_t rows = n % 2 == 0 ? 2 : 1, columns = n / rows;
  const distribute::Mesh mesh({{"a", rows}, {"b", columns}});
  const Tensor w = own({4 * n, 2 * n, 3 * n}, 1);
  const std::vector<Layout> all_of_them = {
      Layout{none},           Layout{"a"}, Layout{none, "a"},      Layout{"b", "a"},
      Layout{"a", "b"},       Layout{"b"}, Layout{none, "a", "b"}, Layout{"a", none, "b"},
      Layout{none, none, "b"}};
  for (const Layout& from : all_of_them)
    for (const Layout& to : all_of_them) {
      const ShardedTensor x = ShardedTensor::of(w, mesh, from), y = x.to(to);
      EXPECT(same(y.part(), distribute::shard(w, mesh, to)) && y.shape() == w.shape() && y.plan(to).empty());
    }
  // A sum along an axis: each rank has a term.
  const Tensor term = own({4 * n, 2 * n}, me);
  for (const Layout& to : {Layout{none}, Layout{"b"}, Layout{none, "b"}, Layout{"a", "b"}}) {
    const ShardedTensor x(term, mesh, {none}, {"b"});
    const Tensor total = distribute::all_reduce(term, Reduce::sum, mesh.group("b"));
    if (rows == 1 || to.axes()[0].axis != "a") EXPECT(same(x.to(to).part(), distribute::shard(total, mesh, to)));
  }
  // Products, without communication of one's own.
  const Tensor a = own({2 * n, 4 * n}, 1), b = own({4 * n, 3 * n}, 2);
  for (const Layout& left : {Layout{"a", "b"}, Layout{none, "b"}, Layout{"a"}, Layout{none}, Layout{"b", "a"}})
    for (const Layout& right : {Layout{"b"}, Layout{none, "b"}, Layout{none}, Layout{"a", "b"}, Layout{"b", "a"}}) {
      const ShardedTensor product = matmul(ShardedTensor::of(a, mesh, left), ShardedTensor::of(b, mesh, right));
      EXPECT(allclose(product.whole(), matmul(a, b), {.rtol = 1e-4, .atol = 1e-4}));
    }
  // By what travels least.
  if (n == 4) {
    const Tensor t = zeros({8, 8});
    const auto steps = [&](const Layout& from, const Layout& to, const std::vector<std::string>& sums = {}) {
      return to_string(ShardedTensor(distribute::shard(t, mesh, from), mesh, from, sums).plan(to));
    };
    EXPECT(steps({none}, {"a", "b"}) == "slice along 'a', axis 0: 0 bytes\nslice along 'b', axis 1: 0 bytes\n");
    EXPECT(steps({"a"}, {none, "a"}) == "all_to_all along 'a', from axis 0 to 1: 64 bytes\n");
    EXPECT(steps({"a"}, {"b"}) == "all_gather along 'a', axis 0: 128 bytes\nslice along 'b', axis 0: 0 bytes\n");
    EXPECT(steps({none}, {none}, {"a"}) == "all_reduce along 'a', whole: 256 bytes\n");
    EXPECT(steps({none}, {"b", "a"}, {"a"}) ==
           "slice along 'b', axis 0: 0 bytes\nreduce_scatter along 'a', axis 1: 64 bytes\n");
    EXPECT(steps({"a", "b"}, {"b", "a"}) ==
           "all_gather along 'a', axis 0: 64 bytes\nall_to_all along 'b', from axis 1 to 0: 64 bytes\n"
           "slice along 'a', axis 1: 0 bytes\n");
  }
  EXPECT(says([&] { ShardedTensor::of(w, mesh, {"c"}); }, "there is no axis 'c'. there are: a, b"));
  EXPECT(says([&] { ShardedTensor::of(w, mesh, {"a", "a"}); }, "are both cut along 'a'"));
  EXPECT(says([&] { ShardedTensor(w, mesh, {"a"}, {"a"}); }, "stands twice among the cuts and sums"));
  if (n > 1)
    EXPECT(
        says([&] { ShardedTensor::of(ones({n + 1}), mesh, {none}).to({columns > 1 ? "b" : "a"}); }, "no multiple of"));
}

// --- All at once -----------------------------------------------------------------------------------------------------

constexpr int64_t vocabulary_size = 12, model_width = 8, heads = 2;

struct TransformerBlock {
  nn::LayerNorm before, between;
  distribute::ColumnParallelDense q, k, v, up;
  distribute::RowParallelDense out, down;
  int64_t ranks;
  explicit TransformerBlock(const Group& group)
      : q(model_width, {.group = group}),
        k(model_width, {.group = group}),
        v(model_width, {.group = group}),
        up(4 * model_width, {.group = group, .activation = [](const Tensor& x) { return gelu(x); }}),
        out(model_width, {.group = group}),
        down(model_width, {.group = group}),
        ranks(group.size()) {}
  Tensor operator()(const Tensor& x) const {  // [batch, tokens, width]
    const Dim batch = x.shape()[0], tokens = x.shape()[1];
    const int64_t own_heads = heads / ranks, size = model_width / heads;
    const auto split = [&](const Tensor& t) { return swapaxes(t.reshape({batch, tokens, own_heads, size}), 1, 2); };
    const Tensor in = before(x);
    const Tensor seen = attention(split(q(in)), split(k(in)), split(v(in)), {.causal = true});
    const Tensor y = x + out(swapaxes(seen, 1, 2).reshape({batch, tokens, own_heads * size}));
    return y + down(up(between(y)));
  }
  RILL_LAYER(TransformerBlock, before, between, q, k, v, up, out, down)
};

struct Transformer {
  distribute::VocabularyParallelEmbedding embedding;
  TransformerBlock first, second;
  nn::LayerNorm last;
  distribute::ColumnParallelDense head;
  explicit Transformer(const Group& group)
      : embedding(vocabulary_size, model_width, {.group = group}),
        first(group),
        second(group),
        head(vocabulary_size, {.group = group}) {}
  Tensor begin(const Tensor& ids) const { return first(embedding(ids)); }
  Tensor end(const Tensor& x) const { return head(last(second(x))); }
  RILL_LAYER(Transformer, embedding, first, second, last, head)
};

// A transformer on data x stage x model, beside the same in one process.
void transformer() {
  const int64_t data = n >= 8 ? 2 : 1, stages = n >= 2 ? 2 : 1, model = n >= 4 ? 2 : 1;
  if (data * stages * model != n) return;
  const distribute::Mesh mesh({{"data", data}, {"stage", stages}, {"model", model}});
  const Group alone({me}), mine = mesh.group("model");
  const auto made = [](const Group& group) {
    random::seed(11);
    Transformer t(group);
    t.end(t.begin(zeros({1, 5}, {.dtype = i64})));
    return t;
  };
  const Transformer whole = made(alone), part = made(mine);
  const auto loss_on = [](const Group& group) {
    return [group](const Tensor& logits, const Tensor& labels) {
      return mean(distribute::sparse_softmax_cross_entropy(logits, labels, group));
    };
  };
  const distribute::Pipeline pipe({.micro_batches = 2, .group = mesh.group("stage")});
  const auto stage = [&](const Tensor& x) {
    if (stages == 1) return part.end(part.begin(x));
    return pipe.is_first() ? part.begin(x) : part.end(x);
  };
  std::vector<Variable> own_variables;
  for (const auto& [path, v] : variables(part)) {
    const bool is_early = path.starts_with("embedding") || path.starts_with("first");
    if (stages == 1 || is_early == pipe.is_first()) own_variables.push_back(v);
  }
  nn::Adam adam_whole({.learning_rate = 0.02}), adam_part({.learning_rate = 0.02});
  const auto step_whole = [&](const Tensor& x, const Tensor& y) {
    GradientTape tape;
    const Tensor loss = loss_on(alone)(whole.end(whole.begin(x)), y);
    adam_whole.minimize(loss, tape, variables(whole).values());
    return loss;
  };
  auto step_part = function("step", [&](const Tensor& x, const Tensor& y) {
    auto [loss, gradients] = pipe.gradients(stage, loss_on(mine), own_variables, x, y);
    adam_part.apply_gradients(distribute::mean_of_gradients(gradients, {.group = mesh.group("data")}), own_variables);
    return distribute::mean(loss, mesh.group("data"));
  });
  float first_loss = 0, loss = 0;
  for (int64_t i = 0; i < 12; ++i) {
    const Tensor x = (arange(8 * 5).reshape({8, 5}) * 7 + i % 3) % vocabulary_size, y = (x + 1) % vocabulary_size;
    const Dim rows = 8 / data, at = rows * mesh.rank("data");
    const float expected = step_whole(x, y).item<float>();
    loss = step_part(x(slice(at, at + rows)), y(slice(at, at + rows))).item<float>();
    if (i == 0) first_loss = loss;
    if (std::abs(loss - expected) >= 1e-3 * expected)
      std::fprintf(stderr, "step %d: %g, in one process %g\n", int(i), double(loss), double(expected));
    EXPECT(std::abs(loss - expected) < 1e-3 * expected);
  }
  EXPECT(loss < 0.7f * first_loss);
}

const Cases all_spread = {
    {"ring", ring}, {"tokens", tokens}, {"experts", experts}, {"layouts", layouts}, {"transformer", transformer},
};

}  // namespace

const Cases spread_cases = all_spread;
