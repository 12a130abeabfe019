"""What must not compile, and the words that the compiler must then say.

Mistakes stand in one program, a function each, which the compiler reads once; each must have an error of its own, the
first of which contains what is written beside it, and the program without them must have none. With too old a standard
all that a compiler says is which one is needed.

usage: test_compile_errors.py BUILD COMPILER...
"""
import os
import re
import subprocess
import sys
import tempfile

HEAD = """#include <rill/data.h>
#include <rill/nn.h>
#include <rill/rill.h>
#include <rill/serialize.h>
#include <rill/train.h>
using namespace rill;
const Tensor x = ones({2, 3}), y = x;
Tensor v = x;
Variable w(x, "w");
struct Weights { Tensor w, b; };
struct Layer { Variable w, b; };
const auto numbers = data::range(4);
const auto pairs = data::from_tensors(std::pair(x, y));
"""
# What compilers say of a call that nothing fits, and of a conversion that there is not.
NO_MATCH = "no match|no viable|could not convert|conversion"
# The mistake, and what its first error says: rill's own words where a cure is not plain to see, else the compiler's.
MISTAKES = [
    # Memory that would be gone.
    ("std::vector<float> m(3); from_buffer(m.data(), {3}, m);", "a container that is given by its name is copied"),
    ("std::vector<float> m(3); from_buffer(m.data(), {3}, m.data());", "a plain pointer owns nothing"),
    ("std::vector<float> m(3); from_buffer(m);", "deleted"),
    ("auto s = strided_span<float, 2>(x + y);", "deleted"),
    # Structs whose fields cannot be told apart.
    ("struct A { Tensor t; float f[3]; }; function([](const A& a) { return a.t; })(A());", "has no C arrays as fields"),
    ("struct L { nn::Dense d[2] = {nn::Dense(2), nn::Dense(3)}; }; L l; variables(l);", "has no C arrays as fields"),
    ("struct D : Weights { Tensor c; }; function([](const D& d) { return d.c; })(D());", "a base class names its fields"),
    # Options in place of a window, whose names older compilers leave out.
    ("nn::MaxPool2D p({.strides = {2}});", NO_MATCH),
    ("nn::AvgPool2D p({.padding = 1});", NO_MATCH + "|designated initializer for an array"),
    ("nn::LpPool2D p(2, {.strides = {2}});", NO_MATCH),
    ("nn::DepthwiseConv2D p({.multiplier = 2});", NO_MATCH + "|designated initializer for an array"),
    # Functions that change their arguments, or themselves.
    ("grad([](Tensor&& t) { return sum(t); })(x);", "the function cannot be called with these arguments"),
    ("vmap([](Tensor& t) { return sum(t); })(x);", "the function cannot be called with these arguments"),
    ("struct C { Tensor operator()(const Tensor& t) { return sum(t); } }; recompute(C())(x);", "the operator.. of a struct is const"),
    # Losses and optimizers of a training loop.
    ('nn::Dense m(1); train::Loop l(m, {.loss = "mse", .optimizer = nn::Adam()});', "a loss is a function and not its name"),
    ("nn::Dense m(1); train::Loop l(m, {.loss = huber_loss, .optimizer = nn::Adam()});", "this loss takes a number besides"),
    ("train::LoopOptions o; o.loss = [](const Tensor& p) { return p; };", r"called as f\(prediction, target\)"),
    ('train::LoopOptions o{.optimizer = "adam"};', "neither a name nor a rate"),
    ('train::LoopOptions o{.metrics = {"accuracy"}};', "a metric is an object and not its name"),
    ("nn::Dense m(1); train::Loop l(m, train::LoopOptions()); l.fit(x, x);", r"fit\(\) takes a dataset of batches"),
    ("nn::Dense m(1); train::Loop l(m, train::LoopOptions()); l.fit(data::from_tensors(x), 10);", r"fit\(dataset, \{.epochs = 10\}\)"),
    ("nn::Dense m(1); train::Loop l(m, train::LoopOptions()); l.fit(data::from_tensors(x).batch(2));", r"\{x, x\} for an autoencoder"),
    ("nn::Dense m(1); train::Loop l(m, train::LoopOptions()); l.evaluate(x, x);", r"evaluate\(\) takes a dataset of batches"),
    ("nn::Dense m(1); train::Loop l(m, train::LoopOptions()); l.predict(x);", r"of one tensor call the model"),
    ("train::InputFunction f(data::from_tensors(x));", "an input is a function that makes the dataset"),
    ("struct S { double rate = 1; }; train::random_search(S(), 3, [](const train::Trial&) { return 0.; });", "a space is a struct of ranges"),
    ("struct M { nn::Dense d{1}; Tensor operator()(const Tensor& a, const Tensor& b, const nn::Call& c = {}) const { return d(a + b, c); } "
     "}; M m; train::Loop l(m, train::LoopOptions()); l.fit(pairs.batch(2));", "the elements are the model's inputs alone"),
    # Options and arguments by their places.
    ("numbers.map([](int64_t i) { return i; }, 4);", r"map\(f, \{.threads = 4\}\)"),
    ("numbers.batch(2, true);", r"batch\(32, \{.partial = false\}\)"),
    ("numbers.shuffle(100, 42);", r"shuffle\(1000, \{.seed = 42\}\)"),
    ("data::from_tensors(x, y);", r"from_tensors\(std::pair\(x, y\)\)"),
    ("nn::SGD o; o.minimize(x, std::vector<Variable>{w});", r"minimize\(loss, tape, variables\)"),
    ("nn::SGD o; o.apply_gradients(std::vector<Variable>{w}, std::vector<Tensor>{x});", "gradients come first"),
    ("nn::SGD o; o.apply_gradients(std::vector<Tensor>{x});", "an optimizer holds no parameters"),
    # Functions of a dataset's elements.
    ("pairs.map([](const Tensor& a) { return a; });", r"map\(f\): f does not take this dataset's elements"),
    ("numbers.batch(2).filter([](int64_t i) { return i > 0; }).map([](std::string s) { return s; });",
     r"f does not take this dataset's elements"),
    ("numbers.map([](int64_t) {});", r"map\(f\): f returns nothing"),
    ('numbers.filter([](int64_t) { return std::string("x"); });', "f gives a bool, or a tensor of one"),
    ("numbers.flat_map([](int64_t i) { return i; });", "f gives a Dataset for each element"),
    ("numbers.scan(0, [](int s, int64_t i) { return s + int(i); });", r"as std::pair\(state, result\)"),
    ("numbers.reduce(0, [](int, int64_t) { return std::string(); });", "of the type of `initial`"),
    ('numbers.group_by_window([](int64_t) { return std::string(); }, 3);', "is an integer, or a tensor of one"),
    ("data::from_generator([] { return 3; });", "f gives a std::optional"),
    ("numbers.map([](int64_t i) { return i; }, {4});", NO_MATCH),
    # Options have names: what stands in braces without one may mean another.
    ("attention(x, x, x, {true});", NO_MATCH + "|invalid initialization"),
    ("layer_norm(x, {4});", NO_MATCH),
    ("nn::Dense(2, 3, {relu});", NO_MATCH),
    ("one_hot(x, 3, {0});", NO_MATCH),
    ("random::uniform({2}, {0, 1});", NO_MATCH),
    ("norm(x, 1);", r"write norm\(x, \{.ord = 1\}\) or norm\(x, \{.axis = 1\}\)"),
    ("norm(x, 2.0);", r"write norm\(x, \{.ord = 1\}\) or norm\(x, \{.axis = 1\}\)"),
    # Options of other libraries' names, and a bool, are not axes.
    ("stddev(x, {.ddof = 1});", NO_MATCH),
    ("var(x, {.unbiased = true});", NO_MATCH),
    ("sum(x, {.keepdim = true});", NO_MATCH),
    ("mean(x, {.dim = 0});", NO_MATCH),
    ("any(x, {.dim = 1});", NO_MATCH),
    ("all(x, {.keepdim = true});", NO_MATCH),
    *[(f"{name}(x, true);", rf"keepdims has a name, {name}\(x, \{{.keepdims = true\}}\)") for name in (
        "sum mean max min prod any all var stddev norm median logsumexp").split()],
    ("max(x, {.dims = 1});", NO_MATCH),
    ("sum(x, 0, 1);", r"several axes stand in braces, sum\(x, \{0, 1\}\)"),
    ("max(x, -1, 0);", "keepdims is true or false"),
    ("var(x, 0, 1);", "keepdims is true or false"),
    ("any(x, 0, 1);", NO_MATCH),
    ("sort(x, true);", r"a bool is no axis.*\.descending = true"),
    ("argsort(x, true);", r"\.descending = true"),
    ("argmax(x, true);", r"argmax\(x, axis, keepdims\)"),
    ("cumsum(x, true);", r"\.exclusive = true"),
    ("softmax(x, true);", "a bool is no axis"),
    ("x(true);", NO_MATCH),
    ("zeros({true});", NO_MATCH + "|converting"),
    ("eye(true);", NO_MATCH),
    ("Axes a = true;", NO_MATCH),
    # What has no axis of rows.
    ("vmap([](const Tensor& t) { return Gradient(t); })(x);", r"give gradient.dense\(\)"),
    ("vmap([](const Tensor& t) { return std::vector{IndexedSlices{t, t, {2}}}; })(x);", r"give gradient.dense\(\)"),
    # Tensors never change.
    ("v(0) = y;", r"write x = x.at\(i\).set\(value\)"),
    ("v(0) = 3.f;", r"write x = x.at\(i\).set\(value\)"),
    ("x = y;", "passing .* discards qualifiers|no viable overloaded|const"),
    ("(x + 1).data<float>();", "deleted"),
    ("auto d = ones({2}).data<float>();", "deleted"),
    # Several tensors are not one.
    ("v = split(x, 2);", r"is kept by auto, and one of them is split\(x, 2\)\[0\]"),
    ("Tensor t = split(x, 2);", NO_MATCH),
    ('save("a.npz", {x, x});', r'the values of a map have names.*\{\{"x", x\}, \{"y", y\}\}'),
    ('save("a.npz", {x, x, x});', "the values of a map have names"),
    # What is nullptr is no tensor, and no text.
    ("x == nullptr;", r"whether there is one is !x.defined\(\)"),
    ("x != nullptr;", r"whether there is one is x.defined\(\)"),
    ("tensor(nullptr);", NO_MATCH),
    ("Variable u(x, nullptr);", NO_MATCH),
    ("x.to(nullptr);", "deleted"),
    ("zeros({2}, {.device = nullptr});", NO_MATCH),
    ("conv2d(x, x, {.padding = nullptr});", NO_MATCH + "|deleted"),
    ("linalg::matrix_norm(x, {.ord = nullptr});", NO_MATCH + "|deleted"),
    ("assert_that(all(x > 0), nullptr);", NO_MATCH),
    # Tensors are no C++ numbers.
    ("if (x > 0) {}", r"decides no if: read x.item<bool>\(\)"),
    ("float z = float(x);", r"x.item<float>\(\)"),
    ("auto z = static_cast<int64_t>(x);", "is no C.. number"),
    ("float z = x;", "cannot convert|no viable conversion"),
    ("bool z = x > 0;", "cannot convert|no viable conversion"),
    ("std::vector<float> z = x;", "conversion|convert"),
    # Variables are assigned by name.
    ("w = y;", r"w.assign\(value\)"),
    ("w = 3.f;", r"w.assign\(value\)"),
    ("w += y;", r"w.assign_add\(x\)"),
    ("w -= 1;", r"w.assign_sub\(x\)"),
    ("w *= 2;", r"w.assign\(w \* x\)"),
    ("Variable u = y;", "WriteVariableInParentheses|deleted"),
    ("w[0];", r"indexed with parentheses: w\(i\)"),
    # Functions of other libraries' names, and calls as these take them.
    ("max(x, y);", r"maximum\(x, y\)"),
    ("min(x, y);", r"minimum\(x, y\)"),
    ("zeros(3, 4);", r"stand in braces: zeros\({3, 4}\)"),
    ("ones(3);", r"stand in braces: ones\({3, 4}\)"),
    ("empty(2, 3, 4, f64);", r"stand in braces: empty\({3, 4}\)"),
    ("full(3, 7.f);", r"stand in braces: full\({3, 4}, value\)"),
    ("random::normal(3, 4);", r"stand in braces: random::normal\({3, 4}\)"),
    ("random::uniform(3, 4);", r"stand in braces: random::uniform\({3, 4}\)"),
    ("random::randint(0, 10);", r"a draw takes a shape: random::randint\(low, high, \{5\}\)"),
    ("random::uniform({2}, 0, 1);", r"random::uniform\(\{3, 4\}, \{.low = 0, .high = 1\}\)"),
    ("random::normal({2}, 0.);", r"random::normal\(\{3, 4\}, \{.mean = 0, .stddev = 1\}\)"),
    ("random::truncated_normal({2}, 0.f, 1.f);", r"options have names: random::truncated_normal"),
    ("reshape(x, 2, -1);", r"stand in braces: reshape\(x, \{2, -1\}\)"),
    ("split(x, {1, 3});", r"split_at\(x, \{1, 3\}, axis\)"),
    ("hsplit(x, std::vector<int64_t>{1, 2});", r"hsplit\(x, parts\) takes how many parts.*split_at"),
    ("max_pool(x, true);", NO_MATCH),
    ("random::randint(0, 10, 5);", r"stand in braces: random::randint\(low, high, \{5\}\)"),
    ("transpose(x, 0, 1);", r"transpose\(x, {1, 0}\); swapaxes\(x, 0, 1\)"),
    ("concat(x, y);", r"stand in braces: concat\({x, y}, axis\)"),
    ("stack(x, y, 1);", r"stand in braces: stack\({x, y}, axis\)"),
    ("Tensor t = {1.f, 2.f};", r"tensor\({1.f, 2.f}\), one of this shape zeros\({2, 3}\)"),
    ("Tensor t = std::vector<float>{1, 2};", r"tensor\(v\)"),
    ("GradientTape tape(true);", r"GradientTape tape\({.persistent = true}\)"),
    # Members of other libraries' names: those of the same name as rill's function, then those of another.
    *[(f"x.{name}();", rf"x.{name}\(\) is written {name}\(x\)") for name in (
        "abs all any argmax exp flatten log max mean min norm relu softmax sqrt squeeze sum transpose").split()],
    ("v.add_(y);", r"x \+= y: tensors never change"),
    ("x.backward();", r"tape.gradient\(loss, w\)"),
    ("x.clamp(0, 1);", r"clip\(x, low, high\)"),
    ("x.clone();", "y = x: tensors never change"),
    ("x.cpu();", r'x.to\("cpu:0"\)'),
    ("x.cuda();", r'x.to\("gpu:0"\)'),
    ("x.detach();", r"stop_gradient\(x\)"),
    ("v.fill_(0);", r"full_like\(x, v\): tensors never change"),
    ("w.grad();", r"tape.gradient\(loss, w\)"),
    ("x.matmul(y);", r"written matmul\(x, y\)"),
    ("x.pow(2);", r"written pow\(x, y\)"),
    ("x.mm(y);", r"matmul\(x, y\)"),
    ("x.tolist();", r"x.to_vector<float>\(\)"),
    ("x.numel();", r"x.size\(\)"),
    ("x.numpy();", r"x.to_vector<float>\(\)"),
    ("x.permute({1, 0});", r"transpose\(x, {1, 0}\)"),
    ("x.print();", "std::cout << x"),
    ("v.requires_grad_();", r"tape.watch\(x\)"),
    ("x.std();", r"stddev\(x\)"),
    ("x.t();", r"x.T\(\)"),
    ("x.unsqueeze(0);", r"expand_dims\(x, axis\)"),
    ("x.view(2, 3, 1, -1, 1);", r"x.reshape\({2, -1}\)"),
    # Members that lack a type, or are given what they do not take.
    ("float z = x.item();", r"x.item<float>\(\)"),
    ("std::vector<float> z = x.to_vector();", r"x.to_vector<float>\(\)"),
    ("x.data();", r"x.data<float>\(\)"),
    ("x.size(0);", r"x.dim\(axis\)"),
    ("x.shape(0);", r"x.dim\(axis\)"),
    ("x.dim();", r"x.ndim\(\)"),
    ("x.reshape(3, -1);", r"x.reshape\({2, -1}\)"),
    ("x.astype<double>();", r"x.astype\(f64\)"),
    ('x.astype("float32");', r"x.astype\(f32\)"),
    ("x({0, 1});", r"x\(tensor\({0, 1}\)\)"),
    ('x(":", 0);', r"x\(all, 0\).*slice\(1, 3\)"),
    ("x(none);", "a new axis is newaxis"),
    ("v.at(0) = 3;", r"x = x.at\(i\).set\(value\)"),
    ("v.at(0) += 3;", r"x = x.at\(i\).add\(value\)"),
    # Callables of traced functions.
    ('function("f", [](auto t) { return t; });', r"write \[\]\(const Tensor& x\)"),
    ('function("f", softmax);', "no match|couldn't infer|couldn't deduce|unresolved overloaded"),
    ('function("f", [](Tensor& t) { t = t + 1; });', "cannot write to what it is given"),
    ('function("f", [](std::vector<Tensor>& t) { t.clear(); });', "cannot write to what it is given"),
    ('function("f", [](const Tensor& t) { return t; })(1, 2, 3);', NO_MATCH),
    ("Function<Tensor(Tensor)> f = x;", "conversion|convert"),
    # Callables of control flow.
    ("cond(sum(x) > 0, x, y);", r"cond\(pred, then_fn, else_fn\) takes two callables.*where\(pred, a, b\)"),
    ("cond(sum(x) > 0, [&](const Tensor& t) { return t; }, [&] { return x; });", "callables without parameters"),
    ("cond(sum(x) > 0, [&] { return x; }, [&] { return std::pair(x, x); });", "must give the same C.. type"),
    ("while_loop([](const Tensor& t, const Tensor&) { return t < 3; }, [](const Tensor& t) { return t; }, x);",
     "the condition takes the carried values, one parameter each"),
    ("while_loop([](const Tensor& t) { return t < 3; }, [] { return 1; }, x);",
     "the body takes the carried values, one parameter each"),
    ("while_loop([](const Tensor& t, const Tensor&) { return t < 3; }, [](const Tensor& t, const Tensor&) { return t; }"
     ", x, y);", "the body must give a std::tuple with a value for each carried one|a value for each carried one"),
    ("scan([](const Tensor& t) { return t; }, x, y);", "fn takes the carried value and a row of xs"),
    ("scan([](const Tensor& t, const Tensor&) { return t; }, x, y);", r"must give a pair \{carry, y\}"),
    ("scan([](const Tensor& t, const Tensor&) { return std::pair(t, t); }, x, {.length = 3});",
     "fn takes the carried value, as in"),
    # Derivatives of structs.
    ("hessian([](const Weights& p) { return sum(p.w * p.b); })(Weights{x, x});",
     "a struct cannot hold the Jacobians of its tensors"),
    ("grad([](const Layer& p) { return sum(p.w * p.b); })(Layer{w, w});",
     "a struct of Variables cannot hold their gradients"),
    # Layers and options.
    ("nn::Dense d(2, 3, {.activation = 3});", NO_MATCH),
    ("nn::Dense d(2, 3, {.activation = matmul});", NO_MATCH),
    ("nn::Sequential s; s.add(3);", NO_MATCH),
    ('nn::Dense d(2, 3, {.activation = "relu"});', r"a function and not its name: {.activation = relu}"),
    ("nn::Dense d(2, 3, relu);", r"nn::Dense\(in, out, {.activation = relu}\)"),
    ('nn::Dense d(10, "relu");', r"nn::Dense\(out, {.activation = relu}\)"),
    ('nn::Sequential s(nn::Dense(2, 3), "relu");', r"a function and not its name"),
    ("nn::Sequential s(nn::Linear(2, 3));", r"nn::Dense\(in, out\)"),
    ("nn::Sequential s(nn::Dense(2, 3), nn::ReLU());", "is written relu"),
    ("nn::Sequential s; s.fit(x, y);", "loop over batches"),
    ('nn::Sequential s; s.compile("adam");', r'function\("step", ...\)'),
    ("nn::Sequential s; s.forward(x);", r"model\(x\)"),
    ("nn::Sequential s; s.predict(x);", r"model\(x\)"),
    ("nn::Sequential s; s.train();", r"model\(x, nn::Mode::training\)"),
    ("nn::Sequential s; s.eval();", r"model\(x\)"),
    ("nn::Sequential s; s(x, true);", r"model\(x, nn::Mode::training\)"),
    ('nn::Sequential s; s.to("gpu:0");', r'move\(model, "gpu:0"\)'),
    ("nn::Adam a(0.001);", r"nn::Adam\({.learning_rate = 0.01}\)"),
    ("nn::SGD a(nn::Sequential().parameters(), 0.1);", r"nn::SGD\({.learning_rate = 0.01}\)"),
    ("nn::Adam a; a.step();", r"optimizer.minimize\(loss, tape, model.parameters\(\)\)"),
    ("nn::Adam a; a.zero_grad();", "not accumulated"),
    ("nn::SGD o({.learning_rate = [](float t) { return t; }});", NO_MATCH),
    ("zeros({2}, {.type = f32});", NO_MATCH),
]
# The same mistakes otherwise, in a program of their own, since a compiler says what a template asserts once.
AGAIN = [
    ("auto z = x && y;", r"x && y is logical_and\(x, y\)"),
    ("nullptr == x;", r"whether there is one is !x.defined\(\)"),
    ("nullptr != x;", r"whether there is one is x.defined\(\)"),
    ("v[0] = 3;", r"indexed with parentheses: x\(i\)"),
    ("float z = w.item();", r"x.item<float>\(\)"),
    ("w.sum(0);", r"x.sum\(\) is written sum\(x\)"),
    ("Tensor t(2, 3);", r"one of this shape zeros\({2, 3}\)"),
    ("random::normal(3);", r"stand in braces: random::normal"),
    ("min(x, 0, 1);", r"several axes stand in braces, min\(x, \{0, 1\}\)"),
    ("cond(sum(x) > 0, 1, 2);", r"where\(pred, a, b\) chooses between tensors"),
]
# All say what softmax(x, true) says, but compilers say what a template asserts once. Here, where an Axis of a bool is
# deleted instead, each line must have an error.
NO_AXIS = "template <> rill::Axis::Axis(bool) = delete;\n"
AXES = ["concat({x, y}, true);", "stack({x, y}, true);", "split(x, 2, true);", "split_at(x, {1}, true);",
        "array_split(x, 2, true);", "unstack(x, true);", "take(x, x, true);", "take_along_axis(x, x, true);",
        "put_along_axis(x, x, x, true);", "boolean_mask(x, x, true);", "swapaxes(x, true, 0);", "flatten(x, true);",
        "slice_axis(x, true, 0, 1);", "repeat(x, 2, true);", "diff(x, 1, true);", "glu(x, true);",
        "l2_normalize(x, true);", "cosine_similarity(x, y, true);", "x.dim(true);", "size_of(x, true);",
        "iota({2, 3}, true);", "random::shuffle(x, true);", "cross(x, y, true);", "diagonal(x, 0, true);",
        "trace(x, 0, 0, true);", "topk(x, 2, {.axis = true});", "sort(x, {.axis = true});",
        "cumsum(x, {.axis = true});", "layer_norm(x, {.axis = true});", "one_hot(x, 3, {.axis = true});",
        "log_softmax(x, false);"]
# What compilers warn of, where warnings are errors.
WARNINGS = [
    ("v.at(0).set(1);", "nodiscard"),
    ("v.at(0).add(1);", "nodiscard"),
    ('NameScope("a");', "nodiscard|most vexing|parentheses|unnamed|discard"),
    ('WithDevice{"cpu:0"};', "nodiscard"),
    ("GradientTape{};", "nodiscard"),
]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
build, compiler = sys.argv[1], sys.argv[2:]
clang = "clang" in subprocess.run([*compiler, "--version"], stdout=subprocess.PIPE, text=True).stdout


def errors(source, only_warnings=False):
    """The compiler's errors, each with the program's line that led to it."""
    with tempfile.TemporaryDirectory() as work:
        with open(f"{work}/mistakes.cpp", "w", encoding="utf-8") as file:
            file.write(source)
        command = [*compiler, "-std=c++20", "-fsyntax-only", "-Werror", "-fdiagnostics-color=never",
                   "-Wno-unused-variable", "-Wunused-value" if only_warnings else "-Wno-unused-value",
                   "-ferror-limit=0" if clang else "-fmax-errors=0", f"-I{ROOT}/include", f"{work}/mistakes.cpp"]
        text = subprocess.run(command, stderr=subprocess.PIPE, text=True).stderr
    found, line, pending = [], 0, []
    for row in text.splitlines():
        here = re.search(r"mistakes\.cpp:(\d+)", row)
        if here:
            line = int(here.group(1))
            for message in pending:  # clang names the user's line behind the error
                found.append((line, message))
            pending = []
        if " error: " in row:
            message = row.split(" error: ", 1)[1]
            found.append((line, message)) if here or not clang else pending.append(message)
    return found, text


def program(mistakes):
    return HEAD + "".join(f"void mistake_{i}() {{ {code} }}\n" for i, (code, _) in enumerate(mistakes))


if text := errors(program([]))[1]:
    sys.exit("the program without mistakes has errors:\n" + text)
faults = []
for mistakes in (MISTAKES, AGAIN, WARNINGS):  # clang stops to warn where there are errors
    found, _ = errors(program(mistakes), mistakes is WARNINGS)
    for i, (code, words) in enumerate(mistakes):
        line = HEAD.count("\n") + 1 + i
        said = [message for at, message in found if at == line]
        if not said:
            faults.append(f"{code}  compiles")
        elif not re.search(words, said[0]):
            faults.append(f"{code}  does not compile, but says: {said[0]}")
found, _ = errors(program([(code, "") for code in AXES]).replace("using namespace rill;\n", "using namespace rill;" + NO_AXIS))
for i, code in enumerate(AXES):
    if HEAD.count("\n") + 1 + i not in {line for line, _ in found}:
        faults.append(f"{code}  compiles")
for header in ("rill/rill.h", "rill/nn.h"):
    old = subprocess.run([*compiler, "-std=c++17", "-fsyntax-only", f"-I{ROOT}/include", "-x", "c++", "-"],
                         input=f"#include <{header}>\nint main() {{}}\n", stderr=subprocess.PIPE, text=True).stderr
    if "rill needs C++20" not in old or old.count("error: ") != 2:  # the #error, and what ends the compilation
        faults.append(f"-std=c++17 says of <{header}>: {old[:300]}")
for fault in faults:
    print(fault)
print(f"{len(MISTAKES) + len(AGAIN) + len(AXES) + len(WARNINGS)} mistakes, {len(faults)} without the error that they should have")
sys.exit(1 if faults else 0)
