// Compiled kernels give the interpreter's bits: kernels made by hand for the corners of rows and reductions, and
// hundreds of random ones, on this processor and on older instruction sets.
#include <dlfcn.h>
#include <fmt/format.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "catch.h"
#include "kernel_helpers.h"
#include "needs.h"
#include "rill/devices/kernel/compiler.h"
#include "rill/devices/kernel/object.h"
#include "rill/devices/llvm/compile.h"

namespace kernel_test {

using kernel::Compiled;

namespace {

// What is compiled here is not left in the user's cache.
const bool no_disk = [] { return setenv("RILL_CACHE_DIR", "/dev/null", 1) == 0; }();

constexpr int64_t sizes[] = {0, 1, 15, 16, 17, 31, 32, 33, 100, 1024, 1025, 5000};
constexpr int64_t row_counts[] = {0, 1, 3};

void check_all_sizes(const Kernel& k) {
  kernel::verify(k);
  const RowFunction run = kernel::compile(k).run;
  const bool one_pass = kernel::schedule(k).passes.size() == 1;
  for (int64_t n : sizes)
    for (int64_t rows : row_counts) {
      INFO(to_string(k) << "rows " << rows << ", n " << n);
      REQUIRE(agrees(k, run, rows, n, uint64_t(n)));
      if (one_pass && !k.streaming) REQUIRE(agrees(k, run, rows, n, uint64_t(n), true));
    }
}

Inst inst(Code c, DType t, std::vector<int32_t> in, uint64_t imm = 0) {
  Inst i{c, t, {-1, -1, -1}, imm};
  std::copy(in.begin(), in.end(), i.in);
  return i;
}

}  // namespace

TEST_CASE("an elementwise kernel, at every row size, in place too") {
  if (!has_compiler()) return;
  for (DType d : {f32, f64, i32, i64, u8}) {
    Kernel k;
    k.inputs = {{d}, {d}, {d, Input::Kind::uniform}};
    k.body = {inst(Code::input, d, {}, 0), inst(Code::input, d, {}, 1), inst(Code::input, d, {}, 2),
              inst(Code::mul, d, {0, 1}), inst(Code::add, d, {3, 2})};
    k.outputs = {{4, d}, {3, d}};
    check_all_sizes(k);
    k.streaming = true;
    check_all_sizes(k);
  }
}

TEST_CASE("reductions, alone, after and before elementwise work") {
  if (!has_compiler()) return;
  for (DType d : {f32, f64, i32, i64, u32, i8})
    for (Code c : {Code::reduce_sum, Code::reduce_prod, Code::reduce_max, Code::reduce_min}) {
      Kernel k;
      k.inputs = {{d}};
      k.body = {inst(Code::input, d, {}, 0), inst(Code::add, d, {0, 0}), inst(c, d, {1}), inst(Code::sub, d, {0, 2})};
      k.outputs = {{2, d, true}};
      check_all_sizes(k);
      k.outputs.push_back({3, d});
      k.outputs.push_back({2, d});
      check_all_sizes(k);
    }
}

TEST_CASE("sums of zeros, maxima of zeros of both signs and of NaN") {
  if (!has_compiler()) return;
  for (Code c : {Code::reduce_sum, Code::reduce_prod, Code::reduce_max, Code::reduce_min}) {
    Kernel k;
    k.inputs = {{f32}};
    k.body = {inst(Code::input, f32, {}, 0), inst(c, f32, {0})};
    k.outputs = {{1, f32, true}};
    const RowFunction run = kernel::compile(k).run;
    for (int64_t n : {1, 5, 31, 32, 33, 70, 1024, 3000})
      for (int kind = 0; kind < 4; ++kind) {
        std::vector<float> x(size_t(n), kind == 1 ? 0.0f : -0.0f);
        if (kind >= 2) x[size_t(n / 2)] = kind == 2 ? 0.0f : NAN;
        if (kind == 3) x[0] = 7;
        float expected = 1, actual = 2;
        char* a[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(&expected)};
        char* b[] = {reinterpret_cast<char*>(x.data()), reinterpret_cast<char*>(&actual)};
        const int64_t strides[] = {0, 0};
        kernel::interpret(k, a, strides, 1, n);
        run(b, strides, 1, n, nullptr, nullptr);
        INFO(name(c) << " of " << n << " kind " << kind);
        REQUIRE(same(f32, a[1], b[1], 1));
      }
  }
}

TEST_CASE("softmax and variance: passes, values kept and read again") {
  if (!has_compiler()) return;
  Kernel k;
  k.inputs = {{f32}, {bf16}};
  k.body = {inst(Code::input, f32, {}, 0), inst(Code::input, bf16, {}, 1),   inst(Code::convert, f32, {1}),
            inst(Code::add, f32, {0, 2}),  inst(Code::reduce_max, f32, {3}), inst(Code::sub, f32, {3, 4}),
            inst(Code::sqrt, f32, {5}),    inst(Code::div, f32, {5, 6}),     inst(Code::reduce_sum, f32, {7}),
            inst(Code::div, f32, {7, 8}),  inst(Code::convert, bf16, {9}),   inst(Code::reduce_sum, f32, {9}),
            inst(Code::mul, f32, {9, 11})};
  k.outputs = {{9, f32}, {10, bf16}, {4, f32, true}, {12, f32}};
  check_all_sizes(k);
}

TEST_CASE("conversions between all types, of ordinary and of extreme numbers") {
  if (!has_compiler()) return;
  const DType all[] = {boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64};
  for (DType from : all) {
    Kernel k;
    k.inputs = {{from}};
    k.body = {inst(Code::input, from, {}, 0)};
    for (DType to : all) {
      k.body.push_back(inst(Code::convert, to, {0}));
      k.outputs.push_back({int32_t(k.body.size()) - 1, to});
    }
    kernel::verify(k);
    const RowFunction run = kernel::compile(k).run;
    for (uint64_t seed = 0; seed < 5; ++seed) REQUIRE(agrees(k, run, 2, 700, seed));
  }
}

TEST_CASE("maxima and minima with constants, zeros of both signs and NaN among them") {
  if (!has_compiler()) return;
  const auto constant = [](DType d, double v) {
    return inst(Code::constant, d, {}, d == f32 ? std::bit_cast<uint32_t>(float(v)) : std::bit_cast<uint64_t>(v));
  };
  for (DType d : {f32, f64}) {
    Kernel k;
    k.inputs = {{d}};
    k.body = {inst(Code::input, d, {}, 0)};
    for (double v : {0.0, -0.0, 1.5, -2.0, double(INFINITY), double(NAN)}) {
      k.body.push_back(constant(d, v));
      const auto at = int32_t(k.body.size()) - 1;
      for (Code c : {Code::max, Code::min})
        for (bool first : {true, false}) {
          k.body.push_back(inst(c, d, first ? std::vector<int32_t>{at, 0} : std::vector<int32_t>{0, at}));
          k.outputs.push_back({int32_t(k.body.size()) - 1, d});
        }
    }
    check_all_sizes(k);
  }
}

TEST_CASE("random kernels give the interpreter's bits") {
  if (!has_compiler()) return;
  const char* setting = std::getenv("RILL_RANDOM_KERNELS");  // how many; by default few enough for every run
  const int count = setting ? std::atoi(setting) : 300;
  for (int seed = 0; seed < count; ++seed) {
    const Kernel k = Generator(uint64_t(seed)).make();
    kernel::verify(k);
    const RowFunction run = kernel::compile(k).run;
    Rng r{uint64_t(seed)};
    const bool in_place = kernel::schedule(k).passes.size() == 1 && !k.streaming;
    for (int t = 0; t < 5; ++t) {
      const int64_t n = sizes[below(r, 12)], rows = row_counts[below(r, 3)];
      INFO("seed " << seed << ", rows " << rows << ", n " << n << "\n" << to_string(k));
      REQUIRE(agrees(k, run, rows, n, r(), in_place && t % 2));
    }
  }
}

TEST_CASE("code for older processors gives the same bits") {
#if defined(__x86_64__)
  if (!has_compiler()) return;
  Dl_info here;
  REQUIRE(dladdr(reinterpret_cast<const void*>(&kernel::compile), &here));
  std::string folder = here.dli_fname;
  folder = folder.substr(0, folder.rfind('/'));
  void* library = dlopen((folder + "/librill_llvm.so").c_str(), RTLD_NOW);
  if (!library) library = dlopen((folder + "/rill-" RILL_VERSION "/librill_llvm.so").c_str(), RTLD_NOW);
  REQUIRE(library);
  const auto compile = reinterpret_cast<kernel::LlvmCompile>(dlsym(library, "rill_llvm_compile"));
  for (const char* cpu : {"x86-64", "x86-64-v3"}) {
    if (!__builtin_cpu_supports("fma") && std::strlen(cpu) > 6) continue;
    for (int seed = 1000; seed < 1060; ++seed) {
      const Kernel k = Generator(uint64_t(seed)).make();
      std::string object, text;
      INFO(cpu << ", seed " << seed << "\n" << to_string(k));
      REQUIRE(compile(k, cpu, false, object, text));
      const auto code = kernel::load_code(object, "rill_kernel");
      const auto run = reinterpret_cast<RowFunction>(code.get());
      for (int64_t n : {3, 37, 1100}) REQUIRE(agrees(k, run, 2, n, uint64_t(n)));
    }
  }
#else
  skip_case("this is no x86-64 processor");
#endif
}

TEST_CASE("equal kernels are compiled once, by whichever thread comes first") {
  if (!has_compiler()) return;
  Kernel k;
  k.inputs = {{f32}};
  k.body = {inst(Code::input, f32, {}, 0), inst(Code::constant, f32, {}, 0x40490fdb), inst(Code::mul, f32, {0, 1})};
  k.outputs = {{2, f32}};
  std::vector<std::thread> threads;
  Compiled of[8];
  for (Compiled& c : of) threads.emplace_back([&c, &k] { c = kernel::compile(k); });
  for (std::thread& t : threads) t.join();
  int compiled = 0;
  for (const Compiled& c : of) {
    CHECK(c.run == of[0].run);
    compiled += c.from == Compiled::From::compiler;
  }
  CHECK(compiled == 1);
  CHECK(kernel::compile(k).from == Compiled::From::memory);
}

}  // namespace kernel_test
