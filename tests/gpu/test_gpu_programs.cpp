// Programs on gpu:0, the machine's or the simulated one: what has failed there, and what is near it.
#include <cmath>
#include <thread>

#include "catch.h"
#include "child.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/nn.h"
#include "rill/ops/buffers.h"
#include "rill/ops/strings.h"
#include "rill/rill.h"
#include "rill/serialize.h"
#include "rill/serialize/summary.h"
#include "same.h"

using namespace rill;

namespace {

const Device host("cpu:0"), gpu("gpu:0");
const bool on_gpu = has_device(gpu) && (set_default_device(gpu), true);  // some children have none

template <class F>
void check_moved(F f, const Tensor& x) {
  const Tensor want = f(x).to(host);
  auto traced = function("moved", f);
  for (int i = 0; i < 3; ++i) {
    Tensor given = x.to(host).to(x.device());
    if (given.device() == host) given = (x + 0).to(host);
    const Tensor is = traced(std::move(given));
    CHECK(is.device() == f(x).device());
    CHECK(same(is.to(host), want));
    jit::wait();
  }
}

}  // namespace

TEST_CASE("results on one device do not lie in memory of another") {
  const Tensor there = arange(1000.f), here = there.to(host);
  check_moved([](const Tensor& x) { return (x + 1.f).to("cpu:0"); }, there);
  if (has_device("gpu:1")) check_moved([](const Tensor& x) { return (x + 1.f).to("gpu:1"); }, there);
  check_moved([](const Tensor& x) { return (x / 255.f).to("gpu:0"); }, here);
  check_moved([](const Tensor& x) { return (x / 255.f).to("ref:0"); }, here);
  auto scaled = function("scaled", [](const Tensor& x, const Tensor& s) { return x * s; });
  for (int i = 0; i < 3; ++i, jit::wait()) CHECK(same(scaled(there, 2.f), there * 2.f));
}

TEST_CASE("traced kernels of many instructions and many operands") {
  auto many = function("many", [](const Tensor& x) {
    Tensor y = x;
    for (int i = 0; i < 62; ++i) y = y - float(i + 2);
    return sum(y, 1);
  });
  const Tensor x = random::normal({4, 100});
  const Tensor want = many(x);
  jit::wait();
  CHECK(same(many(x), want));
  CHECK(many.explain().find("fused(") != std::string::npos);
  std::vector<Tensor> all;
  for (int i = 0; i < 40; ++i) all.push_back(random::normal({50}));
  auto sums = function("sums", [](const std::vector<Tensor>& v) {
    Tensor y = exp(v[0]);
    for (const Tensor& t : v) y = y + tanh(t);
    return y;
  });
  const Tensor eager = sums(all);
  jit::wait();
  CHECK(same(sums(all), eager));
  CHECK(sums.explain().find("fused(") != std::string::npos);
}

TEST_CASE("what a thread's kernels find wrong is told to that thread") {
  const Tensor logits = ones({3, 4}), good = tensor({0, 1, 1}), bad = tensor({0, 9, 1});
  const Tensor loss = sparse_softmax_cross_entropy(logits, bad);
  std::thread([&] {
    CHECK(sum(sparse_softmax_cross_entropy(logits, good)).item<float>() > 0);  // innocent
  }).join();
  {
    const Tensor lent = from_buffer(logits.rep()->data, {12}, f32, [] {}, {.device = gpu});
  }
  says([&] { static_cast<void>(loss.to_vector<float>()); }, {"label 9 at position 1"});
}

TEST_CASE("numbers join tensors on a GPU") {
  const Tensor x = arange(5.f);
  CHECK(x.at(0).set(9).to_vector<float>() == std::vector<float>{9, 1, 2, 3, 4});
  CHECK(x.at(slice(1, 3)).add(2).to_vector<float>() == std::vector<float>{0, 3, 4, 3, 4});
  CHECK(x.at(tensor({0, 0})).add(1).to_vector<float>() == std::vector<float>{2, 1, 2, 3, 4});
  CHECK(quantile(x, 0.5).item<float>() == 2);
  CHECK(allclose(x * 0 + 1, 1));
  CHECK(lerp(x, x + 1, 0.5).to_vector<float>()[0] == 0.5f);
  CHECK((x * log(size_of(x, 0))).to_vector<float>()[1] == Approx(std::log(5.f)));
  auto traced = function("set", [](const Tensor& x) { return x.at(0).set(9) + 1; });
  CHECK(traced(x).to_vector<float>()[0] == 10);
  says([&] { static_cast<void>(x + ones({5}, {.device = host})); }, {"operands are on gpu:0 and cpu:0"});
}

TEST_CASE("a sparse tensor whose numbers are one C++ number") {
  const SparseTensor s(tensor({{0, 1}, {2, 0}}), tensor({3.f, 4.f}), {3, 2});
  CHECK(s.with_values(1.f).to_dense().to_vector<float>() == std::vector<float>{0, 1, 0, 0, 1, 0});
}

TEST_CASE("numbers join tensors on a GPU wherever they are given axes") {
  const Tensor x = arange(1.f, 4.f), two(2.f), one = tensor(1, {.device = host});
  const auto check = [](const Tensor& is, const std::vector<float>& want) {
    CHECK(is.device() == gpu);
    CHECK(is.to_vector<float>() == want);
  };
  check(stack({sum(x), two.to(host)}), {6, 2});
  check(stack({two.to(host), sum(x)}), {2, 6});
  check(hstack({x, two.to(host)}), {1, 2, 3, 2});
  check(ravel(vstack({two.to(host), x(slice(0, 1))})), {2, 1});
  check(ravel(dstack({sum(x), two.to(host)})), {6, 2});
  check(ravel(outer(x, two.to(host))), {2, 4, 6});
  check(kron(two.to(host), x), {2, 4, 6});
  check(vdot(reshape(sum(x), {1}), two.to(host)), {12});
  check(ediff1d(x, two.to(host), two.to(host)), {2, 1, 1, 2});
  check(ediff1d(two.to(host), x), {1, 2, 3});
  check(global_norm({x * 0 + 2, two.to(host)}), {4});
  check(broadcast_arrays({x, two.to(host)})[1], {2, 2, 2});
  check(meshgrid({x, two.to(host)})[1](0), {2, 2, 2});
  check(nll_loss(log(x), one), {-std::log(2.f)});
  CHECK(array_equiv(x * 0 + 2, two.to(host)));
  auto traced = function("stacked", [](const Tensor& x, const Tensor& s) { return stack({sum(x), s}) + 1; });
  for (int i = 0; i < 2; ++i, jit::wait()) check(traced(x, two.to(host)), {7, 3});
  says([&] { static_cast<void>(stack({x, ones({3}, {.device = host})})); }, {"[stack] in [concat]", "gpu:0 and cpu:0"});
}

// --- Models ----------------------------------------------------------------------------------------------------------

namespace {

struct Training {
  nn::Dense hidden{4, 3, {.activation = relu}}, out{3, 1};
  nn::Adam adam{{.learning_rate = 0.05}};

  Tensor step(const Tensor& x, const Tensor& y) {
    GradientTape tape;
    const Tensor loss = mean(square(out(hidden(x)) - y));
    std::vector<Variable> parameters = hidden.variables();
    for (const Variable& v : out.variables()) parameters.push_back(v);
    adam.minimize(loss, tape, parameters);
    return loss;
  }
};

}  // namespace

TEST_CASE("models move between devices, and learn on as they would have") {
  const WithDevice here(host);
  random::seed(3);
  const Tensor x = random::normal({8, 4}), y = sum(x, 1, true);
  Training stays, moves;
  const NamedVariables from = variables(stays);
  for (const auto& [path, v] : variables(moves)) Variable(v).assign(from.at(path));
  auto step = function("step", [&](const Tensor& x, const Tensor& y) { return moves.step(x, y); });
  float want = 0, is = 0;
  const auto three_steps = [&](Device d) {
    for (int i = 0; i < 3; ++i) {
      want = stays.step(x, y).item<float>();
      is = step(x.to(d), y.to(d)).item<float>();
      CHECK(is == Approx(want).epsilon(1e-4));
    }
  };
  three_steps(host);
  const NamedVariables moved = move(moves, gpu);
  CHECK(moved.size() == variables(moves).size());
  CHECK(moved.contains("adam/hidden/kernel/m"));
  for (const auto& [path, v] : moved) CHECK(v.device() == gpu);
  three_steps(gpu);
  CHECK(step.explain().find("frozen, unfrozen, cast or moved") != std::string::npos);
  says([&] { static_cast<void>(step(x, y)); }, {"operands are on"});

  // A checkpoint is restored to where the Variables are, from wherever they were.
  const Folder folder;
  Checkpoint({{"training", moves}}).save(folder / "training");
  const Device other(has_device("gpu:1") ? "gpu:1" : "cpu:0");
  move(moves, other);
  for (const auto& [path, v] : variables(moves)) Variable(v).assign(0);
  Checkpoint({{"training", moves}}).restore(folder / "training");
  for (const auto& [path, v] : variables(moves)) CHECK(v.device() == other);
  three_steps(other);
  move(moves, host);
  three_steps(host);
  auto inside = function("inside", [&](const Tensor& x) { return move(moves.out, gpu), x; });
  says([&] { inside(x); }, {"[move]", "inside a traced function"});
  says([&] { move(moves, "gpu:7"); }, {"[move]", "there is no gpu:7"});
}

TEST_CASE("child: runs the model of a GPU without one", "[.]") {
  Model net = import_model(std::getenv("RILL_TEST_MODEL"));
  CHECK(net({{"x", ones({2, 4})}}).at("output").to_vector<float>() == std::vector<float>{4, 4});
  for (const auto& [name, v] : net.variables()) CHECK(v.device() == host);
}

TEST_CASE("models whose Variables are on a GPU are written and read") {
  const Folder folder;
  const Variable w(ones({4, 1}), "w");
  auto f = function("f", [&](const Tensor& x) { return squeeze(matmul(x, w), 1); },
                    {.signature = {spec(f32, {any, 4}, "x")}});
  save_functions(folder / "net.rill", {{"f", f}});
  for (const char* name : {"f.rill", "f.onnx", "f.pb", "saved"}) {
    INFO(name);
    export_model(f, folder / name, {.outputs = {"output"}});
    const Model net = import_model(folder / name);
    const Tensor y = net({{"x", ones({2, 4})}}).at("output");
    CHECK(y.device() == gpu);
    CHECK(y.to_vector<float>() == std::vector<float>{4, 4});
    for (const auto& [variable, v] : net.variables()) CHECK(v.device() == gpu);
  }
  const Model net = import_model(folder / "net.rill");
  const std::string other = has_device("gpu:1") ? "gpu:1" : "cpu:0";
  move(net.variables(), Device(other));
  says([&] { net({{"x", ones({2, 4})}}); }, {"'w' is on " + other + " now", "read from a file", "on gpu:0"});
  move(net.variables(), gpu);
  CHECK(net({{"x", ones({2, 4})}}).at("output").to_vector<float>() == std::vector<float>{4, 4});
  for (const char* name : {"net.rill", "f.rill", "f.onnx", "f.pb", "saved"}) {
    std::string output;
    INFO(name);
    CHECK(child("RILL_CUDA=off RILL_TEST_MODEL=" + (folder / name), "child: runs the model of a GPU without one",
                output) == 0);
    INFO(output);
    CHECK(has(output, "passed"));
  }
}

TEST_CASE("what is on a GPU goes into files of every kind") {
  const Folder folder;
  const Tensor x = random::normal({6}), n = arange(6), flags = n > 2, images = ones({1, 2, 2, 3}) * 0.5;
  const Table table{{"x", "n", "flags"}, {x, n, flags}};
  write_csv(folder / "t.csv", table);
  CHECK(read_csv(folder / "t.csv").at("n").to_vector<int>() == n.to_vector<int>());
  write_arrow(folder / "t.arrow", table);
  CHECK(same(read_arrow(folder / "t.arrow").at("x"), x));
  CHECK(same(read_arrow(folder / "t.arrow").at("flags"), flags));
  CHECK(same(table.stacked({"x"})(all, 0), x));
  const std::string example = make_example({{"x", x}, {"n", n}});
  CHECK(same(read_example(example).at("x").to(host), x.to(host)));
  summary::Writer writer(folder / "log");
  writer.scalar("loss", sum(x), 1);
  writer.histogram("x", x, 1);
  writer.image("images", images, 1);
  writer.audio("clip", reshape(sin(x), {1, 6, 1}), 8000, 1);
  writer.pr_curve("pr", flags, sigmoid(x), 1);
  writer.embedding("embedding", reshape(x, {3, 2}));
  writer.flush();
}

TEST_CASE("strings live on the host") {
  const Tensor words = tensor({std::string("a"), std::string("b")});
  CHECK(words.device() == host);
  says([] { static_cast<void>(tensor({std::string("a")}, {.device = "gpu:0"})); },
       {"[tensor]", "strings live on the host"});
  says([&] { static_cast<void>(words.to(gpu)); }, {"[to]", "strings live on the host", "test_gpu_programs.cpp"});
  CHECK(strings::as_string(arange(3)).to_vector<std::string>()[2] == "2");
  CHECK(strings::unique(words).values.to_vector<std::string>()[1] == "b");
  CHECK(strings::encode_raw(tensor({{65, 66}}).astype(u8)).to_vector<std::string>()[0] == "AB");
}

TEST_CASE("files of what is on a GPU") {
  const Folder folder;
  const Tensor x = random::normal({30, 4});
  for (const char* name : {"x.npy", "x.npz", "x.safetensors"}) {
    INFO(name);
    save(folder / name, NamedTensors{{std::string(name) == "x.npy" ? "" : "x", x}});
    const NamedTensors back = load(folder / name);
    CHECK(back.begin()->second.device() == gpu);
    CHECK(same(back.begin()->second, x));
  }
}

TEST_CASE("graphs and profiles of functions on a GPU") {
  const Variable w(ones({4, 2}), "w");
  auto f = function("f", [&](const Tensor& x) { return tanh(matmul(x, w)); });
  const Graph g = f.graph(spec(f32, {3, 4}));
  CHECK(g.spec(g.outputs[0]).device == gpu);
  CHECK(parse_graph(to_text(g), graph_variables(g)).outputs.size() == 1);
  const Profile p = profile(f, ones({3, 4}));
  CHECK(!p.kernels.empty());
}
