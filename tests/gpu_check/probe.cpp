// What `./dev gpu-check` asks of a GPU besides the tests: a program small enough for compute-sanitizer and Nsight, and
// the rows that are timed beside torch (torch_rows.py has the same ones).
//
//   probe smoke            each of `programs` below, small, on gpu:0 against the CPU
//   probe NAME             one of them alone
//   probe time NAME [SIZE] one of `rows`, as a line of bench.csv; SIZE, from 0 to 1, makes operands smaller
//   probe list             the names of both
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rill/nn.h"
#include "rill/rill.h"

using namespace rill;

namespace {

const Device host("cpu:0"), gpu("gpu:0");

// --- Small programs, held to the CPU's results -----------------------------------------------------------------------

struct Program {
  const char* name;
  double tolerance;                            // of the largest result; 0: the CPU's very bits
  std::function<Tensor(const Tensor& x)> run;  // x: f32[48,40], made on the CPU
};

// A symmetric matrix of 9 x 9 whose eigenvalues are at least 1: a simulated GPU takes long for a large one.
Tensor definite(const Tensor& x) {
  const Tensor part = x(slice(0, 9), slice(0, 9));
  return matmul(transpose(part), part) + eye(9);
}

const std::vector<Program> programs = {
    {"chain", 0, [](const Tensor& x) { return tanh(x * 2.f) + exp(-abs(x)); }},
    {"traced", 0,
     [](const Tensor& x) {
       auto f = function("f", [](const Tensor& x) { return sum(softmax(x, 1) * tanh(x), 1); });
       for (int i = 0; i < 3; ++i, jit::wait()) static_cast<void>(f(x));
       return f(x);
     }},
    // Its key is split on the CPU, for which the pack has no compiler: what stands on the GPU is compiled all the same.
    {"dropout", 1e-6,
     [](const Tensor& x) {
       auto f = function("f", [](const Tensor& x, const random::Key& key) {
         const Tensor noise = random::normal(x.shape(), {.key = key});
         return where(random::uniform(x.shape(), {.key = key.split()[1]}) < 0.3f, 0.f, x * 2 + noise);
       });
       const Tensor y = f(x, random::Key(5));
       jit::wait();
       if (x.device() == gpu && f.explain().find("fused(") == std::string::npos)
         throw Error("nothing was compiled:\n" + f.explain());
       return y + f(x, random::Key(6));
     }},
    {"fold", 1e-6, [](const Tensor& x) { return sum(x, 0) + max(sum(x, 1)); }},
    {"scan", 1e-5, [](const Tensor& x) { return cumsum(x, 0) + cumsum(x, 1); }},
    {"sort", 0, [](const Tensor& x) { return sort(x, 1) + sort(x, 0); }},
    {"attention", 1e-5, [](const Tensor& x) { return attention(x, x * 0.5f, x, {.causal = true}); }},
    {"factorisations", 1e-4,
     [](const Tensor& x) {
       const Tensor a = definite(x);
       return linalg::cholesky(a) + linalg::inv(a) + linalg::eigh(a).eigenvalues + linalg::svd(a).s;
     }},
    {"fft", 1e-5, [](const Tensor& x) { return abs(fft::fft(x)); }},
    {"product", 1e-5, [](const Tensor& x) { return matmul(x, transpose(x)); }},
    {"convolution", 1e-5,
     [](const Tensor& x) {
       return conv2d(reshape(x, {1, 48, 40, 1}), reshape(x(slice(0, 1), slice(0, 36)), {3, 3, 1, 4}),
                     {.padding = "SAME"});
     }},
    {"gradient", 1e-4,
     [](const Tensor& x) {
       GradientTape tape;
       tape.watch(x);
       return tape.gradient(mean(log_softmax(matmul(x, transpose(x)), 1)), x);
     }},
};

bool passes(const Program& p) {
  random::seed(7);
  const Tensor x = random::normal({48, 40}, {.device = host});
  const auto on = [&](Device d) {
    const WithDevice here(d);
    return p.run(x.to(d)).to(host);
  };
  const Tensor want = on(host), is = on(gpu);
  const double off = max(abs(is - want)).item<double>(), largest = max(abs(want)).item<double>();
  const bool good = is.shape() == want.shape() && off <= p.tolerance * largest;  // a NaN is not
  std::printf("%s %s: off by %g of %g\n", good ? "passed" : "FAILED", p.name, off, largest);
  return good;
}

// --- Rows that are timed ---------------------------------------------------------------------------------------------

struct Row {
  const char* name;
  double bytes, flops;  // of one call at full size: what must be moved and computed
  std::function<std::function<void()>(double size)> prepare;
};

int64_t part(double size, int64_t n) { return std::max<int64_t>(64, int64_t(double(n) * size) / 64 * 64); }
Tensor normal(const Shape& shape, DType dtype = f32) { return random::normal(shape).astype(dtype); }

// Calls of f(x...), whose results are dropped.
template <class F, class... T>
std::function<void()> calls(F f, T... x) {
  return [=] { static_cast<void>(f(x...)); };
}
std::function<void()> product(double size, int64_t n, DType dtype) {
  const int64_t m = part(size, n);
  return calls([](const Tensor& a, const Tensor& b) { return matmul(a, b); }, normal({m, m}, dtype),
               normal({m, m}, dtype));
}
std::function<void()> attend(double size, DType dtype) {
  const Tensor x = normal({4, 16, part(size, 2048), 64}, dtype);
  return calls([](const Tensor& x) { return attention(x, x, x, {.causal = true}); }, x);
}
std::function<void()> train(double size) {
  struct Training {
    nn::Sequential net;
    nn::Adam adam;
  };
  const int64_t width = part(size, 4096);
  auto t = std::make_shared<Training>(
      Training{nn::Sequential(nn::Dense(width, width, {.activation = relu}),
                              nn::Dense(width, width, {.activation = relu}), nn::Dense(width, 10)),
               nn::Adam()});
  auto step = std::make_shared<Function<Tensor(const Tensor&)>>(function("step", [t](const Tensor& x) {
    GradientTape tape;
    const Tensor loss = mean(square(t->net(x, nn::Mode::training)));
    const auto parameters = t->net.parameters();
    t->adam.apply_gradients(tape.gradient(loss, parameters), parameters);
    return loss;
  }));
  const Tensor x = normal({part(size, 1024), width});
  return [=] { static_cast<void>((*step)(x)); };
}

constexpr double M = 1 << 20;
const std::vector<Row> rows = {
    {"tiny_add", 0, 0, [](double) { return calls([](const Tensor& x) { return x + x; }, normal({4, 4})); }},
    {"add_64M", 12 * 64 * M, 64 * M,
     [](double s) { return calls([](const Tensor& x) { return x + x * 1.f; }, normal({part(s, 64 << 20)})); }},
    {"exp_64M", 8 * 64 * M, 64 * M,
     [](double s) { return calls([](const Tensor& x) { return exp(x); }, normal({part(s, 64 << 20)})); }},
    {"traced_chain_64M", 8 * 64 * M, 0,
     [](double s) {
       auto f = function("chain", [](const Tensor& x) { return tanh(x * 2.f + 1.f) * sigmoid(x); });
       return calls(f, normal({part(s, 64 << 20)}));
     }},
    {"sum_64M", 4 * 64 * M, 64 * M,
     [](double s) { return calls([](const Tensor& x) { return sum(x); }, normal({part(s, 64 << 20)})); }},
    {"sum_rows_16K", 4 * 64 * M, 64 * M,
     [](double s) { return calls([](const Tensor& x) { return sum(x, 1); }, normal({part(s, 16384), 4096})); }},
    {"sum_columns_16K", 4 * 64 * M, 64 * M,
     [](double s) { return calls([](const Tensor& x) { return sum(x, 0); }, normal({part(s, 16384), 4096})); }},
    {"softmax_16K", 8 * 64 * M, 0,
     [](double s) { return calls([](const Tensor& x) { return softmax(x, 1); }, normal({part(s, 16384), 4096})); }},
    {"softmax_1_row", 8 * 50304, 0,
     [](double) { return calls([](const Tensor& x) { return softmax(x, 1); }, normal({1, 50304})); }},
    {"layer_norm_16K", 8 * 64 * M, 0,
     [](double s) { return calls([](const Tensor& x) { return layer_norm(x); }, normal({part(s, 16384), 4096})); }},
    {"cumsum_16M", 8 * 16 * M, 16 * M,
     [](double s) { return calls([](const Tensor& x) { return cumsum(x, 0); }, normal({part(s, 16 << 20)})); }},
    {"sort_4M", 0, 0,
     [](double s) { return calls([](const Tensor& x) { return sort(x); }, normal({part(s, 4 << 20)})); }},
    {"take_rows", 8 * 64 * M, 0,
     [](double s) {
       const int64_t n = part(s, 65536);
       return calls([](const Tensor& x, const Tensor& at) { return take(x, at, 0); }, normal({n, 1024}),
                    argsort(normal({n})));
     }},
    {"matmul_f32_4096", 0, 2.0 * 4096 * 4096 * 4096, [](double s) { return product(s, 4096, f32); }},
    {"matmul_f16_8192", 0, 2.0 * 8192 * 8192 * 8192, [](double s) { return product(s, 8192, f16); }},
    {"matmul_bf16_8192", 0, 2.0 * 8192 * 8192 * 8192, [](double s) { return product(s, 8192, bf16); }},
    {"conv_3x3", 0, 2.0 * 64 * 56 * 56 * 128 * 128 * 9,
     [](double s) {
       return calls([](const Tensor& x, const Tensor& w) { return conv2d(x, w, {.padding = "SAME"}); },
                    normal({64, part(s, 56 + 8), 56, 128}), normal({3, 3, 128, 128}));
     }},
    {"attention_f32", 0, 2.0 * 4 * 16 * 2048 * 2048 * 64, [](double s) { return attend(s, f32); }},
    {"attention_bf16", 0, 2.0 * 4 * 16 * 2048 * 2048 * 64, [](double s) { return attend(s, bf16); }},
    {"fft_4M", 0, 0,
     [](double s) { return calls([](const Tensor& x) { return fft::rfft(x); }, normal({part(s, 4096), 1024})); }},
    {"cholesky_512x64", 0, 0,
     [](double s) {
       const Tensor x = normal({part(s, 512), 64, 64});
       return calls([](const Tensor& a) { return linalg::cholesky(a); },
                    matmul(x, transpose(x, {0, 2, 1})) / 64.f + eye(64));
     }},
    {"mlp_step", 0, 0, [](double s) { return train(s); }},
};

double seconds_of(const std::function<void()>& call, int times) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) call();
  synchronize(gpu);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / times;
}

// The median of five runs of about 30 ms each.
void time(const Row& row, double size) {
  const WithDevice here(gpu);
  random::seed(7);
  const auto call = row.prepare(size);
  const double first = seconds_of(call, 1);
  for (int i = 0; i < 3; ++i, jit::wait()) call();
  synchronize(gpu);
  const int times = std::clamp(int(0.03 / seconds_of(call, 1)), 1, 2000);
  std::vector<double> runs;
  for (int i = 0; i < 5; ++i) runs.push_back(seconds_of(call, times));
  std::sort(runs.begin(), runs.end());
  const double s = runs[2];
  const auto rate = [&](double work) { return size == 1 ? work / s : 0; };
  std::printf("row,%s,rill,%.9g,%.9g,%.9g,%.9g\n", row.name, s, first, rate(row.bytes) * 1e-9, rate(row.flops) * 1e-12);
}

}  // namespace

int main(int count, char** words) {
  const std::string what = count > 1 ? words[1] : "", name = count > 2 ? words[2] : "";
  try {
    if (what == "list") {
      for (const Program& p : programs) std::printf("program %s\n", p.name);
      for (const Row& r : rows) std::printf("row %s\n", r.name);
      return 0;
    }
    if (!has_device(gpu)) return std::fprintf(stderr, "there is no gpu:0\n"), 1;
    int ran = 0, failed = 0;
    for (const Program& p : programs)
      if (what == "smoke" || what == p.name) ++ran, failed += !passes(p);
    for (const Row& r : rows)
      if (what == "time" && name == r.name) ++ran, time(r, count > 3 ? std::atof(words[3]) : 1);
    if (ran == 0) return std::fprintf(stderr, "probe smoke | NAME | time NAME [SIZE] | list\n"), 2;
    return failed > 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
