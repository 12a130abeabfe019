// Tests made from the op records: each op's samples, in each dtype it takes, against the reference kernels, against
// finite differences, traced against eager, through views, at special values and with operands it must reject.
// An op that lacks what its record must say fails here; so a new record is tested by being written.
//
// On the device that tested_device.h says: a GPU's kernels have the reference kernels on the host as their judge too.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "catch.h"
#include "gpu_devices.h"
#include "op_check.h"
#include "record_samples.h"
#include "rill/devices/driver.h"
#include "rill/ops/apply.h"
#include "rill/ops/samples.h"
#include "rill/rill.h"
#include "rill/tensor/visit_dtype.h"
#include "tested_device.h"

using namespace rill;

namespace {

using namespace op_check;
using namespace record_samples;

void check_close(const Op& op, const Tensor& got, const Tensor& want, const Tensor& magnitude,
                 const std::string& what) {
  INFO(what);
  CHECK(mismatch(op, got, want, magnitude, on_host ? 0 : lost_digits(op, want)) == "");
}

template <class F>
void for_each_in_share(F&& f) {
  uint64_t number = 0;
  for_each_op([&](const Op& op) {
    if (in_share(number++)) f(op);
  });
}

// Where the op runs on operands of which the first are of this dtype: strings are on the host, and GPUs have no kernel for
// some records, quantised products for one, as docs/ops.md says.
Device device_for(const Op& op, DType dtype) {
  if (dtype == DType::string) return Device("cpu:0");
  const bool runs_there = on_host || !op.ref || driver_of(tested).kernel(op, op.name, dtype, op.ref);
  return runs_there ? tested : Device("cpu:0");
}

// The record's samples with their operands there.
std::vector<Sample> samples_of(const Op& op) {
  std::vector<Sample> all = op.samples();
  for (Sample& s : all) s.in = to(s.in, device_for(op, s.in.empty() ? main_dtype(s) : s.in[0].dtype()));
  return all;
}

// The same elements, laid out with gaps and backward along the first axis.
Tensor strided(const Tensor& t) {
  if (t.ndim() == 0 || t.size() == 0 || t.dtype() == DType::string) return t;
  Tensor padded = concat({t, t}, -1);
  Tensor flipped = flip(padded, 0).contiguous();
  Tensor view = flip(flipped, 0);
  return slice_axis(view, -1, 0, t.shape().back());
}

}  // namespace

TEST_CASE("every record says all there is to an op") {
  CHECK(all_ops().size() > 70);
  for_each_op([](const Op& op) {
    CHECK(!op.name.empty());
    CHECK(!op.doc.empty());
    CHECK(op.infer != nullptr);
    CHECK((op.ref != nullptr) != (op.view != nullptr));
    CHECK((op.vjp != nullptr) != !op.no_gradient.empty());
    REQUIRE(op.samples != nullptr);
    CHECK(!op.samples().empty());
    CHECK(find_op(op.name) == &op);
  });
}

TEST_CASE("kernels agree with the reference kernels in every dtype") {
  std::map<std::string_view, int> covered;
  for_each_in_share([&](const Op& op) {
    if (op.view) return;
    for (const Sample& s : samples_of(op))
      for (int d = 0; d < dtype_count; ++d) {
        if (DType(d) == DType::string && main_dtype(s) != DType::string) continue;
        if (s.in.empty() && DType(d) != f32) continue;
        auto in = in_dtype(op, s, DType(d));
        if (!in) continue;
        for (Tensor& t : *in) t = t.contiguous();
        INFO(describe(op, *in, s.attrs));
        Inputs cpu = run_on(device_for(op, in->empty() ? main_dtype(s) : (*in)[0].dtype()), op, *in, s.attrs),
               ref = run_on("ref:0", op, *in, s.attrs), sizes;
        if (op.sum_tolerance) sizes = run_on("ref:0", op, magnitudes(*in), s.attrs);
        for (size_t i = 0; i < cpu.size(); ++i)
          check_close(op, cpu[i], ref[i], sizes.empty() ? Tensor() : summed_parts(sizes[i]),
                      describe(op, *in, s.attrs));
        ++covered[op.name];
      }
    CHECK(covered[op.name] > 0);
  });
}

TEST_CASE("special values") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> odd = {0.0, -0.0,  1,      -1,   0.5,   -2, inf,  -inf,
                                   nan, 1e-40, -1e-40, 3e38, -3e38, 88, -104, 1e-8};
  int compared = 0;
  for_each_in_share([&](const Op& op) {
    if (op.kind != OpKind::elementwise || op.view || !contains(op.dtypes, f32) || op.inputs > 2 ||
        !op.no_special_values.empty() || (!on_host && takes_large_angles(op)))
      return;
    const Sample sample = op.samples()[0];
    int n = int(odd.size());
    Inputs in;
    if (op.inputs == 1) in = {samples::values(odd, {n})};
    else
      in = {broadcast_to(samples::values(odd, {n, 1}), {n, n}).contiguous(),
            broadcast_to(samples::values(odd, {n}), {n, n}).contiguous()};
    for (DType d : {f32, f64}) {
      for (Tensor& t : in) t = t.astype(d);
      if (!contains(op.dtypes, d)) continue;
      Tensor cpu, ref;
      try {
        cpu = run_on(tested, op, in, sample.attrs)[0], ref = run_on("ref:0", op, in, sample.attrs)[0];
      } catch (const Error&) {
        continue;
      }
      ++compared;
      check_close(op, cpu, ref, Tensor(), describe(op, in, sample.attrs));
      if (!is_floating(cpu.dtype()) || op.max_ulp == 0) continue;
      auto a = numbers(cpu), b = numbers(ref);
      for (size_t i = 0; i < a.size(); ++i)
        if (a[i] == 0 && b[i] == 0) {
          INFO(op.name << " element " << i << " sign of zero");
          CHECK(std::signbit(a[i]) == std::signbit(b[i]));
        }
    }
  });
  CHECK(compared > int(180 / setting("RILL_TEST_SHARE", 1)));
}

namespace {
// NVIDIA's libraries choose an algorithm by the layout of operands.
bool by_library(const Op& op) { return !on_host && (op.name == "matmul" || op.name.starts_with("conv")); }
}  // namespace

TEST_CASE("views and broadcast operands give the same bits as dense ones") {
  for_each_in_share([](const Op& op) {
    for (const Sample& s : samples_of(op)) {
      if (s.in.empty()) continue;
      Inputs views;
      for (const Tensor& t : s.in) views.push_back(strided(t));
      INFO(describe(op, s.in, s.attrs));
      Inputs a = run(op, s.in, s.attrs), b = run(op, views, s.attrs), sizes;
      if (by_library(op)) sizes = run_on("ref:0", op, magnitudes(s.in), s.attrs);
      for (size_t i = 0; i < a.size(); ++i)
        if (sizes.empty()) CHECK(same_bits(a[i], b[i]));
        else check_close(op, a[i], b[i], summed_parts(sizes[i]), describe(op, s.in, s.attrs));
    }
  });
}

TEST_CASE("traced equals eager bit for bit") {
  for_each_in_share([](const Op& op) {
    for (const Sample& s : samples_of(op)) {
      auto f = function(std::string(op.name), [&](std::vector<Tensor> in) { return run(op, in, s.attrs); });
      INFO(describe(op, s.in, s.attrs));
      CHECK(f.verify(s.in));
    }
  });
}

namespace {

// sum(outputs * weights), over the differentiable outputs.
Tensor weighted(const Op& op, const Inputs& in, const Attrs& attrs, uint64_t seed) {
  Tensor total = tensor(0.0);
  for (const Tensor& y : run(op, in, attrs))
    if (is_differentiable(y.dtype()))
      total = total + sum(y.astype(f64) * samples::uniform(y.shape(), 0.5, 1.5, seed++).to(y.device()).astype(f64));
  return total;
}

// The derivative of `f` along `direction` by the tape.
template <class F>
Tensor slope(F&& f, const Inputs& in, const Inputs& direction) {
  GradientTape tape;
  Inputs watched;
  std::vector<Source> sources;
  for (const Tensor& t : in) {
    watched.push_back(identity(t));
    if (t.dtype() == f64) tape.watch(watched.back()), sources.emplace_back(watched.back());
  }
  auto g = tape.gradient(std::vector<Tensor>{f(watched)}, sources, {.unconnected = Unconnected::zero});
  Tensor total = tensor(0.0);
  size_t k = 0;
  for (size_t i = 0; i < in.size(); ++i)
    if (in[i].dtype() == f64) total = total + sum(g[k++] * direction[i]);
  return total;
}

}  // namespace

TEST_CASE("gradients agree with finite differences, first and second order") {
  int checked = 0;
  for_each_in_share([&](const Op& op) {
    for (const Sample& s : samples_of(op)) {
      if (!has_gradient(op, s)) continue;
      Inputs in = *in_dtype(op, s, f64), d1 = directions(in, 11), d2 = directions(in, 23);
      auto f = [&](const Inputs& x) { return weighted(op, x, s.attrs, 7); };
      auto g = [&](const Inputs& x) { return slope(f, x, d1); };
      INFO(describe(op, in, s.attrs));
      constexpr double h = 1e-5;
      double first = g(in).item<double>(),
             first_fd = (f(moved(in, d1, h)).item<double>() - f(moved(in, d1, -h)).item<double>()) / (2 * h);
      CHECK(first == Approx(first_fd).epsilon(1e-6).margin(1e-6));
      double second = slope(g, in, d2).item<double>(),
             second_fd = (g(moved(in, d2, h)).item<double>() - g(moved(in, d2, -h)).item<double>()) / (2 * h);
      CHECK(second == Approx(second_fd).epsilon(1e-5).margin(1e-5));
      ++checked;
    }
  });
  CHECK(checked > int(150 / setting("RILL_TEST_SHARE", 1)));
}

TEST_CASE("gradients in f32, traced and through views, equal eager ones bit for bit") {
  for_each_in_share([](const Op& op) {
    const auto all_samples = samples_of(op);
    for (size_t k = 0; k < all_samples.size() && k < 3; ++k) {
      const Sample& s = all_samples[k];
      if (!op.vjp || main_dtype(s) != f32 || s.in.empty()) continue;
      auto gradient = function(std::string(op.name), [&](std::vector<Tensor> in) {
        GradientTape tape;
        std::vector<Source> sources;
        for (Tensor& t : in)
          if (is_differentiable(t.dtype())) tape.watch(t), sources.emplace_back(t);
        std::vector<Tensor> targets;
        for (const Tensor& y : run(op, in, s.attrs))
          if (is_differentiable(y.dtype())) targets.push_back(y);
        return targets.empty() ? std::vector<Tensor>()
                               : tape.gradient(targets, sources, {.unconnected = Unconnected::zero});
      });
      INFO(describe(op, s.in, s.attrs));
      CHECK(gradient.verify(s.in));
    }
  });
}

TEST_CASE("operands that an op does not take are rejected with its name") {
  for_each_in_share([](const Op& op) {
    const Sample s = samples_of(op)[0];
    if (s.in.empty()) return;
    for (int d = 0; d < dtype_count; ++d) {
      if (contains(op.dtypes, DType(d))) continue;
      Inputs in = s.in;
      Spec spec = in[0].spec();
      spec.dtype = DType(d);
      in[0] = empty_tensor(spec);
      std::string message;
      try {
        run(op, in, s.attrs);
      } catch (const Error& e) {
        message = e.what();
      }
      INFO("dtype " << name(DType(d)) << ": " << message);
      CHECK(message.find(op.name) != message.npos);
      CHECK(message.find("test_ops.cpp") != message.npos);
    }
    Inputs undefined = s.in;
    undefined[0] = Tensor();
    CHECK_THROWS_AS(run(op, undefined, s.attrs), Error);
  });
}
