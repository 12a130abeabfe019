// oneDNN as it is: what of devices/cpu/product/onednn_defects.h it still does, so that each workaround is known to be
// needed, and when it may go; and rill inside OpenMP regions of the user's. What may crash or hang runs in a process of
// its own. Start at the list in that header.
#include <omp.h>
#include <dnnl.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>

#include "catch.h"
#include "child.h"
#include "rill/devices/cpu/product/onednn_defects.h"
#include "rill/devices/guarded_blocks.h"
#include "rill/rill.h"
#include "same.h"
#include "threads.h"

using namespace rill;
using dnnl::memory;

namespace {

const dnnl::engine& engine() {
  static const dnnl::engine e(dnnl::engine::kind::cpu, 0);
  return e;
}

// A 2-d convolution of NHWC, or its gradient by the weights, as dnnl sees it.
struct Raw {
  memory::dims x, w, y, strides, pads;
  memory::data_type type = memory::data_type::f32;
  memory::format_tag weights = memory::format_tag::any;
};
memory::dims zeros_like_dims(const memory::dims& d) { return memory::dims(d.size(), 0); }

memory::desc desc(const Raw& r, const memory::dims& d, bool weights) {
  return {d, r.type, weights ? r.weights : memory::format_tag::nhwc};
}
dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}
dnnl::convolution_forward::primitive_desc forward(const Raw& r) {
  return {engine(),
          dnnl::prop_kind::forward_training,
          dnnl::algorithm::convolution_direct,
          desc(r, r.x, false),
          desc(r, r.w, true),
          desc(r, r.y, false),
          r.strides,
          zeros_like_dims(r.strides),
          r.pads,
          r.pads};
}
dnnl::convolution_backward_weights::primitive_desc by_weights(const Raw& r) {
  return {engine(),
          dnnl::algorithm::convolution_direct,
          desc(r, r.x, false),
          desc(r, r.w, true),
          desc(r, r.y, false),
          r.strides,
          zeros_like_dims(r.strides),
          r.pads,
          r.pads,
          forward(r),
          user_scratchpad()};
}

// f32 in a layout of oneDNN's, from and to one that is plain.
memory in_layout(memory& from, const memory::desc& to) {
  if (from.get_desc() == to) return from;
  memory out(to, engine());
  dnnl::stream s(engine());
  dnnl::reorder(from, out).execute(s, from, out);
  s.wait();
  return out;
}
memory plain(const memory::dims& d, memory::format_tag tag, float value) {
  memory m({d, memory::data_type::f32, tag}, engine());
  std::fill_n(static_cast<float*>(m.get_data_handle()), m.get_desc().get_size() / sizeof(float), value);
  return m;
}
std::vector<float> numbers(memory& m, memory::format_tag tag) {
  memory out = in_layout(m, {m.get_desc().get_dims(), memory::data_type::f32, tag});
  const float* from = static_cast<const float*>(out.get_data_handle());
  return {from, from + out.get_desc().get_size() / sizeof(float)};
}

// The weight gradient of a cotangent of ones, in memory that holds NaN before. The input is 1, 2, 3 in turn.
std::vector<float> weight_gradient(const Raw& r) {
  const auto pd = by_weights(r);
  memory x = plain(r.x, memory::format_tag::nhwc, 1);
  float* const values = static_cast<float*>(x.get_data_handle());
  for (size_t i = 0; i < x.get_desc().get_size() / sizeof(float); ++i) values[i] = float(i % 3 + 1);
  memory y = plain(r.y, memory::format_tag::nhwc, 1), w = plain(r.w, memory::format_tag::oihw, std::nanf(""));
  memory in_x = in_layout(x, pd.src_desc()), in_y = in_layout(y, pd.diff_dst_desc()),
         in_w = in_layout(w, pd.diff_weights_desc());
  host_memory::guard_blocks(true);  // what is written behind the workspace ends the program
  Tensor workspace = empty({int64_t(pd.scratchpad_desc().get_size())}, u8);
  host_memory::guard_blocks(false);
  memory scratchpad(pd.scratchpad_desc(), engine(), workspace.mutable_rep()->data);
  dnnl::stream s(engine());
  dnnl::convolution_backward_weights(pd).execute(s, {{DNNL_ARG_SRC, in_x},
                                                     {DNNL_ARG_DIFF_DST, in_y},
                                                     {DNNL_ARG_DIFF_WEIGHTS, in_w},
                                                     {DNNL_ARG_SCRATCHPAD, scratchpad}});
  s.wait();
  return numbers(in_w, memory::format_tag::oihw);
}
// The convolution of ones by weights whose first element is infinite.
std::vector<float> by_an_infinity(const Raw& r) {
  const auto pd = forward(r);
  memory x = plain(r.x, memory::format_tag::nhwc, 1), w = plain(r.w, memory::format_tag::oihw, 1);
  *static_cast<float*>(w.get_data_handle()) = INFINITY;
  memory in_x = in_layout(x, pd.src_desc()), in_w = in_layout(w, pd.weights_desc()), y(pd.dst_desc(), engine());
  dnnl::stream s(engine());
  dnnl::convolution_forward(pd).execute(s, {{DNNL_ARG_SRC, in_x}, {DNNL_ARG_WEIGHTS, in_w}, {DNNL_ARG_DST, y}});
  s.wait();
  return numbers(y, memory::format_tag::nhwc);
}

const memory::dims ones_2 = {1, 1}, twos = {2, 2}, none = {0, 0};
const Raw strided_1x1{{1, 1, 256, 256}, {8, 1, 1, 1}, {1, 8, 128, 128}, twos, none};
const Raw padded{{1, 16, 8, 8}, {16, 16, 3, 3}, {1, 16, 8, 8}, ones_2, ones_2};

using cpu::onednn::adds_up_like, cpu::onednn::is_reference;

// The processor has what a defect needs, and the environment leaves it.
bool has(dnnl::cpu_isa isa) { return (int(dnnl::get_effective_cpu_isa()) & int(isa)) == int(isa); }

// The workaround is needed by the versions that it was seen in; where a later one needs it no longer, that is said.
void needed(bool is_needed, const char* workaround) {
  const dnnl_version_t& v = *dnnl_version();
  INFO(workaround << ", oneDNN " << v.major << '.' << v.minor << '.' << v.patch);
  if (v.major == 3 && v.minor == 2) CHECK(is_needed);
  else if (!is_needed)
    skip_case(std::string(workaround) + ": this oneDNN needs it no longer; it may go with the older ones");
  else SUCCEED();
}

bool fails(const std::string& settings, const char* test) {
  std::string output;
  return child(settings, test, output) != 0;
}

}  // namespace

TEST_CASE("a strided 1x1 weight gradient, by itself", "[.strided_1x1]") {
  const std::vector<float> w = weight_gradient(strided_1x1);
  float sum = 0;
  for (int64_t i = 0; i < 256; i += 2)
    for (int64_t j = 0; j < 256; j += 2) sum += float((i * 256 + j) % 3 + 1);
  CHECK(w == std::vector<float>(w.size(), sum));
}
TEST_CASE("a strided 1x1 weight gradient") {
  if (!has(dnnl::cpu_isa::avx2)) return skip_case("a processor without AVX2 has no such kernel");
  needed(fails("ONEDNN_MAX_CPU_ISA=AVX2 OMP_NUM_THREADS=1 timeout 20", "[.strided_1x1]"), "1. is_wrong()");
}

TEST_CASE("padding beside infinities") {
  if (!has(dnnl::cpu_isa::avx512_core_amx)) return skip_case("a processor without AMX has no such kernel");
  Raw halves = padded;
  halves.type = memory::data_type::bf16;
  bool any_nan = false;
  for (float y : by_an_infinity(halves)) any_nan |= std::isnan(y);
  needed(any_nan, "2. multiplies_padding()");
}

TEST_CASE("an infinity behind an odd number of channels") {
  if (!has(dnnl::cpu_isa::avx512_core_bf16)) return skip_case("a processor without bf16 has no such kernel");
  const Raw odd{{1, 3, 1, 8}, {16, 3, 1, 1}, {1, 16, 1, 8}, ones_2, {0, 0}, memory::data_type::bf16};
  const auto pd = forward(odd);
  memory x = plain(odd.x, memory::format_tag::nhwc, 1), w = plain(odd.w, memory::format_tag::oihw, 1);
  static_cast<float*>(x.get_data_handle())[3] = INFINITY;  // the first channel of the second pixel
  memory in_x = in_layout(x, pd.src_desc()), in_w = in_layout(w, pd.weights_desc()), y(pd.dst_desc(), engine());
  dnnl::stream s(engine());
  dnnl::convolution_forward(pd).execute(s, {{DNNL_ARG_SRC, in_x}, {DNNL_ARG_WEIGHTS, in_w}, {DNNL_ARG_DST, y}});
  s.wait();
  needed(std::isnan(numbers(y, memory::format_tag::nhwc)[0]), "9. multiplies_neighbours()");
}

TEST_CASE("a weight gradient on fewer threads, by itself", "[.fewer_threads]") {
  omp_set_num_threads(4);
  const Raw r{{8, 16, 16, 16}, {16, 16, 3, 3}, {8, 16, 16, 16}, ones_2, ones_2};
  const std::vector<float> w = weight_gradient(r);
  float sum = 0;  // the middle of a window meets every pixel
  for (int64_t i = 0; i < 8 * 16 * 16; ++i) sum += float(i * 16 % 3 + 1);
  CHECK(w[4] == sum);
}
TEST_CASE("fewer threads than a primitive was made for") {
  if (!has(dnnl::cpu_isa::avx2)) return skip_case("kernels for SSE4.1 keep no threads waiting");
  CHECK_FALSE(fails("timeout 60", "[.fewer_threads]"));
  needed(fails("OMP_THREAD_LIMIT=1 timeout 20", "[.fewer_threads]"), "4. LibraryThreads");
}

TEST_CASE("layouts that oneDNN has kernels for") {
  if (!has(dnnl::cpu_isa::avx2)) return skip_case("kernels for SSE4.1 are others");
  Raw plain_weights = padded;
  plain_weights.weights = memory::format_tag::oihw;
  CHECK_FALSE(is_reference(forward(padded).impl_info_str()));
  needed(is_reference(forward(plain_weights).impl_info_str()), "5. weights in a layout of oneDNN's choice");

  const auto product = [](const memory::dims& b, const memory::dims& strides) {
    const memory::data_type type = memory::data_type::f32;
    return dnnl::matmul::primitive_desc(engine(), {{4, 64, 64}, type, memory::format_tag::abc}, {b, type, strides},
                                        {{4, 64, 64}, type, memory::format_tag::abc});
  };
  CHECK_FALSE(is_reference(product({1, 64, 64}, {4096, 64, 1}).impl_info_str()));
  needed(is_reference(product({1, 64, 64}, {0, 64, 1}).impl_info_str()), "5. and 6. strides of axes of one element");
}

namespace {

dnnl::matmul::primitive_desc product_of_halves(int64_t m, int64_t k, int64_t n, bool packs) {
  const memory::data_type type = memory::data_type::bf16;
  const auto plain = memory::format_tag::ab, any = memory::format_tag::any;
  return {engine(), {{m, k}, type, plain}, {{k, n}, type, packs ? any : plain}, {{m, n}, type, plain}};
}
// By that implementation, of numbers whose sums are rounded.
std::vector<uint16_t> run_product(const dnnl::matmul::primitive_desc& pd, int64_t m, int64_t k, int64_t n) {
  const auto numbers = [](int64_t rows, int64_t columns, uint64_t seed) {
    return random::normal({rows, columns}, {.dtype = bf16, .key = random::Key(seed)});
  };
  const Tensor x = numbers(m, k, 1), y = numbers(k, n, 2);
  const memory::data_type type = memory::data_type::bf16;
  memory a({{m, k}, type, memory::format_tag::ab}, engine(), x.rep()->data),
      b({{k, n}, type, memory::format_tag::ab}, engine(), y.rep()->data), c(pd.dst_desc(), engine());
  memory in_b = in_layout(b, pd.weights_desc());
  dnnl::stream s(engine());
  dnnl::matmul(pd).execute(s, {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, in_b}, {DNNL_ARG_DST, c}});
  s.wait();
  const uint16_t* from = static_cast<const uint16_t*>(c.get_data_handle());
  return {from, from + m * n};
}

}  // namespace

TEST_CASE("names of implementations") {
  // Loops without a kernel say so: columns of A and rows of B that both lie apart have none in any version.
  const memory::data_type type = memory::data_type::f32;
  const memory::desc gaps({64, 64}, type, memory::dims{192, 3}), dense({64, 64}, type, memory::format_tag::ab);
  CHECK(is_reference(dnnl::matmul::primitive_desc(engine(), gaps, gaps, dense).impl_info_str()));
  if (!has(dnnl::cpu_isa::avx512_core_bf16)) return skip_case("a processor without bf16 packs no products of it");
  int packed = 0;
  for (int64_t k : {24, 100, 512, 1000, 3000})
    for (int64_t n : {16, 72, 200}) {
      const auto plain = product_of_halves(48, k, n, false), packs = product_of_halves(48, k, n, true);
      INFO(k << " x " << n << ": " << plain.impl_info_str() << ", " << packs.impl_info_str());
      CHECK_FALSE(is_reference(plain.impl_info_str()));
      if (!adds_up_like(plain.impl_info_str(), packs.impl_info_str())) continue;
      ++packed;
      CHECK(run_product(plain, 48, k, n) == run_product(packs, 48, k, n));
    }
  CHECK(packed > 0);  // else no product is packed any more
}

namespace {
// The processor time of n numbers convolved with as many.
double time_to_convolve(int64_t n) {
  const memory::desc x({1, 1, 1, n}, memory::data_type::f32, memory::format_tag::nhwc),
      y({1, 1, 1, 2 * n - 1}, memory::data_type::f32, memory::format_tag::nhwc),
      w({1, 1, 1, n}, memory::data_type::f32, memory::format_tag::any);
  const memory::dims ones{1, 1}, none{0, 0}, pads{0, n - 1};
  const dnnl::convolution_forward::primitive_desc pd(engine(), dnnl::prop_kind::forward_training,
                                                     dnnl::algorithm::convolution_direct, x, w, y, ones, none, pads,
                                                     pads);
  memory in_x(x, engine()), in_w(pd.weights_desc(), engine()), out(y, engine());
  std::memset(in_x.get_data_handle(), 0, x.get_size());
  std::memset(in_w.get_data_handle(), 0, pd.weights_desc().get_size());
  const std::clock_t start = std::clock();
  dnnl::stream s(engine());
  dnnl::convolution_forward(pd).execute(s, {{DNNL_ARG_SRC, in_x}, {DNNL_ARG_WEIGHTS, in_w}, {DNNL_ARG_DST, out}});
  s.wait();
  return double(std::clock() - start) / CLOCKS_PER_SEC;
}
}  // namespace

TEST_CASE("windows as wide as a signal") {
  const double narrow = std::min(time_to_convolve(2000), time_to_convolve(2000)), wide = time_to_convolve(8000);
  INFO(narrow << " s, then " << wide << " s");
  needed(wide > 5 * 16 * narrow, "11. crawls()");  // 16 times the products
}

TEST_CASE("relu of NaN") {
  memory x = plain({1, 16, 1, 1}, memory::format_tag::nhwc, std::nanf("")), y(x.get_desc(), engine());
  const dnnl::eltwise_forward::primitive_desc pd(engine(), dnnl::prop_kind::forward_inference,
                                                 dnnl::algorithm::eltwise_relu, x.get_desc(), y.get_desc(), 0.f);
  dnnl::stream s(engine());
  dnnl::eltwise_forward(pd).execute(s, {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}});
  s.wait();
  needed(!std::isnan(*static_cast<float*>(y.get_data_handle())), "8. activations by rill's kernels");
}

namespace {

// Everything of rill's that calls oneDNN, as one tensor of sums.
Tensor all_uses() {
  const auto normal = [](const Shape& s, uint64_t seed) { return random::normal(s, {.key = random::Key(seed)}); };
  std::vector<Tensor> out;
  for (DType d : {f32, bf16, f16}) {
    const Tensor x = normal({4, 12, 12, 16}, 1).astype(d), w = normal({3, 3, 16, 24}, 2).astype(d);
    GradientTape tape;
    tape.watch(x), tape.watch(w);
    const Tensor y = conv(x, w, {.padding = "SAME"});
    for (const Tensor& t : tape.gradient(sum(y * y), x, w)) out.push_back(ravel(t).astype(f32));
    out.push_back(ravel(y).astype(f32));
    out.push_back(ravel(matmul(normal({70, 200}, 3).astype(d), normal({200, 90}, 4).astype(d))).astype(f32));
    out.push_back(ravel(matmul(normal({6, 40, 50}, 5).astype(d), normal({6, 50, 30}, 6).astype(d))).astype(f32));
  }
  return concat(out);
}

int threads_that_come() {
  const detail::LibraryThreads threads;
  int came = 0;
#pragma omp parallel
#pragma omp single
  came = omp_get_num_threads();
  return came == threads.count() ? 0 : 1;
}

}  // namespace

TEST_CASE("oneDNN inside OpenMP regions of the user's has the bits of one thread") {
  Tensor expected;
  {
    const Threads one(1);
    expected = all_uses();
  }
  for (int count : {1, 2, 4}) {
    INFO(count << " threads");
    const Threads threads(count);
    int wrong = 0;
#pragma omp parallel num_threads(3) reduction(+ : wrong)
    wrong += !same(all_uses(), expected) + threads_that_come();
    CHECK(wrong == 0);
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < 3; ++i) {
#pragma omp task shared(wrong)
      {
        const int differs = !same(all_uses(), expected) + threads_that_come();
#pragma omp atomic
        wrong += differs;
      }
    }
    CHECK(wrong == 0);
    const int levels = omp_get_max_active_levels();
    omp_set_max_active_levels(3);
#pragma omp parallel num_threads(2) reduction(+ : wrong)
    {
#pragma omp parallel num_threads(2) reduction(+ : wrong)
      wrong += !same(all_uses(), expected) + threads_that_come();
    }
    omp_set_max_active_levels(levels);
    CHECK(wrong == 0);
  }
}

TEST_CASE("beside regions, and in a region of one thread, oneDNN gets the threads that it plans for") {
  const Threads threads(4);
  const Tensor expected = all_uses();
  const int asked = omp_get_max_threads(), dynamic = omp_get_dynamic();
  CHECK(threads_that_come() == 0);
  for (int on : {0, 1}) {
    omp_set_dynamic(on);
    CHECK(threads_that_come() == 0);
    CHECK(same(all_uses(), expected));
#pragma omp parallel num_threads(1)
    CHECK(same(all_uses(), expected));
    CHECK(omp_get_dynamic() == on);
  }
  omp_set_dynamic(dynamic);
  CHECK(omp_get_max_threads() == asked);
}
