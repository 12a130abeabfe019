// export_model: a model for each sample of each record, and of whole programs. Whether onnxruntime and TensorFlow run
// them and agree is up to test_onnx_runtime.py and test_tensorflow_runtime.py, for which the cases [.write] write them.
// The messages are looked at in test_onnx_messages.cpp.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "../../benchmarks/models.h"
#include "catch.h"
#include "io_helpers.h"
#include "op_check.h"
#include "record_samples.h"
#include "rill/data.h"
#include "rill/ops/apply.h"
#include "rill/rill.h"
#include "rill/serialize.h"

using namespace rill;

namespace {

using op_check::Inputs;

auto function_of(const Op& op, const Sample& s) {
  return function(std::string(op.name), [&op, &s](std::vector<Tensor> in) { return op_check::run(op, in, s.attrs); });
}

ExportOptions options_for(const Inputs& in) {
  ExportOptions options;
  for (size_t i = 0; i < in.size(); ++i) options.signature.push_back({in[i].spec(), fmt::format("x{}", i)});
  return options;
}

// What a record's result may be off by, element by element, as op_check::mismatch has it.
Tensor allowed_errors(const Op& op, const Tensor& y, const Tensor& magnitude) {
  if (!is_differentiable(y.dtype())) return zeros(y.shape(), {.dtype = f64});
  const std::vector<double> values = y.astype(f64).to_vector<double>(),
                            sums = magnitude.astype(f64).to_vector<double>();
  double largest = 0;
  for (double v : values)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  std::vector<double> allowed;
  for (size_t i = 0; i < values.size(); ++i) {
    double error = op.max_ulp * op_check::ulp_at(values[i], y.dtype());
    error += op.norm_tolerance * op_check::epsilon(y.dtype()) * largest;
    error += op.sum_tolerance * op_check::epsilon(y.dtype()) * std::abs(sums[i]);
    allowed.push_back(error);
  }
  return tensor(allowed, y.shape());
}

nlohmann::json written(const std::string& path, const Tensor& t) {
  std::ofstream file(path, std::ios::binary);
  nlohmann::json entry{{"dtype", std::string(name(t.dtype()))}, {"shape", nlohmann::json::array()}, {"file", path}};
  for (int64_t d : t.shape()) entry["shape"].push_back(d);
  if (t.dtype() == DType::string) {
    entry["strings"] = t.to_vector<std::string>();
    return entry;
  }
  const Tensor dense = t.contiguous();
  file.write(dense.rep()->data, std::streamsize(size_t(dense.size()) * size_of(dense.dtype())));
  return entry;
}

// What files of models end in: the cases [.write] serve other formats too.
std::string extension() {
  const char* wanted = std::getenv("RILL_MODEL_EXTENSION");
  return wanted ? wanted : ".onnx";
}

nlohmann::json write_case(const std::string& folder, const Op& op, const Sample& s, const Inputs& in, int number) {
  const std::string base = fmt::format("{}/{}_{}", folder, op.name, number);
  nlohmann::json entry{{"op", std::string(op.name)}, {"what", op_check::describe(op, in, s.attrs)}};
  try {
    export_model(function_of(op, s), base + extension(), options_for(in));
  } catch (const Error& e) {
    entry["refused"] = e.what();
    return entry;
  }
  entry["model"] = base + extension();
  const Inputs out = op_check::run(op, in, s.attrs);
  Inputs sizes = out;
  if (op.sum_tolerance) sizes = op_check::run_on("ref:0", op, op_check::magnitudes(in), s.attrs);
  for (size_t i = 0; i < in.size(); ++i) entry["in"].push_back(written(fmt::format("{}.in{}", base, i), in[i]));
  for (size_t i = 0; i < out.size(); ++i) {
    entry["out"].push_back(written(fmt::format("{}.out{}", base, i), out[i]));
    const Tensor errors =
        out[i].dtype() == DType::string ? zeros(out[i].shape(), f64) : allowed_errors(op, out[i], sizes[i]);
    entry["allowed"].push_back(written(fmt::format("{}.allowed{}", base, i), errors));
  }
  return entry;
}

}  // namespace

TEST_CASE("models of the records' samples, for another program to run", "[.write]") {
  const char* folder = std::getenv("RILL_ONNX_FOLDER");
  REQUIRE(folder);
  nlohmann::json all = nlohmann::json::array();
  int number = 0;
  record_samples::for_each_op([&](const Op& op) {
    for (const Sample& s : op.samples())
      for (DType d : {record_samples::main_dtype(s), f64, f16, i32}) {
        if (d != record_samples::main_dtype(s) && record_samples::main_dtype(s) != f32) continue;
        auto in = record_samples::in_dtype(op, s, d);
        if (!in) continue;
        for (Tensor& t : *in) t = t.contiguous();
        all.push_back(write_case(folder, op, s, *in, number++));
      }
  });
  std::ofstream(std::string(folder) + "/records.json") << all.dump(1);
}

namespace {

// A model of `f`, and what it gives for each set of operands.
template <class F, class... X>
void write_program(nlohmann::json& cases, const std::string& folder, const std::string& name, const F& f,
                   const std::vector<std::tuple<X...>>& calls, const ExportOptions& options = {}) {
  const std::string base = folder + "/" + name;
  export_model(f, base + extension(), options);
  int number = 0;
  for (const std::tuple<X...>& call : calls) {
    nlohmann::json entry{{"op", name}, {"what", fmt::format("{} {}", name, number)}, {"model", base + extension()}};
    const std::string file = fmt::format("{}.{}", base, number++);
    int i = 0;
    std::apply([&](const auto&... x) { (entry["in"].push_back(written(fmt::format("{}.in{}", file, i++), x)), ...); },
               call);
    const Tensor y = std::apply(f, call);
    double largest = 0;
    if (is_floating(y.dtype()) && y.size()) largest = max(abs(y)).astype(f64).template item<double>();
    entry["out"].push_back(written(file + ".out", y));
    entry["allowed"].push_back(written(file + ".allowed", full(y.shape(), 4e-6 * largest, {.dtype = f64})));
    cases.push_back(entry);
  }
}

Tensor some(Shape shape, uint64_t seed = 1) { return samples::uniform(shape, -1, 1, seed); }
using One = std::tuple<Tensor>;
using Two = std::tuple<Tensor, Tensor>;

void write_networks(nlohmann::json& cases, const std::string& folder) {
  random::seed(3);
  const bench::Parameters p = bench::mlp_parameters();
  auto mlp = function("mlp",
                      [&](const Tensor& x) {
                        const Tensor h = relu(bench::dense(x, p[0], p[1]));
                        return bench::dense(relu(bench::dense(h, p[2], p[3])), p[4], p[5]);
                      },
                      {.signature = {spec(f32, {any, 784}, "x0")}});
  write_program(cases, folder, "mlp", mlp, std::vector<One>{{some({4, 784})}, {some({1, 784})}});
  write_program(cases, folder, "mlp_beside", mlp, std::vector<One>{{some({4, 784})}}, {.external_data = true});

  const bench::Parameters c = bench::cnn_parameters();
  auto cnn = function("cnn",
                      [&](const Tensor& x) {
                        Tensor h = max_pool(relu(conv(x, c[0], {.padding = "SAME"}) + c[1]), {2, 2});
                        h = max_pool(relu(conv(h, c[2], {.padding = "SAME"}) + c[3]), {2, 2});
                        h = relu(bench::dense(h.reshape({x.dim(0), 3136}), c[4], c[5]));
                        return softmax(bench::dense(h, c[6], c[7]), -1);
                      },
                      {.signature = {spec(f32, {any, 28, 28, 1}, "x0")}});
  write_program(cases, folder, "cnn", cnn, std::vector<One>{{some({2, 28, 28, 1})}, {some({5, 28, 28, 1})}});

  const bench::Parameters b = bench::block_parameters();
  auto block = function("block",
                        [&](const Tensor& x) {
                          const Dim batch = x.dim(0), tokens = x.dim(1);
                          const Tensor qkv =
                              bench::dense(layer_norm(x, b[0], b[1]), b[2], b[3]).reshape({batch, tokens, 3, 8, 32});
                          const Tensor mixed = self_attention(qkv, {.causal = true}).reshape({batch, tokens, 256});
                          const Tensor h = x + bench::dense(mixed, b[4], b[5]);
                          const Tensor wide = gelu(bench::dense(layer_norm(h, b[6], b[7]), b[8], b[9]));
                          return h + bench::dense(wide, b[10], b[11]);
                        },
                        {.signature = {spec(f32, {any, any, 256}, "x0")}});
  write_program(cases, folder, "block", block, std::vector<One>{{some({2, 9, 256})}, {some({1, 33, 256})}});

  const bench::Parameters l = bench::lstm_parameters();
  auto lstm = function("lstm", [&](const Tensor& x) { return bench::lstm_loss(l, x, x); },
                       {.signature = {spec(f32, {any, any, 128}, "x0")}});
  write_program(cases, folder, "lstm", lstm, std::vector<One>{{some({5, 3, 128})}, {some({1, 2, 128})}});
}

void write_control(nlohmann::json& cases, const std::string& folder) {
  Variable w(some({3, 3}, 5), "w");
  const Tensor outside = some({3}, 6);
  auto choice = function(
      "choice",
      [&](const Tensor& x) { return cond(sum(x) > 0, [&] { return matmul(x, w); }, [&] { return x - outside; }); },
      {.signature = {spec(f32, {any, 3}, "x0")}});
  write_program(cases, folder, "cond", choice, std::vector<One>{{ones({2, 3})}, {-ones({4, 3})}, {some({1, 3})}});
  auto branches = function("branches",
                           [&](const Tensor& i, const Tensor& x) {
                             return switch_case(i, {[&] { return x; }, [&] { return -x; }, [&] { return x * x; }});
                           },
                           {.signature = {spec(i64, {}, "x0"), spec(f32, {any}, "x1")}});
  std::vector<Two> calls;
  for (int i : {-1, 0, 1, 2, 7}) calls.push_back({tensor(int64_t(i)), some({4})});
  write_program(cases, folder, "switch", branches, calls);
  auto loop =
      function("loop",
               [&](const Tensor& x) {
                 auto [n, y] = while_loop(
                     [](const Tensor& n, const Tensor& y) { return (n < 20) & (sum(y) < 50); },
                     [&](const Tensor& n, const Tensor& y) { return std::pair(n + 1, y * 1.5f + sum(outside)); },
                     tensor(int64_t(0)), x);
                 return y + n.astype(f32);
               },
               {.signature = {spec(f32, {any}, "x0")}});
  write_program(cases, folder, "while", loop, std::vector<One>{{ones({3})}, {full({2}, 100.f)}});
  for (bool reverse : {false, true}) {
    auto rows = function("rows",
                         [&, reverse](const Tensor& x) {
                           auto [last, ys] = scan(
                               [&](const Tensor& s, const Tensor& row) {
                                 const Tensor next = tanh(matmul(w, s) + row);
                                 return std::pair(next, next * 2);
                               },
                               zeros({3}), x, {.reverse = reverse});
                           return concat({ys, last(newaxis)});
                         },
                         {.signature = {spec(f32, {any, 3}, "x0")}});
    write_program(cases, folder, reverse ? "scan_reverse" : "scan", rows,
                  std::vector<One>{{some({4, 3})}, {some({1, 3})}});
    auto counted = function("counted",
                            [&, reverse](const Tensor& x) {
                              auto [last, ys] = scan([&](const Tensor& s) { return std::pair(s * 0.5f + x, s); }, x,
                                                     {.reverse = reverse, .length = 5});
                              return concat({ys, last(newaxis)});
                            },
                            {.signature = {spec(f32, {any}, "x0")}});
    write_program(cases, folder, reverse ? "steps_reverse" : "steps", counted, std::vector<One>{{some({4})}});
  }
}

// Loops over no rows, whose sizes are open.
void write_loops_of_none(nlohmann::json& cases, const std::string& folder) {
  auto rows = function("no_rows",
                       [](const Tensor& x) {
                         const auto [last, ys] = scan(
                             [](const Tensor& s, const Tensor& row) {
                               return std::pair(s + sum(row), concat({row(slice(1, none)), row * s}));
                             },
                             zeros({}), x);
                         return concat({ys, ys * last});
                       },
                       {.signature = {spec(f32, {any, any}, "x0")}});
  std::vector<One> calls{{some({3, 2})}, {some({1, 4})}};
  if (extension() != ".onnx") calls.push_back({zeros({0, 3})});  // onnxruntime's Loop gives no rows another shape
  write_program(cases, folder, "no_rows", rows, calls);
}

// Variables that are called as inputs are, and as a SavedModel's own nodes.
void write_names(nlohmann::json& cases, const std::string& folder) {
  std::vector<Variable> all;
  for (const char* name :
       {"x0", "save/filename", "save/RestoreV2", "w/Initializer", "w", "w/Read", "w/Assign", "output"})
    all.emplace_back(tensor(float(all.size() + 2)), name);
  auto f = function("names",
                    [&](Tensor x) {
                      for (const Variable& v : all) x = x * v + 1;
                      return x;
                    },
                    {.signature = {spec(f32, {any}, "x0")}});
  write_program(cases, folder, "names", f, std::vector<One>{{some({3})}});
}

// Sizes that are computed from open ones, in every way that attributes take them.
void write_sizes(nlohmann::json& cases, const std::string& folder) {
  const auto signature = std::vector<ArgSpec>{spec(f32, {any, any}, "x0")};
  const std::vector<One> calls{{some({6, 4})}, {some({2, 5})}, {some({9, 1})}};
  auto with = [&](const std::string& name, Tensor (*f)(const Tensor&)) {
    write_program(cases, folder, name, function(name, f, {.signature = signature}), calls);
  };
  const auto image = std::vector<ArgSpec>{spec(f32, {any, any, any, 3}, "x0")};
  const Variable kernel(some({3, 3, 3, 4}, 8), "kernel");
  const std::vector<One> images{{some({2, 6, 7, 3})}, {some({1, 5, 8, 3})}, {some({3, 9, 4, 3})}};
  auto windows = [&](const std::string& name, const std::function<Tensor(const Tensor&)>& f) {
    write_program(cases, folder, name, function(name, f, {.signature = image}), images);
  };
  windows("conv_same", [&](const Tensor& x) { return conv(x, kernel, {.strides = {2, 2}, .padding = "SAME"}); });
  windows("max_same", [](const Tensor& x) { return max_pool(x, {3, 2}, {.strides = {2, 2}, .padding = "SAME"}); });
  windows("avg_same", [](const Tensor& x) { return avg_pool(x, {3, 2}, {.strides = {2, 2}, .padding = "SAME"}); });
  // Of the squares' sum, by the image, or by the kernel.
  const auto by = [](const std::function<Tensor(const Tensor&)>& f, const Variable* of = nullptr) {
    return [f, of](const Tensor& x) {
      GradientTape tape;
      tape.watch(x);
      const Tensor y = f(x), loss = sum(y * y);
      return of ? tape.gradient(loss, *of) : tape.gradient(loss, x);
    };
  };
  for (int64_t stride : {1, 2})
    for (const char* padding : {"SAME", "VALID"}) {
      const auto filtered = [=](const Tensor& x) {
        return conv(x, kernel, {.strides = {stride, stride}, .padding = padding});
      };
      const auto largest = [=](const Tensor& x) {
        return max_pool(x, {3, 2}, {.strides = {stride, stride}, .padding = padding});
      };
      const auto average = [=](const Tensor& x) {
        return avg_pool(x, {3, 2}, {.strides = {stride, stride}, .padding = padding});
      };
      const std::string end = fmt::format("_{}_{}", padding, stride);
      windows("conv_by_x" + end, by(filtered));
      windows("conv_by_kernel" + end, by(filtered, &kernel));
      windows("max_by_x" + end, by(largest));
      windows("avg_by_x" + end, by(average));
      const auto of_rows = [&](const std::string& name, const std::function<Tensor(const Tensor&)>& f) {
        write_program(cases, folder, name + end, function(name, f, {.signature = {spec(f32, {any, 90}, "x0")}}),
                      std::vector<One>{{some({2, 90})}, {some({3, 90})}});
      };
      const auto reshaped = [=](const Tensor& x) { return filtered(reshape(x, {-1, 5, 6, 3})); };
      of_rows("rows_by_x", by(reshaped));
      of_rows("rows_by_kernel", by(reshaped, &kernel));
    }
  write_program(cases, folder, "batches",
                function("batches", [](const Tensor& x) { return matmul(x, swapaxes(x, -1, -2)); },
                         {.signature = {spec(f32, {any, any, any, 3}, "x0")}}),
                images);
  with("flatten", [](const Tensor& x) { return reshape(x, {x.dim(0) * x.dim(1)}) * 2; });
  with("mean_open", [](const Tensor& x) { return mean(x, 0) + sum(x) / x.size(); });
  with("halves", [](const Tensor& x) { return slice_axis(x, 0, x.dim(0) / 2, x.dim(0)); });
  with("tail", [](const Tensor& x) { return x(slice(1, x.dim(0)), all); });
  with("padded", [](const Tensor& x) { return pad(x, {{1, x.dim(1)}, {0, 2}}, 7); });
  write_program(cases, folder, "beside_a_number",
                function("beside_a_number",
                         [](const Tensor& x) {
                           const Tensor y = x + arange(8).astype(f32);
                           return sum(y) / y.dim(0);
                         },
                         {.signature = {spec(f32, {any}, "x0")}}),
                std::vector<One>{{some({8})}, {some({1})}});
  write_program(
      cases, folder, "large_kernel",
      function("large_kernel", [](const Tensor& x) { return conv(x, ones({11, 11, 1, 2}), {.strides = {4, 4}}); },
               {.signature = {spec(f32, {1, any, any, 1}, "x0")}}),
      std::vector<One>{{some({1, 30, 41, 1})}, {some({1, 16, 11, 1})}});
  with("reflected", [](const Tensor& x) { return pad(x, {{0, 0}, {2, 1}}, PadMode::symmetric); });
  with("counts", [](const Tensor& x) { return x + arange(x.dim(1)).astype(f32) + full({x.dim(0), 1}, 3.f); });
  with("softmax_open", [](const Tensor& x) { return softmax(matmul(x, x.T()), -1); });
  with("gathered", [](const Tensor& x) { return take(x, argsort(x(all, 0)), 0); });
  with("variance", [](const Tensor& x) { return var(x, 1) + stddev(x, 0)(0); });
  with("reversed", [](const Tensor& x) { return reverse(cumsum(x, 0), 0); });
}

// What is written where a tensor without axes says, and where it is written from.
void write_places(nlohmann::json& cases, const std::string& folder) {
  const Tensor i = tensor(int64_t(2)), last = tensor(int64_t(-1)), row = some({5}, 3);
  auto with = [&](const std::string& name, const std::function<Tensor(const Tensor&)>& f) {
    write_program(cases, folder, name, function(name, f, {.signature = {spec(f32, {any, 5}, "x0")}}),
                  std::vector<One>{{some({4, 5})}, {some({3, 5})}});
  };
  with("set_row", [=](const Tensor& x) { return Tensor(x).at(i).set(row); });
  with("set_number", [=](const Tensor& x) { return Tensor(x).at(i).set(3); });
  with("add_row", [=](const Tensor& x) { return Tensor(x).at(last).add(row); });
  with("multiply_row", [=](const Tensor& x) { return Tensor(x).at(i).multiply(row); });
  with("max_row", [=](const Tensor& x) { return Tensor(x).at(i).max(0); });
  with("min_column", [=](const Tensor& x) { return Tensor(x).at(all, last).min(0); });
  with("add_column", [=](const Tensor& x) { return Tensor(x).at(all, i).add(x(all, 0)); });
  with("set_element", [=](const Tensor& x) { return Tensor(x).at(i, last).set(7); });
  // Of no elements at all, and of open sizes that come to few.
  with("nothing", [](const Tensor& x) { return concat({x, repeat(x(slice(2, 1)), 3, 0), zeros({0, 5})}, 0); });
  with("set_tail", [](const Tensor& x) { return Tensor(x).at(slice(x.dim(0) - 3, none)).set(2); });
  with("cut_or_padded", [](const Tensor& x) { return pad(x, {{x.dim(0) - 4, 3 - x.dim(0)}, {0, 0}}, 7); });
  with("window",
       [](const Tensor& x) { return sum(reshape(x, {-1, 5}), 1) + reshape(x(all, slice(2, 3)), {x.dim(0)}); });
  with("add_part", [=](const Tensor& x) { return Tensor(x).at(i, slice(1, 3)).add(5); });
}

// Operators that the formats do not have of unsigned numbers and of bools.
void write_dtypes(nlohmann::json& cases, const std::string& folder) {
  const Tensor large = tensor({uint64_t(0), uint64_t(1), uint64_t(6), ~uint64_t(0), uint64_t(1) << 63});
  const auto of_u64 = [&](const std::string& name, Tensor (*f)(const Tensor&)) {
    write_program(cases, folder, name, function(name, f, {.signature = {spec(u64, {any}, "x0")}}),
                  std::vector<One>{{large}});
  };
  of_u64("u64_negative", [](const Tensor& x) { return negative(x); });
  of_u64("u64_abs", [](const Tensor& x) { return abs(x); });
  of_u64("u64_sign", [](const Tensor& x) { return sign(x); });
  const auto at_two = [](const std::string& name, Tensor (*f)(const Tensor&, const Tensor&)) {
    return function(name, f, {.signature = {spec(boolean, {5}, "x0"), spec(boolean, {4}, "x1")}});
  };
  const std::vector<Two> bools{{tensor({true, false, true, false, false}), tensor({false, true, false, true})}};
  const auto sums = [](const Tensor& x, const Tensor& y) { return Tensor(x).at(tensor({0, 1, 3, 3})).add(y); };
  const auto products = [](const Tensor& x, const Tensor& y) { return Tensor(x).at(tensor({0, 1, 2, 2})).multiply(y); };
  write_program(cases, folder, "bool_add", at_two("bool_add", sums), bools);
  write_program(cases, folder, "bool_multiply", at_two("bool_multiply", products), bools);
  if (extension() == ".onnx") return;  // onnxruntime has no Where and no Mod of u64
  of_u64("u64_gcd", [](const Tensor& x) { return gcd(x, full({}, 4, {.dtype = u64})); });
  of_u64("u64_lcm", [](const Tensor& x) { return lcm(x, full({}, 4, {.dtype = u64})); });
  of_u64("u64_square", [](const Tensor& x) { return power(x, 2); });
  of_u64("u64_power", [](const Tensor& x) { return power(full({}, 3, {.dtype = u64}), remainder(x, 60)); });
}

// Raw columns of a table, texts among them, by way of feature columns.
void write_features(nlohmann::json& cases, const std::string& folder) {
  using namespace data::features;
  const Column buckets = bucketized("x0", {18, 30, 65}), words = vocabulary("x1", {"cook", "nurse"});
  std::vector<Column> columns{buckets, words,
                              embedding(words, 3, {.initializer = [](const Shape& s) { return some(s); }}),
                              numeric("x0", {.missing = 7.}), weighted(words, "x0")};
  if (extension() != ".onnx") {  // which has no hash of strings
    columns.push_back(hashed("x1", 20));
    columns.push_back(crossed({buckets, "x1"}, 50));
    columns.push_back(vocabulary("x1", {"cook"}, {.unknown = 4}));
  }
  const Columns all(columns);
  const auto f =
      function("features", [all](const Tensor& x, const Tensor& y) { return all(std::vector<Tensor>{x, y}); },
               {.signature = all.signature()});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  write_program(
      cases, folder, "features", f,
      std::vector<Two>{{tensor({19.f, 34.f, 71.f}), tensor({"nurse", "", "a job of more than sixteen bytes"})},
                       {tensor({nan}), tensor({"cook"})}});
}

// Functions of several records, for which formats have an operator or a few: serialize/onnx/out/idioms.h.
using Idiom = std::pair<const char*, Tensor (*)(const Tensor&)>;
const Idiom idioms[] = {
    {"idiom_gelu", [](const Tensor& x) { return gelu(x, false); }},
    {"idiom_gelu_tanh", [](const Tensor& x) { return gelu(x, true); }},
    {"idiom_silu", [](const Tensor& x) { return silu(x); }},
    {"idiom_mish", [](const Tensor& x) { return mish(x); }},
    {"idiom_softplus", [](const Tensor& x) { return softplus(x); }},
    {"idiom_log_sigmoid", [](const Tensor& x) { return log_sigmoid(x); }},
    {"idiom_softsign", [](const Tensor& x) { return softsign(x); }},
    {"idiom_selu", [](const Tensor& x) { return selu(x); }},
    {"idiom_celu", [](const Tensor& x) { return celu(x, 0.7); }},
    {"idiom_elu", [](const Tensor& x) { return elu(x, 0.3); }},
    {"idiom_leaky_relu", [](const Tensor& x) { return leaky_relu(x, 0.05); }},
    {"idiom_hard_swish", [](const Tensor& x) { return hard_swish(x); }},
    {"idiom_hard_sigmoid", [](const Tensor& x) { return hard_sigmoid(x); }},
    {"idiom_relu6", [](const Tensor& x) { return relu6(x); }},
    {"idiom_rms_norm", [](const Tensor& x) { return rms_norm(x, {.epsilon = 1e-3}); }},
    // What is read inside of one stays, and one may stand inside another graph.
    {"idiom_beside", [](const Tensor& x) { return gelu(x, false) + erf(x * 0.5) + silu(silu(x)); }},
    {"idiom_inside",
     [](const Tensor& x) { return cond(sum(x) > 0, [&] { return gelu(x, false); }, [&] { return silu(x) * 2; }); }},
};

void write_idioms(nlohmann::json& cases, const std::string& folder) {
  const Tensor x = some({6, 8}) * 6;
  for (const auto& [name, f] : idioms) {
    const auto traced = function(name, f, {.signature = {spec(f32, {any, 8}, "x0")}});
    write_program(cases, folder, name, traced, std::vector<One>{{x}, {x(slice(0, 2))}});
  }
}

}  // namespace

TEST_CASE("models of whole programs, for another program to run", "[.write]") {
  const char* folder = std::getenv("RILL_ONNX_FOLDER");
  REQUIRE(folder);
  nlohmann::json cases = nlohmann::json::array();
  write_networks(cases, folder);
  write_control(cases, folder);
  write_loops_of_none(cases, folder);
  write_names(cases, folder);
  write_sizes(cases, folder);
  write_places(cases, folder);
  write_dtypes(cases, folder);
  write_features(cases, folder);
  write_idioms(cases, folder);
  std::ofstream(std::string(folder) + "/programs.json") << cases.dump(1);
}

TEST_CASE("every record is exported, but for those that no operator can express") {
  Folder folder;
  std::set<std::string> refused;
  int written = 0;
  record_samples::for_each_op([&](const Op& op) {
    const std::vector<Sample> samples = op.samples();
    for (size_t i = 0; i < samples.size() && i < 2; ++i) try {
        export_model(function_of(op, samples[i]), folder / "m.onnx", options_for(samples[i].in));
        ++written;
      } catch (const Error& e) {
        const bool by_signature = has(e.what(), "is complex, which nothing is that ONNX's models take");
        CHECK((by_signature || has(e.what(), "cannot be written as ONNX")));
        refused.insert(std::string(op.name));
      }
  });
  const std::string_view expected =
      "airy_ai airy_ai_slope airy_bi airy_bi_slope beta beta_density betainc betainc_by_a betainc_by_b betaln binom "
      "block_matmul cholesky complex conj cosine_integral dawsn dawsn_derivative eig eigh eigvals eigvalsh erfcx "
      "erfcx_derivative erfcx_slope exp1 expi expm fft fresnel_cosine fresnel_cosine_slope fresnel_sine "
      "fresnel_sine_slope from_blocks gamma_density i0 i0e i0e_derivative i0e_slope i1 i1_slope i1e i1e_derivative "
      "i1e_slope igamma igamma_by_a igammac igammac_by_a imag irfft iv j0 j1 j1_slope jv k0 k0e k0e_derivative k1 "
      "k1e k1e_derivative kv lambertw log_gamma_sample_slope lstsq lu pinv polygamma polygamma_drop qr "
      "random_binomial random_bits random_gamma random_multinomial random_poisson real rfft sine_integral slogdet "
      "solve spherical_jn string_cross_bucket string_fingerprint string_hash_bucket string_length string_lower "
      "string_of_number string_replace string_strip string_upper svd svdvals tgamma triangular_solve y0 y1 zeta "
      "zeta_by_s ";
  std::string list;
  for (const std::string& name : refused) list += name + " ";
  CHECK(list == expected);
  CHECK(written > 270);
}

TEST_CASE("what is exported is imported again, and gives the same") {
  Folder folder;
  Variable w(some({8, 4}), "w"), b(some({4}), "b");
  auto predict = function("predict",
                          [&](const Tensor& x) {
                            const Tensor h = softmax(matmul(x, w) + b, -1);
                            return cond(sum(x) > 0, [&] { return gelu(h); }, [&] { return reshape(h, {x.dim(0), 4}); });
                          },
                          {.signature = {spec(f32, {any, 8}, "x")}});
  export_model(predict, folder / "m.onnx");
  const Model again = import_model(folder / "m.onnx");
  for (const Tensor& x : {some({3, 8}), ones({5, 8}), -ones({1, 8})})
    CHECK(allclose(again({{"x", x}}).at("output"), predict(x), {.rtol = 1e-5, .atol = 1e-6}));
  CHECK(again.variables().count("w") == 1);
}

TEST_CASE("functions that go out as an operator come in again as they were") {
  Folder folder;
  for (const DType dtype : {f32, f16})
    for (const auto& [name, f] : idioms) {
      const auto traced = function(name, f, {.signature = {spec(dtype, {any, 8}, "x")}});
      const Tensor x = (some({6, 8}) * 6).astype(dtype);
      for (const char* file : {"m.onnx", "saved"}) {
        INFO(name << " " << file);
        export_model(traced, folder / file);
        const double error = dtype == f32 ? 2e-6 : 4e-3;
        const Tensor again = import_model(folder / file)({{"x", x}}).begin()->second;
        CHECK(allclose(again.astype(f32), traced(x).astype(f32), {.rtol = error, .atol = error}));
      }
    }
}

TEST_CASE("powers whose exponent the file says to be 2 or 3 come in as products") {
  Folder folder;
  const auto f =
      function("f", [](const Tensor& x) { return std::vector<Tensor>{power(x, 2.f), power(x, 3.f), power(x, 2.5f)}; },
               {.signature = {spec(f32, {any}, "x")}});
  const Tensor x = abs(some({4096})) * 3;
  export_model(f, folder / "m.onnx", {.outputs = {"square", "cube", "other"}});
  auto again = import_model(folder / "m.onnx", {.trainable = false})({{"x", x}});
  CHECK(array_equal(again.at("square"), square(x)));
  CHECK(array_equal(again.at("cube"), x * x * x));
  CHECK(array_equal(again.at("other"), power(x, 2.5f)));
}

TEST_CASE("an ONNX model is written for the opset that is asked for, or refused by the operator's name") {
  Folder folder;
  const auto f =
      function("f", [](const Tensor& x) { return gelu(x, false); }, {.signature = {spec(f32, {any, 8}, "x")}});
  export_model(f, folder / "m.onnx", {.opset = 28});
  CHECK(allclose(import_model(folder / "m.onnx")({{"x", ones({2, 8})}}).at("output"), gelu(ones({2, 8}), false)));
  CHECK_THROWS_WITH(export_model(f, folder / "m.onnx", {.opset = 17}),
                    contains_text("the option opset is 17, and 'Gelu' came with opset 20. ask for 20"));
  for (const int64_t opset : {12, 29, -1})
    CHECK_THROWS_WITH(export_model(f, folder / "m.onnx", {.opset = opset}),
                      contains_text(fmt::format("the option opset is {}; 13 to 28 can be written", opset)));
}
