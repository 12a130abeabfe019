// What runs by cuDNN on a GPU (gpu:0, see test_gpu.cpp): against the CPU, with its plans counted, and where it has
// none. On the simulated GPU cuDNN is simulated too (cuda/simulated/cudnn.cpp).
#include <unistd.h>

#include <filesystem>
#include <limits>
#include <thread>

#include "catch.h"
#include "child.h"
#include "gpu_compare.h"
#include "messages.h"

using namespace gpu_compare;

namespace {

// So often it has happened since this was last asked.
long count(const char* what) {
  const auto f = of_library<long(const char*)>("libcudnn.so.9", "rill_simulated_cudnn_count");
  return f ? f(what) : 0;
}
void refuse(bool all) { of_library<void(bool)>("libcudnn.so.9", "rill_simulated_cudnn_refuse")(all); }
bool is_simulated() {
  sum(ones({1}, {.device = gpu})).item<float>();
  conv2d(ones({1, 3, 3, 2}, {.device = gpu}), ones({2, 2, 2, 2}, {.device = gpu}));  // opens cuDNN
  return of_library<long(const char*)>("libcudnn.so.9", "rill_simulated_cudnn_count") != nullptr;
}

struct Case {
  std::vector<int64_t> space, window;
  int64_t in, out, groups = 1, stride = 1, dilation = 1, lo = 1, hi = 1, batch = 2;
};
struct Convolved {
  Tensor x, w, g;
  ConvParams forward, to_input, to_weights;
};
Convolved operands(const Case& c, Layout layout, DType d) {
  const auto each = [&](int64_t v) { return Dims(c.space.size(), v); };
  const auto shape = [&](int64_t first, const std::vector<int64_t>& space, int64_t channels, Layout l) {
    Shape s{first};
    if (l == Layout::nchw) s.push_back(channels);
    for (const int64_t n : space) s.push_back(n);
    if (l == Layout::nhwc) s.push_back(channels);
    return s;
  };
  Convolved o;
  o.forward.strides = each(c.stride), o.forward.dilation = each(c.dilation);
  o.forward.pads_lo = each(c.lo), o.forward.pads_hi = each(c.hi);
  o.forward.groups = c.groups, o.forward.layout = layout;
  o.to_input = o.to_weights = o.forward;
  o.to_input.sizes = Dims(c.space.begin(), c.space.end());
  o.to_weights.sizes = Dims(c.window.begin(), c.window.end());
  o.x = numbers(shape(c.batch, c.space, c.in, layout), d, 1);
  Shape w;
  if (layout == Layout::nchw) w = shape(c.out, c.window, c.in / c.groups, layout);
  else {
    for (const int64_t n : c.window) w.push_back(n);
    w.push_back(c.in / c.groups), w.push_back(c.out);
  }
  o.w = numbers(w, d, 2);
  const WithDevice here(host);
  o.g = numbers(op_check::run(record("conv"), {o.x, o.w}, o.forward)[0].shape(), d, 3);
  return o;
}
void same_three(const Convolved& o, OnView view = as_it_is) {
  same_on_gpu(record("conv"), {o.x, o.w}, o.forward, view);
  same_on_gpu(record("conv_grad_input"), {o.g, o.w}, o.to_input, view);
  same_on_gpu(record("conv_grad_weight"), {o.x, o.g}, o.to_weights, view);
}

const Case small{{9, 8}, {3, 3}, 4, 6};

}  // namespace

TEST_CASE("convolutions by cuDNN") {
  const bool counts = is_simulated();
  for (const Case& c : std::initializer_list<Case>{
           small,
           {{9, 8}, {3, 2}, 4, 6, 2},
           {{9, 8}, {3, 3}, 4, 8, 4, 2, 1},
           {{11, 9}, {2, 3}, 3, 5, 1, 3, 2, 2, 2},
           {{17}, {5}, 3, 4, 1, 2, 1, 2, 2},
           {{5, 6, 4}, {2, 3, 2}, 2, 3},
           {{7, 6}, {2, 3}, 2, 3, 1, 1, 1, 0, 0},
           {{8, 8}, {3, 3}, 2, 3, 1, 2, 1, 0, 0},
           {{8, 8}, {2, 2}, 2, 3, 1, 2, 1, 0, 1},  // the stride leaves the padding out
           {{6, 6}, {1, 1}, 4, 3, 1, 2, 1, 0, 0},
       })
    for (const Layout layout : {Layout::nhwc, Layout::nchw})
      for (const DType d : {f32, f16, bf16, f64}) {
        count("executions"), count("wrong");
        same_three(operands(c, layout, d));
        if (!counts) continue;
        CHECK(count("executions") == 3);
        CHECK(count("wrong") == 0);
      }
}

TEST_CASE("convolutions of views by cuDNN") {
  const bool counts = is_simulated();
  for (const Layout layout : {Layout::nhwc, Layout::nchw}) {
    Convolved o = operands({{9, 8}, {3, 3}, 4, 4, 1, 1, 1, 1, 1, 4}, layout, f32);
    count("executions");
    same_three(o, [](const Tensor& t) { return flip(t, Axes(1)); });
    same_three(o, [](const Tensor& t) { return broadcast_to(slice_axis(t, 0, 1, 2), t.shape()); });
    if (counts) CHECK(count("executions") == 6);
    if (counts) CHECK(count("wrong") == 0);
  }
}

// A padded place times an infinity is NaN for the library; the definition has no padding.
TEST_CASE("infinities at the edge of convolutions by cuDNN") {
  is_simulated();
  for (const Layout layout : {Layout::nhwc, Layout::nchw})
    for (const int64_t stride : {1, 2}) {
      Convolved o = operands({{5, 6}, {3, 3}, 2, 3, 1, stride}, layout, f32);
      const WithDevice here(host);
      const auto with_infinity = [](const Tensor& t) {
        return where(t == max(t), std::numeric_limits<float>::infinity(), t);
      };
      o.w = with_infinity(o.w), o.g = with_infinity(o.g);
      same_three(o);
    }
}

TEST_CASE("a plan is made once") {
  if (!is_simulated()) return skip_case("a true cuDNN does not count");
  const Convolved o = operands({{10, 7}, {3, 3}, 5, 7}, Layout::nhwc, f32);
  const Tensor x = o.x.to(gpu), w = o.w.to(gpu);
  const auto convolve = [&](const Tensor& x) { return op_check::run(record("conv"), {x, w}, o.forward)[0]; };
  convolve(x);
  for (const char* what : {"made", "restored", "executions"}) count(what);
  for (int i = 0; i < 3; ++i) convolve(x + i);
  CHECK(count("executions") == 3);
  CHECK(count("made") + count("restored") == 0);
}

TEST_CASE("what cuDNN refuses runs on kernels of our own") {
  if (!is_simulated()) return skip_case("a true cuDNN does not refuse on demand");
  count("executions");
  same_three(operands({{9, 8}, {3, 3}, 4, 6, 1, 1, 1, 1, 1, 7}, Layout::nhwc, f32));  // refused by its batch
  same_three(operands({{9, 8}, {3, 3}, 4, 6, 1, 1, 1, 0, 2}, Layout::nchw, f32));     // never asked: uneven padding
  same_three(operands({{9, 8}, {3, 3}, 4, 6, 1, 1, 1, 1, 1, 0}, Layout::nchw, f32));  // nothing to compute
  refuse(true);
  same_three(operands({{9, 9}, {3, 3}, 4, 6}, Layout::nchw, bf16));
  refuse(false);
  CHECK(count("executions") == 0);
  CHECK(count("wrong") == 0);
}

TEST_CASE("what fails in cuDNN is an error, and the program goes on") {
  const auto fail = of_driver<void(const char*, int)>("rill_simulated_fail");
  if (!is_simulated() || !fail) return skip_case("a true cuDNN does not fail on demand");
  const Convolved o = operands(small, Layout::nhwc, f32);
  same_on_gpu(record("conv"), {o.x, o.w}, o.forward);
  fail("cudnnBackendExecute", 1);
  std::string what;
  try {
    op_check::run(record("conv"), {o.x.to(gpu), o.w.to(gpu)}, o.forward);
  } catch (const Error& e) {
    what = e.what();
  }
  fail("", 0);
  CHECK(what.find("CUDNN_STATUS_EXECUTION_FAILED") != std::string::npos);
  same_on_gpu(record("conv"), {o.x, o.w}, o.forward);
}

TEST_CASE("without memory for a workspace, kernels of our own serve") {
  if (!is_simulated()) return skip_case("a true cuDNN takes what workspace it likes");
  const Convolved o = operands(small, Layout::nhwc, f16);  // the simulated library wants some for halves
  const Tensor x = o.x.to(gpu), w = o.w.to(gpu);
  const auto convolve = [&] { return op_check::run(record("conv"), {x, w}, o.forward)[0].to(host); };
  const Tensor want = convolve();
  release_cached_memory(gpu);
  const size_t used = memory_stats(gpu).in_use;
  int without = 0, with = 0;
  for (size_t more = 256; more <= 8192; more += 256) {
    count("executions");
    set_memory_limit(gpu, used + more);
    Tensor got;
    try {
      got = convolve();
    } catch (const Error&) {  // there is none for the result
    }
    release_cached_memory(gpu);
    if (!got.defined()) continue;
    CHECK(max(abs(got - want)).item<float>() < 0.1f);
    (count("executions") == 0 ? without : with) += 1;
  }
  set_memory_limit(gpu, 0);
  CHECK(without > 0);
  CHECK(with > 0);
}

TEST_CASE("threads convolve by cuDNN") {
  is_simulated();
  std::vector<std::thread> threads;
  std::vector<std::string> wrong(4);
  for (size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      const Convolved o = operands({{9, 8 + int64_t(t) % 2}, {3, 3}, 4, 6}, Layout::nhwc, f32);
      const WithDevice here(host);
      const Tensor want = op_check::run(record("conv"), {o.x, o.w}, o.forward)[0];
      for (int i = 0; i < 10; ++i) {
        const Tensor got = op_check::run(record("conv"), {o.x.to(gpu), o.w.to(gpu)}, o.forward)[0].to(host);
        if (!(max(abs(got - want)).item<float>() < 1e-4f)) wrong[t] = "other numbers";
      }
    });
  for (std::thread& t : threads) t.join();
  for (const std::string& w : wrong) CHECK(w == "");
}

TEST_CASE("child: three convolutions", "[.]") {
  if (!is_simulated()) return skip_case("a true cuDNN does not count");
  for (const char* what : {"made", "restored"}) count(what);
  same_three(operands(small, Layout::nchw, f32));
  CHECK(count("wrong") == 0);
  std::printf("%ld made, %ld restored\n", count("made"), count("restored"));
}

TEST_CASE("plans are kept on disk, and RILL_LOG=cudnn tells of new ones") {
  if (!is_simulated()) return skip_case("a true cuDNN does not count");
  const auto folder = std::filesystem::temp_directory_path() / ("rill-plans-" + std::to_string(getpid()));
  const auto run = [&](const std::string& settings) {
    std::string out;
    CHECK(child("RILL_CACHE_DIR=" + folder.string() + " RILL_LOG=cudnn " + settings, "child: three convolutions",
                out) == 0);
    return out;
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const std::string first = run(""), second = run(""), third = run("RILL_SIMULATED_CUDNN_FORGETS=1");
  INFO(first << second << third);
  CHECK(has(first, "3 made, 0 restored"));
  CHECK(has(first, "rill: cuDNN: a new plan"));
  CHECK(has(second, "0 made, 3 restored"));
  CHECK(!has(second, "a new plan"));
  CHECK(has(third, "3 made, 0 restored"));
  // Of f32 in full; or with tensor cores, by plans of their own.
  const std::string rounded = run("RILL_TF32=on");
  INFO(rounded);
  CHECK(has(first, "a new plan\nexact\n"));
  CHECK(has(rounded, "3 made, 0 restored"));
  CHECK(!has(rounded, "exact\n"));
  std::filesystem::remove_all(folder);
}

TEST_CASE("child: cuDNN cannot be started", "[.]") {
  REQUIRE(has_device(gpu));  // the driver is opened
  const auto fail = of_driver<void(const char*, int)>("rill_simulated_fail");
  if (!fail) return skip_case("a true driver does not fail on demand");
  fail("cudnnCreate", 1);
  const Convolved o = operands(small, Layout::nhwc, f32);
  for (int i = 0; i < 2; ++i) same_three(o);
  CHECK(count("executions") == 0);
}

TEST_CASE("where cuDNN is missing or does not start") {
  std::string out;
  CHECK(child("RILL_CUDNN=none", "convolutions by cuDNN", out) == 0);
  CHECK(child("", "child: cuDNN cannot be started", out) == 0);
  if (has(out, "skipped: ")) return skip_case("a true driver does not fail on demand");
  INFO(out);
  CHECK(has(out, "rill: cuDNN is not used on gpu:0: cudnnCreate"));
  CHECK(out.find("is not used") == out.rfind("is not used"));  // told once
}
