// load_weights: names and axes of other programs, what does not fit, and files of each kind.
#include "catch.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/nn.h"
#include "rill/serialize.h"

using namespace rill;

namespace {

struct Block {
  nn::Dense one{3, 3};
  nn::LayerNorm norm{{3}};
};
struct Net {
  nn::Conv2D stem{1, 3, {2}};
  std::vector<Block> layer = nn::repeat(2, [] { return Block(); });
  nn::Dense head{3, 2};
};

Tensor numbers(const Shape& shape, uint64_t seed) { return random::normal(shape, {.key = random::Key(seed)}); }

// As torch names and stores them.
NamedTensors torch_like() {
  NamedTensors t{{"stem.weight", numbers({3, 1, 2, 2}, 1)},
                 {"stem.bias", numbers({3}, 2)},
                 {"head.weight", numbers({2, 3}, 3)},
                 {"head.bias", numbers({2}, 4)},
                 {"steps", tensor(7)}};
  for (const std::string layer : {"layer.0.", "layer.1."}) {
    t.emplace(layer + "one.weight", numbers({3, 3}, 5 + t.size()));
    t.emplace(layer + "one.bias", numbers({3}, 5 + t.size()));
    t.emplace(layer + "norm.weight", numbers({3}, 5 + t.size()));
    t.emplace(layer + "norm.bias", numbers({3}, 5 + t.size()));
  }
  return t;
}
const std::vector<WeightRule> rules = {{"stem.weight", "stem/kernel", {2, 3, 1, 0}},
                                       {"*.norm.weight", "*/norm/scale"},
                                       {"*.norm.bias", "*/norm/offset"},
                                       {"*.weight", "*/kernel", {1, 0}},
                                       {"steps", ""}};

void check_loaded(const Net& net) {
  const NamedTensors t = torch_like();
  const NamedVariables v = variables(net);
  CHECK(array_equal(v.at("stem/kernel"), transpose(t.at("stem.weight"), {2, 3, 1, 0})));
  CHECK(array_equal(v.at("stem/bias"), t.at("stem.bias")));
  CHECK(array_equal(v.at("layer/1/one/kernel"), t.at("layer.1.one.weight").T()));
  CHECK(array_equal(v.at("layer/0/norm/scale"), t.at("layer.0.norm.weight")));
  CHECK(array_equal(v.at("layer/1/norm/offset"), t.at("layer.1.norm.bias")));
  CHECK(array_equal(v.at("head/kernel"), t.at("head.weight").T()));
}

// Whether no Variable of the two differs.
bool same(const Net& a, const Net& b) {
  const NamedVariables other = variables(b);
  for (const auto& [path, v] : variables(a))
    if (!array_equal(v, other.at(path))) return false;
  return true;
}

}  // namespace

TEST_CASE("weights are loaded by rules, from a map and from each kind of file") {
  Net net;
  const WeightsReport report = load_weights(net, torch_like(), {.rules = rules});
  CHECK(report.complete());
  CHECK(report.loaded.size() == 12);
  CHECK(report.loaded[0].name == "head.bias");
  CHECK(report.loaded[0].path == "head/bias");
  check_loaded(net);

  const Folder folder;
  for (const std::string name : {"w.safetensors", "w.npz"}) {
    save(folder / name, torch_like());
    Net other;
    load_weights(other, folder / name, {.rules = rules});
    check_loaded(other);
  }
  save_checkpoint(folder / "checkpoint", torch_like());
  Net third;
  load_weights(third, folder / "checkpoint", {.rules = rules});
  check_loaded(third);
}

TEST_CASE("without rules names are paths, with dots or slashes") {
  const Net net;
  NamedTensors dotted;
  for (const auto& [path, v] : variables(net)) {
    std::string name = path;
    std::replace(name.begin(), name.end(), '/', '.');
    dotted.emplace(name, v.value());
  }
  Net other;
  load_weights(other, dotted);
  CHECK(same(net, other));
  Net third;
  load_weights(third, NamedTensors{{"stem/bias", ones({3})}}, {.allow_missing = true});
  CHECK(array_equal(*third.stem.bias, ones({3})));
}

TEST_CASE("what does not fit is named on both sides, and nothing is loaded") {
  const Net before;
  Net net = nn::clone(before);
  NamedTensors t = torch_like();
  t.erase("layer.1.one.bias"), t.erase("head.weight");
  t.emplace("fc2.weight", ones({2, 2}));
  t.at("stem.bias") = ones({4});
  const std::string text = message_of([&] { load_weights(net, t, {.rules = rules}); });
  CHECK_THAT(text, contains_text("layer/1/one/bias (no rule leads there)"));
  CHECK_THAT(text, contains_text("head/kernel (by the rules 'head.weight')"));
  CHECK_THAT(text, contains_text("'fc2.weight' (here fc2/kernel)"));
  CHECK_THAT(text, contains_text("stem/bias: f32[3] here, 'stem.bias' is f32[4] in the file"));
  CHECK_THAT(text, contains_text("test_weights.cpp"));
  CHECK(same(net, before));

  const WeightsReport report =
      load_weights(net, t, {.rules = rules, .allow_missing = true, .allow_extra = true, .allow_misshapen = true});
  CHECK(report.loaded.size() == 9);
  CHECK(report.missing.size() == 2);
  CHECK(report.extra.size() == 1);
  CHECK(report.misshapen.size() == 1);
  CHECK_FALSE(report.complete());
  CHECK(array_equal(net.head.kernel.value(), before.head.kernel.value()));
  CHECK(array_equal(*net.stem.bias, *before.stem.bias));
  CHECK(array_equal(*net.head.bias, t.at("head.bias")));
}

TEST_CASE("a shape is compared after the rule has been followed") {
  Net net;
  NamedTensors t = torch_like();
  t.at("head.weight") = ones({3, 2});
  CHECK_THAT(message_of([&] { load_weights(net, t, {.rules = rules}); }),
             contains_text("head/kernel: f32[3,2] here, 'head.weight' is f32[3,2] in the file, f32[2,3] by its rule"));
  t.at("head.weight") = ones({6});
  CHECK_THAT(message_of([&] { load_weights(net, t, {.rules = rules}); }),
             contains_text("the rule that makes head/kernel of 'head.weight', f32[6], fails"));
}

TEST_CASE("a rule may convert, floats become the dtype that is here, and parameters of open sizes get the file's") {
  nn::Dense half(2, 2);
  nn::cast(half, bf16);
  load_weights(half, NamedTensors{{"kernel", full({2, 2}, 3.0, {.dtype = f64})}, {"bias", ones({4})}},
               {.rules = {{"bias", "bias", {}, [](const Tensor& t) { return t(slice(0, 2)) * 2; }}}});
  CHECK(half.kernel.dtype() == bf16);
  CHECK(array_equal(half.kernel.value(), full({2, 2}, 3.0, {.dtype = bf16})));
  CHECK(array_equal(half.bias->value(), full({2}, 2.0, {.dtype = bf16})));

  nn::Dense open(2);
  load_weights(open, NamedTensors{{"kernel", ones({5, 2})}, {"bias", zeros({2})}});
  CHECK(array_equal(open(ones({1, 5})), full({1, 2}, 5.0f)));
  // Integers are no weights of a float.
  CHECK_THAT(message_of([&] { load_weights(open, NamedTensors{{"kernel", ones({5, 2}, i32)}, {"bias", zeros({2})}}); }),
             contains_text("kernel: f32[5,2] here, 'kernel' is i32[5,2] in the file"));
}

TEST_CASE("the values are the model's own") {
  nn::Dense net(2, 2);
  const Tensor kernel = ones({2, 2});
  load_weights(net, NamedTensors{{"kernel", kernel}, {"bias", zeros({2})}});
  Variable(net.kernel).assign_add(1);
  CHECK(array_equal(kernel, ones({2, 2})));
  CHECK(array_equal(net.kernel.value(), full({2, 2}, 2.0f)));
}

TEST_CASE("two names of one path, and rules of other stars, are errors") {
  Net net;
  NamedTensors t = torch_like();
  t.emplace("head.kernel", ones({3, 2}));
  CHECK_THAT(message_of([&] { load_weights(net, t, {.rules = rules}); }),
             contains_text("'head.kernel' and 'head.weight' would both be head/kernel"));
  CHECK_THAT(message_of([&] { load_weights(net, t, {.rules = {{"*.weight", "kernel"}}}); }),
             contains_text("1 stars in the name and 0 in the path"));
  const auto traced = function("f", [&](const Tensor& x) {
    load_weights(net, torch_like(), {.rules = rules});
    return x;
  });
  CHECK_THAT(message_of([&] { traced(ones({1})); }), contains_text("outside of traced functions"));
}

TEST_CASE("stars stand for as little as fits, however a file calls its tensors") {
  const auto path_of = [](const std::string& name, const std::string& pattern, const std::string& path) -> std::string {
    std::map<std::string, Variable> none;
    const WeightsReport r =
        load_weights(none, NamedTensors{{name, ones({})}}, {.rules = {{pattern, path}}, .allow_extra = true});
    return r.extra.at(0).path;
  };
  CHECK(path_of("a.b.c.b", "*.b", "<*>") == "<a/b/c>");  // the last piece ends the name
  CHECK(path_of("x.conv.conv.w", "*conv*w", "*|*") == "x/|/conv/");
  CHECK(path_of("abab", "*ab*", "<*|*>") == "<|ab>");
  CHECK(path_of("ab", "*a*b*", "*,*,*") == ",,");
  CHECK(path_of("ab", "ab*ab", "<*>") == "ab");  // no overlap: the rule does not fit
  CHECK(path_of("a", "**", "*|*") == "|a");
  CHECK(path_of("abc", "a*c", "<*>") == "<b>");
  CHECK(path_of("abc", "abc", "y") == "y");
  // A rule of four stars needed the fourth power of a name's length.
  const std::string name = std::string(100000, 'a');
  CHECK(path_of(name, "*a*a*a*b", "*|*|*|*") == name);
}

TEST_CASE("an undefined tensor is told with its name") {
  nn::Dense d(3, 4);
  CHECK(has(message_of([&] { load_weights(d, NamedTensors{{"kernel", Tensor()}, {"bias", ones({4})}}); }),
            "'kernel' is an undefined tensor"));
  const auto nothing = [](const Tensor&) { return Tensor(); };
  CHECK(has(message_of([&] {
              load_weights(d, NamedTensors{{"w", ones({3, 4})}, {"bias", ones({4})}},
                           {.rules = {{.name = "w", .path = "kernel", .convert = nothing}}});
            }),
            "makes kernel of 'w' gives an undefined tensor"));
}
