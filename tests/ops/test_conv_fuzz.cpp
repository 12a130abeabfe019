// Random convolutions and their gradients on cpu:0 against ref:0: every rank, stride, dilation, group, padding, up to
// 40 channels, dtype, layout and number of threads, in guarded memory. Operands are small whole numbers, so that every
// sum is exact in f32 and results are compared bit by bit; some have an infinity or a NaN. CI takes other cases for
// each commit: RILL_TEST_TURN; RILL_FUZZ_COUNT says how many. A case that failed runs alone with RILL_FUZZ_SEED=n
// RILL_FUZZ_COUNT=1.
#include <random>

#include "catch.h"
#include "child.h"
#include "rill/devices/guarded_blocks.h"
#include "rill/rill.h"
#include "tested_device.h"
#include "threads.h"

using namespace rill;

namespace {

struct Guards {
  Guards() { host_memory::guard_blocks(true); }
  ~Guards() { host_memory::guard_blocks(false); }
};
struct Deterministic {
  const bool before = deterministic();
  explicit Deterministic(bool on) { set_deterministic(on); }
  ~Deterministic() { set_deterministic(before); }
};

// A case as its seed says. Shapes are NHWC and HWIO.
struct Case {
  std::mt19937_64 random;
  Shape x, w, y;
  ConvParams p;
  DType dtype;
  int threads;
  bool fixed, with_infinities, turned;  // deterministic; some elements; operands that are views in another order

  int64_t below(int64_t n) { return int64_t(random() % uint64_t(n)); }
  int64_t often_one(int64_t most) { return below(3) == 0 ? 1 : 1 + below(most); }

  explicit Case(uint64_t seed) : random(seed) {
    while (!make()) {
    }
    constexpr DType dtypes[] = {f32, f32, f32, bf16, f16, f64};
    dtype = dtypes[below(6)];
    threads = int(1 + below(3));
    fixed = below(4) == 0, with_infinities = below(6) == 0, turned = below(4) == 0;
    p.layout = below(3) == 0 ? Layout::nchw : Layout::nhwc;
  }

  bool make() {
    const size_t rank = size_t(1 + below(3));
    p = {};
    p.groups = below(3) == 0 ? 1 + below(8) : 1;
    const int64_t most = 40 / p.groups, in = 1 + below(most), out = 1 + below(most), batch = 1 + below(5);
    x = {batch}, w = {}, y = {batch};
    const bool pointwise = below(4) == 0;
    double work = double(batch) * double(in * out * p.groups);
    for (size_t a = 0; a < rank; ++a) {
      const int64_t size = 1 + below(rank == 1 ? 80 : rank == 2 ? 24 : 9), window = pointwise ? 1 : often_one(6);
      p.strides.push_back(often_one(below(4) ? 4 : 9)), p.dilation.push_back(often_one(3));
      p.pads_lo.push_back(below(2) ? below(below(4) ? 4 : 9) : 0), p.pads_hi.push_back(below(2) ? below(4) : 0);
      const int64_t room = size + p.pads_lo[a] + p.pads_hi[a] - (window - 1) * p.dilation[a] - 1;
      if (room < 0) return false;
      x.push_back(size), w.push_back(window), y.push_back(room / p.strides[a] + 1);
      work *= double(window) * double(room / p.strides[a] + 1);
    }
    x.push_back(in * p.groups), w.push_back(in), w.push_back(out * p.groups), y.push_back(out * p.groups);
    return work < 2e6;
  }

  Tensor numbers(const Shape& shape) {
    std::vector<float> values(size_t(shape.numel()));
    for (float& v : values) v = float(below(7) - 3);
    if (with_infinities && below(2) == 0) values[size_t(below(int64_t(values.size())))] = below(2) ? INFINITY : NAN;
    return tensor(values, shape).astype(dtype);
  }
};

std::ostream& operator<<(std::ostream& to, const Case& c) {
  const auto list = [&](const char* what, const Dims& d) { to << ' ' << what << ' ' << to_string(Shape(d)); };
  to << name(c.dtype) << " x " << to_string(c.x) << " w " << to_string(c.w);
  list("strides", c.p.strides), list("dilation", c.p.dilation), list("from", c.p.pads_lo), list("to", c.p.pads_hi);
  return to << " groups " << c.p.groups << ' ' << name(c.p.layout) << ' ' << c.threads << " threads"
            << (c.fixed ? " deterministic" : "") << (c.with_infinities ? " infinities" : "")
            << (c.turned ? " turned" : "");
}

// The axes that turn NHWC into NCHW and HWIO into OIHW, and back.
Dims axes_to(Layout l, size_t ndim, bool weight, bool back) {
  Dims out;
  const int64_t n = int64_t(ndim), space = n - 2;
  if (l == Layout::nhwc) {
    for (int64_t i = 0; i < n; ++i) out.push_back(i);
  } else if (!back) {
    out = weight ? Dims{n - 1, n - 2} : Dims{0, n - 1};
    for (int64_t i = 0; i < space; ++i) out.push_back(i + (weight ? 0 : 1));
  } else {
    if (!weight) out.push_back(0);
    for (int64_t i = 0; i < space; ++i) out.push_back(i + 2);
    out.push_back(1);
    if (weight) out.push_back(0);
  }
  return out;
}

struct Operands {
  Tensor x, w, g;
};

// The convolution of x, its gradients by x and by w, as NHWC and HWIO.
std::vector<Tensor> results(const Case& c, const Operands& o, Device device) {
  ConvParams p = c.p;
  const size_t ndim = c.x.size();
  const auto in = [&](const Tensor& t, bool weight) {
    const Tensor there = t.to(device);
    const Tensor moved = transpose(there, axes_to(p.layout, ndim, weight, false));
    return c.turned ? moved : moved.contiguous();
  };
  const auto out = [&](const Tensor& t, bool weight) {
    return transpose(t, axes_to(p.layout, ndim, weight, true)).contiguous().to("cpu:0");
  };
  SpacePadding padding(0);
  padding.kind = SpacePadding::Kind::each, padding.lo = p.pads_lo, padding.hi = p.pads_hi;
  const Tensor x = in(o.x, false), w = in(o.w, true), g = in(o.g, false);
  std::vector<Tensor> all;
  all.push_back(out(
      conv(x, w,
           {.strides = p.strides, .padding = padding, .dilation = p.dilation, .groups = p.groups, .layout = p.layout}),
      false));
  p.sizes = Dims(c.x.begin() + 1, c.x.end() - 1);
  all.push_back(out(conv_grad_input(g, w, p), false));
  p.sizes = Dims(c.w.begin(), c.w.end() - 2);
  all.push_back(out(conv_grad_weight(x, g, p), true));
  return all;
}

// Whether all results of the case are those of ref:0.
void check(uint64_t seed) {
  Case c(seed);
  INFO("RILL_FUZZ_SEED=" << seed << " RILL_FUZZ_COUNT=1: " << c);
  const Operands o{c.numbers(c.x), c.numbers(c.w), c.numbers(c.y)};
  const Threads threads(c.threads);
  const Deterministic fixed(c.fixed);
  const std::vector<Tensor> got = results(c, o, "cpu:0"), want = results(c, o, "ref:0");
  constexpr const char* which[] = {"the convolution", "the gradient by the input", "the gradient by the weights"};
  for (size_t i = 0; i < 3; ++i) {
    INFO(which[i]);
    REQUIRE(got[i].shape() == want[i].shape());
    CHECK(allclose(got[i], want[i], {.rtol = 0, .atol = 0, .equal_nan = true}));
  }
}

void check_cases(uint64_t count) {
  const Guards guards;
  count = setting("RILL_FUZZ_COUNT", count);
  const uint64_t first = setting("RILL_FUZZ_SEED", 1 + count * (setting("RILL_TEST_TURN", 0) % 100000));
  for (uint64_t i = 0; i < count; ++i) check(first + i);
  CHECK(host_memory::damaged_blocks() == 0);
}

}  // namespace

TEST_CASE("random convolutions and their gradients are those of ref:0") { check_cases(300); }

TEST_CASE("some random convolutions", "[.some]") { check_cases(60); }
TEST_CASE("and where OpenMP gives other threads than are asked for") {
  for (const char* setting :
       {"OMP_DYNAMIC=true", "OMP_THREAD_LIMIT=1", "OMP_THREAD_LIMIT=2", "OMP_MAX_ACTIVE_LEVELS=0"}) {
    std::string output;
    const int status = child(std::string(setting) + " timeout 250", "[.some]", output);
    INFO(setting << ":\n" << output);
    CHECK(status == 0);
  }
}

TEST_CASE("strides greater than their input") {
  const Guards guards;
  const auto whole = [](const Shape& shape, uint64_t seed) {
    return round(random::normal(shape, {.dtype = f64, .key = random::Key(seed)}));
  };
  for (const int64_t size : {7, 8, 9, 16, 21})
    for (const int64_t stride : {size, size + 1, 2 * size + 1})
      for (const int64_t window : {2, 3, 6})
        for (const int64_t channels : {1, 3}) {
          ConvParams p{};
          p.strides = {1, stride}, p.dilation = {1, 1}, p.pads_lo = {0, 2}, p.pads_hi = {0, 1};
          p.groups = 1, p.layout = Layout::nhwc, p.sizes = {2, window};
          const Tensor x = whole({2, 3, size, channels}, 1);
          const Tensor g = whole({2, 2, (size + 3 - window) / stride + 1, 30}, 2);
          INFO("size " << size << " stride " << stride << " window " << window << " channels " << channels);
          for (const DType d : {bf16, f16, f32})  // sums of whole numbers are exact
            CHECK(array_equal(conv_grad_weight(x.astype(d), g.astype(d), p), conv_grad_weight(x, g, p).astype(d)));
        }
  CHECK(host_memory::damaged_blocks() == 0);
}
