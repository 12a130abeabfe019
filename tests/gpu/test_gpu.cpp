// The GPU, gpu:0: of this machine where it has one, else the simulated one (cuda/simulated), which the build puts in
// the path of libraries. Every record's kernel there against the CPU's, programs, and mistakes.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <thread>

#include "catch.h"
#include "gpu_devices.h"
#include "messages.h"
#include "op_check.h"
#include "record_samples.h"
#include "rill/nn.h"
#include "rill/ops/buffers.h"
#include "rill/ops/dlpack.h"
#include "rill/rill.h"
#include "same.h"

using namespace record_samples;
using op_check::mismatch;
using op_check::run;

namespace {

// The results on the GPU, brought back; none where there is no kernel for the dtype.
std::optional<Inputs> on_gpu(const Op& op, const Inputs& in, const Attrs& attrs) {
  try {
    return to(run(op, to(in, gpu), attrs), host);
  } catch (const Error& e) {
    if (std::string(e.what()).find("there is no kernel") == std::string::npos) throw;
    return std::nullopt;
  }
}

// Whether RILL_TEST_OPS="sum prod", where there is one, names the record.
bool wanted(std::string_view name) {
  const char* names = std::getenv("RILL_TEST_OPS");
  return !names || (" " + std::string(names) + " ").find(" " + std::string(name) + " ") != std::string::npos;
}

}  // namespace

TEST_CASE("every record") {
  std::set<std::string> missing;
  int count = 0;
  for_each_op([&](const Op& op) {
    if (op.name == "transfer" || !wanted(op.name)) return;
    const WithDevice here(host);
    for (const Sample& s : op.samples())
      for (const DType d : {f16, bf16, f32, f64, DType::i8, i32, i64, u8, DType::boolean, c64}) {
        if (main_dtype(s) == rill::string) continue;  // strings live on the host
        const auto in = in_dtype(op, s, d);
        if (!in) continue;
        INFO(op_check::describe(op, *in, s.attrs));
        const WithDevice there(in->empty() ? gpu : host);
        const auto is = on_gpu(op, *in, s.attrs);
        if (!is) {
          missing.insert(std::string(op.name) + (d == c64 ? " of complex numbers" : ""));
          continue;
        }
        const WithDevice back(host);
        const Inputs want = run(op, *in, s.attrs);
        Inputs magnitude = want;
        if (op.sum_tolerance) magnitude = run(op, op_check::magnitudes(*in), s.attrs);
        for (size_t k = 0; k < want.size(); ++k) {
          const Tensor back_here = want[k].to(host);
          if (op.record_point && !is_complex(want[k].dtype()) && !takes_library_numbers(op))
            CHECK(same((*is)[k], back_here));
          else
            CHECK(mismatch(op, (*is)[k], back_here, op_check::summed_parts(magnitude[k].to(host)),
                           lost_digits(op, back_here)) == "");
        }
        ++count;
      }
  });
  if (!std::getenv("RILL_TEST_OPS")) CHECK(count > 500);
  std::string list;
  for (const std::string& name : missing) list += name + "\n";
  WARN("without a kernel on GPUs:\n" << list);
}

TEST_CASE("numbers of the C library are off by no more than their record allows") {
  const WithDevice here(host);
  for (const char* name : {"sin", "cos", "tan", "lgamma", "digamma"})
    for (const DType d : {f32, f64}) {
      const Op& op = *find_op(name);
      const Tensor x =
          tensor({1.2e5, -3e7, 1.5e9, -2.5e9, 1e15, -1e22, 3e30, d == f32 ? 1e38 : 1e300, 0.1, 1.5, 2.5, -3.7}, f64)
              .astype(d);
      INFO(name << " of " << rill::name(d));
      CHECK(mismatch(op, on_gpu(op, {x}, {})->at(0), run(op, {x}, {})[0], Tensor()) == "");
    }
}

TEST_CASE("Bessel functions far out, where CUDA's have the digits of f32 alone, are the CPU's") {
  const WithDevice here(host);
  const Tensor near = linspace(7.9, 30, 400, true, {.dtype = f64});
  const Tensor far = tensor({24.999999, 25., 40.5, 1e3, 12345.678, 1e9, 1e15, 1e300, 1.7e308}, f64);
  for (const char* name : {"j0", "j1", "y0", "y1"})
    for (const Tensor& x : {near, far, -near, -far, full({1}, HUGE_VAL, f64), full({1}, -HUGE_VAL, f64)}) {
      const Op& op = *find_op(name);
      INFO(name);
      const Tensor want = run(op, {x}, {})[0], got = on_gpu(op, {x}, {})->at(0);
      CHECK(allclose(got * sqrt(abs(x)), want * sqrt(abs(x)), {.rtol = 0, .atol = 4e-15, .equal_nan = true}));
      CHECK(mismatch(op, got, want, Tensor(), lost_digits(op, want)) == "");
    }
}

namespace {

// A function's results on the GPU, eager and traced, have the same bits; and those of the CPU, but for sums over other
// axes than the last, which add up in another order.
void check_traced(const char* name, Tensor (*f)(const Tensor&), const Tensor& x, bool same_order = true) {
  INFO(name);
  const Tensor want = f(x), eager = f(x.to(gpu)).to(host);
  if (same_order) CHECK(same(eager, want));
  else CHECK(allclose(eager, want, {.rtol = 1e-4, .atol = 1e-4}));
  auto traced = function(name, f);
  traced(x.to(gpu));
  jit::wait();
  CHECK(same(traced(x.to(gpu)).to(host), eager));
  CHECK(traced.explain().find("fused(") != std::string::npos);
}

}  // namespace

TEST_CASE("traced functions are fused, and have the CPU's bits") {
  const WithDevice here(host);
  random::seed(1);
  const Tensor x = random::normal({37, 65}), cube = random::normal({5, 6, 7});
  check_traced("chain", [](const Tensor& x) { return tanh(x * 2 + 1) - sigmoid(x); }, x);
  check_traced("half", [](const Tensor& x) { return exp(x.astype(f16)) + 1; }, x);
  check_traced("rows", [](const Tensor& x) { return softmax(x * 3, 1) + log_softmax(x, 1); }, x);
  check_traced("broadcast", [](const Tensor& x) { return (x - mean(x, 0)) * sum(x, 1, true); }, x, false);
  check_traced("transposed", [](const Tensor& x) { return transpose(exp(x)) + transpose(x) * 2; }, x);
  check_traced(
      "strided", [](const Tensor& x) { return exp(x(slice(none, none, 2))) + abs(x(slice(none, none, 2))); }, cube);
  check_traced("columns", [](const Tensor& x) { return max(abs(x) + 1, 0) + sum(x * x, 0); }, x, false);
  check_traced("all", [](const Tensor& x) { return sum(square(x)) + max(x - 1); }, cube);
  check_traced("normed", [](const Tensor& x) { return layer_norm(x) * 2; }, x);
}

TEST_CASE("memory of GPUs") {
  release_cached_memory(gpu);
  const size_t before = memory_stats(gpu).in_use;
  {
    const Tensor a = ones({1 << 20}, {.device = gpu});
    CHECK(memory_stats(gpu).in_use == before + (4 << 20));
  }
  CHECK(memory_stats(gpu).in_use == before);
  CHECK(memory_stats(gpu).reserved > before);
  release_cached_memory(gpu);
  CHECK(memory_stats(gpu).reserved == before);
  says([] { static_cast<void>(zeros({1ll << 40}, {.device = "gpu:0"})); },
       {"[zeros]", "out of memory on gpu:0", "bytes are wanted"});
  CHECK(sum(ones({100}, {.device = gpu})).item<float>() == 100);
}

TEST_CASE("memory of a second GPU") {
  if (!has_second_gpu()) return skip_case(one_gpu);
  CHECK(memory_stats("gpu:1").in_use == 0);
  const Tensor x = ones({1 << 20}, {.device = gpu}).to("gpu:1");
  CHECK(memory_stats("gpu:1").in_use == 4 << 20);
  CHECK(sum(x + 1).item<float>() == 2 << 20);
}

TEST_CASE("labels out of range") {
  const Tensor logits = ones({3, 4}, {.device = gpu}), labels = tensor({0, 7, 1}, {.device = gpu});
  says([&] { static_cast<void>(sum(sparse_softmax_cross_entropy(logits, labels)).item<float>()); },
       {"label 7 at position 1", "4 classes"});
  CHECK(sum(logits).item<float>() == 12);  // and the GPU goes on
}

TEST_CASE("a traced chain is one launch") {
  const auto launches = of_driver<long()>("rill_simulated_launches");
  if (!launches) return skip_case("a true driver does not count");
  const Tensor x = ones({100}, {.device = gpu});
  auto f = function("chain", [](const Tensor& x) { return tanh(exp(x) * 2 + x) - 1; });
  f(x);
  jit::wait();
  const long before = launches();
  f(x);
  CHECK(launches() == before + 1);
}

TEST_CASE("what fails in the driver is an error, and the program goes on") {
  const auto fail = of_driver<void(const char*, int)>("rill_simulated_fail");
  if (!fail) return skip_case("a true driver does not fail on demand");
  const Tensor x = ones({1000}, {.device = gpu});
  const auto program = [&] { return sum(exp(x - x) + x.to(host).to(gpu).to(host).to(gpu)).item<float>(); };
  CHECK(program() == 2000);
  for (const char* call : {"cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"})
    for (int nth = 1; nth < 3; ++nth) {
      INFO(call << " " << nth);
      fail(call, nth);
      bool threw = false;
      try {
        program();
      } catch (const Error& e) {
        threw = true;
        CHECK(std::string(e.what()).find("CUDA_ERROR") != std::string::npos);
      }
      CHECK(threw);
      fail("", 0);
      CHECK(program() == 2000);
    }
  // Where the system has no more, what is kept for later goes first; then it is an error with the op and the bytes.
  release_cached_memory(gpu);
  fail("cuMemAllocFromPoolAsync", 1);
  CHECK(sum(ones({1 << 20}, {.device = gpu})).item<float>() == 1 << 20);
}

TEST_CASE("memory limits") {
  if (!has_second_gpu()) return skip_case(one_gpu);
  release_cached_memory("gpu:1");
  set_memory_limit("gpu:1", 8 << 20);
  const Tensor a = ones({1 << 20}, {.device = "gpu:1"});
  says([] { static_cast<void>(ones({2 << 20}, {.device = "gpu:1"})); },
       {"[ones]", "the limit of 8388608 for gpu:1", "4194304 are in use", "test_gpu.cpp"});
  CHECK(sum(a).item<float>() == 1 << 20);
  set_memory_limit("gpu:1", 0);
  CHECK(ones({2 << 20}, {.device = "gpu:1"}).size() == 2 << 20);
  reserve_memory("gpu:1", 16 << 20);
  says([] { reserve_memory("gpu:1", size_t(1) << 50); },
       {"[reserve_memory]", "out of memory on gpu:1", "test_gpu.cpp"});
  says([] { set_memory_limit("cpu:0", 1); }, {"[set_memory_limit]", "takes a GPU", "cpu:0", "test_gpu.cpp"});
  says([] { set_visible_devices({Device("gpu:0")}); }, {"[set_visible_devices]", "in use already", "test_gpu.cpp"});
  says([] { set_visible_devices({Device("cpu:0")}); }, {"[set_visible_devices]", "takes GPUs"});
  synchronize(gpu);
  synchronize("cpu:0");
  says([] { synchronize("gpu:77"); }, {"[synchronize]", "there is no gpu:77"});
}

TEST_CASE("threads share a GPU") {
  const WithDevice here(host);
  const Tensor x = random::normal({200, 50});
  const auto program = [](Tensor y) {
    for (int i = 0; i < 20; ++i) y = tanh(y * 1.5 + sum(y, 1, true) * 0.01);
    return y;
  };
  const Tensor want = program(x);
  std::vector<Tensor> is(4);
  const size_t gpus = has_device("gpu:1") ? 2 : 1;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < is.size(); ++i)
    threads.emplace_back([&, i] { is[i] = program(x.to(Device(DeviceKind::gpu, int(i % gpus)))).to("cpu:0"); });
  for (std::thread& t : threads) t.join();
  for (const Tensor& t : is) CHECK(same(t, want));
}

TEST_CASE("what is wrong in a kernel is found when the host waits") {
  const Tensor logits = ones({3, 4}, {.device = gpu}), labels = tensor({0, -1, 1}, {.device = gpu});
  const Tensor loss = sparse_softmax_cross_entropy(logits, labels);
  says([] { synchronize(gpu); }, {"label -1 at position 1", "4 classes", "test_gpu.cpp"});
  synchronize(gpu);
}

TEST_CASE("the child of a fork() is told that it has no GPU") {
  const Tensor x = ones({3}, {.device = gpu});
  const pid_t child = fork();
  if (child == 0) {
    try {
      static_cast<void>((x + 1).to("cpu:0"));
    } catch (const Error& e) {
      if (!has(e.what(), "the child of a fork() cannot use GPUs") || !has(e.what(), "set_default_device(\"cpu:0\")"))
        _exit(2);
      set_default_device(host);
      _exit(sum(ones({3}) + 1).item<float>() == 6 ? 0 : 3);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("memory shared by DLPack") {
  const Tensor x = arange(10.f, {.device = gpu}) * 2;
  const Tensor back = from_dlpack(to_dlpack(x(slice(none, none, -3))));
  CHECK(back.device() == gpu);
  CHECK(back.to_vector<float>() == std::vector<float>{18, 12, 6, 0});
  CHECK((back + 1).to_vector<float>() == std::vector<float>{19, 13, 7, 1});
  bool given_back = false;
  {
    const Tensor lent = from_buffer(x.rep()->data, {5}, f32, [&] { given_back = true; }, {.device = gpu});
    CHECK(sum(lent).item<float>() == 20);
  }
  CHECK(given_back);
  says([&] { static_cast<void>(strided_span<float, 1>(x)); }, {"[strided_span]", "on gpu:0", "to(\"cpu:0\")"});
}
