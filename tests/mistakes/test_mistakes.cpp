// Mistakes that users made on purpose, and what came of them once: crashes, hangs and silent wrong answers. Each is an
// error that names the op now, or works.
#include <fmt/format.h>

#include <functional>
#include <memory>
#include <thread>

#include "catch.h"
#include "messages.h"
#include "rill/nn/nn.h"
#include "rill/rill.h"

using namespace rill;

TEST_CASE("a tape stopped, used up or destroyed where its thread's tapes are put aside") {
  const Tensor x = tensor(3.f);
  {
    GradientTape tape;
    tape.watch(x);
    const Tensor y = x * x;
    auto f = function("f", [&](const Tensor& v) { return tape.gradient(y, x) + v; });
    CHECK(f(x).item<float>() == 9);
  }
  CHECK((x * x).item<float>() == 9);
  auto owned = std::make_unique<GradientTape>();
  owned->watch(x);
  auto g = function("g", [&](const Tensor& v) {
    owned.reset();
    return v * 2;
  });
  CHECK(g(x).item<float>() == 6);
  CHECK((x * x).item<float>() == 9);
  GradientTape next;
  next.watch(x);
  CHECK(next.gradient(x * x, x).item<float>() == 6);
}

TEST_CASE("a tape stopped or destroyed by another thread") {
  const Tensor x = tensor(3.f);
  auto tape = std::make_unique<GradientTape>();
  tape->watch(x);
  std::thread([&] { tape.reset(); }).join();
  CHECK((x * x).item<float>() == 9);
  {
    GradientTape stopped;
    stopped.watch(x);
    std::thread([&] { stopped.stop(); }).join();
    CHECK((x * x).item<float>() == 9);
  }
  CHECK((x * x).item<float>() == 9);
}

TEST_CASE("numbers that a variable cannot hold") {
  Variable w(ones({2}, {.dtype = i8}), "w");
  CHECK(has(message_of([&] { w.assign(300); }), "cannot hold 300"));
  CHECK(has(message_of([&] { w.assign_add(-300); }), "cannot hold -300"));
  CHECK(w.assign(-128).value().to_vector<int8_t>() == std::vector<int8_t>{-128, -128});
}

TEST_CASE("vmap over arguments of different lengths") {
  auto sums = vmap([](const Tensor& a, const Tensor& b) { return a + b; });
  CHECK(has(message_of([&] { sums(ones({2, 3}), ones({3, 3})); }), "[vmap]"));
  CHECK(has(message_of([&] { sums(ones({3, 3}), ones({2, 3})); }), "[vmap]"));
}

TEST_CASE("random draws that cannot be made as asked") {
  const auto choose = [](std::initializer_list<double> p, bool replace) {
    return message_of([&] { random::choice(arange(3), {3}, {.replace = replace, .p = tensor(p)}); });
  };
  CHECK(has(choose({1, 0, 0}, false), "3 of them above 0"));
  CHECK(has(choose({-1, 1, 1}, true), "not negative"));
  CHECK(has(choose({0, 0, 0}, true), "above 0"));
  CHECK(choose({1, 0, 0}, true).empty());
  auto traced =
      function("f", [](const Tensor& p) { return random::choice(arange(3), {3}, {.replace = false, .p = p}); });
  CHECK(sum(traced(tensor({0.2, 0.3, 0.5}))).item<int>() == 3);
  CHECK(has(message_of([&] { traced(tensor({1., 0., 0.})); }), "[random::choice] p must hold probabilities"));
  CHECK(has(message_of([&] { traced(tensor({-1., 1., 1.})); }), "got [-1.  1.  1.]"));
  CHECK(has(message_of([] { random::truncated_normal({4}, {.low = 9, .high = 12}); }), "standard deviations"));
  CHECK(has(message_of([] { random::truncated_normal({4}, {.low = -12, .high = -8}); }), "standard deviations"));
}

TEST_CASE("draws are of dtypes that hold them") {
  const auto message = [](auto f) { return message_of(f); };
  const auto permuted = [&](int64_t n, DType d) {
    return message([&] {
      const Tensor y = random::permutation(n, d);
      CHECK(y.dtype() == d);
      CHECK(array_equal(sort(astype(y, i64)), arange(n)));
    });
  };
  for (auto [n, d] : {std::pair{128, i8}, {256, u8}, {2049, f16}, {257, bf16}, {2, boolean}, {300, i64}, {0, i8}})
    CHECK(permuted(n, d).empty());
  for (auto [n, d] : {std::pair{129, i8}, {257, u8}, {2050, f16}, {258, bf16}, {3, boolean}, {40000, i16}})
    CHECK(has(permuted(n, d), "[random::permutation]"));
  CHECK(has(permuted(300, i8), "i8 does not hold 299"));
  const auto classes = [&](int64_t n, DType d) {
    return message([&] { random::categorical(zeros({2, n}), {4}, {.dtype = d}); });
  };
  CHECK(classes(128, i8).empty());
  CHECK(has(classes(300, i8), "[random::categorical]"));
  CHECK(has(classes(2050, f16), "f16"));

  // Counts: a bound is known of these two.
  const auto trials = [&](const Tensor& n, DType d) {
    return message([&] { random::binomial(n, 0.5, {}, {.dtype = d}); }) +
           message([&] { random::multinomial(n, ones({3}), {}, {.dtype = d}); });
  };
  CHECK(trials(255, u8).empty());
  CHECK(has(trials(1000, u8), "[random::binomial]"));
  CHECK(has(trials(1000, u8), "[random::multinomial]"));
  CHECK(has(trials(tensor(70000), f16), "f16"));
  CHECK(trials(3000, f16).empty());
  auto traced = function("f", [](const Tensor& n) { return random::binomial(n, 0.5, {}, {.dtype = i8}); });
  CHECK(traced(tensor(100)).item<int>() <= 100);
  CHECK(has(message([&] { traced(tensor(200)); }), "[random::binomial]"));
  // Of these none is: what is more than the largest is the largest.
  CHECK(has(message([] { random::poisson(1000., {4}, {.dtype = i8}); }), "[random::poisson]"));
  CHECK(has(message([] { random::geometric(0.001, {4}, {.dtype = i8}); }), "[random::geometric]"));
  const Tensor counts = random::poisson(126., {1000}, {.dtype = i8}),
               waits = random::geometric(0.01, {1000}, {.dtype = i8});
  CHECK(max(counts).item<int>() == 127);
  CHECK(min(counts).item<int>() > 60);
  CHECK(max(waits).item<int>() == 127);
  CHECK(min(waits).item<int>() >= 1);
  CHECK(all(isfinite(random::poisson(65500., {1000}, {.dtype = f16}))).item<bool>());
}

TEST_CASE("indices that name nothing are refused") {
  const Tensor last = tensor({~uint64_t(0)}), image = ones({1, 2, 2, 1}), at = zeros({1, 2, 2, 1}, i64);
  const auto outside = [](auto f) { says(f, {"out of bounds", "test_mistakes.cpp"}); };
  const Tensor three = tensor({{-1.f, -2.f, -3.f}});
  outside([&] { nll_loss(three, last); });
  outside([&] { nll_loss(three, tensor({-1})); });
  // An index is named as it was given.
  const auto named = [](auto f, std::string_view index) { says(f, {fmt::format("index {} is out of bounds", index)}); };
  named([&] { nll_loss(three, tensor({-2})); }, "-2");
  named([&] { segment_sum(three, tensor({-2}), 3); }, "-2");
  named([&] { segment_max(three, tensor({-2}), 3); }, "-2");
  named([&] { embedding_bag(ones({4, 2}), tensor({0, -2})); }, "-2");
  named([&] { ctc_loss(log_softmax(ones({3, 1, 4})), tensor({{1, -2}}), tensor({3}), tensor({2})); }, "-2");
  // Also one that is far out of bounds, whether it may count from the back or not.
  const Tensor four = ones({4, 2});
  for (int64_t i :
       {INT64_MIN, INT64_MIN + 1, INT64_MIN / 2, INT64_MIN / 2 - 2, INT64_MIN / 4 * 3, int64_t(-5), INT64_MAX}) {
    const Tensor index = tensor({i, int64_t(0)});
    const std::string number = fmt::to_string(i);
    named([&] { nn::Embedding(4, 2)(index); }, number);
    named([&] { embedding_lookup(four, index); }, number);
    named([&] { take(four, index, 0); }, number);
    named([&] { take_along_axis(four, index(all, newaxis), 0); }, number);
    named([&] { gather_nd(four, index(all, newaxis)); }, number);
    named([&] { four(index); }, number);
    named([&] { (void)four.at(index).add(1); }, number);
    named([&] { segment_sum(ones({2}), index, 3); }, number);
    named([&] { nll_loss(four(slice(0, 2)), index); }, number);
    CHECK(sum(one_hot(index, 4)).item<float>() == 1);  // which has no row for it
  }
  outside([&] { multi_margin_loss(three, last); });
  outside([&] { max_unpool(image, at - 1, {2}); });
  outside([&] { max_unpool(image, at + 16, {2}); });
  outside([&] { max_unpool(image, full_like(at, 1).astype(u64) << 63, {2}); });
  says([&] { max_unpool(image, at, {2}, {.padding = {INT64_MIN}}); }, {"[max_unpool]", "padding"});
  says([&] { max_unpool(image, at, {2}, {.padding = {-1}}); }, {"[max_unpool]", "padding"});
  for (const Tensor& u : {full({1, 1, 2}, 5.f), full({1, 1, 2}, NAN), full({1, 1, 2}, -0.5f), full({1, 1, 2}, 1.f)})
    says([&] { fractional_max_pool(ones({1, 6, 6, 1}), {2}, {3}, {.samples = u}); },
         {"[fractional_max_pool]", "[0, 1)", "test_mistakes.cpp"});

  const Tensor table = ones({4, 2}), ids = tensor({0, 1, 2, 3});
  outside([&] { embedding_bag(table, tensor({0, -1})); });
  outside([&] { embedding_bag(table, last); });
  outside([&] { embedding_bag(table, tensor({0, -1}), {.padding = 5}); });
  CHECK(array_equal(embedding_bag(table, tensor({0, -1}), {.mode = BagMode::sum, .padding = -1}), ones({2})));
  for (const Tensor& offsets : {tensor({1, 2}), tensor({0, 3, 2}), tensor({0, 5}), tensor({-1, 0}), tensor({0u, ~0u})})
    says([&] { embedding_bag(table, ids, {.offsets = offsets}); }, {"[embedding_bag]", "offsets", "test_mistakes.cpp"});
  CHECK(array_equal(embedding_bag(table, ids, {.mode = BagMode::sum, .offsets = tensor({0, 4, 4})}),
                    tensor({{4.f, 4.f}, {0.f, 0.f}, {0.f, 0.f}})));
  CHECK(embedding_bag(table, zeros({0}, i64), {.offsets = zeros({0}, i64)}).shape() == Shape{0, 2});
}

namespace {
// That `f` throws an error that names this file and `part`.
template <class F>
void refuses(F&& f, std::string_view part) {
  const std::string message = message_of(f);
  INFO("message: " << message);
  CHECK(message.starts_with("test_mistakes.cpp:"));
  CHECK(has(message, part));
}
}  // namespace

TEST_CASE("callables that hold nothing") {
  const Tensor x = tensor({1.f, 2.f}), first = tensor(0);
  Tensor (*none)() = nullptr;
  Tensor (*none1)(const Tensor&) = nullptr;
  const std::function<Tensor()> empty;
  const std::function<Tensor(const Tensor&)> empty1;
  const std::function<std::pair<Tensor, Tensor>(const Tensor&, const Tensor&)> empty2;
  refuses([&] { switch_case(first, {nullptr, nullptr}); }, "[switch_case] a branch is empty");
  refuses([&] { switch_case(first, {none}); }, "a branch is empty");
  refuses([&] { switch_case(first, {[&] { return x; }, Callback<Tensor()>(empty)}); }, "a branch is empty");
  CHECK(same_bits(switch_case(tensor(5), {[&] { return x; }}, Callback<Tensor()>(empty)), x));
  refuses([&] { cond(tensor(true), none, none); }, "[cond] then_fn is empty");
  refuses([&] { cond(tensor(true), [&] { return x; }, empty); }, "else_fn is empty");
  auto small = [](const Tensor& t) { return sum(t) < 10; };
  refuses([&] { while_loop(small, none1, x); }, "[while_loop] the body is empty");
  refuses([&] { while_loop(empty1, empty1, x); }, "the condition is empty");
  refuses([&] { scan(empty2, tensor(0.f), x); }, "[scan]");
  refuses([&] { function("f", none1); }, "[f] the callable is empty");
  refuses([&] { Function<Tensor(const Tensor&)>("f", empty1, {}); }, "is empty");
  refuses([&] { grad(none1); }, "[grad]");
  refuses([&] { vjp(empty1, x); }, "[vjp]");
  refuses([&] { jvp(empty1, x, x); }, "[jvp]");
  refuses([&] { jacrev(empty1); }, "[jacrev]");
  refuses([&] { jacfwd(empty1); }, "[jacfwd]");
  refuses([&] { vmap(none1); }, "[vmap]");
  refuses([&] { recompute(empty1); }, "[recompute]");
  using Rule = std::function<Tensor(const Tensor&)>;
  auto without_rule = custom_gradient([](const Tensor& t) { return std::pair(t * 2, Rule()); });
  refuses([&] { without_rule(x); }, "the rule is empty");
  refuses([&] { nn::Sequential(nn::fn(none1)); }, "the function is empty");
  refuses([&] { nn::Sequential(nn::fn(empty1)); }, "the function is empty");
  Callback<Tensor()> given = [&] { return x; };
  const Callback<Tensor()> taken = std::move(given);
  CHECK(same_bits(taken(), x));
  CHECK(has(message_of([&] { given(); }), "is empty"));  // NOLINT(bugprone-use-after-move)
}

// NOLINTBEGIN(bugprone-use-after-move): that is what is tried
TEST_CASE("what was moved from says so") {
  const Tensor x = tensor({1.f, 2.f, 3.f});
  Variable moved(x, "w");
  const Variable kept = std::move(moved);
  const std::string_view says = "[Variable] it was moved from";
  refuses([&] { moved.value(); }, says);
  refuses([&] { moved.name(); }, says);
  refuses([&] { moved.trainable(); }, says);
  refuses([&] { moved.shape(); }, says);
  refuses([&] { moved.dtype(); }, says);
  refuses([&] { moved.device(); }, says);
  refuses([&] { moved.assign(x); }, says);
  refuses([&] { moved.assign_add(x); }, says);
  refuses([&] { moved.assign_sub(x); }, says);
  refuses([&] { moved + 1; }, says);
  refuses([&] { nn::SGD().apply_gradients({x}, {moved}); }, says);
  refuses([&] { GradientTape().watch(moved); }, says);
  CHECK(has(message_of([&] { sum(moved); }), says));
  CHECK(has(message_of([&] { function("f", [&](const Tensor& y) { return y + moved; })(x); }), says));
  CHECK(has(message_of([&] { nn::trainable({moved}); }), says));
  auto f = function("f", [](const Tensor& y) { return y + 1; });
  const auto g = std::move(f);
  CHECK(same_bits(g(x), x + 1));
  const std::string_view gone = "[function] the function holds no callable: it was moved from";
  refuses([&] { f(x); }, gone);
  refuses([&] { f.trace_count(); }, gone);
  refuses([&] { f.explain(); }, gone);
  refuses([&] { f.graph(spec(f32, {3})); }, gone);
  refuses([&] { f.verify(x); }, gone);
  refuses([&] { f.name(); }, gone);
  refuses([&] { function("outer", [&](const Tensor& y) { return f(y); })(x); }, gone);
  nn::Dense layer(3, 2);
  const nn::Dense its = std::move(layer);
  refuses([&] { layer(ones({1, 3})); }, says);
  nn::LearningRate rate(0.1);
  const nn::LearningRate other = std::move(rate);
  refuses([&] { rate.at(tensor(1.0)); }, "moved from");
  nn::Adam optimizer;
  const nn::Adam its_own = std::move(optimizer);
  refuses([&] { optimizer.apply_gradients({x}, {kept}); }, says);
}
// NOLINTEND(bugprone-use-after-move)

TEST_CASE("undefined tensors where control flow meets them") {
  const Tensor x = tensor({1.f, 2.f}), none;
  auto give = [&] { return x; };
  refuses([&] { cond(none, give, give); }, "[cond] the condition is an undefined tensor");
  refuses([&] { cond(tensor(true), [&] { return none; }, give); }, "result 0 of then is an undefined tensor");
  refuses([&] { switch_case(none, {give}); }, "the index is an undefined tensor");
  refuses([&] { switch_case(tensor(0), {[&] { return none; }}); }, "result 0 of branch_0");
  auto go_on = [](const Tensor& t) { return sum(t) < 3; };
  refuses([&] { while_loop(go_on, [](const Tensor& t) { return t; }, none); }, "carried value 0");
  refuses([&] { while_loop(go_on, [](const Tensor&) { return Tensor(); }, tensor(1)); }, "carried value 0");
  auto step = [](const Tensor& c, const Tensor&) { return std::pair(c, Tensor()); };
  refuses([&] { scan(step, tensor(0.f), x); }, "y 0 is an undefined tensor");
  refuses([&] { scan(step, none, x); }, "carried value 0");
  refuses([&] { scan(step, tensor(0.f), none); }, "of xs, tensor 0");
  refuses([&] { function("f", [&](const Tensor& p) { return cond(p, [&] { return none; }, give); })(tensor(true)); },
          "result 0 of then");
  auto total = [](const Tensor& t) { return sum(t); };
  refuses([&] { grad(total)(none); }, "[grad] x is an undefined tensor");
  refuses([&] { grad<0, 1>([](const Tensor& a, const Tensor& b) { return sum(a * b); })(x, none); }, "[grad] x is an");
  refuses([&] { value_and_grad(total)(none); }, "[value_and_grad] x is an undefined tensor");
  refuses([&] { vjp(total, none); }, "[vjp] x is an undefined tensor");
  refuses([&] { jacrev(total)(none); }, "[jacrev] x is an undefined tensor");
  refuses([&] { jacfwd(total)(none); }, "[jacfwd] the argument is an undefined tensor");
  refuses([&] { linearize(total, none); }, "[linearize] x is an undefined tensor");
  refuses([&] { grad([](const Tensor&) { return Tensor(); })(x); }, "undefined");
  refuses([&] { none.item<float>(); }, "[item] the tensor is undefined");
  refuses([&] { none.to_vector<float>(); }, "[to_vector]");
  refuses([&] { none.data<float>(); }, "[data]");
  refuses([&] { none.dim(0); }, "[dim]");
  refuses([&] { none.shape(); }, "[tensor] the tensor is undefined");
}

TEST_CASE("undefined operands are named with the caller's line") {
  const Tensor none, x = ones({2, 2});
  refuses([&] { sum(none); }, "[sum] an operand is an undefined tensor");
  refuses([&] { all(none); }, "undefined");
  refuses([&] { sort(none); }, "[sort]");
  refuses([&] { topk(none, 1); }, "[topk]");
  refuses([&] { matmul(x, none); }, "[matmul]");
  refuses([&] { tensordot(none, x, 1); }, "[tensordot]");
  refuses([&] { transpose(none); }, "[transpose]");
  refuses([&] { squeeze(none); }, "[squeeze]");
  refuses([&] { expand_dims(none, 0); }, "[expand_dims]");
  refuses([&] { flatten(none); }, "[flatten]");
  refuses([&] { flip(none); }, "[flip]");
  refuses([&] { split(none, 2); }, "[split]");
  refuses([&] { unstack(none); }, "[unstack]");
  refuses([&] { pad(none, {{1, 1}}); }, "[pad]");
  refuses([&] { conv2d(none, x); }, "[conv2d]");
  refuses([&] { max_pool(none, {2}); }, "[max_pool]");
  refuses([&] { zeros_like(none); }, "[zeros_like]");
  refuses([&] { mean_squared_error(x, none); }, "[mean_squared_error]");
  refuses([&] { sigmoid_cross_entropy(x, none); }, "[sigmoid_cross_entropy]");
  refuses([&] { hinge_loss(x, none); }, "[hinge_loss]");
  refuses([&] { kl_divergence(x, none); }, "[kl_divergence]");
  refuses([&] { dropout(none, 0.5); }, "[dropout]");
  refuses([&] { segment_mean(none, x, 2); }, "[segment_mean]");
  refuses([&] { isin(none, x); }, "[isin]");
  refuses([&] { full({2}, none); }, "[full]");
  refuses([&] { Variable w(none, "w"); }, "'w' is an undefined tensor");
  refuses([&] { random::Key key(none); }, "[random::Key]");
}

TEST_CASE("memory that is not there") {
  const Tensor wide = broadcast_to(ones({1}), {int64_t(1) << 44});
#ifndef __SANITIZE_ADDRESS__  // which ends the program where there is not enough
  refuses([&] { wide.to_vector<float>(); }, "[to_vector]");
  refuses([&] { wide.to_vector<bool>(); }, "[to_vector]");
#endif
  const float* nothing = nullptr;
  refuses([&] { from_data(nothing, {3}); }, "[from_data] the data is a null pointer");
  CHECK(from_data(nothing, {0}).size() == 0);
  auto step = [](const Tensor& c) { return std::pair(c, c); };
  refuses([&] { scan(step, tensor(0.f), {.length = int64_t(1) << 62}); }, "[scan]");
}

TEST_CASE("a traced function inside a transform names the caller's line") {
  auto f = function("f", [](const Tensor& x) { return sum(x * x); }, {.signature = {spec(f32, {2})}});
  refuses([&] { grad(f)(ones({3})); }, "signature");
  refuses([&] { vmap(f)(ones({2, 3})); }, "signature");
}

TEST_CASE("a long chain of functions that are long to compile is several kernels") {
  jit::wait();
  const jit::Mode before = jit::mode();
  jit::set_mode(jit::Mode::wait);
  auto f = function("f", [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 200; ++i) y = sin(y) + x;
    return y;
  });
  const Tensor x = linspace(-3, 3, 500, true, {.dtype = f64});
  const bool equal = f.verify(x);
  jit::set_mode(before);
  CHECK(equal);
  const std::string text = f.explain();
  const size_t at = text.find("eager kernels") == text.npos ? text.find("fused(") : text.npos;
  if (at != text.npos) CHECK(text.find("fused(", at + 1) != text.npos);
}

TEST_CASE("what users of numpy and torch write first, where it works") {
  const Tensor x = tensor({{1.f, 2.f}, {3.f, 4.f}, {5.f, 6.f}});
  std::vector<float> sums;
  for (const Tensor& row : x) sums.push_back(sum(row).item<float>());
  CHECK(sums == std::vector<float>{3, 7, 11});
  CHECK(std::vector<Tensor>(x.begin(), x.end()).size() == 3);
  for (const Tensor& row : zeros({0, 2})) FAIL(to_string(row));
  const std::string scalar = message_of([] {
    for (const Tensor& row : tensor(1.f)) FAIL(to_string(row));
  });
  CHECK(has(scalar, "has no rows"));
  CHECK(has(scalar, "test_mistakes.cpp:"));
  CHECK(has(message_of([] {
              for (const Tensor& row : Tensor()) FAIL(to_string(row));
            }),
            "undefined"));

  auto product = function([](const Tensor& t) {
    Tensor p = ones({2});
    for (const Tensor& row : t) p = p * row;
    return p;
  });
  CHECK(product.name() == "function");
  CHECK(array_equal(product(x), tensor({15.f, 48.f})));
  CHECK(product.verify(x));
  CHECK(to_string(product.graph(x)) == to_string(product.graph(spec(f32, {3, 2}))));
  CHECK(has(message_of([&] { product.graph(Tensor()); }), "undefined"));
  CHECK(function([](const Tensor& t) { return t + 1; }, {.signature = {spec(f32, {any})}})(ones({3})).size() == 3);
  GradientTape tape;
  tape.watch(x);
  Tensor total = zeros({2});
  for (const Tensor& row : x) total += square(row);
  CHECK(array_equal(tape.gradient(sum(total), x), 2 * x));

  const Variable w(x, "w"), one(tensor(7.f), "one");
  CHECK(w.ndim() == 2);
  CHECK(w.size() == 6);
  CHECK(w.dim(-1) == 2);
  CHECK(one.item<int>() == 7);
  CHECK(w.to_vector<float>() == x.to_vector<float>());
  CHECK(w.T().shape() == Shape{2, 3});
  CHECK(w.reshape({-1}).shape() == Shape{6});
  CHECK(w.astype(f64).dtype() == f64);
  size_t rows = 0;
  for (const Tensor& row : w) rows += size_t(row.size());
  CHECK(rows == 6);

  const nn::Conv2D conv(3, 4, 5);
  CHECK(conv.kernel.shape() == Shape{5, 5, 3, 4});
}
