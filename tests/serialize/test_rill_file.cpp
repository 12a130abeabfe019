// .rill files: what is written by one program and read by another gives the bits of the traced function, in values,
// gradients and training steps; and files that say what is not so are refused.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "io_helpers.h"
#include "record_samples.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "rill/serialize.h"
#include "rill/serialize/model/model_impl.h"
#include "rill_files.h"

using namespace rill_files;
using graph_programs::Body;
using record_samples::in_dtype;

namespace {

FunctionToSaveOptions taking(const List& in) {
  FunctionToSaveOptions options;
  for (const Tensor& t : in) options.signature.push_back({t.spec(), fmt::format("x{}", options.signature.size())});
  return options;
}

// Writes and reads back a function of these tensors; checks its results, and the gradients of the first.
void check(const std::string& name, const Body& body, const List& in) {
  INFO(name);
  const Folder out;
  const auto f = function(name, [body](const List& x) { return body(x); });
  const List want = f(in);
  save_functions(out / "f.rill", {{name, f, taking(in)}});
  const Model m = import_model(out / "f.rill");
  const List is = call(m, in);
  REQUIRE(is.size() == want.size());
  for (size_t k = 0; k < is.size(); ++k) CHECK(same_bits(is[k], want[k]));
  auto gradients = [&](const std::function<List(const List&)>& g) {
    std::vector<Source> sources;
    GradientTape tape;
    for (const Tensor& t : in)
      if (is_differentiable(t.dtype())) {
        tape.watch(t);
        sources.emplace_back(t);
      }
    return tape.gradient(List{g(in)[0]}, sources, {.unconnected = Unconnected::zero});
  };
  if (!is_differentiable(want[0].dtype())) return;
  const auto want_back = gradients([&](const List& x) { return f(x); });
  const auto back = gradients([&](const List& x) { return call(m, x); });
  for (size_t k = 0; k < back.size(); ++k) CHECK(same_bits(back[k], want_back[k]));
}

}  // namespace

TEST_CASE("every record's samples run from a file with the bits of the trace") {
  const Folder out;
  std::vector<FunctionToSave> functions;
  std::vector<std::pair<List, List>> cases;  // what each takes and gives
  record_samples::for_each_op([&](const Op& op) {
    int k = 0;
    for (const Sample& s : op.samples())
      for (DType d : {record_samples::main_dtype(s), f64, i64, u8, c64, c128, bf16, boolean, rill::string}) {
        const bool text = d == rill::string || record_samples::main_dtype(s) == rill::string;
        if (text && d != record_samples::main_dtype(s)) continue;  // no cast makes one of the other
        const auto in = in_dtype(op, s, d);
        if (!in || (k > 0 && d != record_samples::main_dtype(s) && s.in.empty())) continue;
        INFO(op.name << " " << k);
        const auto f = function(fmt::format("{}/{}", op.name, k++),
                                [&op, attrs = s.attrs](const List& x) { return op_check::run(op, x, attrs); });
        cases.emplace_back(*in, f(*in));
        functions.emplace_back(f.name(), f, taking(*in));
      }
  });
  CHECK(functions.size() > 500);
  save_functions(out / "all.rill", functions);
  const Model all = import_model(out / "all.rill");
  for (size_t i = 0; i < functions.size(); ++i) {
    INFO(functions[i].name);
    const Model m = all.function(functions[i].name);
    const List is = call(m, cases[i].first);
    REQUIRE(is.size() == cases[i].second.size());
    for (size_t k = 0; k < is.size(); ++k) CHECK(same_bits(is[k], cases[i].second[k]));
  }
}

TEST_CASE("a model from a file says that its Variables were cast, and goes on once they are back") {
  const Folder at;
  nn::Sequential net(nn::Dense(2, 8, {.activation = tanh}), nn::Dense(8, 3));
  const auto f = function("f", [&](const Tensor& x) { return net(x); }, {.signature = {spec(f32, {any, 2}, "x")}});
  export_model(f, at / "f.rill", {.variables = variables(net)});
  Model model = import_model(at / "f.rill");
  const Tensor x = random::normal({20, 2});
  const auto result = [&] { return model({{"x", x}}).begin()->second; };
  const Tensor before = result();
  CHECK(same_bits(before, net(x)));
  // Its graph is of f32: no operand is converted that nobody has said is to be.
  nn::cast(model, f64);
  CHECK(has(message_of(result), "operands differ in dtype"));
  nn::cast(model, f32);
  CHECK(same_bits(result(), before));
}

TEST_CASE("control flow and its gradients come back") {
  for (const auto& [name, body, inputs] : graph_programs::control_flow()) check(name, body, inputs);
}

TEST_CASE("gradient rules and recomputed parts come back") {
  for (const auto& [name, body, inputs] : graph_programs::gradient_rules()) check(name, body, inputs);
  // A second derivative flows through the rule.
  const Folder out;
  const auto f = function("tenfold",
                          [](const Tensor& x) {
                            return custom_gradient([](const Tensor& v) {
                              return std::pair(v * v, [v](const Tensor& g) { return g * 10 * v; });
                            })(x);
                          },
                          {.signature = {spec(f32, {}, "x")}});
  export_model(f, out / "f.rill");
  const Model m = import_model(out / "f.rill");
  const auto second = grad(grad([&](const Tensor& x) { return m({{"x", x}}).at("output"); }));
  CHECK(second(tensor(3.f)).item<float>() == 10);
  CHECK(to_string(m.graph({{"x", tensor(3.f)}})).find("custom_gradient") != std::string::npos);
}

TEST_CASE("what a loop's gradient does not read of what was kept is no input of its graph") {
  const Tensor quarter = tensor(0.25f);
  const auto loop = [&](const Tensor& x) {
    const auto [last, ys] = scan(
        [&](const Tensor& c, const Tensor& row) {
          const Tensor y = c * quarter;
          return std::pair((y + 0.1f) * row, y);
        },
        x, tensor({0.5f, 2.f}), {.reverse = true});
    return sum((last + sum(ys, 0)) * x);
  };
  const auto f = function(
      "second", [&](const Tensor& x) { return grad([&](const Tensor& v) { return sum(grad(loop)(v) * v); })(x); },
      {.signature = {spec(f32, {any}, "x")}});
  const Folder out;
  export_model(f, out / "f.rill");
  const Model m = import_model(out / "f.rill");
  for (const Tensor& x : {tensor({1.f, -2.f, 0.5f}), tensor({3.f})})
    CHECK(array_equal(m({{"x", x}}).at("output"), f(x)));
}

TEST_CASE("a rule inside a loop that draws brings its generator along") {
  const auto noisy = custom_gradient([](const Tensor& v) {
    return std::pair(v * v, [v](const Tensor& g) { return g * v + random::normal(v.shape()); });
  });
  const auto f = function(
      "noisy",
      [&](const Tensor& x) {
        return scan([&](const Tensor& c, const Tensor& row) { return std::pair(noisy(c) * row, row); }, x, ones({2}))
            .first;
      },
      {.signature = {spec(f32, {3}, "x")}});
  const Folder out;
  export_model(f, out / "f.rill");
  const Model m = import_model(out / "f.rill");
  const Tensor x = tensor({1.f, -2.f, 0.5f});
  CHECK(array_equal(m({{"x", x}}).at("output"), f(x)));
  export_model(m, out / "again.rill");
  CHECK(array_equal(import_model(out / "again.rill")({{"x", x}}).at("output"), f(x)));
}

namespace {

// A small network, its optimizer, and steps on random batches.
struct Training {
  Variable w{data({8, 16}) * 0.3, "w"}, b{zeros({16}), "b"}, v{data({16, 1}, 2) * 0.3, "v"};
  nn::Adam adam{{.learning_rate = 0.01}};
  Function<Tensor(Tensor)> predict = function("predict", [this](Tensor x) { return matmul(relu(matmul(x, w) + b), v); },
                                              {.signature = {spec(f32, {any, 8}, "x")}});
  Function<Tensor(Tensor, Tensor)> step = function("train_step",
                                                   [this](Tensor x, Tensor y) {
                                                     GradientTape tape;
                                                     const Tensor noisy = x + 0.1 * random::normal(x.shape());
                                                     const Tensor loss =
                                                         mean(square(matmul(relu(matmul(noisy, w) + b), v) - y));
                                                     adam.minimize(loss, tape, {w, b, v});
                                                     return loss;
                                                   },
                                                   {.signature = {spec(f32, {any, 8}, "x"), spec(f32, {any, 1}, "y")}});

  Training() { adam.build({w, b, v}); }
  void save(const std::string& path) { save_functions(path, {{"predict", predict}, {"train_step", step}}); }
};

Tensor batch_x(int i) { return data({i % 3 == 2 ? 5 : 4, 8}, 100 + uint64_t(i)); }
Tensor batch_y(int i) { return sum(batch_x(i), 1, true); }

Tensor train(const Model& m, int i) {
  return m.function("train_step")({{"x", batch_x(i)}, {"y", batch_y(i)}}).at("output");
}

}  // namespace

TEST_CASE("training that is saved and loaded goes on as if it had not stopped") {
  const Folder out;
  random::seed(7);
  Training t;
  for (int i = 0; i < 5; ++i) t.step(batch_x(i), batch_y(i));
  t.save(out / "five.rill");
  std::vector<Tensor> losses;
  for (int i = 5; i < 12; ++i) losses.push_back(t.step(batch_x(i), batch_y(i)));
  const Tensor end = t.predict(batch_x(0));

  const Model m = import_model(out / "five.rill");
  CHECK(m.functions() == std::vector<std::string>{"predict", "train_step"});
  for (int i = 5; i < 9; ++i) CHECK(same_bits(train(m, i), losses[size_t(i - 5)]));
  save_functions(out / "nine.rill", m);  // what was loaded and trained is saved again
  const Model again = import_model(out / "nine.rill");
  for (int i = 9; i < 12; ++i) CHECK(same_bits(train(again, i), losses[size_t(i - 5)]));
  CHECK(same_bits(again({{"x", batch_x(0)}}).at("output"), end));  // the functions share their Variables
  CHECK(same_bits(again.variables().at("w").value(), t.w.value()));
  CHECK_FALSE(same_bits(m.variables().at("w").value(), t.w.value()));
}

TEST_CASE("a file that is written while another thread trains has the Variables of one step") {
  const Folder out;
  constexpr int count = 24;
  std::vector<Variable> all;
  for (int i = 0; i < count; ++i) all.emplace_back(zeros({}), fmt::format("v{}", i));
  const auto train = function("train", [&](const Tensor& x) {
    for (const Variable& v : all) Variable(v).assign_add(1);
    return x;
  });
  const auto look = function("look",
                             [&](const Tensor& x) {
                               std::vector<Tensor> values;
                               for (const Variable& v : all) values.push_back(x * v);
                               return stack(values);
                             },
                             {.signature = {spec(f32, {}, "x")}});
  const Graph graph = look.graph(spec(f32, {}, "x"));
  const Tensor one = ones({});
  train(one);
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) train(one);
  });
  int torn = 0;
  const auto see = [&](const Tensor& values) {
    const auto v = values.to_vector<float>();
    torn += std::any_of(v.begin(), v.end(), [&](float x) { return x != v[0]; });
  };
  for (int i = 0; i < 20; ++i) {
    for (const char* path : {"f.rill", "f.onnx", "saved", "f.pb"}) {
      export_model(look, out / path);
      see(import_model(out / path)({{"x", one}}).begin()->second);
    }
    see(freeze(graph).run({{"x", one}})[0]);
  }
  stop = true;
  other.join();
  CHECK(torn == 0);
}

TEST_CASE("nothing is written of a Variable that the trace has assigned") {
  const Folder out;
  const Variable v(ones({2}), "v");
  const auto reads = function("reads", [&](const Tensor& x) { return x * v; }, {.signature = {spec(f32, {2}, "x")}});
  const Graph graph = reads.graph(spec(f32, {2}, "x"));
  const auto after = [&](const std::function<void()>& act) {
    const auto f = function("f", [&](const Tensor& x) {
      Variable(v).assign(x * 3);
      act();
      return x;
    });
    return message_of([&] { f(ones({2})); });
  };
  const std::string why = "has assigned the Variable 'v'";
  CHECK(has(after([&] { freeze(graph); }), why));
  CHECK(has(after([&] {
              cond(sum(v) > 0.f, [&] { return freeze(graph).run({{"x", ones({2})}})[0]; }, [&] { return ones({2}); });
            }),
            why));
  CHECK(has(after([&] { export_model(reads, out / "f.onnx"); }), why));
  CHECK(has(after([&] { export_model(reads, out / "saved"); }), why));
  CHECK(has(after([&] { export_model(reads, out / "f.rill"); }), why));
  const auto before = function("before", [&](const Tensor& x) {
    const Tensor y = freeze(graph).run({{"x", x}})[0];
    Variable(v).assign(y * 3);
    return y;
  });
  CHECK(same_bits(before(ones({2}) * 2), ones({2}) * 2));
  CHECK(same_bits(v.value(), ones({2}) * 6));
}

TEST_CASE("what a file says of itself and of its Variables stays when it is saved again") {
  const Folder out;
  Training t;
  save_functions(out / "a.rill", {{"predict", t.predict}, {"train_step", t.step}},
                 {.metadata = {{"licence", "free"}, {"doc", "a net"}}});
  const Model m = import_model(out / "a.rill", {.trainable = false});
  CHECK_FALSE(m.variables().at("w").trainable());
  save_functions(out / "b.rill", m, {.metadata = {{"licence", "none"}}});
  export_model(m, out / "c.rill");
  export_model(m, out / "d.rill", {.signature = {spec(f32, {4, 8}, "x")}});
  export_model(m, out / "e.onnx");
  export_model(import_model(out / "e.onnx"), out / "f.rill");
  for (const char* name : {"b.rill", "c.rill", "d.rill", "f.rill"}) {
    INFO(name);
    const Model again = import_model(out / name);
    CHECK(again.variables().at("w").trainable());
    const auto& metadata = again.impl()->metadata;
    CHECK(metadata.at("doc") == "a net");
    CHECK(metadata.at("licence") == (std::string(name) == "b.rill" ? "none" : "free"));
  }
}

TEST_CASE("a graph whose sizes are open says too little for a file") {
  const Folder out;
  const Training t;
  t.predict(ones({2, 8}));
  for (const char* path : {"f.rill", "f.onnx", "saved", "f.pb"})
    CHECK_THROWS_WITH(export_model(t.predict.graph(spec(f32, {any, 8}, "x")), out / path),
                      contains_text("a graph with open sizes"));
  CHECK(out.names().empty());
}

TEST_CASE("the Variables of a file are differentiated and trained by this program") {
  const Folder out;
  Training t;
  t.save(out / "f.rill");
  const Model m = import_model(out / "f.rill");
  const Variable w = m.variables().at("w");
  auto gradient = [](const Variable& by, const std::function<Tensor()>& f) {
    GradientTape tape;
    const Tensor y = f();
    return tape.gradient(sum(y * y), by);
  };
  const Tensor want = gradient(t.w, [&] { return t.predict(batch_x(1)); });
  CHECK(same_bits(gradient(w, [&] { return m({{"x", batch_x(1)}}).at("output"); }), want));
  // Inside a traced function of this program.
  const auto inside = function("inside", [&](const Tensor& x) { return m({{"x", x}}).at("output") * 1; });
  CHECK(same_bits(gradient(w, [&] { return inside(batch_x(1)); }),
                  gradient(t.w, [&] { return t.predict(batch_x(1)) * 1; })));
  Variable(w).assign(w.value() * 0);
  CHECK(same_bits(m({{"x", batch_x(1)}}).at("output"), zeros({4, 1})));
  const Model fixed = import_model(out / "f.rill", {.trainable = false});
  CHECK_FALSE(fixed.variables().at("w").trainable());
}

TEST_CASE("effects, captured tensors of any kind and layout, and source lines come back") {
  const Folder out;
  const Tensor words = tensor({std::string("a"), std::string("käse")}),
               z = complex(data({2, 2}), data({2, 2}, 3)).astype(c128);
  const Tensor turned = transpose(data({3, 4}));
  const auto f = function("f",
                          [&](const Tensor& x) {
                            print("x is {}", x);
                            assert_that(all(x > 0), "x is positive", x);
                            return std::tuple(matmul(turned, x), words, z * 2, tensor({1.5, 2.5}) + NAN,
                                              full({2}, true), arange(0, 3));
                          },
                          {.signature = {spec(f32, {3, 2}, "x")}});
  export_model(f, out / "f.rill");
  const Model m = import_model(out / "f.rill");
  const Tensor x = abs(data({3, 2}));
  std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> want;
  List is;
  const std::string said = stderr_of([&] { want = f(x); });
  CHECK(stderr_of([&] { is = call(m, {x}); }) == said);
  CHECK(has(said, "x is "));
  CHECK(same_bits(is[0], std::get<0>(want)));
  CHECK(same_bits(is[1], words));
  CHECK(same_bits(is[2], std::get<2>(want)));
  CHECK(same_bits(is[3], std::get<3>(want)));
  CHECK(same_bits(is[4], std::get<4>(want)));
  CHECK(same_bits(is[5], std::get<5>(want)));
  CHECK(has(message_of([&] { call(m, {x * -1}); }), "test_rill_file.cpp"));
  CHECK(has(message_of([&] { call(m, {x * -1}); }), "x is positive"));
}

// The other program: this one, run again with the file's name.
TEST_CASE("a file is read where nothing of what made it is left", "[.reader]") {
  const char* folder = std::getenv("RILL_TEST_FOLDER");
  REQUIRE(folder != nullptr);
  const Model m = import_model(std::string(folder) + "/f.rill");
  NamedTensors results;
  for (int i = 0; i < 4; ++i) results[fmt::format("loss{}", i)] = train(m, i);
  results["y"] = m({{"x", batch_x(9)}}).at("output");
  save(std::string(folder) + "/results.safetensors", results);
}

TEST_CASE("another process goes on with the same bits") {
  const Folder out;
  random::seed(3);
  Training t;
  t.save(out / "f.rill");
  const std::string command = fmt::format("RILL_TEST_FOLDER='{}' '{}' '[.reader]' > /dev/null", out.path(),
                                          std::filesystem::read_symlink("/proc/self/exe").string());
  REQUIRE(std::system(command.c_str()) == 0);
  const NamedTensors results = load(out / "results.safetensors");
  for (int i = 0; i < 4; ++i) CHECK(same_bits(results.at(fmt::format("loss{}", i)), t.step(batch_x(i), batch_y(i))));
  CHECK(same_bits(results.at("y"), t.predict(batch_x(9))));
}

TEST_CASE("what cannot be saved is an error that says why") {
  const Folder out;
  const auto f = function("f", [](const Tensor& x) { return x * 2; });
  CHECK_THROWS_WITH(save_functions(out / "f.rill", {{"f", f}}), contains_text("signature"));
  const FunctionToSaveOptions options{.signature = {spec(f32, {2}, "x")}};
  CHECK_THROWS_WITH(save_functions(out / "f.zip", {{"f", f, options}}), contains_text("ends in .rill"));
  CHECK_THROWS_WITH(save_functions(out / "f.rill", {{"f", f, options}, {"f", f, options}}),
                    contains_text("two functions"));
  CHECK_THROWS_WITH(save_functions(out / "f.rill", std::vector<FunctionToSave>()), contains_text("no functions"));
  CHECK(out.names().empty());
  save_functions(out / "f.rill", {{"f", f, options}});
  CHECK_THROWS_WITH(import_model(out / "f.rill").function("g"), contains_text("it has f"));
}

// Writes tests/fixtures/formats/functions.rill anew, whose members stand beside it for fuzz_files.cpp: see the README
// there.
TEST_CASE("the file that is damaged by fuzz_files.cpp", "[.corpus]") {
  const char* folder = std::getenv("RILL_TEST_FOLDER");
  REQUIRE(folder != nullptr);
  const Variable w(data({3, 2}), "w"), words(tensor({std::string("a"), std::string("b")}), "words");
  const auto control =
      function("control",
               [&](const Tensor& x) {
                 const auto [h, ys] = scan(
                     [&](const Tensor& c, const Tensor& r) { return std::pair(tanh(c + r), c * r); }, zeros({3}), x);
                 const Tensor picked = cond(sum(h) > 0, [&] { return matmul(x, w); }, [&] { return matmul(x * 2, w); });
                 const Tensor looped = while_loop([](const Tensor& v) { return sum(v) < 100.f; },
                                                  [](const Tensor& v) { return v * v + 1; }, sum(ys), {.max_steps = 3});
                 return std::pair(reshape(picked, {x.dim(0) * 2}),
                                  looped + switch_case(tensor(1), {[&] { return sum(x); }, [&] { return prod(x); }}));
               },
               {.signature = {spec(f32, {any, 3}, "x")}});
  const auto step = function(
      "step",
      [&](const Tensor& x) {
        GradientTape tape;
        const Tensor y = custom_gradient(
            [](const Tensor& v) { return std::pair(v * v, [v](const Tensor& g) { return g * v; }); })(matmul(x, w));
        const Tensor loss =
            sum(softmax(recompute([](const Tensor& v) { return tanh(v); })(y)) + random::normal({4, 2}));
        const Tensor dw = tape.gradient(loss, w);
        Variable(w).assign_sub(dw * 0.1);
        print("{}", loss);
        return pad(x, {{1, 0}, {0, 2}}, 0.5)(slice(1, none, 2), all) + full({2, 5}, 2) + sum(where(x > 0, x, 0.5));
      },
      {.signature = {spec(f32, {4, 3}, "x")}});
  const auto layers = function("layers",
                               [&](const Tensor& x) {
                                 const Tensor y = max_pool(conv2d(x, ones({3, 3, 2, 4})), {2, 2});
                                 return std::tuple(layer_norm(y, ones({4}), zeros({4})), take(y, tensor({0, 1}), 1),
                                                   cumsum(argmax(y, 3), 1), words.value());
                               },
                               {.signature = {spec(f32, {1, 8, 8, 2}, "image")}});
  save_functions(std::string(folder) + "/functions.rill", {{"control", control}, {"step", step}, {"layers", layers}});
}
