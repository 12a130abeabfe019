// How rill uses NVIDIA's driver, on the simulated one: what is told of faults, whose context is current, which GPUs are
// opened, which NVRTC compiles. Hidden cases run in processes of their own, with settings.
#include <atomic>
#include <filesystem>
#include <latch>
#include <semaphore>
#include <sstream>
#include <thread>
#include <vector>

#include "catch.h"
#include "child.h"
#include "gpu_devices.h"
#include "io_helpers.h"
#include "messages.h"
#include "rill/devices/cuda/nvrtc.h"
#include "rill/ops/buffers.h"
#include "rill/rill.h"

using namespace rill;

namespace {

bool is_simulated() { return of_driver<long()>("rill_simulated_launches"); }

int count_in(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) ++n;
  return n;
}
std::string line(int number) { return "test_gpu_driver.cpp:" + std::to_string(number) + ": "; }

}  // namespace

// --- Faults ----------------------------------------------------------------------------------------------------------

TEST_CASE("faults name the caller's line, all of them, and what they spoil") {
  const Tensor x = arange(5.f, {.device = gpu}), far = tensor({1, 7}, {.device = gpu});
  const Tensor logits = ones({3, 4}, {.device = gpu}), labels = tensor({0, 9, 1}, {.device = gpu});
  const int first = __LINE__ + 1;
  const Tensor taken = take(x, far, 0);
  const Tensor loss = sparse_softmax_cross_entropy(logits, labels);
  const std::string message = message_of([&] { synchronize(gpu); });
  INFO(message);
  CHECK(has(message, line(first) + "[take] in [index] index 7 is out of bounds for axis 0 of size 5"));
  CHECK(has(message, "; also " + line(first + 1) + "[sparse_softmax_cross_entropy] label 9 at position 1"));
  CHECK(has(message, "also in Variables, is of no use"));
  synchronize(gpu);  // told once
  CHECK(sum(logits).item<float>() == 12);
}

TEST_CASE("faults of one line are told once") {
  const Tensor x = arange(5.f, {.device = gpu}), far = tensor({9, 8, 7}, {.device = gpu});
  for (int i = 0; i < 20; ++i) static_cast<void>(take(x, far, 0));
  const std::string message = message_of([&] { synchronize(gpu); });
  CHECK(count_in(message, "out of bounds") == 1);
}

TEST_CASE("faults of many threads, one after the other, are told to each") {
  const Tensor x = arange(5.f, {.device = gpu}), far = tensor({9}, {.device = gpu});
  static_cast<void>(take(x, tensor({1}, {.device = gpu}), 0));
  int told = 0;
  for (int i = 0; i < 130; ++i) {
    std::binary_semaphore begun(0), go_on(0);
    std::thread other([&] {
      static_cast<void>(take(x, far, 0));
      begun.release();
      go_on.acquire();
      told += count_in(message_of([] { synchronize(gpu); }), "out of bounds");
    });
    begun.acquire();
    CHECK_NOTHROW(synchronize(gpu));
    go_on.release();
    other.join();
  }
  CHECK(told == 130);
}

TEST_CASE("more threads than there are slots share them, and each error is told whole") {
  const Tensor x = arange(5.f, {.device = gpu}), far = tensor({9}, {.device = gpu});
  std::atomic<int> told = 0, other = 0;
  std::latch begun(100);
  std::vector<std::thread> threads;
  for (int i = 0; i < 100; ++i)
    threads.emplace_back([&] {
      begun.arrive_and_wait();
      for (int k = 0; k < 10; ++k) {
        static_cast<void>(take(x, far, 0));
        const std::string message = message_of([] { synchronize(gpu); });
        if (!message.empty()) ++(has(message, "out of bounds") ? told : other);
      }
    });
  for (std::thread& t : threads) t.join();
  static_cast<void>(message_of([] { synchronize(gpu); }));
  CHECK(told > 0);
  CHECK(other == 0);
}

TEST_CASE("child: threads that never wait", "[.]") {
  const Tensor x = arange(5.f, {.device = gpu}), far = tensor({9}, {.device = gpu});
  for (int i = 0; i < 70; ++i) std::thread([&] { static_cast<void>(take(x, far, 0)); }).join();
  for (int i = 0; i < 70; ++i)
    std::thread([&] {
      static_cast<void>(take(x, tensor({1}, {.device = gpu}), 0));
      CHECK_NOTHROW(synchronize(gpu));
    }).join();
}
TEST_CASE("faults of a thread that has ended are told to no other") {
  std::string output;
  CHECK(child("", "child: threads that never wait", output) == 0);
  INFO(output);
  CHECK(has(output, "passed"));
  CHECK(count_in(output, "rill: a thread has ended that did not wait for gpu:0: test_gpu_driver.cpp:") == 70);
  CHECK(count_in(output, "[take] in [index] index 9 is out of bounds") == 70);
}

TEST_CASE("faults name the node of a traced function, and its scope") {
  const Tensor x = arange(5.f, {.device = gpu}), near = tensor({1, 2}, {.device = gpu}),
               far = tensor({1, 7}, {.device = gpu});
  Variable last(zeros({2}, {.device = gpu}), "last");
  int at = 0;
  auto f = function("f", [&](const Tensor& x, const Tensor& places) {
    const NameScope scope("words");
    at = __LINE__ + 1;
    const Tensor y = take(x * 2, places, 0) + 1;
    last.assign(y);
    return sum(y);
  });
  for (int i = 0; i < 3; ++i, jit::wait()) CHECK(f(x, near).item<float>() == 8);
  for (int i = 0; i < 2; ++i)
    says([&] { static_cast<void>(f(x, far).item<float>()); },
         {line(at) + "[take] at 'words', in [index] index 7 is out of bounds", "also in Variables"});
  CHECK(f(x, near).item<float>() == 8);
}

// --- The driver's own state ------------------------------------------------------------------------------------------

TEST_CASE("child: an access of a kernel fails", "[.]") {
  const Tensor x = ones({1000}, {.device = gpu}), y = x + 1;
  synchronize(gpu);
  of_driver<void(const char*, int)>("rill_simulated_fail")("kernel", 1);
  const Tensor z = y * 2;
  const std::string first = message_of([&] { synchronize(gpu); });
  INFO(first);
  CHECK(has(first, "CUDA_ERROR_ILLEGAL_ADDRESS"));
  CHECK(has(first, "the GPU is lost to this process: no later call there can succeed"));
  CHECK(has(first, "start the program again, from its latest checkpoint"));
  for (int i = 0; i < 2; ++i) {
    const std::string later = message_of([&] { static_cast<void>(y.to(host)); });
    CHECK(has(later, "the GPU is lost to this process since an earlier error"));
    CHECK(has(later, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    CHECK_FALSE(has(later, "checkpoint"));
  }
  says([&] { static_cast<void>(y + y); }, {"the GPU is lost to this process"});
  set_default_device(host);
  CHECK(sum(ones({10})).item<float>() == 10);
}
TEST_CASE("a GPU that a kernel's error has ended is told to be lost, once what to do") {
  if (!is_simulated()) return skip_case("a true kernel does not fail on demand");
  std::string output;
  const int status = child("", "child: an access of a kernel fails", output);
  INFO(output);
  CHECK(status == 0);
}

TEST_CASE("the caller's context stays current") {
  if (!has_second_gpu()) return skip_case(one_gpu);
  const auto get = of_driver<int(void**)>("cuCtxGetCurrent");
  const auto set = of_driver<int(void*)>("cuCtxSetCurrent");
  const auto retain = of_driver<int(void**, int)>("cuDevicePrimaryCtxRetain");
  const Tensor x = ones({3}, {.device = gpu});
  void *own = nullptr, *now = nullptr;
  REQUIRE(retain(&own, 1) == 0);
  REQUIRE(set(own) == 0);
  CHECK(sum(exp(x * 0) + 1).item<float>() == 6);
  static_cast<void>(x.to(host).to(gpu));
  auto f = function("f", [](const Tensor& x) { return tanh(x) * 2; });
  for (int i = 0; i < 2; ++i, jit::wait()) f(x);
  synchronize(gpu);
  release_cached_memory(gpu);
  reserve_memory(gpu, 1 << 20);
  REQUIRE(get(&now) == 0);
  CHECK(now == own);
  set(nullptr);
}

TEST_CASE("child: one GPU", "[.]") {
  const auto contexts = of_driver<int(int)>("rill_simulated_contexts");
  REQUIRE(devices().size() == 4);  // cpu:0, two GPUs, ref:0
  CHECK(contexts(0) == 0);
  CHECK(sum(ones({10})).item<float>() == 10);
  CHECK(memory_stats("gpu:1").in_use == 0);
  set_memory_limit("gpu:1", 1 << 20);
  synchronize("gpu:1");
  release_cached_memory("gpu:1");
  CHECK(contexts(0) == 1);
  CHECK(contexts(1) == 0);
  CHECK(sum(ones({10}, {.device = "gpu:1"})).item<float>() == 10);
  CHECK(contexts(1) == 1);
  CHECK(of_driver<int()>("rill_simulated_accesses")() == 2);  // each one's pool for the other
  says([] { static_cast<void>(ones({1 << 20}, {.device = "gpu:1"})); }, {"the limit of 1048576 for gpu:1"});
}
TEST_CASE("a GPU is opened when it is first used") {
  if (!is_simulated()) return skip_case("a true driver does not count");
  if (!has_second_gpu()) return skip_case(one_gpu);
  std::string output;
  CHECK(child("", "child: one GPU", output) == 0);
  INFO(output);
  CHECK(has(output, "passed"));
}

TEST_CASE("child: no context", "[.]") {
  of_driver<void(const char*, int)>("rill_simulated_fail")("cuDevicePrimaryCtxRetain", 1);
  says([] { static_cast<void>(ones({3})); }, {"test_gpu_driver.cpp", "cuDevicePrimaryCtxRetain", "CUDA_ERROR"});
  for (int i = 0; i < 2; ++i) {
    of_driver<void(const char*, int)>("rill_simulated_fail")("cuMemPoolCreate", 1);
    says([] { static_cast<void>(ones({3}, {.device = "gpu:1"})); }, {"cuMemPoolCreate"});
  }
  CHECK(sum(ones({3})).item<float>() == 3);
  CHECK(sum(ones({3}, {.device = "gpu:1"})).item<float>() == 3);
  CHECK(of_driver<int(int)>("rill_simulated_contexts")(1) == 1);
}
TEST_CASE("a GPU that cannot be opened is an error") {
  if (!is_simulated()) return skip_case("a true driver does not fail on demand");
  if (!has_second_gpu()) return skip_case(one_gpu);
  std::string output;
  CHECK(child("", "child: no context", output) == 0);
  INFO(output);
  CHECK(has(output, "passed"));
}

TEST_CASE("child: no more peers", "[.]") {
  of_driver<void(const char*, int)>("rill_simulated_fail")("cuMemPoolSetAccess", 1);
  const Tensor x = ones({3}, {.device = gpu});
  CHECK(sum(x.to("gpu:1")).item<float>() == 3);
}
TEST_CASE("GPUs that have as many peers as they can copy all the same") {
  if (!is_simulated()) return skip_case("a true driver does not fail on demand");
  if (!has_second_gpu()) return skip_case(one_gpu);
  std::string output;
  CHECK(child("", "child: no more peers", output) == 0);
  INFO(output);
  CHECK(has(output, "passed"));
}

// --- Memory ----------------------------------------------------------------------------------------------------------

TEST_CASE("a limit holds for what the driver keeps, too") {
  const auto most_taken = of_driver<size_t(int)>("rill_simulated_most_taken");
  if (!most_taken) return skip_case("a true driver does not count");
  if (!has_second_gpu()) return skip_case(one_gpu);
  release_cached_memory("gpu:1");
  static_cast<void>(most_taken(1));
  const size_t before = most_taken(1);
  set_memory_limit("gpu:1", before + (8 << 20));
  {
    std::vector<Tensor> parts;
    for (int i = 0; i < 4; ++i) parts.push_back(ones({1 << 19}, {.device = "gpu:1"}));
  }
  CHECK(ones({1 << 21}, {.device = "gpu:1"}).size() == 1 << 21);  // all that there was, as one block
  CHECK(most_taken(1) == before + (8 << 20));
  set_memory_limit("gpu:1", 0);
}

TEST_CASE("child: no pools", "[.]") {
  const auto most_taken = of_driver<size_t(int)>("rill_simulated_most_taken");
  const size_t begun = memory_stats(gpu).reserved;
  {
    const Tensor x = ones({1 << 18}, {.device = gpu}), y = ones({1 << 18}, {.device = "gpu:1"});
    CHECK(sum(exp(x * 0) + y.to(gpu)).item<float>() == 1 << 19);
    says([] { static_cast<void>(ones({int64_t(1) << 31}, {.device = gpu})); },
         {"out of memory on gpu:0", "bytes are wanted"});
    CHECK(sum(x).item<float>() == 1 << 18);
  }
  reserve_memory(gpu, 3 << 20);
  CHECK(memory_stats(gpu).reserved >= begun + (3 << 20));
  release_cached_memory(gpu);
  CHECK(memory_stats(gpu).reserved == begun);
  static_cast<void>(most_taken(0));
  set_memory_limit(gpu, 4 << 20);
  for (int i = 0; i < 3; ++i) static_cast<void>(ones({1 << (17 + i)}, {.device = gpu}));
  CHECK(most_taken(0) <= 4 << 20);
}
TEST_CASE("GPUs without memory pools") {
  if (!is_simulated()) return skip_case("a true driver has pools or has none");
  if (!has_second_gpu()) return skip_case(one_gpu);
  std::string output;
  CHECK(child("RILL_SIMULATED_POOLS=none", "child: no pools", output) == 0);
  INFO(output);
  CHECK(has(output, "passed"));
}

TEST_CASE("profile() goes by the GPU's clock") {
  auto f = function("f", [](const Tensor& x) { return cumsum(exp(x) * 2, 0); });
  const Tensor x = ones({1000}, {.device = gpu});
  const WithDevice here(host);  // where profile() measures the machine's limits: the simulated GPU takes long
  const Profile p = profile(f, x);
  REQUIRE(!p.kernels.empty());
  for (const KernelProfile& k : p.kernels) CHECK(k.seconds > 0);
  if (!is_simulated()) return skip_case("a true driver does not fail on demand");
  of_driver<void(const char*, int)>("rill_simulated_fail")("cuEventElapsedTime", 1);
  says([&] { profile(f, x); }, {"cuEventElapsedTime"});
}

TEST_CASE("what traced functions keep for later calls goes where memory is out") {
  if (!has_second_gpu()) return skip_case(one_gpu);
  auto f = function("f", [](const Tensor& x) { return sum(cumsum(cumsum(x, 0) * 0, 0)); });
  release_cached_memory("gpu:1");
  set_memory_limit("gpu:1", 2 << 20);
  for (int64_t i = 0; i < 7; ++i, jit::wait())  // 256 KiB each, and its intermediate values, by size
    CHECK(f(ones({(1 << 16) - 1024 * i}, {.device = "gpu:1"})).item<float>() == 0);
  // And if that is not enough, it is an error with the caller's line.
  set_memory_limit("gpu:1", 300 << 10);
  release_cached_memory("gpu:1");
  {
    const Tensor x = ones({1 << 16}, {.device = "gpu:1"});
    const std::string message = message_of([&] { f(x); });
    INFO(message);
    CHECK(message.starts_with(line(__LINE__ - 2) + "[f] "));
    CHECK(has(message, "the limit of 307200 for gpu:1"));
  }
  set_memory_limit("gpu:1", 0);
}

TEST_CASE("child: GPUs that are not there", "[.]") {
  says([] { set_visible_devices({"gpu:0", "gpu:5"}); },
       {"test_gpu_driver.cpp", "[set_visible_devices]", "there is no gpu:5", "gpu:0 to gpu:1"});
  set_visible_devices({"gpu:1"});
  CHECK(devices().size() == 3);
}
TEST_CASE("child: no GPU", "[.]") {
  says([] { set_visible_devices({"gpu:0"}); }, {"[set_visible_devices]", "there is no gpu:0", "RILL_CUDA is off"});
  set_visible_devices({});
}
TEST_CASE("only GPUs that are there can be made visible") {
  if (!is_simulated()) return skip_case("how many there are is not known");
  if (!has_second_gpu()) return skip_case(one_gpu);
  std::string output;
  CHECK(child("", "child: GPUs that are not there", output) == 0);
  CHECK(has(output, "passed"));
  CHECK(child("RILL_CUDA=off", "child: no GPU", output) == 0);
  CHECK(has(output, "passed"));
}

// --- NVRTC -----------------------------------------------------------------------------------------------------------

TEST_CASE("child: adds on the GPU", "[.]") { CHECK(sum(ones({10}, {.device = "gpu:0"}) + 1).item<float>() == 20); }
TEST_CASE("child: stays on the CPU", "[.]") { CHECK(default_device() == host); }
TEST_CASE("cards that are too old are told so") {
  says([] { cuda::compile("", 61); }, {"compute capability 6.1", "need 7.0", "RILL_CUDA=off"});
}
TEST_CASE("child: cannot compile", "[.]") {
  says([] { static_cast<void>(sum(ones({10}, {.device = "gpu:0"}) + 1).item<float>()); },
       {"compute capability 9.0", "no NVRTC", "RILL_CUDA=off"});
}
// The file of that name in the first of the folders, which colons part, that has one.
std::string in_path(const std::string& folders, const std::string& name) {
  std::istringstream each(folders);
  for (std::string folder; std::getline(each, folder, ':');)
    if (std::filesystem::exists(folder + "/" + name)) return folder + "/" + name;
  return name;
}
TEST_CASE("the NVRTC that fits the driver and the card compiles") {
  if (!is_simulated()) return skip_case("a true driver is as it is");
  const Folder folder;
  const std::string cache = "RILL_CACHE_DIR=" + (folder / "kernels") + " ";
  std::string output;
  const auto passes = [&](const std::string& settings, const char* test) {
    CHECK(child(cache + settings, test, output) == 0);
    INFO(settings << ": " << output);
    CHECK(has(output, "passed"));
  };
  passes("RILL_SIMULATED_ARCHITECTURES='75 80'", "child: adds on the GPU");  // as PTX of sm_80
  passes("RILL_SIMULATED_ARCHITECTURES='100 120'", "child: cannot compile");
  passes("RILL_SIMULATED_CUDA=12040", "child: stays on the CPU");
  CHECK(has(output, "NVRTC 13.0 compiles for CUDA 13, and the driver takes what is for CUDA 12.4 at most"));
  // With the older one beside it.
  const std::string path = std::getenv("LD_LIBRARY_PATH") ? std::getenv("LD_LIBRARY_PATH") : "";
  std::filesystem::copy_file(in_path(path, "libnvrtc.so.13"), folder / "libnvrtc.so.12");
  std::filesystem::copy_file(in_path(path, "libnvrtc-builtins.so.13.0"), folder / "libnvrtc-builtins.so.12.0");
  passes("RILL_SIMULATED_CUDA=12040 LD_LIBRARY_PATH=" + path + ":" + (folder / ""), "child: adds on the GPU");
}

TEST_CASE("NVRTC finds its builtins beside itself") {
  if (!is_simulated()) return skip_case("a true driver is as it is");
  const Folder driver, compiler;
  const std::string path = std::getenv("LD_LIBRARY_PATH") ? std::getenv("LD_LIBRARY_PATH") : "";
  for (const char* name : {"libcuda.so.1", "libhost_cuda.so"})
    std::filesystem::copy_file(in_path(path, name), driver / name);
  for (const char* name : {"libnvrtc.so.13", "libnvrtc-builtins.so.13.0"})
    std::filesystem::copy_file(in_path(path, name), compiler / name);
  const std::string settings = "RILL_CACHE_DIR=" + (compiler / "kernels") + " LD_LIBRARY_PATH=" + (driver / "") +
                               " RILL_NVRTC=" + (compiler / "libnvrtc.so.13");
  std::string output;
  CHECK(child(settings, "child: adds on the GPU", output) == 0);
  INFO(output);
  CHECK(has(output, "passed"));
}

// --- Memory of others ------------------------------------------------------------------------------------------------

TEST_CASE("uploads wait for nothing, and have read what they were given when they return") {
  const Tensor warm = ones({4 << 20}, {.device = host}).to(gpu);  // all of the ring is there
  synchronize(gpu);
  const auto waits = of_driver<long()>("rill_simulated_waits");
  const long before = waits ? waits() : 0;
  std::vector<float> numbers(1 << 19);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = float(i % 1000);
  Tensor sum_of_all = sum(warm);
  const Tensor lent = from_buffer(numbers.data(), {1 << 19}, f32, [] {}, {.device = host});
  const Tensor there = lent.to(gpu);
  std::fill(numbers.begin(), numbers.end(), -1.f);
  if (waits) CHECK(waits() == before);
  CHECK(there.to_vector<float>()[123456] == 456);
  CHECK(sum_of_all.item<float>() == 4 << 20);
  // Many that follow each other, of sizes that end anywhere in the ring.
  std::vector<Tensor> all;
  for (int i = 0; i < 40; ++i) {
    const Tensor x = full({100'000 + 977 * i}, float(i), {.device = host});
    all.push_back(x.to(gpu));
  }
  for (int i = 0; i < 40; ++i) CHECK(bool(rill::all(all[size_t(i)] == float(i)).item<bool>()));
}

TEST_CASE("lent memory lies where it is said to lie") {
  const Tensor there = arange(4.f, {.device = gpu}), here = arange(4.f, {.device = host});
  const auto lend = [](const Tensor& t, Device d) {
    return from_buffer(t.rep()->data, {4}, f32, [t] {}, {.device = d});
  };
  CHECK(sum(lend(there, gpu)).item<float>() == 6);
  CHECK(sum(lend(here, host)).item<float>() == 6);
  constexpr int reads_pageable_memory = 88;  // CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS
  int pageable = 0;
  REQUIRE(of_driver<int(int*, int, int)>("cuDeviceGetAttribute")(&pageable, reads_pageable_memory, 0) == 0);
  if (pageable) CHECK_NOTHROW(static_cast<void>(lend(here, gpu)));
  else
    says([&] { static_cast<void>(lend(here, gpu)); },
         {"test_gpu_driver.cpp", "[from_buffer]", "memory of the host, which gpu:0 cannot read", "to(\"gpu:0\")"});
  says([&] { static_cast<void>(lend(there, host)); }, {"[from_buffer]", "memory of gpu:0, which cpu:0 cannot read"});
  if (has_second_gpu())
    says([&] { static_cast<void>(lend(there, "gpu:1")); }, {"memory of gpu:0, which gpu:1 cannot read"});
}
