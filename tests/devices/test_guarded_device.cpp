// Everything on a device whose memory the host cannot touch: kernels, copies, tapes, traces, control flow. The results
// have the bits of ref:0, whose kernels it runs.
#include "guarded_device.h"
#include "messages.h"
#include "op_check.h"
#include "record_samples.h"
#include "rill/nn.h"
#include "rill/rill.h"
#include "same.h"

using namespace record_samples;
using op_check::run;

namespace {

const bool added = (guarded_device::add(), true);

Inputs to(const Inputs& in, Device d) {
  Inputs out;
  for (const Tensor& t : in) out.push_back(t.to(d));
  return out;
}
// Nothing of rill's has read or written the device's memory but the driver.
void check_untouched() {
  for (const std::string& place : guarded_device::touched()) FAIL_CHECK(place);
}

}  // namespace

TEST_CASE("where there is a driver, no other one is chosen from") {
  says([] { set_visible_devices({}); }, {"[set_visible_devices]", "devices are in use already"});
}

TEST_CASE("every record") {
  int count = 0;
  for_each_op([&](const Op& op) {
    if (op.name == "transfer") return;
    for (const Sample& s : op.samples())
      for (int d = 0; d < dtype_count; ++d) {
        if (DType(d) == rill::string || main_dtype(s) == rill::string) continue;  // strings live on the host
        const auto in = in_dtype(op, s, DType(d));
        if (!in) continue;
        INFO(op_check::describe(op, *in, s.attrs));
        const WithDevice here("gpu:0");
        const Inputs want = run(op, to(*in, "ref:0"), s.attrs), is = run(op, to(*in, "gpu:0"), s.attrs);
        for (size_t k = 0; k < want.size(); ++k) {
          // Without operands an attribute says where.
          if (!in->empty() && is[k].dtype() != rill::string) CHECK(is[k].device() == Device("gpu:0"));
          CHECK(same(is[k].to("cpu:0"), want[k].to("cpu:0")));
        }
        check_untouched();
        ++count;
      }
  });
  CHECK(count > 1000);
}

TEST_CASE("programs whose default device it is") {
  const WithDevice here("gpu:0");
  random::seed(1);
  const auto on_it = [](const Tensor& t) { return t.device() == Device("gpu:0"); };
  // What is made goes there, and C++ numbers join it.
  CHECK(on_it(ones({2, 3}) * 2 + 1.5));
  CHECK(on_it(tensor({1.f, 2.f})));
  CHECK(on_it(tensor(3.0)));
  CHECK(on_it(arange(5)));
  CHECK(on_it(random::normal({3})));
  CHECK(on_it(where(ones({3}) > 0, 1.f, 2.f)));
  CHECK(maximum(tensor({-1.f, 2.f}), 0).to_vector<float>() == std::vector<float>{0, 2});
  CHECK(pow(tensor({2.f, 3.f}), 2)(1).item<float>() == 9);
  CHECK(on_it(Variable(2.0).value()));
  CHECK(strings::encode_raw(tensor({{1, 2}, {3, 4}})).size() == 2);
  // A loop over C++ numbers.
  const Tensor limit = tensor(int64_t(5));
  CHECK(while_loop([&](const Tensor& k) { return k < limit; }, [](const Tensor& k) { return k + 1; }, 0)
            .item<int64_t>() == 5);
  const auto counted = function("counted", [](const Tensor& n) {
    return while_loop([&](const Tensor& k) { return k < n; }, [](const Tensor& k) { return k + 1; }, 0);
  });
  CHECK(counted(limit).item<int64_t>() == 5);
  CHECK(sum(scan([](const Tensor& h, const Tensor& x) { return std::pair(h * 0.5 + x, h); }, 0.f, ones({4})).second)
            .item<float>() > 0);
  check_untouched();
  // Training, eager and traced.
  nn::Dense first(4, 8, {.activation = relu}), last(8, 1);
  nn::Adam adam({.learning_rate = 0.05});
  const Tensor x = random::normal({32, 4}), y = sum(x, 1, true);
  const auto step = [&](const Tensor& x, const Tensor& y) {
    GradientTape tape;
    const Tensor loss = mean(square(last(first(x)) - y));
    adam.minimize(loss, tape, {first.kernel, *first.bias, last.kernel, *last.bias});
    return loss;
  };
  const float begin = step(x, y).item<float>();
  for (int i = 0; i < 10; ++i) step(x, y);
  auto traced = function("step", step);
  for (int i = 0; i < 50; ++i) traced(x, y);
  CHECK(traced(x, y).item<float>() < begin / 4);
  CHECK(on_it(first.kernel.value()));
  CHECK(memory_stats("gpu:0").in_use > 0);
  check_untouched();
}

TEST_CASE("mistakes about devices") {
  const Tensor there = ones({2}, {.device = "gpu:0"}), here = ones({2}, {.device = "cpu:0"});
  const auto says = [](auto&& f, const char* part) {
    try {
      f();
      FAIL("nothing is thrown");
    } catch (const Error& e) {
      INFO(e.what());
      CHECK(std::string(e.what()).find(part) != std::string::npos);
    }
  };
  says([&] { return there + here; }, "operands are on gpu:0 and cpu:0");
  says([&] { return there.data<float>(); }, "to(\"cpu:0\")");
  says([&] { return tensor({std::string("a")}, {.device = "gpu:0"}); }, "strings live on the host");
  says([&] { return ones({2}, {.device = "gpu:7"}); }, "there is no gpu:7 here");
  CHECK(devices() == std::vector<Device>{"cpu:0", "gpu:0", "gpu:1", "ref:0"});
}
